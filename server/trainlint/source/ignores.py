"""Patterns of paths as `.gitignore` has them: for those files, for `exclude` settings and for per-file settings.

A pattern is tested against one path at a time, from the top folder down, as git does; so a folder that is excluded
hides what is below it, and a folder that is walked because it was named outright does not hide its own content.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

_Match: TypeAlias = Callable[[str], re.Match[str] | None]

_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_NOTHING = "(?!)"


@dataclass(frozen=True, slots=True)
class Pattern:
    regex: str
    """Full match of a name if `anywhere`, else of a path relative to the folder of the pattern's file."""
    negated: bool
    folders_only: bool
    anywhere: bool


@dataclass(frozen=True)
class PatternList:
    """The patterns of one `.gitignore` or of one setting; the last one that matches decides."""

    patterns: tuple[Pattern, ...]

    def decide(self, path: str, name: str, is_folder: bool) -> bool | None:
        """Whether the path is excluded; None if no pattern speaks about it.

        Args:
            path: relative to the folder of the patterns, with forward slashes.
            name: the last component of `path`.
        """
        for negated, anywhere, regex in self._folder_groups if is_folder else self._file_groups:
            if regex(name if anywhere else path):
                return not negated
        return None

    @cached_property
    def _folder_groups(self) -> list[tuple[bool, bool, _Match]]:
        return _grouped(self.patterns)

    @cached_property
    def _file_groups(self) -> list[tuple[bool, bool, _Match]]:
        return _grouped([pattern for pattern in self.patterns if not pattern.folders_only])

    def covers(self, path: str) -> bool:
        """Whether a file, or a folder above it, is excluded.

        Args:
            path: of the file, relative to the folder of the patterns, with forward slashes.
        """
        parts = path.split("/")
        for length in range(1, len(parts) + 1):
            is_folder = length < len(parts)
            if self.decide("/".join(parts[:length]), parts[length - 1], is_folder):
                return True
        return False


def patterns_of_file(text: str) -> PatternList:
    """Read the text of a `.gitignore`."""
    return _patterns(text.removeprefix("\ufeff").split("\n"))


@lru_cache(maxsize=256)
def patterns_of_setting(lines: tuple[str, ...]) -> PatternList:
    """Read the patterns of a setting; unlike in a `.gitignore`, a leading `./` is allowed."""
    return _patterns([line.removeprefix("./") for line in lines])


def _patterns(lines: Iterable[str]) -> PatternList:
    return PatternList(tuple(pattern for line in lines if (pattern := _pattern(line)) is not None))


def _pattern(line: str) -> Pattern | None:
    line = _without_trailing_space(line.removesuffix("\r"))
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    glob = line.removeprefix("!")
    folders_only = glob.endswith("/")
    glob = glob.removesuffix("/")
    if not glob:
        return None
    anywhere = "/" not in glob
    return Pattern(_regex(glob.removeprefix("/")), negated, folders_only, anywhere)


def _without_trailing_space(line: str) -> str:
    stripped = line.rstrip(" ")
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    escaped = len(stripped) < len(line) and backslashes % 2 == 1
    return stripped + " " if escaped else stripped


def _regex(glob: str) -> str:
    """The glob as a regular expression for a full match; what git calls invalid matches nothing."""
    parts: list[str] = []
    at = 0
    while at < len(glob):
        if glob.startswith("**", at):
            part, at = _stars(glob, at)
        elif glob[at] == "*":
            part, at = "[^/]*", at + 1
        elif glob[at] == "?":
            part, at = "[^/]", at + 1
        elif glob[at] == "[":
            part, at = _bracket(glob, at)
        elif glob[at] == "\\":
            part = re.escape(glob[at + 1]) if at + 1 < len(glob) else _NOTHING
            at += 2
        else:
            part, at = re.escape(glob[at]), at + 1
        parts.append(part)
    return "".join(parts)


def _stars(glob: str, at: int) -> tuple[str, int]:
    """Two or more stars: any number of folders where they stand alone between slashes, else as one star."""
    end = at
    while end < len(glob) and glob[end] == "*":
        end += 1
    starts = at == 0 or glob[at - 1] == "/"
    if starts and glob.startswith("/", end):
        return "(?:.*/)?", end + 1
    if starts and end == len(glob):
        return ".*" if at == 0 else ".+", end
    return "[^/]*", end


def _bracket(glob: str, at: int) -> tuple[str, int]:
    """A character class, which never matches a slash."""
    end = at + 1
    negated = glob[end : end + 1] in ("!", "^")
    end += negated
    items: list[str] = []
    while end < len(glob) and (glob[end] != "]" or not items):
        if glob.startswith("[:", end) and (close := glob.find(":]", end + 2)) >= 0:
            name = glob[end + 2 : close]
            if name not in _CLASSES:
                return _NOTHING, len(glob)
            items.append(_CLASSES[name])
            end = close + 2
            continue
        first, end = _class_character(glob, end)
        items.append(re.escape(first))
        if glob.startswith("-", end) and glob[end + 1 : end + 2] not in ("", "]"):
            last, end = _class_character(glob, end + 1)
            # A range that runs backwards is allowed in a glob, where it holds its first character only.
            items.append(f"{re.escape(first)}-{re.escape(last)}" if first <= last else "")
    if end >= len(glob):
        return _NOTHING, len(glob)
    content = "".join(items)
    if not content:
        return ("[^/]" if negated else _NOTHING), end + 1
    return (f"(?!/)[{'^' if negated else ''}{content}]"), end + 1


def _class_character(glob: str, at: int) -> tuple[str, int]:
    if glob[at] == "\\" and at + 1 < len(glob):
        at += 1
    return glob[at], at + 1


def _grouped(patterns: Sequence[Pattern]) -> list[tuple[bool, bool, _Match]]:
    """One regular expression for each run of patterns that decide alike, the last run first."""
    runs: list[tuple[bool, bool, list[str]]] = []
    for pattern in patterns:
        if runs and runs[-1][:2] == (pattern.negated, pattern.anywhere):
            runs[-1][2].append(pattern.regex)
        else:
            runs.append((pattern.negated, pattern.anywhere, [pattern.regex]))
    return [
        (negated, anywhere, re.compile("|".join(f"(?:{regex})" for regex in regexes), re.DOTALL).fullmatch)
        for negated, anywhere, regexes in reversed(runs)
    ]
