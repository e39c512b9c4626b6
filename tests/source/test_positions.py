"""Rows, columns and offsets."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainlint.source.positions import LineIndex, Span

ROWS = {
    "empty": ("", [""]),
    "no line end": ("a", ["a"]),
    "unix": ("a\nb\n", ["a", "b", ""]),
    "windows": ("a\r\nb\r\n", ["a", "b", ""]),
    "old mac": ("a\rb\r", ["a", "b", ""]),
    "mixed": ("a\r\r\nb\n\rc", ["a", "", "b", "", "c"]),
    "form feed, vertical tab, separators and next line are no row ends": (
        "a\x0cb\x0bc\u2028d\u2029e\x85f\x1cg",
        ["a\x0cb\x0bc\u2028d\u2029e\x85f\x1cg"],
    ),
}


@pytest.mark.parametrize(("text", "rows"), ROWS.values(), ids=ROWS)
def test_rows_are_those_of_the_tokenizer(text: str, rows: list[str]) -> None:
    index = LineIndex(text)
    assert [index.line(row) for row in range(1, index.rows + 1)] == rows
    assert index.line(0) == index.line(index.rows + 1) == ""


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_byte_columns_are_those_of_the_parser(ending: str) -> None:
    text = ending.join(["# é", "s = '😀é' + name", ""])
    name = ast.parse(text).body[0].value.right  # type: ignore[attr-defined]
    index = LineIndex(text)
    assert text[index.byte_offset_position(name.lineno, name.col_offset) :].startswith("name")
    assert index.byte_column(2, index.character_column(2, name.col_offset)) == name.col_offset


COLUMNS = {
    # text, characters, bytes, UTF-16 units
    "ascii": ("abc", 2, 2, 2),
    "two bytes": ("éab", 2, 3, 2),
    "three bytes": ("表ab", 2, 4, 2),
    "outside of the basic plane": ("😀ab", 2, 5, 3),
    "the end": ("é😀", 2, 6, 3),
}


@pytest.mark.parametrize(("text", "characters", "in_bytes", "in_utf16"), COLUMNS.values(), ids=COLUMNS)
def test_columns_convert_both_ways(text: str, characters: int, in_bytes: int, in_utf16: int) -> None:
    index = LineIndex("x\n" + text)
    assert index.byte_column(2, characters) == in_bytes
    assert index.character_column(2, in_bytes) == characters
    assert index.utf16_column(2, characters) == in_utf16
    assert index.column_of_utf16(2, in_utf16) == characters


def test_the_middle_of_a_character_counts_as_its_start() -> None:
    index = LineIndex("a😀b")
    assert index.character_column(1, 3) == 1
    assert index.column_of_utf16(1, 2) == 1


def test_places_beyond_the_text_are_clamped() -> None:
    index = LineIndex("ab\nc")
    assert index.offset(1, 99) == 2
    assert index.offset(9, 0) == 4
    assert index.offset(0, 0) == 0
    assert index.position(99) == (2, 1)
    assert index.character_column(1, 99) == 2


@given(st.text(alphabet="ab\r\n\x0cé😀\u2028"), st.data())
def test_offsets_and_positions_are_inverse(text: str, data: st.DataObject) -> None:
    index = LineIndex(text)
    offset = data.draw(st.integers(0, len(text)))
    row, column = index.position(offset)
    if column <= len(index.line(row)):  # else it is between \r and \n
        assert index.offset(row, column) == offset
        assert index.byte_offset_position(row, index.byte_column(row, column)) == offset
        assert index.offset(row, index.column_of_utf16(row, index.utf16_column(row, column))) == offset


def test_spans_count_bytes() -> None:
    index = LineIndex("é = 1\n# é x\n")
    span = index.span(6, 11)
    assert span == Span(2, 0, 2, 6)
    assert index.offsets(span) == (6, 11)


LOGICAL = {
    "one row": ("x = 1\ny = 2\n", 1, 1),
    "brackets": ("x = f(\n    1,  # c )\n)\ny = 2\n", 1, 3),
    "a backslash": ("x = 1 + \\\n    2\ny = 2\n", 1, 2),
    "a multi-line string": ('x = """\n( #\n"""\ny = 2\n', 1, 3),
    "a header alone": ("for a in (\n    b):\n    c()\n", 1, 2),
    "a bracket in a string does not count": ("x = '('\ny = 2\n", 1, 1),
    "a bracket in a comment does not count": ("x = 1  # (\ny = 2\n", 1, 1),
    "nested quotes of PEP 701": ('x = f"{d["("]}"\ny = 2\n', 1, 1),
    "rows within a replacement field": ('x = f"""{\n  a[1:\n  2]\n}"""\ny = 2\n', 1, 4),
    "a format specification with a quote and a hash": ("x = f'{y:\"#(>10}'\ny = 2\n", 1, 1),
    "a nested format specification": ("x = f'{y:{w[\"(\"]}}'\ny = 2\n", 1, 1),
    "windows line ends": ("x = (1 +\r\n  2)\r\ny = 2\r\n", 1, 2),
}


@pytest.mark.parametrize(("text", "first", "last"), LOGICAL.values(), ids=LOGICAL)
def test_a_suppression_goes_on_the_last_row_of_the_logical_line(text: str, first: int, last: int) -> None:
    index = LineIndex(text)
    for row in range(first, last + 1):
        assert index.logical_line(row) == (first, last)
        assert index.noqa_row(row) == last
