"""Verdicts on findings: each rule looks at what was measured, and the rules about runs report what only a run shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from trainlint.lint.failures import Failure, guarded
from trainlint.lint.finding import RuntimeFinding
from trainlint.lint.registry import Registry
from trainlint.lint.result import Reported
from trainlint.lint.rule import Rule, RuleOptions, RuntimeRule
from trainlint.probe.evidence import Evidence, Line
from trainlint.probe.measured import Measured


@dataclass(frozen=True, slots=True)
class Judged:
    """What a run says about findings."""

    findings: tuple[Reported, ...]
    """Those in files that the run loaded, in the order given; without a verdict where the rule failed or is gone."""
    runtime: tuple[RuntimeFinding, ...]
    """By code, the dearest first as each rule orders them."""
    failures: tuple[Failure, ...] = ()
    """Defects of rules, which concern no other rule."""


def judge(findings: Sequence[Reported], run: Measured, evidence: Evidence, registry: Registry) -> Judged:
    """Judge findings by what was measured. A finding in a file that the run did not load is left out: nothing that was
    measured speaks about it. Where it is not known what was loaded, all are judged."""
    failures: list[Failure] = []
    files = evidence.files
    loaded = [one for one in findings if files is None or one.path in files]
    judged = tuple(_judged(one, evidence, registry, failures) for one in loaded)
    predicted = replace(evidence, predicted=evidence.predicted | frozenset(_flagged(findings)))
    runtime = tuple(_runtime_findings(run, predicted, registry, failures))
    return Judged(judged, runtime, tuple(failures))


def _judged(reported: Reported, evidence: Evidence, registry: Registry, failures: list[Failure]) -> Reported:
    finding = reported.finding
    rule = registry.rules.get(finding.code)
    if rule is None:
        return reported
    where = f"{finding.site.path}:{finding.site.row}"
    what = f"the verdict of {rule.code} {rule.name}"
    verdict = guarded(failures, what, where, lambda: _ready(rule).judge(finding, evidence))
    return replace(reported, verdict=verdict)


def _runtime_findings(
    run: Measured, evidence: Evidence, registry: Registry, failures: list[Failure]
) -> Iterator[RuntimeFinding]:
    for _, rule in sorted(registry.rules.items()):
        if issubclass(rule, RuntimeRule):
            yield from _measured_by(rule, run, evidence, failures)


def _measured_by(
    rule: type[RuntimeRule], run: Measured, evidence: Evidence, failures: list[Failure]
) -> Sequence[RuntimeFinding]:
    def found() -> list[RuntimeFinding]:
        made = _ready(rule)
        return list(made.measured(run, evidence)) if isinstance(made, RuntimeRule) else []

    return guarded(failures, f"{rule.code} {rule.name}", "the run", found) or ()


def _ready(rule: type[Rule]) -> Rule:
    """The rule, with the options that hold where nothing is configured."""
    made = rule()
    if rule.options_model is not None:
        made.options = RuleOptions(rule.options_model().model_dump())
    return made


def _flagged(findings: Iterable[Reported]) -> Iterator[Line]:
    for one in findings:
        site = one.finding.site
        yield from (Line(site.path, row) for row in range(site.row, site.end_row + 1))
