"""Verdicts on findings: of each rule its own, in the files that the run loaded; defects stay with the rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import BaseModel

from trainlint.config.resolved import Resolved
from trainlint.config.settings import Settings
from trainlint.lint.finding import Finding, RuntimeFinding, Severity
from trainlint.lint.judging import Judged, judge
from trainlint.lint.registry import Registry, load_registry
from trainlint.lint.result import Position, Reported
from trainlint.lint.rule import Rule, RuntimeRule
from trainlint.lint.selection import Selection
from trainlint.probe.evidence import Evidence, Line, SyncCount, TimedCalls
from trainlint.probe.measured import Bottleneck, Cpu, Environment, Job, Measured, Overhead, Overlapping, Shares, Steps
from trainlint.probe.verdict import Status, Verdict
from trainlint.semantics.context import Site
from trainlint.semantics.vocabulary import Confidence

TRAIN, OTHER = Path("/project/train.py"), Path("/project/other.py")
RUN = Measured(
    command=["python", "train.py"],
    started="2026-01-01T00:00:00Z",
    environment=Environment(python=None, torch=None, cuda=None, gpus=[], world_size=1, sources=["agent"], missing={}),
    steps=Steps(measured=50, warmup=10, median_s=0.1, p90_s=0.1),
    shares=Shares.model_validate(dict.fromkeys(Shares.model_fields)),
    overlapping=Overlapping(),
    gpu=[],
    cpu=Cpu(util_mean=None, busiest_core_mean=None, rss_peak_bytes=None, io_wait_share=None),
    kernels=None,
    loader=None,
    bottleneck=Bottleneck(kind="balanced", score=0.0, why=[], next=[]),
    ranks=[],
    job=Job(exit_code=0, signal=None, stopped_by_probe=True),
    overhead=Overhead(agent_share=None),
)
PRINTS = {Line(TRAIN, 12): TimedCalls(1.0, 0.02)}
EVIDENCE = Evidence(step_s=0.1, steps=50, accelerator=True, calls=PRINTS)


def reported(code: str, path: Path = TRAIN, row: int = 12) -> Reported:
    rule = load_registry().rules.get(code)
    finding = Finding(
        code=code,
        name=rule.name if rule is not None else "gone",
        message="the finding",
        site=Site(path, row, 0, row, 10, ""),
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
    )
    return Reported(finding, path, Position(row, 1), Position(row, 11), row, None)


def judged(
    *findings: Reported, registry: Registry | None = None, settings: Settings | None = None, **evidence: object
) -> Judged:
    seen = replace(EVIDENCE, **evidence)  # type: ignore[arg-type]
    resolved = Resolved(settings or Settings(), {}, TRAIN.parent)
    selection = Selection(registry or load_registry(), resolved)
    return judge(findings, RUN, seen, selection, lambda path: selection)


def statuses(found: Judged) -> list[Status | None]:
    return [one.verdict.status if one.verdict is not None else None for one in found.findings]


def test_each_finding_gets_the_verdict_of_its_rule() -> None:
    found = judged(reported("TL202"), reported("TL201"), reported("TL202", row=30), ran={Line(TRAIN, 30): False})
    assert statuses(found) == [Status.CONFIRMED, Status.INCONCLUSIVE, Status.NOT_EXERCISED]
    assert found.failures == ()


def test_a_confirmed_finding_weighs_one_level_more() -> None:
    (one,) = judged(reported("TL202")).findings
    assert one.severity is Severity.ERROR


def test_findings_in_files_that_the_run_did_not_load_are_left_out() -> None:
    found = judged(reported("TL202", OTHER), reported("TL202"), files=frozenset({TRAIN}))
    assert [one.path for one in found.findings] == [TRAIN]


def test_where_it_is_not_known_what_was_loaded_all_are_judged() -> None:
    assert len(judged(reported("TL202", OTHER), reported("TL202"), files=None).findings) == 2


def test_a_rule_that_nothing_at_run_time_speaks_about_says_so() -> None:
    (one,) = judged(reported("TL405")).findings
    assert one.verdict is not None
    assert one.verdict.status is Status.INCONCLUSIVE
    assert "nothing measured" in one.verdict.note


def test_a_finding_of_a_rule_that_is_gone_stays_without_a_verdict() -> None:
    assert statuses(judged(reported("XX999"))) == [None]


class Raises(Rule):
    """A rule with a defect."""

    code, name = "XX901", "raises"

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        raise KeyError("no such figure")


class RaisesOnRuns(RuntimeRule):
    """Likewise one about runs, after a first finding."""

    code, name = "XX902", "raises-on-runs"

    def measured(self, run: Measured, evidence: Evidence) -> Iterator[RuntimeFinding]:
        yield self.shown("The first")
        raise KeyError("no such figure")


class Choice(BaseModel):
    least: int = 3


class WithOptions(RuntimeRule):
    """A rule that reads its options."""

    code, name = "XX903", "with-options"
    options_model = Choice

    def measured(self, run: Measured, evidence: Evidence) -> Iterator[RuntimeFinding]:
        yield self.shown(f"At least {self.options.values['least']}")


class JudgedByOptions(Rule):
    """A rule whose verdict depends on its options."""

    code, name = "XX904", "judged-by-options"
    options_model = Choice

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return Verdict(Status.INCONCLUSIVE, note=f"at least {self.options.values['least']}")


def with_rules(*rules: type[Rule]) -> Registry:
    return Registry({**load_registry().rules, **{rule.code: rule for rule in rules}}, ())


def test_a_defect_of_a_rule_is_reported_and_concerns_no_other() -> None:
    found = judged(reported("XX901"), reported("TL202"), registry=with_rules(Raises, RaisesOnRuns))
    assert statuses(found) == [None, Status.CONFIRMED]
    assert [failure.text(verbose=False) for failure in found.failures] == [
        "internal error: the verdict of XX901 raises failed on /project/train.py:12: KeyError: 'no such figure'",
        "internal error: XX902 raises-on-runs failed on the run: KeyError: 'no such figure'",
    ]


OPTIONS = {"by default": ({}, "At least 3"), "as configured": ({"least": 7}, "At least 7")}


@pytest.mark.parametrize(("table", "message"), OPTIONS.values(), ids=OPTIONS)
def test_rules_about_runs_have_the_options_of_the_configuration(table: dict[str, object], message: str) -> None:
    found = judged(registry=with_rules(WithOptions), settings=Settings(rules={"with-options": table}))
    assert [one.message for one in found.runtime] == [message]


def test_findings_are_judged_with_the_options_of_the_configuration() -> None:
    settings = Settings(rules={"judged-by-options": {"least": 7}})
    (one,) = judged(reported("XX904"), registry=with_rules(JudgedByOptions), settings=settings).findings
    assert one.verdict is not None
    assert one.verdict.note == "at least 7"


def test_what_the_configuration_ignores_is_not_reported_of_a_run() -> None:
    syncs = {Line(TRAIN, 12): SyncCount(1.0, 0.02), Line(OTHER, 3): SyncCount(1.0, 0.02)}
    registry = with_rules(WithOptions)
    found = judged(registry=registry, syncs=syncs).runtime
    assert [(one.code, one.path) for one in found] == [("TL910", TRAIN), ("TL910", OTHER), ("XX903", None)]
    settings = Settings(ignore=("with-options",), per_file_ignores={"other.py": ("TL9",)})
    assert [(one.code, one.path) for one in judged(registry=registry, syncs=syncs, settings=settings).runtime] == [
        ("TL910", TRAIN)
    ]


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("# trainlint: ignore[TL910] once", []),
        ("# trainlint: ignore[unpredicted-sync]", []),
        ("# trainlint: ignore[TL201]", ["TL910"]),
        ("", ["TL910"]),
    ],
)
def test_what_a_comment_silences_is_not_reported_of_a_run(comment: str, expected: list[str], tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"first = 1\nsecond = loss.item()  {comment}\n")
    syncs = {Line(script, 2): SyncCount(1.0, 0.02)}
    assert [one.code for one in judged(syncs=syncs).runtime] == expected


def test_findings_about_runs_are_as_severe_as_the_configuration_says() -> None:
    found = judged(registry=with_rules(WithOptions), settings=Settings(severity={"XX903": "hint"}))
    assert [one.severity for one in found.runtime] == [Severity.HINT]


@pytest.mark.parametrize(("row", "expected"), [(12, []), (13, ["TL910"])], ids=["on its line", "on another"])
def test_a_finding_of_any_rule_predicts_a_sync_on_its_line(row: int, expected: list[str]) -> None:
    syncs = {Line(TRAIN, 12): SyncCount(1.0, 0.02)}
    assert [one.code for one in judged(reported("TL202", row=row), syncs=syncs).runtime] == expected
