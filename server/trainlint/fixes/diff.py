"""Unified diffs, as `git apply` and `patch` take them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r"}


def unified(path: str, before: str, after: str) -> str:
    """The difference between two states of the file at `path`, which is relative and has forward slashes.

    Empty if there is none. Line ends are part of the lines: only a line feed ends one, as git sees it.
    """
    lines = difflib.unified_diff(_lines(before), _lines(after), _name("a", path), _name("b", path))
    return "".join(_terminated(lines))


def _lines(text: str) -> list[str]:
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def _terminated(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _name(side: str, path: str) -> str:
    """The path as it stands in a diff's header: quoted as git does where it holds special characters."""
    name = f"{side}/{path.lstrip('/')}"
    if any(character in _ESCAPES for character in name):
        return '"' + "".join(_ESCAPES.get(character, character) for character in name) + '"'
    return f"{name}\t" if " " in name else name
