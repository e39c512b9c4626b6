"""What some rows tell about whether the text that they are in can be parsed."""

from __future__ import annotations

import libcst as cst
import pytest

from trainlint.semantics.brokenness import Reading, read, stands_alone

BROKEN = {
    "an open bracket": "f(a\n",
    "a bracket too many": "f(a))\n",
    "a bracket closed by another one": "f(a]\n",
    "an open quote": "x = 'a\n",
    "an open quote behind a comment with another": "# it's\nx = \"a\n",
    "a bracket behind a string with its counterpart": "f(')'\n",
}
WHOLE = {
    "statements": "x = f(a)[1]\ny = {}\n",
    "a string of several rows": 'x = """\n(\n"""\n',
    "brackets in strings and comments": "x = ')' # (\n",
    "a formatted string": 'x = f"{a[0]}"\n',
    "nothing": "",
}
UNSURE = {
    "a string of several rows that does not end": 'x = """\n(\n',
    "a row that is continued": "x = 'a\\\nb'\n",
    "quotes in a formatted string": "x = f\"{a['b']}\"\n",
    "the same quotes in a formatted string": 'x = f"{a["b"]}"\n',
    "a formatted string with an open bracket": 'x = f"{a"\n',
    "a formatted string that does not end": 'x = f"{a\n',
}


@pytest.mark.parametrize(
    ("rows", "reading"),
    [
        pytest.param(rows, reading, id=name)
        for cases, reading in ((BROKEN, Reading.BROKEN), (WHOLE, Reading.WHOLE), (UNSURE, Reading.UNSURE))
        for name, rows in cases.items()
    ],
)
def test_what_strings_and_brackets_come_to(rows: str, reading: Reading) -> None:
    assert read(rows, 0) is reading


BEHIND = ["", "x = 1\n", "(a, b)\n", "'''a\n'''\n", "# '\n", "def f():\n    return ')'\n"]


@pytest.mark.parametrize("rows", BROKEN.values(), ids=BROKEN)
def test_no_statements_behind_broken_rows_mend_them(rows: str) -> None:
    for behind in BEHIND:
        with pytest.raises(cst.ParserSyntaxError):
            cst.parse_module(rows + behind)


def test_a_place_in_a_string_is_unsure() -> None:
    assert read('x = """\na\n"""\n', 8) is Reading.UNSURE


@pytest.mark.parametrize(
    ("rows", "alone"),
    [
        ("    x = 1\n\n# a\n      y\n", True),
        ("    x = 1\n  y\n", False),
        ("    else:\n", False),
        ("    finally : x\n", False),
        ("    @a\n", False),
        ("    elsewhere = 1\n", True),
    ],
)
def test_rows_that_stand_alone(rows: str, alone: bool) -> None:
    assert stands_alone(rows, "    ") is alone
