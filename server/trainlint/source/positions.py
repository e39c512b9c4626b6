"""Rows, columns and offsets: the one place that turns one into another.

Rows start at 1 and are counted as Python's tokenizer counts them: `\\n`, `\\r\\n` and `\\r` end a row; form feeds,
vertical tabs and the Unicode line separators do not. Columns start at 0 here and count characters unless a name says
bytes (UTF-8, as Python's parser and `Site` count) or UTF-16 units (as most editors count).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from trainlint.source.lexing import Lexed, scan

_LINE_END = re.compile(r"\r\n?|\n")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of a text in the terms of `Site`: rows from 1, columns from 0 in UTF-8 bytes, the end exclusive."""

    row: int
    column: int
    end_row: int
    end_column: int


class LineIndex:
    """The rows of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._ascii = text.isascii()
        self._bytes_of_row: tuple[int, Sequence[int]] = (0, (0,))
        """The row that was last asked about, and where each of its characters starts, in bytes."""

    @cached_property
    def starts(self) -> list[int]:
        """Offset of the first character of each row."""
        if "\r" in self.text:
            return [0, *(end.end() for end in _LINE_END.finditer(self.text))]
        lengths = accumulate(len(line) + 1 for line in self.text.split("\n"))
        return [0, *list(lengths)[:-1]]

    @property
    def rows(self) -> int:
        """Number of rows; a text that ends in a line end has an empty row after it, an empty text has one row."""
        return len(self.starts)

    def line(self, row: int) -> str:
        """Text of the row without its line end; a row beyond the text is empty."""
        start, end = self.bounds(row)
        return self.text[start:end]

    def bounds(self, row: int) -> tuple[int, int]:
        """Offsets of the start of a row and of its line end; of the end of the text for a row beyond it."""
        if not 1 <= row <= self.rows:
            return len(self.text), len(self.text)
        start, end = self.starts[row - 1], len(self.text)
        if row < self.rows:
            end = self.starts[row] - 1
            end -= self.text.startswith("\r\n", end - 1) and end > start
        return start, end

    def offset(self, row: int, column: int) -> int:
        """Offset of a column in characters; what lies beyond the row or the text is clamped to its end."""
        if row < 1:
            return 0
        if row > self.rows:
            return len(self.text)
        start, end = self.bounds(row)
        return min(start + max(column, 0), end)

    def position(self, offset: int) -> tuple[int, int]:
        """Row and column in characters of an offset."""
        offset = min(max(offset, 0), len(self.text))
        row = bisect_right(self.starts, offset)
        return row, offset - self.starts[row - 1]

    def character_column(self, row: int, byte_column: int) -> int:
        """Column in characters of a column in bytes; a byte within a character counts as the character's start."""
        if self._ascii:
            start, end = self.bounds(row)
            return min(byte_column, end - start)
        return bisect_right(self._byte_columns(row), byte_column) - 1

    def byte_column(self, row: int, column: int) -> int:
        """Column in bytes of a column in characters."""
        if self._ascii:
            start, end = self.bounds(row)
            return min(column, end - start)
        columns = self._byte_columns(row)
        return columns[min(column, len(columns) - 1)]

    def _byte_columns(self, row: int) -> Sequence[int]:
        """Where each character of a row starts, and where the last one ends, in bytes."""
        known, columns = self._bytes_of_row
        if known != row:
            line = self.line(row)
            columns = range(len(line) + 1)
            if not line.isascii():
                columns = [0, *accumulate(len(character.encode("utf-8", "surrogatepass")) for character in line)]
            self._bytes_of_row = row, columns
        return columns

    def utf16_column(self, row: int, column: int) -> int:
        """Column in UTF-16 units of a column in characters."""
        return len(self.line(row)[:column].encode("utf-16-le", "surrogatepass")) // 2

    def column_of_utf16(self, row: int, utf16_column: int) -> int:
        """Column in characters of a column in UTF-16 units; the middle of a pair counts as its start."""
        line = self.line(row)
        units = line.encode("utf-16-le", "surrogatepass")[: 2 * utf16_column]
        return len(units.decode("utf-16-le", "ignore"))

    def byte_offset_position(self, row: int, byte_column: int) -> int:
        """Offset in characters of a place given in bytes, as a `Site` gives it."""
        return self.offset(row, self.character_column(row, byte_column))

    def span(self, start: int, end: int) -> Span:
        """The span between two offsets."""
        row, column = self.position(start)
        end_row, end_column = self.position(end)
        return Span(row, self.byte_column(row, column), end_row, self.byte_column(end_row, end_column))

    def offsets(self, span: Span) -> tuple[int, int]:
        """The offsets between which a span lies."""
        return (
            self.byte_offset_position(span.row, span.column),
            self.byte_offset_position(span.end_row, span.end_column),
        )

    @cached_property
    def lexed(self) -> Lexed:
        """The comments and logical lines of the text."""
        return scan(self.text)

    @cached_property
    def _logical_line_ends(self) -> list[int]:
        return [self.position(end)[0] for end in self.lexed.line_ends]

    def logical_line(self, row: int) -> tuple[int, int]:
        """First and last row of the logical line that the row belongs to; a row without code is its own."""
        ends = self._logical_line_ends
        at = bisect_left(ends, row)
        if at == len(ends):
            return row, row
        return (ends[at - 1] + 1 if at else 1), ends[at]

    def noqa_row(self, row: int) -> int:
        """The row on which a suppression comment for a finding at `row` goes: the last one of its logical line."""
        return self.logical_line(row)[1]
