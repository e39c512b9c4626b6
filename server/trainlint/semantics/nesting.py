"""A check of the text before any parser sees it: libcst ends the process where code nests too deep for its stack.

The limits suit a stack of 8 MiB, the usual one of a main thread; a parse belongs on no smaller one.
"""

from __future__ import annotations

import re

MOST_BRACKETS = 150
"""Deepest nesting of brackets, those inside f-strings included; libcst needs about 5 KiB of stack for each."""
LONGEST_CHAIN = 1_500
"""Most operators, attributes, calls and conditionals that one expression may chain. libcst's time for a chain of "+"
grows with the square of its length, a second for 2,000, and from 5,000 on some kinds of chain end the process."""
MOST_ELIFS = 6_000
"""Most `elif`s of a file; 20,000 in one chain end the process."""
_LAMBDA_WEIGHT = 8
"""A lambda takes about as much stack as so many operators."""
_STRING_WEIGHT = 0.5
"""Likewise a string that is joined to the one before it by standing next to it; libcst takes about 3,300 of them."""

_LONG_ROW = 3_000
_LONG_BRACKET = 9_000
_MANY_CONTINUATIONS = 500
"""Rows, bracketed regions and runs of continued rows below these sizes, in characters, hold no chain that is too long
for the stack."""

STRING = r"""
    \"\"\"(?:[^"\\]|\\.|\"(?!\"\"))*\"\"\" | '''(?:[^'\\]|\\.|'(?!''))*'''
    | "(?:[^"\\\r\n]|\\.)*" | '(?:[^'\\\r\n]|\\.)*'
    """
_TOKEN = re.compile(rf"[()\[\]{{}}] | \#[^\r\n]* | {STRING}", re.VERBOSE | re.DOTALL)
"""Each alternative starts with a character of its own, so that the search is one for these characters."""
_FORMATTED = re.compile(r"\b[fFrRtT][A-Za-z]?\Z")
"""The end of the text before a string that may hold code in brackets."""
_LINK = re.compile(
    r"""
    [()\[\]{}]
    | \#[^\r\n]*
    | (?:\b[A-Za-z]{1,2})? (?:"""
    + STRING
    + r""")
    | ,
    | (?P<continued>\\(?:\r\n?|\n))
    | (?P<row_end>[\r\n;])
    | (?P<lambda>\blambda\b)
    | (?P<operator>\b(?:and|or|not|if|await)\b | \*\* | // | << | >> | [-+*/%@|&^~.])
    """,
    re.VERBOSE | re.DOTALL,
)
_ELIF = re.compile(r"^[ \t\f]*elif\b", re.MULTILINE)
_BRACKET = re.compile(r"[()\[\]{}]")
_OPENING = frozenset("([{")
_CLOSING = frozenset(")]}")
_QUOTES = frozenset("\"'")
_TRANSPARENT = frozenset("#\\\r\n")
"""Starts of what may stand between two strings that are joined."""


def too_deep(text: str) -> tuple[str, int] | None:
    """Say what nests too deep, and the offset where; None where the text may be parsed."""
    deepest, offset, longest = _scan_brackets(text)
    if deepest > MOST_BRACKETS:
        return f"brackets nest deeper than {MOST_BRACKETS} levels", offset
    return _long_chain(text, longest)


def _scan_brackets(text: str) -> tuple[int, int, int]:
    """The deepest nesting, the offset where it is reached, and the length of the longest bracketed region."""
    depth = deepest = where = start = longest = 0
    for token in _TOKEN.finditer(text):
        offset = token.start()
        first = text[offset]
        if first in _OPENING:
            if not depth:
                start = offset
            depth += 1
            if depth > deepest:
                deepest, where = depth, offset
        elif first in _CLOSING:
            depth = max(depth - 1, 0)
            if not depth:
                longest = max(longest, offset - start)
        elif first in _QUOTES and text[offset - 1 : offset].isalpha():
            inside = depth + _depth_inside(token.group())
            if inside > deepest and (prefix := _FORMATTED.search(text[max(offset - 3, 0) : offset])):
                deepest, where = inside, offset - len(prefix[0])
    if depth:
        longest = max(longest, len(text) - start)
    return deepest, where, longest


def _depth_inside(string: str) -> int:
    depth = deepest = 0
    for bracket in _BRACKET.findall(string):
        depth += 1 if bracket in _OPENING else -1
        deepest = max(deepest, depth)
    return deepest


def _long_chain(text: str, longest_bracket: int) -> tuple[str, int] | None:
    elifs = list(_ELIF.finditer(text)) if text.count("elif") > MOST_ELIFS else []
    if len(elifs) > MOST_ELIFS:
        return f"more than {MOST_ELIFS} elif branches", elifs[MOST_ELIFS].start()
    if (
        longest_bracket > _LONG_BRACKET
        or text.count("\\\n") + text.count("\\\r") > _MANY_CONTINUATIONS
        or max(map(len, text.split("\n"))) > _LONG_ROW
    ):
        offset = _overlong_chain(text)
        if offset is not None:
            return f"an expression chains more than {LONGEST_CHAIN} operators", offset
    return None


def _overlong_chain(text: str) -> int | None:
    """The offset at which an expression has chained too much: what it chains itself, and all the brackets around it."""
    around: list[float] = []
    """What the chains of the enclosing brackets had come to when the bracket opened."""
    length = 0.0
    joined = False
    for token in _LINK.finditer(text):
        kind = token.lastgroup
        first = text[token.start()]
        is_string = token.group()[-1] in "\"'"
        if is_string and joined:
            length += _STRING_WEIGHT
        joined = is_string or (joined and first in _TRANSPARENT)
        if kind == "operator":
            length += 1
        elif kind == "lambda":
            length += _LAMBDA_WEIGHT
        elif first in _OPENING:
            length += 1
            around.append(length)
        elif first in _CLOSING and around:
            length = around.pop()
        elif first == "," or (kind == "row_end" and not around):
            length = around[-1] if around else 0
        if length > LONGEST_CHAIN:
            return token.start()
    return None


def statement_around(text: str, offset: int) -> tuple[int, int]:
    """Where the logical line at an offset starts and ends, its indentation and its line end not included."""
    depth = start = 0
    for token in _LINK.finditer(text):
        first = text[token.start()]
        if first in _OPENING:
            depth += 1
        elif first in _CLOSING:
            depth = max(depth - 1, 0)
        elif first in "\r\n" and not depth:
            if token.start() >= offset:
                return _without_indentation(text, start), token.start()
            start = token.end()
    return _without_indentation(text, start), len(text)


def _without_indentation(text: str, start: int) -> int:
    while text[start : start + 1] in (" ", "\t", "\f"):
        start += 1
    return start
