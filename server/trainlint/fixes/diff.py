"""Differences between two states of a text: as `git apply` and `patch` take them, and as edits."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import accumulate

from trainlint.fixes.edits import TextEdit

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r"}


def unified(path: str, before: str, after: str) -> str:
    """The difference between two states of the file at `path`, which is relative and has forward slashes.

    Empty if there is none. Line ends are part of the lines: only a line feed ends one, as git sees it.
    """
    lines = difflib.unified_diff(_lines(before), _lines(after), _name("a", path), _name("b", path))
    return "".join(_terminated(lines))


def changed_stretches(before: str, after: str) -> list[TextEdit]:
    """The edits that turn one text into another, row by row."""
    old, new = _lines(before), _lines(after)
    starts = [0, *accumulate(map(len, old))]
    changes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [
        TextEdit(starts[first], starts[last], "".join(new[new_first:new_last]))
        for kind, first, last, new_first, new_last in changes
        if kind != "equal"
    ]


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
