"""Decoded code is let go of once it was replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainlint.semantics import decoded
from trainlint.semantics.decoded import Decoded
from trainlint.semantics.extract import extract

PATH = Path("train.py")


@pytest.mark.parametrize("text", ["for x in y:\n    f({})\n", "def f():\n    return {}\n"], ids=["statement", "body"])
def test_what_is_known_of_replaced_code_is_let_go_of(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoded, "_MOST_REPLACED", 1000)
    code, first = Decoded(), extract(text.format(0))
    nodes = code.nodes
    for number in range(100):
        facts = extract(text.format(number)) if number else first
        code.unit(PATH, facts, 0)
        for index in range(len(facts.functions)):
            code.body(PATH, facts, index)
        code.forget_replaced()
    assert code.nodes is not nodes
