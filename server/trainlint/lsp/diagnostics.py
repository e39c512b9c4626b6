"""From findings to diagnostics."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from lsprotocol import types

from trainlint.fixes.edits import Range
from trainlint.lint.finding import Severity, Tag
from trainlint.lint.result import Reported
from trainlint.lsp.documents import Documents, OpenText, Units
from trainlint.lsp.messages import Lines
from trainlint.semantics.context import Site
from trainlint.source.positions import Span

SOURCE = "trainlint"
_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
    Severity.HINT: types.DiagnosticSeverity.Hint,
}
_TAGS = {
    Tag.UNNECESSARY: types.DiagnosticTag.Unnecessary,
    Tag.DEPRECATED: types.DiagnosticTag.Deprecated,
}
BEFORE_BREAKING = "\n(found before the last edits, which do not parse)"
BEFORE_EDITS = "\n(found before the last edits, which could not be checked)"


@dataclass(frozen=True, slots=True)
class Shown:
    """A finding as it is shown: in which text, and where. Equal are two that look the same."""

    reported: Reported = field(compare=False)
    uri: str
    """Of the file, or of the notebook's cell."""
    diagnostic: types.Diagnostic
    is_current: bool = True
    """Whether it is about the text as it is, rather than as it was when it was last checked and parsed."""

    @property
    def code(self) -> str:
        """Its rule."""
        return self.reported.finding.code


class Placing:
    """Turns places of findings into those of the client."""

    def __init__(
        self, units: Units, documents: Documents, lines: Lines, changed: Container[Path] = frozenset()
    ) -> None:
        """Prepare for what one check found.

        Args:
            lines: those that places are in and that are not ASCII.
            changed: the open files that have changed since.
        """
        self._units = units
        self._documents = documents
        self._lines = lines
        self._changed = changed

    def shown(self, reported: Reported) -> Shown:
        """Show a finding in a text as it is."""
        start = self._position(reported.path, reported.cell, reported.location.row, reported.location.column - 1)
        end_place = reported.end_location
        end = self._position(reported.path, reported.cell, end_place.row, end_place.column - 1)
        uri = self.uri_of(reported.path, reported.cell)
        return Shown(reported, uri, self._diagnostic(reported, types.Range(start, end)))

    def shown_moved(self, reported: Reported, text: OpenText, note: str) -> Shown | None:
        """Show a finding in a text that has changed since, with a note; None where what it was about has changed."""
        first, last, index = reported.location, reported.end_location, text.checked
        place = text.now(Range(index.offset(first.row, first.column - 1), index.offset(last.row, last.column - 1)))
        if place is None:
            return None
        if (reported.from_run or reported.verdict is not None) and not _has_same_rows(text, reported, place):
            if reported.from_run:
                return None
            reported = replace(reported, verdict=None)
        diagnostic = self._diagnostic(reported, self._units.range(text.index, *place))
        diagnostic.message += note
        return Shown(reported, text.uri, diagnostic, is_current=False)

    def uri_of(self, path: Path, cell: int | None) -> str:
        """The address of a file, or of the cell of a notebook that is open."""
        opened = self._documents.at(path)
        text = None if opened is None else opened.text_of(cell)
        if text is not None:
            return text.uri
        return path.as_uri() if opened is None else opened.uri

    def _diagnostic(self, reported: Reported, span: types.Range) -> types.Diagnostic:
        finding = reported.finding
        message = f"{finding.message}\n{finding.help}" if finding.help else finding.message
        if reported.verdict is not None:
            from trainlint.report.verdicts import phrase

            message += f"\n{phrase(reported.verdict)}"
        return types.Diagnostic(
            range=span,
            message=message,
            severity=_SEVERITIES[reported.severity],
            code=finding.code,
            code_description=None if reported.url is None else types.CodeDescription(href=reported.url),
            source=SOURCE,
            tags=None if reported.tag is None else [_TAGS[reported.tag]],
            related_information=list(self._related(reported)) or None,
            data={
                "name": finding.name,
                "confidence": finding.confidence.label,
                "fix": None if finding.fix is None else finding.fix.applicability.value,
                **_verdict_data(reported),
            },
        )

    def _related(self, reported: Reported) -> Iterator[types.DiagnosticRelatedInformation]:
        context = reported.finding.context
        if context is not None and context.loop is not None:
            yield from self._information(context.loop, f"runs {context.frequency.label.replace('-', ' ')} in this loop")
        told = None if context is None else context.loop
        for related in reported.finding.related:
            if related.site == told:
                continue
            yield from self._information(related.site, related.message)

    def _information(self, site: Site, message: str) -> Iterator[types.DiagnosticRelatedInformation]:
        place = self._range(site)
        if place is not None:
            location = types.Location(self.uri_of(site.path, site.cell), place)
            yield types.DiagnosticRelatedInformation(location, message)

    def _range(self, site: Site) -> types.Range | None:
        """Where a place is by now; None where it was changed itself."""
        opened = self._documents.at(site.path) if site.path in self._changed else None
        text = None if opened is None else opened.text_of(site.cell)
        if text is not None:
            span = Span(site.row, site.column, site.end_row, site.end_column)
            now = text.now(Range(*text.checked.offsets(span)))
            return None if now is None else self._units.range(text.index, *now)
        return types.Range(
            self._position_in_bytes(site.path, site.cell, site.row, site.column),
            self._position_in_bytes(site.path, site.cell, site.end_row, site.end_column),
        )

    def _position(self, path: Path, cell: int | None, row: int, column: int) -> types.Position:
        line = self._lines.get((path, cell, row), "")
        return types.Position(row - 1, self._units.of_line(line, column))

    def _position_in_bytes(self, path: Path, cell: int | None, row: int, column: int) -> types.Position:
        line = self._lines.get((path, cell, row), "")
        if line:
            column = len(line.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))
        return types.Position(row - 1, self._units.of_line(line, column))


def _has_same_rows(text: OpenText, reported: Reported, place: Range) -> bool:
    """Whether the rows that a finding was in are still the same, at the place where it is by now."""
    first, last = reported.location.row, reported.end_location.row
    now, _ = text.index.position(place.start)
    return all(text.checked.line(row) == text.index.line(now + row - first) for row in range(first, last + 1))


def _verdict_data(reported: Reported) -> dict[str, object]:
    if reported.verdict is None:
        return {}
    from trainlint.report.json_model import VerdictJson

    return {"verdict": VerdictJson.of(reported.verdict).model_dump(mode="json")}
