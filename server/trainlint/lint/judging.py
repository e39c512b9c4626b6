"""Verdicts on findings: each rule looks at what was measured, and the rules about runs report what only a run shows.

The rules and their options are those of the configuration that governs the code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trainlint.lint.failures import Failure, guarded
from trainlint.lint.finding import RuntimeFinding
from trainlint.lint.reporting import FileReport
from trainlint.lint.result import Reported
from trainlint.lint.rule import RuntimeRule
from trainlint.lint.selection import Selection
from trainlint.probe.evidence import Evidence, Line
from trainlint.probe.measured import Measured
from trainlint.semantics.context import Site
from trainlint.source.documents import Unreadable, read_document


@dataclass(frozen=True, slots=True)
class Judged:
    """What a run says about findings."""

    findings: tuple[Reported, ...]
    """Those in files that the run loaded, in the order given; without a verdict where the rule failed or is gone."""
    runtime: tuple[RuntimeFinding, ...]
    """By code, the dearest first as each rule orders them."""
    failures: tuple[Failure, ...] = ()
    """Defects of rules, which concern no other rule."""


def judge(
    findings: Sequence[Reported],
    run: Measured,
    evidence: Evidence,
    selection: Selection,
    selection_of: Callable[[Path], Selection],
) -> Judged:
    """Judge findings by what was measured. A finding in a file that the run did not load is left out: nothing that was
    measured speaks about it. Where it is not known what was loaded, all are judged.

    Args:
        findings: what the linter reports in the code of the job.
        run: what was measured.
        evidence: the same, by line.
        selection: the rules, with their options, that the configuration of the job as a whole selects.
        selection_of: those that the configuration of a file does.
    """
    failures: list[Failure] = []
    files = evidence.files
    loaded = [one for one in findings if files is None or one.path in files]
    judged = tuple(_judged(one, evidence, selection_of(one.path), failures) for one in loaded)
    predicted = replace(evidence, predicted=evidence.predicted | frozenset(_flagged(findings)))
    runtime = tuple(
        configured
        for one in _runtime_findings(run, predicted, selection, failures)
        if (configured := _configured(one, selection if one.path is None else selection_of(one.path))) is not None
    )
    return Judged(judged, runtime, tuple(failures))


def _judged(reported: Reported, evidence: Evidence, selection: Selection, failures: list[Failure]) -> Reported:
    finding = reported.finding
    rule = selection.rules.get(finding.code)
    if rule is None:
        return reported
    where = f"{finding.site.path}:{finding.site.row}"
    what = f"the verdict of {rule.code} {rule.name}"
    verdict = guarded(failures, what, where, lambda: selection.instance(finding.code).judge(finding, evidence))
    return replace(reported, verdict=verdict)


def _runtime_findings(
    run: Measured, evidence: Evidence, selection: Selection, failures: list[Failure]
) -> Iterator[RuntimeFinding]:
    for code, rule in sorted(selection.rules.items()):
        made = selection.instance(code)
        if isinstance(made, RuntimeRule):
            yield from _measured_by(made, f"{code} {rule.name}", run, evidence, failures)


def _measured_by(
    rule: RuntimeRule, what: str, run: Measured, evidence: Evidence, failures: list[Failure]
) -> Sequence[RuntimeFinding]:
    return guarded(failures, what, "the run", lambda: list(rule.measured(run, evidence))) or ()


def _configured(found: RuntimeFinding, selection: Selection) -> RuntimeFinding | None:
    """The finding as the configuration of its file has it; None where that leaves it out, or a comment silences it."""
    codes = selection.rules if found.path is None else selection.codes(found.path)
    if found.code not in codes or _is_silenced(found, selection):
        return None
    return replace(found, severity=selection.severity(found.code, found.severity))


def _is_silenced(found: RuntimeFinding, selection: Selection) -> bool:
    if found.path is None or found.row is None:
        return False
    try:
        document = read_document(found.path)
    except Unreadable:
        return False
    return not FileReport(document, selection).shown_by_runs([found])


def watched(findings: Iterable[Reported]) -> Iterator[Line]:
    """The lines of which verdicts ask whether they ran: those of findings, and of what belongs to them."""
    for one in findings:
        yield from _lines_of(one.finding.site)
        for related in one.finding.related:
            yield from _lines_of(related.site)


def _flagged(findings: Iterable[Reported]) -> Iterator[Line]:
    for one in findings:
        yield from _lines_of(one.finding.site)


def _lines_of(site: Site) -> Iterator[Line]:
    return (Line(site.path, row) for row in range(site.row, site.end_row + 1))
