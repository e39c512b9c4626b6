"""What is too large or nests too deep is left out, statement by statement where that is possible."""

from __future__ import annotations

import pytest

from trainlint.semantics import code
from trainlint.semantics.extract import LimitError, SourceError, extract
from trainlint.semantics.facts import ModuleFacts
from trainlint.semantics.limits import MOST_CHARACTERS, MOST_STATEMENTS, leave_out

SUM = "a + " * 2_000 + "a"
STRINGS = '"a"\n' * 5_000
CHAIN = "an expression chains more than 1500 operators"

LEFT_OUT = {
    "more operators than Python takes": ("x = " + "a + " * 20_000 + "a", [1]),
    "more negations than Python takes": ("x = " + "not " * 20_000 + "a", [1]),
    "operators": (f"import torch\nx = {SUM}\ny = 1\n", [2]),
    "joined strings": (f"import torch\nx = (\n{STRINGS})\ny = 1\n", [2]),
    "joined f-strings on one row": ("import torch\nx = " + 'f"{a}"' * 5_000 + "\ny = 1\n", [2]),
    "joined strings on continued rows": ("x = " + '"a" \\\n' * 5_000 + '"b"\ny = 1\n', [1]),
    "lambdas": ("import torch\nx = " + "lambda: " * 3000 + "x\ny = 1\n", [2]),
    "brackets": ("import torch\nx = " + "(" * 180 + ")" * 180 + "\n", [2]),
    "a call within a function": (f"def f():\n    g({SUM})\n    return a\n", [2]),
    "what a function returns": (f"def f():\n    return {SUM}\n\nf()\n", [2]),
    "several": (f"a\nx = {SUM}\nb\r\nx = {SUM}\r\nc", [2, 4]),
    "the last row, without its end": (f"a\n{SUM}", [2]),
}
"""Text, and the rows of the statements that are left out."""


@pytest.mark.parametrize(("text", "rows"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_a_simple_statement_that_nests_too_deep_is_left_out(text: str, rows: list[int]) -> None:
    facts = extract(text)
    assert [statement.row for statement in facts.left_out] == rows
    assert ModuleFacts.load(facts.dump()) == facts


def test_the_rest_of_the_file_keeps_its_rows() -> None:
    shorter, _ = leave_out(f"a = 1\nx = (\n{STRINGS})  # note\nif b:\n    return {SUM}\nc\n")
    blank = "\n" * 5_001
    assert shorter == f"a = 1\nx = __left_out__{blank}\nif b:\n    return __left_out__\nc\n"


def test_a_name_whose_value_is_left_out_is_unknown() -> None:
    assigned = extract(f"x = {SUM}\n").unit(0)
    assert isinstance(assigned, code.Assign)
    assert isinstance(assigned.value, code.Name)


AT_THE_LIMIT = {
    "strings that libcst takes": "x = (" + '"a"\n' * 2_900 + ")\n",
    "strings that commas separate": "x = (" + '"a",\n' * 5_000 + ")\n",
    "strings between operators": "x = (" + '"a" +\n' * 1_400 + '"b")\n',
    "strings that are statements": '"a"\n' * 5_000,
}


@pytest.mark.parametrize("text", AT_THE_LIMIT.values(), ids=AT_THE_LIMIT)
def test_what_can_be_analysed_is(text: str) -> None:
    assert extract(text).left_out == ()


BEYOND = {
    "the head of a block": (f"a\nif {SUM}:\n    b\n", CHAIN, 2),
    "a decorator": (f"@f({SUM})\ndef g(): pass\n", CHAIN, 1),
    "elif branches": ("if a: b\n" + "elif a: b\n" * 20_000, "more than 6000 elif branches", 6002),
    "many statements": (f"x = {SUM}\n" * (MOST_STATEMENTS + 1), CHAIN, MOST_STATEMENTS + 1),
    "size": ("x.item()\n" * (MOST_CHARACTERS // 9 + 1), "it has 1,500,003 characters, more than 1,500,000", 1),
}
"""Text, what it does, and the row where."""


@pytest.mark.parametrize(("text", "message", "row"), BEYOND.values(), ids=BEYOND)
def test_a_file_is_refused_where_no_statement_can_be_left_out(text: str, message: str, row: int) -> None:
    with pytest.raises(LimitError) as caught:
        extract(text)
    assert (caught.value.message, caught.value.row) == (message, row)


BROKEN = {
    "too deep for Python as well": ("x = " + "(" * 2000 + ")" * 2000, "too many nested parentheses"),
    "broken elsewhere": (f"x = {SUM}\ny = = 1\n", "invalid syntax"),
    "a bracket that never closes": ("x = " + "(" * 180 + "\ny = 1\n", "'(' was never closed"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_what_python_refuses_is_a_syntax_error_all_the_same(text: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        extract(text)
    assert not isinstance(caught.value, LimitError)
    assert caught.value.message == message
