"""The text behind findings, for reports that show source lines or edits; a file is read once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

from trainlint.fixes.edits import CannotFix, TextEdit
from trainlint.fixes.recipe import Fix
from trainlint.lint.result import Position, Reported
from trainlint.semantics.context import Site
from trainlint.source.documents import Document, Place, Unreadable, decode, read_document


class PlacedEdit(NamedTuple):
    """A text edit as reports show it: with rows and columns from 1, columns in characters."""

    content: str
    location: Position
    end_location: Position
    cell: int | None = None
    """Number of the cell that the rows count in, for a notebook."""


class Sources:
    """Reads documents on demand."""

    def __init__(self, texts: Mapping[Path, bytes] | None = None) -> None:
        """`texts` stands in for what is on disk, by absolute path."""
        self._texts = texts or {}
        self._documents: dict[Path, Document | None] = {}

    def document(self, path: Path) -> Document | None:
        """Return the document, or None where it has no readable text."""
        if path not in self._documents:
            self._documents[path] = self._read(path)
        return self._documents[path]

    def _read(self, path: Path) -> Document | None:
        try:
            data = self._texts.get(path)
            return read_document(path) if data is None else decode(path, data)
        except Unreadable:
            return None

    def line(self, path: Path, cell: int | None, row: int) -> str:
        """Return a source line without its end; empty where there is none."""
        document = self.document(path)
        return "" if document is None else document.line(cell, row)

    def stored_row(self, path: Path, cell: int | None, row: int) -> int:
        """Return the row of the file that holds a row as users see it; 1 for a notebook that cannot be read."""
        if cell is None:
            return row
        document = self.document(path)
        return 1 if document is None else document.stored_row(cell, row)

    def edits(self, reported: Reported) -> list[PlacedEdit]:
        """Return what the finding's fix changes; nothing for advice, and where the fix does not apply to the text."""
        fix = reported.finding.fix
        document = self.document(reported.path)
        if fix is None or document is None or target_of(fix) != reported.path:
            return []
        from trainlint.fixes.realize import realize

        try:
            edits = realize(fix, document.text)
        except CannotFix:
            return []
        return placed(document, edits)


def placed(document: Document, edits: Iterable[TextEdit]) -> list[PlacedEdit]:
    """Edits of a document's text, with places as users see them."""
    found = []
    for edit in edits:
        start = document.place(*document.index.position(edit.start))
        end = document.within(document.place(*document.index.position(edit.end)), start.cell)
        content = edit.content
        if document.ends_cell(*document.index.position(edit.start)):
            last = document.line(start.cell, start.row)
            content = "\n" + (content.rstrip("\n") if last else content.removesuffix("\n"))
        found.append(PlacedEdit(content, _position(start), _position(end), start.cell))
    return found


def _position(place: Place) -> Position:
    return Position(place.row, place.column + 1)


def target_of(fix: Fix) -> Path | None:
    """Return the one file that the fix changes; None for advice."""
    paths = {
        value.path
        for recipe in fix.recipes
        for value in (getattr(recipe, entry.name) for entry in fields(recipe))
        if isinstance(value, Site)
    }
    return paths.pop() if len(paths) == 1 else None
