"""Whether rows of a text that is being typed make the whole of it one that no parser takes, seen from these rows alone.

What is unsure stays unsure: "no" here is no proof that a text parses.
"""

from __future__ import annotations

import re
from enum import Enum

from trainlint.semantics.nesting import STRING

_TOKEN = re.compile(
    rf"(?P<prefix>\b[A-Za-z]{{1,2}})? (?P<string>{STRING}) | \#[^\r\n]* | [()\[\]{{}}] | (?P<open>[\"'])",
    re.VERBOSE | re.DOTALL,
)
_CONTINUED = re.compile(r"\\[\r\n]")
_FORMATTED = re.compile(r"[fFtT][A-Za-z]?\Z")
"""The end of the text before the quote of a string that holds code, which is read in other ways by older parsers."""
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_JOINS = re.compile(r"[ \t\f]*(?:@|(?:else|elif|except|finally|case)\b)")
"""The start of a row that belongs to a statement before it, or to the one behind it."""


class Reading(Enum):
    """What the strings, comments and brackets of some rows come to."""

    WHOLE = "whole"
    BROKEN = "broken"
    UNSURE = "unsure"


def read(rows: str, offset: int) -> Reading:
    """Say whether rows of whole statements end all strings and brackets that they begin, and are outside of a string at
    `offset`. Where a string or a bracket cannot end, no rows behind them mend that."""
    if _CONTINUED.search(rows):
        return Reading.UNSURE
    expected: list[str] = []
    for token in _TOKEN.finditer(rows):
        if token["open"]:
            formatted = _FORMATTED.search(rows[max(token.start() - 2, 0) : token.start()])
            return Reading.UNSURE if formatted else Reading.BROKEN
        if token["string"]:
            if token.start() < offset < token.end() or not _is_plain(rows, token):
                return Reading.UNSURE
            continue
        first = rows[token.start()]
        if first in _CLOSING:
            expected.append(_CLOSING[first])
        elif first != "#" and (not expected or expected.pop() != first):
            return Reading.BROKEN
    return Reading.BROKEN if expected else Reading.WHOLE


def _is_plain(rows: str, token: re.Match[str]) -> bool:
    """Whether any parser takes a string to end where it seems to."""
    string = token["string"]
    if len(string) == 2 and rows.startswith(string[0], token.end()):
        return False  # Three quotes, and no such three again.
    if not token["prefix"] or not _FORMATTED.search(token["prefix"]):
        return True
    inside = string[3:-3] if string[:3] in ('"""', "'''") else string[1:-1]
    return not re.search(r"[\"'\\#]", inside) and all(inside.count(a) == inside.count(b) for a, b in _CLOSING.items())


def stands_alone(rows: str, indentation: str) -> bool:
    """Whether no row can belong to a statement before or behind these rows, or end the block that is indented so."""
    return all(
        row.startswith(indentation) and not _JOINS.match(row)
        for row in rows.splitlines()
        if row.strip() and not row.lstrip().startswith("#")
    )
