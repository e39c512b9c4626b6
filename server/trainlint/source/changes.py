"""Which lines of a working tree git says changed since a revision."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from trainlint.source.positions import LineIndex
from trainlint.source.system_errors import reason_of

_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPES = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_DIFF = (
    *(
        "diff",
        "--unified=0",
        "--inter-hunk-context=0",
        "--find-renames",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
    ),
    *("--no-relative", "--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules"),
)


class NoChanges(Exception):  # noqa: N818
    """Git cannot say what changed; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed in one working tree."""

    root: Path
    tracked: frozenset[str]
    """The files that git tracks, as paths from the root; all others are new."""
    lines: dict[str, frozenset[int]]
    """For each tracked file that changed: its new and changed lines, from 1, as it is on disk. Only a line feed ends
    one, as git sees it. Empty where lines were only removed."""
    whole: frozenset[str]
    """Files that changed, but not by lines: git takes them for binary."""

    @classmethod
    def since(cls, revision: str, root: Path) -> Changes:
        """Ask git what changed in the working tree at `root` since the revision.

        Raises:
            NoChanges: git cannot say.
        """
        commit = _commit(revision, root)
        tracked = frozenset(map(os.fsdecode, _git(root, "ls-files", "-z").split(b"\0"))) - {""}
        lines: dict[str, frozenset[int]] = {}
        whole: set[str] = set()
        for name, found in _files(_git(root, *_DIFF, commit, "--")):
            if found is None:
                whole.add(name)
            else:
                lines[name] = frozenset(found)
        return cls(root, tracked, lines, frozenset(whole))

    def rows(self, name: str, on_disk: str, text: str | None) -> frozenset[int] | None:
        """The rows of a file that changed; None for all of them.

        Args:
            name: path from the root.
            on_disk: the text that git has seen.
            text: the text to speak about, which may have changed since; its changes count as well. None for what is
                no text, which is changed as a whole or not at all.
        """
        if name not in self.tracked or name in self.whole:
            return None
        changed = self.lines.get(name, frozenset())
        if text is None:
            return None if name in self.lines else changed
        if text != on_disk:
            changed = _carried_over(changed, on_disk.split("\n"), text.split("\n"))
        return _rows(changed, text)


def working_tree(path: Path) -> Path:
    """The top of the working tree that a file or folder lies in.

    Raises:
        NoChanges: it lies in none.
    """
    for folder in (path, *path.parents):
        if (folder / ".git").exists():
            return folder
    raise NoChanges(f"{path} is in no git repository")


def _commit(revision: str, root: Path) -> str:
    """The commit that a revision names; of `REV...`, as for `git diff`, the one where this branch left it."""
    if not revision.removesuffix("..."):
        raise NoChanges("the revision is empty; name a commit, a tag or a branch")
    if revision.endswith("..."):
        return _merge_base(revision.removesuffix("..."), root)
    try:
        return (
            _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
            .decode()
            .strip()
        )
    except NoChanges as error:
        if str(error):
            raise
        raise NoChanges(
            f"the git repository {root} knows no revision `{revision}`; in a shallow clone it may have to be fetched"
        ) from error


def _merge_base(revision: str, root: Path) -> str:
    commit = _commit(revision, root)
    try:
        return _git(root, "merge-base", commit, "HEAD").decode().strip()
    except NoChanges as error:
        if str(error):
            raise
        raise NoChanges(
            f"`{revision}` and this branch have no commit in common; in a shallow clone, fetch the whole history"
        ) from error


def _git(root: Path, *arguments: str) -> bytes:
    """What git prints."""
    command = ["git", "-C", str(root), *arguments]
    try:
        return subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL).stdout
    except OSError as error:
        raise NoChanges(f"git cannot be run: {reason_of(error)}") from error
    except subprocess.CalledProcessError as error:
        raise NoChanges(error.stderr.decode("utf-8", "replace").strip()) from error


def _files(patch: bytes) -> Iterator[tuple[str, list[int] | None]]:
    """The files that are there after a patch without context, each with its new lines; None for a binary file."""
    lines = patch.split(b"\n")
    name, at = "", 0
    found: list[int] = []
    while at < len(lines):
        line = lines[at]
        at += 1
        if hunk := _HUNK.match(line):
            removed, start, added = int(hunk[1] or 1), int(hunk[2]), int(hunk[3] or 1)
            found += range(start, start + added)
            # The content is skipped by its length, since it may look like anything.
            at = _after(lines, at, removed + added)
        elif line.startswith(b"diff --git "):
            if name:
                yield name, found
            name, found = "", []
        elif line.startswith(b"+++ ") and line != b"+++ /dev/null":
            name = _name(line[4:])
        elif line.startswith(b"Binary files ") and line.endswith(b" differ"):
            yield _name(line[: -len(b" differ")].rpartition(b" and ")[2]), None
    if name:
        yield name, found


def _after(lines: Sequence[bytes], at: int, count: int) -> int:
    """Where the content of a hunk of `count` lines ends; notes about a missing line end belong to it."""
    while count or (at < len(lines) and lines[at].startswith(b"\\")):
        count -= not lines[at].startswith(b"\\")
        at += 1
    return at


def _name(written: bytes) -> str:
    """The path that a patch writes as `b/…`, in quotes where it holds special characters."""
    written = written.rstrip(b"\t")
    if written.startswith(b'"'):
        written = _ESCAPE.sub(_unescaped, written[1:-1])
    return os.fsdecode(written.removeprefix(b"b/"))


def _unescaped(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return bytes([int(code, 8)]) if len(code) == 3 else _ESCAPES.get(code, code)


def _carried_over(changed: frozenset[int], before: Sequence[str], after: Sequence[str]) -> frozenset[int]:
    """The changed lines of a text that has changed once more."""
    found: set[int] = set()
    for tag, start, _, new_start, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        for line in range(new_start, new_end):
            if tag != "equal" or line - new_start + start + 1 in changed:
                found.add(line + 1)
    return frozenset(found)


def _rows(lines: frozenset[int], text: str) -> frozenset[int]:
    """Lines that end in line feeds as rows, which a carriage return alone ends as well."""
    if "\r" not in text.replace("\r\n", ""):
        return lines
    index = LineIndex(text)
    found: set[int] = set()
    at = 0
    for number, line in enumerate(text.split("\n"), 1):
        if number in lines:
            found.update(range(index.position(at)[0], index.position(at + len(line.removesuffix("\r")))[0] + 1))
        at += len(line) + 1
    return frozenset(found)
