"""Two results side by side, and the conditions that make a run fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from desk import Desk
from judged_runs import (
    CONFIRMED,
    INCONCLUSIVE,
    JOB,
    MOVED,
    REFUTED,
    STEP_S,
    Run,
    judged_run,
    measured,
    on_gpus,
    timeline,
)

from trainlint.probe.measured import Measured
from trainlint.probe.verdict import Status
from trainlint.report.probe_changes import comparison_texts
from trainlint.report.probe_compare import compare
from trainlint.report.probe_conditions import Confirmed, Regression, fail_condition, outcome
from trainlint.report.probe_result import ProbeResult
from trainlint.report.probe_text import render_text


def at_speed(factor: float, *, jitter: float = 0.02, **changes: Any) -> Measured:
    """The run with steps that take `factor` times as long, and the samples per second that follow."""
    step_s = STEP_S * factor
    steps = measured().steps.model_copy(
        update={"median_s": step_s, "mean_s": step_s, "samples_per_s": 32 / step_s} | changes.pop("steps", {})
    )
    return measured(steps=steps, timeline=timeline(step_s=step_s, jitter=jitter), **changes)


def result_of(desk: Desk, run: Measured) -> ProbeResult:
    return Run(desk, run).result()


def test_a_change_of_throughput_comes_with_its_noise(desk: Desk) -> None:
    comparison = compare(result_of(desk, at_speed(1.0)), result_of(desk, at_speed(1.25)))
    rate = comparison.rate
    assert rate is not None
    assert (rate.unit, round(rate.change, 6)) == ("samples per second", -0.2)
    assert rate.noise is not None
    assert 0 < rate.noise < 0.05
    assert rate.is_clear


def on_busy_machine(factor: float, waits: float) -> Measured:
    """The run beside other work: its training thread waits for a core for this share of the time."""
    run = at_speed(factor)
    return run.model_copy(update={"cpu": run.cpu.model_copy(update={"core_wait_share": waits})})


@pytest.mark.parametrize("busy", ["the earlier run", "this run"])
def test_a_busy_machine_is_named_and_no_regression_is_claimed(desk: Desk, busy: str) -> None:
    waits = (0.4, 0.0) if busy == "the earlier run" else (0.0, 0.4)
    now = result_of(desk, on_busy_machine(4.0, waits[1]))
    comparison = compare(result_of(desk, on_busy_machine(1.0, waits[0])), now)
    told = f"busy machine: other work ran during {busy}: its training thread waited for a core 40 % of the time"
    assert told in list(comparison_texts(comparison, Run(desk).view))
    verdict = outcome(Regression(0.05), now, comparison)
    assert not verdict.met
    assert busy in verdict.reason


def test_a_wait_for_cores_that_the_jobs_own_processes_had_is_part_of_its_speed(desk: Desk) -> None:
    now = on_busy_machine(1.5, 0.4)
    now = now.model_copy(update={"cpu": now.cpu.model_copy(update={"other_work_cores": 0.02})})
    comparison = compare(result_of(desk, at_speed(1.0)), result_of(desk, now))
    assert comparison.loads == ()
    assert outcome(Regression(0.05), result_of(desk, now), comparison).met


def test_a_regression_on_a_machine_with_free_cores_is_claimed(desk: Desk) -> None:
    now = result_of(desk, on_busy_machine(1.5, 0.02))
    comparison = compare(result_of(desk, on_busy_machine(1.0, 0.02)), now)
    assert comparison.loads == ()
    assert outcome(Regression(0.05), now, comparison).met


def test_a_change_within_the_spread_of_the_steps_is_not_claimed(desk: Desk) -> None:
    comparison = compare(result_of(desk, at_speed(1.0, jitter=0.8)), result_of(desk, at_speed(1.08, jitter=0.8)))
    assert comparison.rate is not None
    assert not comparison.rate.is_clear
    condition = Regression(0.05)
    assert not outcome(condition, result_of(desk, at_speed(1.08)), comparison).met
    assert "within the noise" in "\n".join(comparison_texts(comparison, Run(desk).view))


def test_noise_is_that_of_blocks_so_that_two_humps_do_not_hide_a_trend(desk: Desk) -> None:
    """Steps that alternate between short and long have a large spread and a mean that is well known."""
    points = [
        point.model_copy(update={"duration_s": STEP_S * (0.5 if index % 2 else 1.5)})
        for index, point in enumerate(timeline(200))
    ]
    run = measured(timeline=points)
    rate = compare(result_of(desk, run), result_of(desk, run)).rate
    assert rate is not None
    assert rate.noise is not None
    assert rate.noise < 0.02


@pytest.mark.parametrize(
    ("steps", "unit"),
    [
        ({"tokens_per_s": 9000.0, "effective_tokens_per_s": 3000.0}, "effective tokens per second"),
        ({"tokens_per_s": 9000.0}, "tokens per second"),
        ({}, "samples per second"),
        ({"samples_per_s": None}, "steps per second"),
    ],
)
def test_the_most_telling_rate_that_both_have_is_compared(desk: Desk, steps: dict[str, Any], unit: str) -> None:
    result = result_of(desk, at_speed(1.0, steps=steps))
    rate = compare(result, result).rate
    assert rate is not None
    assert (rate.unit, rate.change) == (unit, 0)


def environment(**changes: Any) -> Any:
    return measured().environment.model_copy(update=changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"environment": environment(host="other")}, "other machine: other, before box", id="machine"),
        pytest.param(on_gpus(1) | {"ranks": []}, "other devices: NVIDIA H100 80GB HBM3, before no GPU", id="devices"),
        pytest.param({"environment": environment(cores=64)}, "other number of cores: 64, before 2", id="cores"),
        pytest.param({"environment": environment(world_size=4)}, "other world size: 4, before 1", id="world size"),
        pytest.param({"command": ["python", "eval.py"]}, "other command: eval.py, before train.py", id="script"),
        pytest.param(
            {"steps": measured().steps.model_copy(update={"median_s": None})},
            "no step was timed in this run",
            id="no steps",
        ),
    ],
)
def test_what_cannot_be_compared_is_said_and_makes_no_regression(
    desk: Desk, changes: dict[str, Any], said: str
) -> None:
    now = result_of(desk, measured(**changes))
    comparison = compare(result_of(desk, measured()), now)
    assert said in comparison.obstacles
    assert f"cannot be compared: {said}" in list(comparison_texts(comparison, Run(desk).view))
    assert comparison.rate is None
    verdict = outcome(Regression(0.0), now, comparison)
    assert (verdict.met, said in verdict.reason) == (False, True)


def test_a_result_that_does_not_know_its_machine_is_compared(desk: Desk) -> None:
    older = result_of(desk, measured(environment=environment(host=None, cores=None)))
    assert compare(older, result_of(desk, measured())).obstacles == ()


def test_other_arguments_are_said_and_compared_by_work_done(desk: Desk) -> None:
    now = at_speed(1.5, command=["python", "train.py", "--batch-size", "64"], steps={"samples_per_s": 1000.0})
    comparison = compare(result_of(desk, measured()), result_of(desk, now))
    assert comparison.obstacles == ()
    assert "arguments: python train.py --batch-size 64" in comparison.differences[0]
    assert comparison.rate is not None
    assert comparison.rate.change > 0.5


def test_other_arguments_without_a_count_of_samples_compare_no_throughput(desk: Desk) -> None:
    one, other = (
        at_speed(1.0, command=["python", "train.py", size], steps={"samples_per_s": None}) for size in ("8", "16")
    )
    assert compare(result_of(desk, one), result_of(desk, other)).rate is None


def test_verdicts_that_changed_are_found_again_after_lines_moved(desk: Desk) -> None:
    path = desk.write("train.py")
    earlier = Run(desk)
    earlier.judge(path, CONFIRMED)
    earlier.judge(path, CONFIRMED, place=(6, 5, 6, 20), code="TL204", name="branch-on-tensor")
    earlier.judge(path, INCONCLUSIVE, place=(3, 1, 3, 5), code="TL103", name="prefetch")
    before = earlier.result()
    moved = desk.write("elsewhere/train.py", "# one more row\n" + path.read_text())
    now = Run(desk)
    now.judge(moved, REFUTED, place=(8, 14, 8, 25))
    now.judge(moved, INCONCLUSIVE, place=(4, 1, 4, 5), code="TL103", name="prefetch")
    now.judge(moved, CONFIRMED, place=(5, 1, 5, 5), code="TL202", name="print-in-step")
    changes = compare(before, now.result()).verdicts
    assert [(one.finding.code, one.earlier, one.now, one.new, one.gone) for one in changes] == [
        ("TL201", Status.CONFIRMED, Status.REFUTED, False, False),
        ("TL202", None, Status.CONFIRMED, True, False),
        ("TL204", Status.CONFIRMED, None, False, True),
    ]


def line(ms: float, interval: tuple[float, float] | None = None, *, path: Path = JOB, row: int = 9) -> Any:
    share = ms / STEP_S / 1e3
    changes = {"ms_per_step": ms, "interval_ms": interval, "filename": str(path), "row": row, "share": share}
    return measured().lines[0].model_copy(update=changes)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        pytest.param(line(5.0), line(15.0), "got dearer: 15 ms per step, before 5 ms", id="dearer"),
        pytest.param(
            line(15.0), line(5.0, path=MOVED, row=30), "train.py:30 got cheaper: 5 ms per step", id="cheaper, and moved"
        ),
        pytest.param(line(5.0), line(5.5), None, id="by less than a finding costs"),
        pytest.param(line(5.0, (2.0, 9.0)), line(10.0, (6.0, 15.0)), None, id="intervals overlap"),
        pytest.param(line(5.0, (2.0, 9.0)), line(20.0, (16.0, 25.0)), "got dearer", id="intervals lie apart"),
    ],
)
def test_lines_that_got_dearer_or_cheaper(desk: Desk, before: Any, after: Any, told: str | None) -> None:
    comparison = compare(result_of(desk, measured(lines=[before])), result_of(desk, measured(lines=[after])))
    texts = [text for text in comparison_texts(comparison, Run(desk).view) if "got" in text]
    assert len(texts) == (told is not None)
    assert told is None or told in texts[0]


def test_rows_of_the_same_text_are_told_apart_by_their_order(desk: Desk) -> None:
    before = [line(15.0, path=MOVED, row=5), line(5.0, path=MOVED, row=6)]
    same = compare(result_of(desk, measured(lines=before)), result_of(desk, measured(lines=before)))
    assert same.lines == ()
    now = [line(15.0, path=MOVED, row=5), line(30.0, path=MOVED, row=6)]
    (change,) = compare(result_of(desk, measured(lines=before)), result_of(desk, measured(lines=now))).lines
    assert (change.line.row, change.earlier_ms, change.now_ms) == (6, 5.0, 30.0)
    assert compare(result_of(desk, measured(lines=before[:1])), result_of(desk, measured(lines=now[1:]))).lines == ()


def test_the_report_holds_the_comparison(desk: Desk) -> None:
    earlier = result_of(desk, at_speed(1.25, started="2026-11-29T05:00:00Z"))
    run = judged_run(desk)
    text = render_text(run.result(), run.view, width=200, comparison=compare(earlier, run.result()))
    assert "Compared with the run of 2026-11-29T05:00:00Z" in text
    assert "  throughput: 640 samples per second, before 512 (+25 %, uncertain by " in text
    assert "  bottleneck: data, as before" in text
    assert "  data wait: 30.1 ms (60 %), before 37.6 ms (60 %)" in text
    assert "  src/train.py:7 TL201 sync-in-step: new, confirmed" in text


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("confirmed", Confirmed()),
        ("regression", Regression(0.05)),
        ("regression=2.5", Regression(0.025)),
        ("regression=10%", Regression(0.1)),
        ("regression=0", Regression(0.0)),
    ],
)
def test_conditions_are_read(text: str, condition: Confirmed | Regression) -> None:
    assert fail_condition(text) == condition


@pytest.mark.parametrize(
    "text", ["", "all", "confirmed=1", "regression=", "regression=-3", "regression=x", "regression=nan"]
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="`"):
        fail_condition(text)


@pytest.mark.parametrize(("factor", "met"), [(1.0, False), (1.03, False), (1.12, True), (0.8, False)])
def test_a_regression_is_a_loss_beyond_the_bound(desk: Desk, factor: float, met: bool) -> None:
    now = result_of(desk, at_speed(factor))
    verdict = outcome(Regression(), now, compare(result_of(desk, at_speed(1.0)), now))
    assert verdict.met == met
    assert "a regression is a loss of 5 % or more" in verdict.reason


def test_without_the_time_line_no_regression_is_claimed(desk: Desk) -> None:
    now = result_of(desk, at_speed(3.0).model_copy(update={"timeline": []}))
    verdict = outcome(Regression(), now, compare(result_of(desk, at_speed(1.0)), now))
    assert not verdict.met
    assert "the spread of the steps is not known" in verdict.reason


@pytest.mark.parametrize(
    ("verdict", "met"), [(CONFIRMED, True), (REFUTED, False), (INCONCLUSIVE, False), (None, False)]
)
def test_confirmed_findings_make_a_run_fail(desk: Desk, verdict: Any, met: bool) -> None:
    run = Run(desk)
    run.judge(desk.write("train.py"), verdict)
    found = outcome(Confirmed(), run.result(), None)
    assert (found.met, found.reason) == (met, f"{int(met)} of 1 findings confirmed")


def test_a_regression_needs_an_earlier_result(desk: Desk) -> None:
    assert not outcome(Regression(), Run(desk).result(), None).met


def test_a_verdict_without_a_cost_does_not_break_the_order(desk: Desk) -> None:
    run = Run(desk)
    run.judge(desk.write("train.py"), replace(CONFIRMED, ms_per_step=None))
    assert compare(run.result(), run.result()).verdicts == ()
