"""The files that a run of `check` changes, from the first reading to the outcome."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from trainlint.cli.outcome import Change, Outcome
from trainlint.lint.result import Result
from trainlint.source.discovery import project_root
from trainlint.source.documents import Document, Unreadable, Unwritable, decode, read_document

Check: TypeAlias = Callable[[Mapping[Path, bytes]], Result]
"""Lints, with texts that stand in for what is on disk."""


class Drafts:
    """What became of each file so far, and what could not be done."""

    def __init__(self, texts: Mapping[Path, bytes]) -> None:
        """`texts` holds standard input."""
        self.texts = dict(texts)
        self.problems: list[str] = []
        self._originals: dict[Path, Document] = {}
        self._current: dict[Path, Document] = {}
        """A notebook's program is read anew from what is stored: a cell that loses its last row leaves the program."""
        self._counts: dict[Path, int] = {}

    def __contains__(self, path: Path) -> bool:
        return path in self._originals

    def text(self, path: Path) -> str:
        """The present text of a file that was opened."""
        return self._current[path].text

    def open(self, paths: Iterable[Path]) -> bool:
        """Read the files that are to be changed for the first time; return whether any was read from disk."""
        read = False
        for path in paths:
            if path in self._originals:
                continue
            data = self.texts.get(path)
            try:
                document = read_document(path) if data is None else decode(path, data)
            except Unreadable:
                continue
            self._originals[path] = document
            self._current[path] = document
            self.texts[path] = document.data
            read = read or data is None
        return read

    def take(self, path: Path, text: str, count: int) -> bool:
        """Go on with this text, into which `count` changes went; return whether the file's encoding allows it."""
        try:
            data = self._current[path].encode(text)
            self._current[path] = decode(path, data)
        except (Unwritable, Unreadable) as error:
            problem = f"{path} is not changed: it {error.reason}"
            if problem not in self.problems:
                self.problems.append(problem)
            return False
        self.texts[path] = data
        self._counts[path] = self._counts.get(path, 0) + count
        return True

    def outcome(self, result: Result, offered: int | None = None) -> Outcome:
        changes = tuple(
            Change(document, self._current[path].text, self.texts[path], self._counts[path])
            for path, document in sorted(self._originals.items())
            if self._current[path].data != document.data
        )
        return Outcome(result, self.texts, changes, tuple(self.problems), offered)


def write(outcome: Outcome, check: Check) -> Outcome:
    """Replace the changed files on disk; where one cannot be, its findings remain, and it is linted as it is."""
    from trainlint.fixes.write import FileChanged, write_atomically

    written: list[Change] = []
    problems = list(outcome.problems)
    for change in outcome.changes:
        outside = _target_outside(change.path)
        if outside is not None:
            problems.append(
                f"{change.path} is not changed: it is a symbolic link to {outside}, which is outside of the project; "
                "to change that file, name it"
            )
            continue
        try:
            write_atomically(change.path, change.data, change.document.data)
        except FileChanged as error:
            problems.append(str(error))
        except OSError as error:
            reason = error.strerror
            problems.append(f"{change.path} could not be written: {reason.lower()}" if reason else str(error))
        else:
            written.append(change)
    if len(written) == len(outcome.changes):
        return outcome
    return Outcome(check({}), {}, tuple(written), tuple(problems))


def _target_outside(path: Path) -> Path | None:
    """What a symbolic link leads to, if that is no part of the project around the link."""
    if not path.is_symlink():
        return None
    target = Path(os.path.realpath(path))
    root = Path(os.path.realpath(project_root(path.parent)))
    return None if target.is_relative_to(root) else target
