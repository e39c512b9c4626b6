"""What the linter's formats say of a finding that a run confirmed or cleared."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from desk import Desk
from judged_runs import CONFIRMED, INCONCLUSIVE, NOT_EXERCISED, REFUTED

from trainlint.lint.finding import Severity
from trainlint.probe.verdict import COST_TO_STEP, WORKER_TIME, Measurement, Source, Status, Verdict
from trainlint.report.verdicts import phrase


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        pytest.param(CONFIRMED, "confirmed: measured 12.3 ms per step, 25 %", id="confirmed"),
        pytest.param(REFUTED, "refuted: measured 0.02 ms per step, under 0.1 %", id="refuted"),
        pytest.param(NOT_EXERCISED, "not exercised: the line did not run in the measured steps", id="not exercised"),
        pytest.param(INCONCLUSIVE, "inconclusive: probe on a GPU", id="inconclusive"),
        pytest.param(
            replace(INCONCLUSIVE, ms_per_step=3.0), "inconclusive: probe on a GPU", id="inconclusive with a figure"
        ),
        pytest.param(
            Verdict(Status.REFUTED, note="the loader ran with 2 workers"),
            "refuted: the loader ran with 2 workers",
            id="a condition that proved false",
        ),
        pytest.param(Verdict(Status.CONFIRMED), "confirmed", id="nothing to add"),
        pytest.param(
            Verdict(
                Status.REFUTED,
                80.9,
                0.00477,
                evidence=(
                    Measurement("worker time, all workers together", 80.9, WORKER_TIME, Source.STACKS),
                    Measurement(COST_TO_STEP, 22.7, "ms/step", Source.STACKS, 95.1),
                ),
            ),
            "refuted: measured 80.9 ms of workers per step, which cost the step 22.7 ms at most (0.5 % of it)",
            id="time of loader workers, and the part of the step that it can cost",
        ),
    ],
)
def test_a_verdict_is_one_phrase(verdict: Verdict, text: str) -> None:
    assert phrase(verdict) == text


@pytest.fixture
def judged(desk: Desk) -> Desk:
    """A desk with one finding, which a run confirmed."""
    path = desk.write("train.py")
    desk.findings = [replace(desk.report(path, context=desk.context(path)), verdict=CONFIRMED)]
    return desk


PHRASE = "confirmed: measured 12.3 ms per step, 25 %"
MESSAGE = "`loss.item()` waits for the GPU at every step"


def test_full_has_a_line_for_it(judged: Desk) -> None:
    lines = judged.render("full").splitlines()
    assert f"run:  {PHRASE}" in lines
    assert lines.index(f"run:  {PHRASE}") == lines.index("help: read it at the logging interval") - 1


def test_lines_end_with_it(judged: Desk) -> None:
    assert judged.render("concise") == f"train.py:7:14: TL201 sync-in-step {MESSAGE} [{PHRASE}]\n"
    assert judged.render("github").endswith(f"{MESSAGE} [{PHRASE.replace('%', '%25')}]\n")


def test_json_holds_all_of_it(judged: Desk) -> None:
    listed, line = json.loads(judged.render("json"))[0], json.loads(judged.render("json-lines"))
    assert listed == line
    assert listed["verdict"]["status"] == "confirmed"


def test_sarif_says_it_and_holds_all_of_it(judged: Desk) -> None:
    (result,) = json.loads(judged.render("sarif"))["runs"][0]["results"]
    assert result["properties"]["verdict"]["share"] == CONFIRMED.share
    assert "Confirmed: measured 12.3 ms per step, 25 %. " in result["message"]["text"]


def test_reports_of_code_hosts_say_it(judged: Desk) -> None:
    assert json.loads(judged.render("gitlab"))[0]["description"] == f"sync-in-step: {MESSAGE} [{PHRASE}]"
    assert f"({PHRASE}) |" in judged.render("markdown")
    failure = ElementTree.fromstring(judged.render("junit"))[0][0][0]
    assert (failure.text or "").endswith(f"[{PHRASE}]")


@pytest.mark.parametrize("format", ["full", "concise", "json", "sarif", "github", "gitlab", "junit", "markdown"])
def test_nothing_is_said_where_no_run_speaks_of_the_finding(desk: Desk, format: str) -> None:
    desk.report(desk.write("train.py"))
    report = desk.render(format)
    assert "run:" not in report
    assert not [status for status in Status if status.value in report]


@pytest.mark.parametrize(
    ("verdict", "command"),
    [(CONFIRMED, "error"), (REFUTED, "notice"), (NOT_EXERCISED, "warning"), (INCONCLUSIVE, "warning")],
    ids=["confirmed", "refuted", "not exercised", "inconclusive"],
)
def test_a_verdict_moves_the_severity(desk: Desk, verdict: Verdict, command: str) -> None:
    reported = desk.report(desk.write("train.py"), severity=Severity.WARNING)
    desk.findings = [replace(reported, verdict=verdict)]
    assert desk.render("github").startswith(f"::{command} ")
