"""Text edits: what a fix comes down to, how several of them combine, and how places move with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class CannotFix(Exception):  # noqa: N818
    """The fix does not apply to the text as it stands; the message says why, as the end of a sentence."""


class Range(NamedTuple):
    """A stretch of a text: offsets in characters, the end exclusive."""

    start: int
    end: int


class TextEdit(NamedTuple):
    """Put `content` in place of what stands between two offsets, which count characters; the end is exclusive."""

    start: int
    end: int
    content: str

    @property
    def inserts(self) -> bool:
        """Whether nothing is replaced."""
        return self.start == self.end


def in_order(edits: Iterable[TextEdit]) -> list[TextEdit]:
    """Sort by place; insertions at one place keep their order and come before a replacement that starts there."""
    return sorted(edits, key=lambda edit: (edit.start, edit.end))


def apply_edits(text: str, edits: Iterable[TextEdit]) -> str:
    """Return `text` with all edits made. Raises ValueError if two of them overlap."""
    parts: list[str] = []
    at = 0
    for edit in in_order(edits):
        if edit.start < at:
            raise ValueError(f"two edits overlap at offset {edit.start}")
        parts += (text[at : edit.start], edit.content)
        at = edit.end
    parts.append(text[at:])
    return "".join(parts)


def conflict(one: TextEdit, other: TextEdit) -> bool:
    """Whether edits of different fixes get in each other's way: they overlap, or one inserts right where the other
    begins or ends, so that their order would matter."""
    if one.inserts or other.inserts:
        return one.start <= other.end and other.start <= one.end
    return one.start < other.end and other.start < one.end


def moved(place: Range, edits: Iterable[TextEdit]) -> Range | None:
    """Where `place` lies once the edits are made; None if one of them cuts into it from outside.

    What is inserted at its start or end stays outside of it; what replaces its beginning or end belongs to it.
    """
    start, end = place
    for edit in edits:
        growth = len(edit.content) - (edit.end - edit.start)
        if edit.start < place.start < edit.end or edit.start < place.end < edit.end:
            return None
        if edit.end <= place.start:
            start += growth
        if edit.end <= place.end and edit.start < place.end:
            end += growth
    return Range(start, end)


class Draft:
    """A text under change, in several steps, that can still say how it differs from the original."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._length = len(text)
        self._pieces: list[Range | str] = [Range(0, len(text))] if text else []
        """In order, what the text is made of: stretches of the original, and new text. None is empty."""

    def apply(self, edits: Iterable[TextEdit]) -> None:
        """Make one step. Offsets are those of the present text. Raises ValueError if two edits overlap."""
        steps = in_order(edits)
        self.text = apply_edits(self.text, steps)
        for edit in reversed(steps):
            first = self._cut(edit.start)
            last = self._cut(edit.end)
            self._pieces[first:last] = [edit.content] if edit.content else []

    def _cut(self, offset: int) -> int:
        """Make a piece begin at `offset` of the present text; return its index."""
        for index, piece in enumerate(self._pieces):
            length = len(piece) if isinstance(piece, str) else piece.end - piece.start
            if offset == 0:
                return index
            if offset < length:
                self._pieces[index : index + 1] = _halves(piece, offset)
                return index + 1
            offset -= length
        return len(self._pieces)

    def edits(self) -> tuple[TextEdit, ...]:
        """All changes so far, as edits of the original text, in order and apart from each other."""
        found: list[TextEdit] = []
        at, pending = 0, ""
        for piece in (*self._pieces, Range(self._length, self._length)):
            if isinstance(piece, str):
                pending += piece
                continue
            if pending or piece.start > at:
                found.append(TextEdit(at, piece.start, pending))
            at, pending = piece.end, ""
        return tuple(found)


def _halves(piece: Range | str, at: int) -> list[Range | str]:
    if isinstance(piece, str):
        return [piece[:at], piece[at:]]
    return [Range(piece.start, piece.start + at), Range(piece.start + at, piece.end)]
