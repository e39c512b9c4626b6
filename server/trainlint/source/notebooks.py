"""Notebooks as programs: the code cells in their order, and the way from a row of the program to a row of a cell.

Between two cells, the program has a comment as a marker. That tells, after fixes, what belongs to which cell, wherever
they inserted or removed rows.
"""

from __future__ import annotations

import codecs
import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from trainlint.source.documents import Document, NotParsed, Place, Unreadable, Unwritable
from trainlint.source.magics import Masks, split_cell_magic
from trainlint.source.notebook_json import CodeCell, NotANotebook, code_cells, source_place, with_source
from trainlint.source.positions import LineIndex

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class _Part:
    """What a cell contributes to the program."""

    cell: CodeCell
    head: str
    """What stands before it in the cell: a cell magic, with its line end."""
    head_rows: int
    row: int
    """The row of the program at which it starts."""
    rows: int
    masked: range
    """The numbers of its masked lines."""


@dataclass(frozen=True)
class Notebook(Document):
    """A notebook; `text` is its program."""

    raw: str = field(repr=False, default="")
    """The JSON."""
    mark: str = "#~"
    """Starts the comments that stand for what is no Python."""
    parts: tuple[_Part, ...] = field(repr=False, default=())
    masks: Masks = field(repr=False, default_factory=lambda: Masks("#~"), compare=False)

    def place(self, row: int, column: int) -> Place:
        """Where a row and column of the program are: in a cell, of which what lies beyond is the end."""
        if not self.parts:
            return Place(None, row, column)
        part = self._part(row)
        if row < part.row + part.rows:
            return Place(part.cell.number, row - part.row + 1 + part.head_rows, column)
        last = part.head_rows + part.rows
        return Place(part.cell.number, last, len(self._cell_index[part.cell.number].line(last)))

    def within(self, place: Place, cell: int | None) -> Place:
        """The place itself, or the end of the cell if the place is not in it."""
        part = next((part for part in self.parts if part.cell.number == cell), None)
        return place if part is None or place.cell == cell else self.place(part.row + part.rows, 0)

    def line(self, cell: int | None, row: int) -> str:
        return self._cell_index[cell].line(row) if cell in self._cell_index else ""

    def stored_row(self, cell: int | None, row: int) -> int:
        """The row of the JSON that holds a row of a cell; 1 where there is no such cell."""
        part = next((part for part in self.parts if part.cell.number == cell), None)
        if part is None:
            return 1
        offset = self._cell_index[cell].bounds(row)[0]
        return self._raw_index.position(source_place(self.raw, part.cell, offset))[0]

    def ends_cell(self, row: int, column: int) -> bool:
        """Whether a place in the program is right after the last row of a cell."""
        part = self._part(row) if self.parts else None
        return part is not None and row == part.row + part.rows and column == 0

    def stored(self, data: bytes) -> str:
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8")

    def encode(self, text: str) -> bytes:
        """Return the bytes of the notebook with `text` as its program; nothing but sources of cells changes.

        Raises:
            Unwritable: the text has lost what tells the cells, or the magics, apart.
        """
        if text == self.text:
            return self.data
        pieces = re.split(rf"^{re.escape(self.mark)}cell [0-9]+~\n", text, flags=re.MULTILINE)
        if len(pieces) != len(self.parts):
            raise Unwritable("would lose the border between two cells")
        raw = self.raw
        for part, piece in reversed(list(zip(self.parts, pieces, strict=True))):
            restored = self.masks.restore(piece.removesuffix("\n"), part.masked)
            if restored is None:
                raise Unwritable("has a magic command in the middle of what would change")
            if not part.cell.source.endswith(("\n", "\r")):
                restored = restored.rstrip("\n")  # what parts inserted rows from the next cell is no row of this one
            if part.head + restored != part.cell.source:
                raw = with_source(raw, part.cell, part.head + restored)
        return (codecs.BOM_UTF8 if self.bom else b"") + raw.encode("utf-8")

    def _part(self, row: int) -> _Part:
        return self.parts[max(bisect_right(self._starts, row) - 1, 0)]

    @cached_property
    def _starts(self) -> list[int]:
        return [part.row for part in self.parts]

    @cached_property
    def _raw_index(self) -> LineIndex:
        return LineIndex(self.raw)

    @cached_property
    def _cell_index(self) -> dict[int | None, LineIndex]:
        return {part.cell.number: LineIndex(part.cell.source) for part in self.parts}


def decode_notebook(path: Path, data: bytes) -> Notebook:
    """Make the program of a notebook's bytes.

    Raises:
        NotParsed: it is not JSON.
        Unreadable: it is not a notebook, or has no text that Python could run.
    """
    bom = data.startswith(codecs.BOM_UTF8)
    try:
        raw = data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        row = 1 + data.count(b"\n", 0, error.start)
        raise Unreadable(f"cannot be decoded at row {row}: a notebook is UTF-8 text", row) from error
    try:
        cells = code_cells(raw)
    except json.JSONDecodeError as error:
        reason = f"{error.msg[:1].lower()}{error.msg[1:]}" if raw.strip() else "it is empty"
        raise NotParsed(f"The notebook is not valid JSON: {reason}", error.lineno, error.colno) from error
    except NotANotebook as error:
        raise Unreadable(str(error)) from error
    for cell in cells:
        _require_text(cell)
    return _joined(path, raw, data, bom, cells)


def _require_text(cell: CodeCell) -> None:
    if "\0" in cell.source:
        raise Unreadable(f"holds a null character in cell {cell.number}")
    if _SURROGATE.search(cell.source):
        raise Unreadable(f"holds half of a surrogate pair in cell {cell.number}, which is no character")


def _joined(path: Path, raw: str, data: bytes, bom: bool, cells: list[CodeCell]) -> Notebook:
    mark = "#~"
    while any(mark in cell.source for cell in cells):
        mark += "~"
    masks = Masks(mark)
    parts: list[_Part] = []
    texts: list[str] = []
    row = 1
    for cell in cells:
        head, code = split_cell_magic(cell.source)
        if not code.strip():
            continue
        if parts:
            texts.append(f"{mark}cell {cell.number}~\n")
            row += 1
        first = len(masks)
        text = masks.mask(code)
        texts.append(text + "\n")
        # counted as they are joined: a cell that ends in a lone "\r" shares its last line end with the joint
        rows = LineIndex(texts[-1]).rows - 1
        part = _Part(cell, head, LineIndex(head).rows - 1, row, rows, range(first, len(masks)))
        parts.append(part)
        row += part.rows
    return Notebook(path, "".join(texts), "utf-8", bom, data, raw, mark, tuple(parts), masks)
