"""Verdicts of a run, joined to the findings of the code as it is now.

A verdict is about the rows that ran. It holds for the finding of the same rule in the same rows, wherever these moved;
where one of them is another now, or it cannot be told where it is, the verdict is dropped. What a run shows on a row
that no rule flagged is reported there, and dropped likewise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trainlint.lint.finding import RuntimeFinding
from trainlint.lint.result import Position, Reported
from trainlint.probe.verdict import Verdict
from trainlint.source.alignment import row_digests, rows_now
from trainlint.source.documents import Document

_Place = tuple[str, Position, Position]
"""The code of a rule, the start and the end."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a run says about a finding in the code as it was then."""

    code: str
    location: Position
    end_location: Position
    message: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """What a run says about one file."""

    rows: tuple[str, ...] | None
    """A digest of each row as it was then (`source.alignment`); None where nobody has them, so that only a finding that
    is just as it was keeps its verdict."""
    recorded: tuple[Recorded, ...] = ()
    shown: tuple[RuntimeFinding, ...] = ()
    """What only the run shows, at rows of the file as it was then."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What runs say, by file."""

    files: Mapping[str, RecordedFile] = field(default_factory=dict)
    """By path, without symbolic links."""

    def joined(self, findings: Iterable[Reported], document_of: Callable[[Path], Document | None]) -> list[Reported]:
        """The findings, each with the verdict that holds for it; `document_of` gives the files as they are."""
        by_path: dict[Path, list[Reported]] = {}
        for reported in findings:
            by_path.setdefault(reported.path, []).append(reported)
        return [one for path, found in by_path.items() for one in self._joined_in(path, found, document_of)]

    def shown(
        self, paths: Iterable[Path], document_of: Callable[[Path], Document | None]
    ) -> Iterator[tuple[Document, list[RuntimeFinding]]]:
        """What only runs show in these files, at the rows where it is now."""
        files = {name: file for name, file in self.files.items() if file.shown and file.rows is not None}
        for path in paths if files else ():
            file = files.get(os.path.realpath(path))
            document = None if file is None else document_of(path)
            if file is None or document is None:
                continue
            rows = rows_now(file.rows or (), row_digests(document.index))
            yield document, [replace(one, row=rows[one.row]) for one in file.shown if one.row in rows]

    def _joined_in(
        self, path: Path, findings: Sequence[Reported], document_of: Callable[[Path], Document | None]
    ) -> Iterator[Reported]:
        file = self.files.get(os.path.realpath(path))
        if file is None or not file.recorded:
            yield from findings
            return
        found = _places(file, document_of(path))
        for reported in findings:
            recorded = found.get((reported.finding.code, reported.location, reported.end_location))
            holds = recorded is not None and (file.rows is not None or recorded.message == reported.finding.message)
            yield replace(reported, verdict=recorded.verdict) if recorded is not None and holds else reported


def _places(file: RecordedFile, document: Document | None) -> dict[_Place, Recorded]:
    """What a run says about a file, by where that is now."""
    if file.rows is None:
        return {(one.code, one.location, one.end_location): one for one in file.recorded}
    if document is None:
        return {}
    rows = rows_now(file.rows, row_digests(document.index))
    return {place: one for one in file.recorded if (place := _moved(one, rows)) is not None}


def _moved(one: Recorded, rows: Mapping[int, int]) -> _Place | None:
    """Where all rows of it are now, still beside one another."""
    first, last = one.location.row, one.end_location.row
    now = rows.get(first)
    if now is None or any(rows.get(row) != now + row - first for row in range(first, last + 1)):
        return None
    start = Position(now, one.location.column)
    return one.code, start, Position(now + last - first, one.end_location.column)
