"""Colour for reports that people read at a terminal, and text that is safe to print there."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import StrEnum

from trainlint.lint.finding import Severity


class Ink(StrEnum):
    """Graphic renditions of ECMA-48, which every terminal knows."""

    BOLD = "1"
    FAINT = "2"
    RED = "1;31"
    YELLOW = "1;33"
    BLUE = "1;34"
    CYAN = "1;36"


SEVERITY_INK = {
    Severity.ERROR: Ink.RED,
    Severity.WARNING: Ink.YELLOW,
    Severity.INFO: Ink.BLUE,
    Severity.HINT: Ink.CYAN,
}


@dataclass(frozen=True, slots=True)
class Style:
    """Paints text, or leaves it as it is."""

    colour: bool

    def paint(self, text: str, ink: Ink) -> str:
        return f"\x1b[{ink}m{text}\x1b[0m" if self.colour and text else text


def printable(text: str) -> str:
    """Return `text` on one line, with control characters made visible: source code must not steer a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else _visible(c) for c in text)


def _visible(character: str) -> str:
    if character in "\r\n\t":
        return " "
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\N{REPLACEMENT CHARACTER}"
