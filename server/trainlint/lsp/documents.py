"""What the editor has open: texts and notebooks with their versions, kept up to date by the edits it sends.

Rows end where the protocol says, at `\\n`, `\\r\\n` and `\\r`, which is where Python's rows end too. (The documents
that pygls keeps end rows at form feeds and Unicode line separators as well, so that places after one are off.)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from lsprotocol import types

from trainlint.fixes.edits import Range, TextEdit, moved
from trainlint.source.documents import NOTEBOOK, Document, Unreadable, decode, encoded
from trainlint.source.positions import LineIndex

MOST_EDITS = 5_000
"""Edits that are remembered since a text was last checked; what was found before that many is not shown any more."""


class Units:
    """What the client counts columns in."""

    def __init__(self, encoding: types.PositionEncodingKind | str | None) -> None:
        self.encoding = types.PositionEncodingKind(encoding or types.PositionEncodingKind.Utf16)

    def of_line(self, line: str, column: int) -> int:
        """A column in characters, in the client's units."""
        if self.encoding is types.PositionEncodingKind.Utf32 or line.isascii():
            return column
        codec, size = self._codec
        return len(line[:column].encode(codec, "surrogatepass")) // size

    def column(self, line: str, units: int) -> int:
        """The column in characters; the middle of a character counts as its start, what lies beyond as the end."""
        if self.encoding is types.PositionEncodingKind.Utf32 or line.isascii():
            return min(units, len(line))
        codec, size = self._codec
        encoded = line.encode(codec, "surrogatepass")[: size * units]
        # A part of a character at the end is left out; whole surrogates are kept.
        while encoded:
            try:
                return len(encoded.decode(codec, "surrogatepass"))
            except UnicodeDecodeError:
                encoded = encoded[:-size]
        return 0

    @property
    def _codec(self) -> tuple[str, int]:
        """The codec whose code units are counted, and their size in bytes."""
        return ("utf-8", 1) if self.encoding is types.PositionEncodingKind.Utf8 else ("utf-16-le", 2)

    def position(self, index: LineIndex, offset: int) -> types.Position:
        """The place of an offset in characters."""
        row, column = index.position(offset)
        return types.Position(row - 1, self.of_line(index.line(row), column))

    def offset(self, index: LineIndex, position: types.Position) -> int:
        """The offset in characters of a place; what lies beyond the text is its end."""
        row = position.line + 1
        if row > index.rows:
            return len(index.text)
        return index.offset(row, self.column(index.line(row), position.character))

    def range(self, index: LineIndex, start: int, end: int) -> types.Range:
        """The range between two offsets."""
        return types.Range(self.position(index, start), self.position(index, end))


class OpenText:
    """A text that the client has open: a file, or one cell of a notebook."""

    def __init__(self, uri: str, version: int, text: str) -> None:
        self.uri = uri
        self.version = version
        self.index = LineIndex(text)
        self.checked = self.index
        """The text as it was when `note_checked` was last called."""
        self.edits: list[TextEdit] = []
        """How it changed since then, each edit in terms of the text before it."""

    @property
    def text(self) -> str:
        return self.index.text

    def change(self, changes: Sequence[types.TextDocumentContentChangeEvent], version: int, units: Units) -> None:
        """Make the edits that the client made."""
        for change in changes:
            start, end = 0, len(self.text)
            if isinstance(change, types.TextDocumentContentChangePartial):
                start = units.offset(self.index, change.range.start)
                end = max(start, units.offset(self.index, change.range.end))
            self.index = LineIndex(self.text[:start] + change.text + self.text[end:])
            if len(self.edits) <= MOST_EDITS:
                self.edits.append(TextEdit(start, end, change.text))
        self.version = version

    def note_checked(self) -> None:
        """What was found is about the present text."""
        self.checked = self.index
        self.edits = []

    def now(self, place: Range) -> Range | None:
        """Where a place of the checked text is by now; None where it was changed itself, or too much was."""
        if len(self.edits) > MOST_EDITS:
            return None
        found: Range | None = place
        for edit in self.edits:
            if found is None or (edit.start < found.end and found.start < edit.end):
                return None
            found = moved(found, [edit])
        return found


class OpenFile(OpenText):
    """A Python file that the client has open."""

    def __init__(self, uri: str, path: Path, version: int, text: str) -> None:
        super().__init__(uri, version, text)
        self.path = path

    @property
    def data(self) -> bytes:
        """What the file would be on disk."""
        return encoded(self.text)

    @property
    def versions(self) -> tuple[int, ...]:
        return (self.version,)

    @property
    def texts(self) -> Iterator[OpenText]:
        yield self

    def text_of(self, cell: int | None) -> OpenText | None:
        """The text that has the rows of a cell; the file itself where there are none."""
        return self

    def document(self) -> Document | None:
        """The file as a document; None where it cannot be decoded."""
        return _decoded(self.path, self.data)


class OpenNotebook:
    """A notebook that the client has open: its Python cells, in their order."""

    def __init__(self, uri: str, path: Path, version: int, cells: Sequence[OpenText]) -> None:
        self.uri = uri
        self.path = path
        self.version = version
        self.cells = list(cells)

    @property
    def data(self) -> bytes:
        """A notebook of the cells that the client tells of, which are numbered from 1 among themselves."""
        cells: list[dict[str, object]] = [
            {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": cell.text}
            for cell in self.cells
        ]
        metadata = {"language_info": {"name": "python"}}
        return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}).encode()

    @property
    def versions(self) -> tuple[int, ...]:
        """Changes whenever any cell, or which cells there are, changes."""
        return (self.version, *(cell.version for cell in self.cells))

    @property
    def texts(self) -> Iterator[OpenText]:
        yield from self.cells

    def text_of(self, cell: int | None) -> OpenText | None:
        """The text of a cell, by its number; of the first one for what is about the whole notebook."""
        number = 1 if cell is None else cell
        return self.cells[number - 1] if 0 < number <= len(self.cells) else None

    def document(self) -> Document | None:
        """The notebook as a document; None where it cannot be decoded."""
        return _decoded(self.path, self.data)


def _decoded(path: Path, data: bytes) -> Document | None:
    try:
        return decode(path, data)
    except Unreadable:
        return None


Opened = OpenFile | OpenNotebook


class Documents:
    """All that the client has open, by address."""

    def __init__(self) -> None:
        self._opened: dict[str, Opened] = {}
        self._notebook_of: dict[str, str] = {}
        """The notebook of each cell."""

    def __iter__(self) -> Iterator[Opened]:
        return iter(list(self._opened.values()))

    def open(self, opened: Opened) -> None:
        self._opened[opened.uri] = opened
        if isinstance(opened, OpenNotebook):
            self._notebook_of |= {cell.uri: opened.uri for cell in opened.cells}

    def close(self, uri: str) -> Opened | None:
        opened = self._opened.pop(uri, None)
        self._notebook_of = {cell: notebook for cell, notebook in self._notebook_of.items() if notebook != uri}
        return opened

    def adopt(self, notebook: OpenNotebook) -> None:
        """Know the cells that a notebook has now."""
        self._notebook_of = {cell: uri for cell, uri in self._notebook_of.items() if uri != notebook.uri}
        self._notebook_of |= {cell.uri: notebook.uri for cell in notebook.cells}

    def get(self, uri: str) -> Opened | None:
        """What is open under an address: a file, a notebook, or the notebook that a cell belongs to."""
        return self._opened.get(self._notebook_of.get(uri, uri))

    def at(self, path: Path) -> Opened | None:
        """What is open of a file."""
        return next((opened for opened in self._opened.values() if opened.path == path), None)


def is_notebook(path: Path) -> bool:
    return path.suffix == NOTEBOOK
