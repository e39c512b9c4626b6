"""Text that Markdown must take literally, in tables too."""

from __future__ import annotations

import re

from trainlint.report.style import printable

_BACKTICKS = re.compile("`+")
_MEANINGFUL = frozenset("\\`*_[]~|")
"""What Markdown reads as markup, with the bar that ends a cell."""


def code(text: str) -> str:
    """Return `text` as code within a table, where a bar ends a cell even between backticks."""
    fence = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(text)), default=0))
    pad = " " if len(fence) > 1 else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|")


def prose(text: str) -> str:
    """Return a sentence, for a table's cell or outside: code that it quotes stays code, the rest is taken literally.

    Where backticks do not pair, as with one in a quoted string, nobody can tell what is code, and all is taken
    literally.
    """
    pieces = printable(text).split("`")
    paired = len(pieces) % 2 == 1 and all(pieces[1:-1])
    if not paired:
        return literal("`".join(pieces))
    return "".join(code(piece) if index % 2 else literal(piece) for index, piece in enumerate(pieces))


def literal(text: str) -> str:
    escaped = "".join(f"\\{c}" if c in _MEANINGFUL else c for c in text)
    return escaped.replace("&", "&amp;").replace("<", "&lt;")
