"""What is left out of the analysis because it is larger or nests deeper than libcst can take.

A simple statement that nests too deep gives way to one that means nothing, on as many rows, so that the rest of the
file is analysed. Where that is not possible, the whole file is left out.
"""

from __future__ import annotations

import re

from trainlint.semantics.facts import LeftOut
from trainlint.semantics.nesting import statement_around, too_deep

MOST_CHARACTERS = 1_500_000
"""Characters of a file, about 35,000 rows; the largest module of PyTorch that is written by hand has 1,200,000."""
MOST_STATEMENTS = 20
"""Statements of a file that are left out one by one."""
UNKNOWN = "__left_out__"
"""A name that nothing defines, in place of a value that is left out."""

_KEPT = re.compile(r"[\w.]+[ \t]*=(?!=)|return\b|raise\b")
"""What is kept of a statement, since other statements depend on it."""
_COMPOUND = re.compile(r"@|(?:if|elif|else|for|while|with|try|except|finally|def|class|async|match|case)\b")
_ROW_END = re.compile(r"\r\n?|\n")


class BeyondLimitsError(Exception):
    """The file cannot be analysed though it may be a valid program; `message` says what it does, `row` where."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.message = message
        self.row = row


def check_size(text: str) -> None:
    """Refuse what would take minutes.

    Raises:
        BeyondLimitsError: it would.
    """
    if len(text) > MOST_CHARACTERS:
        message = f"it has {len(text):,} characters, more than {MOST_CHARACTERS:,}"
        raise BeyondLimitsError(message, 1)


def leave_out(text: str) -> tuple[str, tuple[LeftOut, ...]]:
    """Return the text without statements that nest too deep, and which these were.

    Raises:
        BeyondLimitsError: what nests too deep is no simple statement, or there are too many of them.
    """
    left_out: list[LeftOut] = []
    while (deep := too_deep(text)) is not None:
        message, offset = deep
        start, end = statement_around(text, offset)
        statement = text[start:end]
        if len(left_out) == MOST_STATEMENTS or _COMPOUND.match(statement):
            raise BeyondLimitsError(message, _row(text, offset))
        left_out.append(LeftOut(_row(text, start), message))
        text = text[:start] + _stand_in(statement) + text[end:]
    return text, tuple(left_out)


def _row(text: str, offset: int) -> int:
    return 1 + len(_ROW_END.findall(text[:offset]))


def _stand_in(statement: str) -> str:
    kept = _KEPT.match(statement)
    rows = "".join(_ROW_END.findall(statement))
    return f"{kept[0]} {UNKNOWN}{rows}" if kept else f"pass{rows}"
