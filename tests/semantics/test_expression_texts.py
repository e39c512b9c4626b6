"""Expressions in messages mean what they mean in the code."""

from __future__ import annotations

import ast

import pytest

from trainlint.semantics import code
from trainlint.semantics.extract import extract
from trainlint.semantics.text import describe

EXPRESSIONS = [
    "(step + 1) % accumulate == 0",
    "step + 1 % accumulate",
    "a - (b - c)",
    "a - b - c",
    "a * (b + c) / d",
    "a / (b * c)",
    "(a ** b) ** c",
    "a ** -b",
    "(-a) ** b",
    "-(a + b)",
    "not (a and b)",
    "(a or b) and c",
    "a or (b and c)",
    "(not a) == b",
    "not a == b",
    "(a == b) == c",
    "(a + b).item()",
    "(-a).item()",
    "(a or b).cuda()",
    "(a or b)[0]",
    "(a & b) | c",
    "a & (b | c)",
    "a << (b + 1)",
    "x.mean(dim=(1, 2))[0, 1:]",
    "[a, *b]",
    "lookup[a and b]",
]


def lowered(text: str) -> code.Expression:
    statement = extract(f"value = {text}\n").unit(0)
    assert isinstance(statement, code.Assign)
    return statement.value


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_parentheses_are_kept_where_they_matter(text: str) -> None:
    told = describe(lowered(text))
    assert ast.dump(ast.parse(told)) == ast.dump(ast.parse(text)), told


@pytest.mark.parametrize("text", ["a + b", "a and b or c", "not a", "x.y(z)[0]", "(a, b)", "-a * b"])
def test_no_others_are_added(text: str) -> None:
    assert describe(lowered(text)) == text
