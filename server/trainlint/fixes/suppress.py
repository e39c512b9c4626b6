"""Comments that silence findings, as edits: joined to a comment of ours that is there, else put where one takes effect.

A comment goes to the last row of the flagged logical line, after what stands there; nothing else in the text changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from trainlint.fixes.edits import TextEdit, in_order
from trainlint.source.positions import LineIndex
from trainlint.source.suppressions import Kind, Suppression, Suppressions

_GAP = 2
"""Spaces before a comment, as PEP 8 has it."""


class Silenced(NamedTuple):
    """What is to be silenced: a rule at a row."""

    code: str
    name: str
    row: int
    about_comment: bool = False
    """Whether it is about a comment on that row rather than about code; only a comment on the same row silences it."""


def suppress(index: LineIndex, wanted: Iterable[Silenced], reason: str) -> list[TextEdit]:
    """Return the edits that silence what is wanted, in order; none for what comments name already."""
    present = [one for one in Suppressions.parse(index.text, index).all if one.kind is Kind.LINE and _is_list(one)]
    joined: dict[Suppression, list[str]] = {}
    added: dict[int, list[str]] = {}
    for one in sorted(wanted):
        first, last = (one.row, one.row) if one.about_comment else index.logical_line(one.row)
        on_line = [comment for comment in present if first <= comment.row <= last]
        if any(comment.covers(one.code, one.name) for comment in on_line):
            continue
        codes = joined.setdefault(on_line[-1], []) if on_line else added.setdefault(last, [])
        if one.code not in codes:
            codes.append(one.code)
    edits = [edit for comment, codes in joined.items() for edit in _join(index, comment, codes, reason)]
    return in_order([*edits, *(_add(index, row, codes, reason) for row, codes in added.items())])


def give_reasons(index: LineIndex, rows: Iterable[int], reason: str) -> list[TextEdit]:
    """Return the edits that give the suppressions on these rows the reason that they lack, in order."""
    concerned = set(rows)
    comments = Suppressions.parse(index.text, index).without_reason()
    return in_order(
        _give_reason(index, one, reason) for one in comments if one.row in concerned and one.kind is not Kind.NOQA
    )


def comment_for(codes: Sequence[str], reason: str, directive: str = "ignore") -> str:
    """The comment that silences these rules: on its line, or with the directive "ignore-file" in its file."""
    return f"# trainlint: {directive}[{', '.join(codes)}] {reason}".rstrip()


def is_reason(text: str) -> bool:
    """Whether a comment can carry the text as its reason, and means nothing else by it."""
    if not text.isprintable() or "coding:" in text or "coding=" in text:  # declares an encoding in the first two rows
        return False
    for comment in (comment_for(["TL201"], text), f"# trainlint: ignore {text}"):
        read = Suppressions.parse(comment)
        if read.misspelt or [one.reason for one in read.all] != [text]:
            return False
    return True


def _is_list(comment: Suppression) -> bool:
    """Whether the comment lists its rules, so that there is a list to join."""
    return comment.entries[-1].end > comment.entries[-1].start


def _join(index: LineIndex, comment: Suppression, codes: Sequence[str], reason: str) -> Iterator[TextEdit]:
    end = comment.entries[-1].end
    yield TextEdit(end, end, "".join(f", {code}" for code in codes))
    if reason and not comment.reason:
        yield _give_reason(index, comment, reason)


def _give_reason(index: LineIndex, comment: Suppression, reason: str) -> TextEdit:
    _, end = index.offsets(comment.span)
    return TextEdit(end, end, f" {reason}")


def _add(index: LineIndex, row: int, codes: Sequence[str], reason: str) -> TextEdit:
    line = index.line(row)
    space = len(line) - len(line.rstrip(" \t"))
    gap = " " * max(0, _GAP - space) if space < len(line) else ""
    _, end = index.bounds(row)
    return TextEdit(end, end, gap + comment_for(codes, reason))
