"""How wide text is at a terminal, so that a caret stands under the character it means."""

from __future__ import annotations

import unicodedata

TAB = 4


def display_width(text: str) -> int:
    """Return the number of terminal columns that `text` takes: wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def expand_tabs(text: str, column: int) -> tuple[str, int]:
    """Replace tabs by spaces up to the next stop; return the text, and where the character `column` is in it.

    Columns are indexes from 0; stops are counted in terminal columns.
    """
    if "\t" not in text:
        return text, column
    expanded: list[str] = []
    width = 0
    moved = column
    for index, character in enumerate(text):
        piece = " " * (TAB - width % TAB) if character == "\t" else character
        if index < column:
            moved += len(piece) - 1
        expanded.append(piece)
        width += display_width(piece)
    return "".join(expanded), moved
