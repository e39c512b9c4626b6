"""A check of the text before any parser sees it: libcst ends the process where code nests too deep for its stack."""

from __future__ import annotations

import re

MOST_BRACKETS = 150
"""Deepest nesting of brackets, those inside f-strings included; libcst needs about 5 KiB of stack for each."""

_TOKEN = re.compile(
    r"""
    [()\[\]{}]
    | \#[^\r\n]*
    | (?:\b[A-Za-z]{1,2})?
      (?: \"\"\"(?:[^"\\]|\\.|\"(?!\"\"))*\"\"\" | '''(?:[^'\\]|\\.|'(?!''))*'''
        | "(?:[^"\\\r\n]|\\.)*" | '(?:[^'\\\r\n]|\\.)*' )
    """,
    re.VERBOSE | re.DOTALL,
)
_BRACKET = re.compile(r"[()\[\]{}]")
_OPENING = frozenset("([{")


def deepest_bracket(text: str) -> tuple[int, int]:
    """Return how deep brackets nest, and the offset where they first nest that deep."""
    depth = deepest = where = 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in _OPENING:
            depth += 1
            if depth > deepest:
                deepest, where = depth, token.start()
        elif first in ")]}":
            depth = max(depth - 1, 0)
        elif first in "fFrRtT":
            inside = _depth_inside(token.group())
            if depth + inside > deepest:
                deepest, where = depth + inside, token.start()
    return deepest, where


def _depth_inside(string: str) -> int:
    depth = deepest = 0
    for bracket in _BRACKET.findall(string):
        depth += 1 if bracket in _OPENING else -1
        deepest = max(deepest, depth)
    return deepest
