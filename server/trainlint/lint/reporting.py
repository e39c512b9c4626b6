"""From what rules say about a file to what its reader is told: positions, severities, suppressions, no repetitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from trainlint.fixes.recipe import Fix
from trainlint.lint.finding import Finding, RuntimeFinding, Severity, Tag
from trainlint.lint.pages import url_of
from trainlint.lint.result import HotLoop, Position, Reported, Withheld, order
from trainlint.lint.rule import FileRule
from trainlint.lint.selection import Selection
from trainlint.semantics import immutable
from trainlint.semantics.context import Site
from trainlint.semantics.facts import LeftOut
from trainlint.semantics.vocabulary import Confidence
from trainlint.source.documents import NOTEBOOK, Document, NotParsed, Place, Unreadable, decode
from trainlint.source.positions import Span
from trainlint.source.suppressions import Kind, Misspelt, Suppressions, Unused

SYNTAX_ERROR = "TL001"
UNREADABLE = "TL002"
UNUSED_SUPPRESSION = "TL003"
WITHOUT_REASON = "TL004"
_OWN_LIMIT = "which is a limit of trainlint, not a fault of the code"


def _no_document(path: Path) -> None:
    return None


class FileReport:
    """What is reported about one file that could be read as text."""

    def __init__(
        self, document: Document, selection: Selection, document_of: Callable[[Path], Document | None] = _no_document
    ) -> None:
        """`document_of` gives the notebooks that the findings refer to besides."""
        self.document = document
        self._document_of = document_of
        self._selection = selection
        self._codes = selection.codes(document.path)
        self._suppressions = Suppressions.parse(document.text, document.index)

    def findings(self, found: Iterable[Finding]) -> list[Reported | Withheld]:
        """Turn what rules found in this file into what is reported, with what is wrong with its suppressions, and how
        much is withheld."""
        loud = self._loud(strongest(found))
        about_comments = [
            finding
            for finding in self._about_suppressions()
            if finding.code in self._codes and not self._silenced_by_name(finding)
        ]
        least = Confidence[self._selection.min_confidence.upper()]
        shown = [finding for finding in (*loud, *about_comments) if finding.confidence >= least]
        reported = sorted((self._reported(finding) for finding in shown), key=order)
        return [*reported, *self._withheld(finding for finding in loud if finding.confidence < least)]

    def shown_by_runs(self, found: Iterable[RuntimeFinding]) -> list[Reported]:
        """Turn what only a run shows, at rows of this file, into what is reported."""
        findings = [
            Finding(one.code, one.name, one.message, self._row(one.row), one.severity, Confidence.HIGH)
            for one in found
            if one.row is not None
        ]
        return [replace(self._reported(finding), from_run=True) for finding in self._loud(findings)]

    def _loud(self, found: Iterable[Finding]) -> list[Finding]:
        """What is selected, and what no comment silences."""
        return [finding for finding in found if finding.code in self._codes and not self._silenced(finding)]

    def _withheld(self, findings: Iterable[Finding]) -> Iterator[Withheld]:
        counts = Counter(self._selection.severity(finding.code, finding.severity) for finding in findings)
        for severity, count in sorted(counts.items()):
            yield Withheld(self.document.path, severity, count)

    def syntax_error(self, message: str, row: int, column: int) -> list[Reported]:
        """Report that the file does not parse; nothing else can be said about it."""
        index = self.document.index
        row = min(max(row, 1), index.rows)
        start = index.byte_column(row, max(column, 1) - 1)
        site = Site(self.document.path, row, start, row, max(start, len(index.line(row).encode())), "")
        found = tool_finding(self._selection, SYNTAX_ERROR, site, message)
        return [self._reported(finding) for finding in found]

    def beyond_limits(self, why: str, row: int) -> list[Reported]:
        """Report that a file that may be a valid program is not analysed."""
        site = Site(self.document.path, row, 0, row, 0, "")
        message = f"The file is left out of the analysis: {why}, {_OWN_LIMIT}"
        return [self._reported(finding) for finding in tool_finding(self._selection, UNREADABLE, site, message)]

    def left_out(self, statements: Iterable[LeftOut]) -> Iterator[Finding]:
        """Say which statements were not analysed; the others were, so it is no error."""
        for row, why in statements:
            site = self._row(row)
            message = f"This statement is left out of the analysis: {why}, {_OWN_LIMIT}"
            for finding in tool_finding(self._selection, UNREADABLE, site, message):
                yield replace(finding, severity=Severity.WARNING)

    # --------------------------------------------------------------------------------------------- suppressions

    def _silenced(self, finding: Finding) -> bool:
        site = finding.site
        return self._suppressions.find(finding.code, finding.name, site.row, site.end_row) is not None

    def _silenced_by_name(self, finding: Finding) -> bool:
        """A comment that silences everything does not silence what is said about itself."""
        return self._suppressions.names(finding.code, finding.name, finding.site.row)

    def _about_suppressions(self) -> Iterator[Finding]:
        selection = self._selection
        for unused in self._suppressions.unused(self._speaks):
            site = self._site(unused.suppression.span)
            yield from self._unused(unused, site)
        for misspelt in self._suppressions.misspelt:
            yield from tool_finding(selection, UNUSED_SUPPRESSION, self._site(misspelt.span), _not_understood(misspelt))
        for one in self._suppressions.without_reason():
            if one.kind is Kind.NOQA:  # shared with other tools, which have no place for a reason in it
                continue
            written = ", ".join(one.patterns)
            message = f"The suppression of {written} does not say why"
            yield from tool_finding(selection, WITHOUT_REASON, self._site(one.span), message)

    def _unused(self, unused: Unused, site: Site) -> Iterator[Finding]:
        message = f"The suppression of {', '.join(unused.patterns)} silences nothing{self._unknown(unused.patterns)}"
        rule = self._selection.registry.find(UNUSED_SUPPRESSION)
        if rule is None or not issubclass(rule, FileRule):
            return
        whole = unused.suppression.span
        # Where the whole comment goes, the fix itself takes the space and the row that nothing else is left on.
        starts = whole.row, whole.column
        spans = [whole if (span.row, span.column) <= starts else span for span in unused.removals]
        parts = [rule().fix(rule.at(site, message, subject=self._site(span))) for span in spans]
        yield replace(rule.at(site, message), fix=_joined(parts))

    def _unknown(self, patterns: Iterable[str]) -> str:
        """Which of the patterns mean no rule, with the nearest that does, as the end of a sentence."""
        registry = self._selection.registry
        told = ""
        for pattern in patterns:
            if not self._selection.knows(pattern):
                likely = registry.nearest(pattern)
                told += f"; there is no rule {pattern}" + (f", did you mean {likely}?" if likely else "")
        return told

    def _speaks(self, pattern: str) -> bool:
        """Whether silence about a pattern means something: its rules were looked for, and are not about comments."""
        about_comments = pattern in (UNUSED_SUPPRESSION, WITHOUT_REASON, "unused-suppression")
        return not about_comments and self._selection.took_part(pattern)

    def _row(self, row: int) -> Site:
        """A row without its indentation."""
        line = self.document.index.line(row)
        indentation = len(line) - len(line.lstrip())
        return Site(self.document.path, row, indentation, row, len(line.encode("utf-8", "surrogatepass")), "")

    def _site(self, span: Span) -> Site:
        return Site(self.document.path, span.row, span.column, span.end_row, span.end_column, "")

    # ------------------------------------------------------------------------------------------------- positions

    def _reported(self, finding: Finding) -> Reported:
        site, index = finding.site, self.document.index
        severity = self._selection.severity(finding.code, finding.severity)
        finding = replace(finding, severity=severity, subject=None, fix=self._settled(finding.fix))
        start = self.document.place(site.row, index.character_column(site.row, site.column))
        end = self.document.place(site.end_row, index.character_column(site.end_row, site.end_column))
        return Reported(
            self._with_places(finding),
            site.path,
            _position(start),
            _position(self.document.within(end, start.cell)),
            self.document.within(self.document.place(index.noqa_row(site.row), 0), start.cell).row,
            _url(self._selection, finding),
            start.cell,
            _tag(self._selection, finding),
        )

    def _with_places(self, finding: Finding) -> Finding:
        """The finding with the other places that it names as users see them: in a notebook's cell."""
        context = finding.context
        if context is not None and context.loop is not None:
            finding = replace(finding, context=immutable.replace(context, loop=self._shown(context.loop)))
        related = tuple(replace(one, site=self._shown(one.site)) for one in finding.related)
        return replace(finding, related=related)

    def _shown(self, site: Site) -> Site:
        if site.path.suffix != NOTEBOOK:
            return site
        document = self.document if site.path == self.document.path else self._document_of(site.path)
        if document is None:
            return site
        start = document.place(site.row, 0)
        end = document.within(document.place(site.end_row, 0), start.cell)
        return immutable.replace(site, row=start.row, end_row=end.row, cell=start.cell)

    def loop(self, loop: HotLoop) -> HotLoop:
        """A step loop as users see it."""
        return replace(loop, site=self._shown(loop.site))

    def _settled(self, fix: Fix | None) -> Fix | None:
        """The fix as far as it applies to this file, where it is one that depends on what else the file does."""
        if fix is None or not fix.otherwise:
            return fix
        from trainlint.fixes.realize import settled

        return settled(fix, self.document.text)


def read_or_report(
    path: Path, data: bytes, selection: Selection, document_of: Callable[[Path], Document | None] = _no_document
) -> FileReport | list[Reported]:
    """Decode a file, or report that it cannot be."""
    try:
        return FileReport(decode(path, data), selection, document_of)
    except NotParsed as error:
        place = Position(error.row or 1, error.column)
        site = Site(path, place.row, place.column - 1, place.row, place.column - 1, "")
        return _at(place, tool_finding(selection, SYNTAX_ERROR, site, error.reason), selection)
    except Unreadable as error:
        return unreadable(path, error.reason, selection, error.row)


def unreadable(path: Path, reason: str, selection: Selection, row: int | None = None) -> list[Reported]:
    """Report that there is no text to lint."""
    place = Position(row or 1, 1)
    site = Site(path, place.row, 0, place.row, 0, "")
    return _at(place, tool_finding(selection, UNREADABLE, site, f"The file {reason}"), selection)


def _at(place: Position, findings: Iterable[Finding], selection: Selection) -> list[Reported]:
    """Report findings at a place in a file that has no text to lint."""
    return [
        Reported(
            replace(finding, severity=selection.severity(finding.code, finding.severity)),
            finding.site.path,
            place,
            place,
            place.row,
            _url(selection, finding),
        )
        for finding in findings
    ]


def tool_finding(selection: Selection, code: str, site: Site, message: str) -> list[Finding]:
    """What the rule with this code says; nothing where no pack has such a rule."""
    rule = selection.registry.find(code)
    return [rule.at(site, message)] if rule is not None and issubclass(rule, FileRule) else []


def _url(selection: Selection, finding: Finding) -> str | None:
    rule = selection.registry.find(finding.code)
    return None if rule is None else url_of(rule)


def _tag(selection: Selection, finding: Finding) -> Tag | None:
    rule = selection.registry.find(finding.code)
    return None if rule is None else rule.tag


def strongest(findings: Iterable[Finding]) -> list[Finding]:
    """Keep one finding of a rule for each span: the most confident, then the hottest, then the first by text."""
    kept: dict[tuple[str, Site], Finding] = {}
    for finding in findings:
        key = finding.code, finding.site
        if key not in kept or _strength(finding) < _strength(kept[key]):
            kept[key] = finding
    return list(kept.values())


def _strength(finding: Finding) -> tuple[int, int, int, tuple[str, ...], str]:
    context = finding.context
    frequency = -1 if context is None else context.frequency
    path = () if context is None else context.path
    return -finding.confidence, -frequency, len(path), path, finding.message


def _position(place: Place) -> Position:
    return Position(place.row, place.column + 1)


def _joined(parts: Sequence[Fix | None]) -> Fix | None:
    """One fix of several that belong together."""
    fixes = [part for part in parts if part is not None]
    if not fixes:
        return None
    return replace(fixes[0], recipes=tuple(recipe for fix in fixes for recipe in fix.recipes))


def _not_understood(misspelt: Misspelt) -> str:
    return f"The suppression is not understood, so it silences nothing: {misspelt.problem}"
