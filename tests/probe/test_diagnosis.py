"""The bottleneck by what was measured, with its figures and thresholds, and advice in the articles' order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import made_recordings as made
import pytest

from trainlint.agent import records
from trainlint.probe.analysis import analyse
from trainlint.probe.analysis.diagnosis import Findings, diagnose
from trainlint.probe.analysis.line_costs import line_cost
from trainlint.probe.analysis.loaders import TrainingLoader
from trainlint.probe.evidence import Line
from trainlint.probe.measured import MEASURE_AGAIN, Kernels, LineCost, Shares
from trainlint.probe.recording import ProcessSample, SystemSample
from trainlint.probe.verdict import Source

NOTHING = Findings(
    regular_steps=50,
    missing="",
    shares=Shares.model_validate(dict.fromkeys(Shares.model_fields)),
    accelerator=False,
    kernels=None,
    memory_fill=None,
    loader=None,
    lines=(),
    straggler=None,
    physical_cores=8,
)
GIB = 1 << 30


def shares(model: float = 0.0, **parts: float) -> Shares:
    """`model` is forward, backward and optimizer together; what is left is other."""
    known = dict.fromkeys(Shares.model_fields, 0.0) | parts
    known |= {"forward": model / 2, "backward": model / 3, "optimizer": model / 6}
    known["other"] = 1.0 - model - sum(parts.values())
    return Shares.model_validate(known)


def device(busy: float, **figures: float) -> Kernels:
    told = {"count_per_step": 900.0, "median_us": 80.0, "busy_share": busy, "memcpy_share": 0.0}
    return Kernels.model_validate(told | {"nccl_share": 0.0, "nccl_exposed_share": 0.0} | figures)


@dataclass(frozen=True)
class Case:
    behaviour: str
    kind: str
    found: dict[str, Any]
    score: float | None = None


ON_CPU = (
    Case("waits for data", "data", {"shares": shares(0.3, data_wait=0.61)}, 0.61),
    Case("just reaches the threshold", "data", {"shares": shares(0.8, data_wait=0.20)}),
    Case(
        "may wait less for data than the threshold",
        "balanced",
        {"shares": shares(0.7, data_wait=0.21), "intervals": {"data_wait": (0.18, 0.24)}},
    ),
    Case(
        "surely waits more than the threshold",
        "data",
        {"shares": shares(0.7, data_wait=0.21), "intervals": {"data_wait": (0.20, 0.22)}},
    ),
    Case(
        "may stall less than the threshold",
        "compute",
        {"shares": shares(0.87, sync_wait=0.11), "intervals": {"sync_wait": (0.09, 0.13)}},
    ),
    Case("stalls", "sync", {"shares": shares(0.7, sync_wait=0.15)}, 0.15),
    Case("stalls more than it waits for data", "sync", {"shares": shares(0.2, data_wait=0.25, sync_wait=0.5)}),
    Case("waits for data more than it stalls", "data", {"shares": shares(0.2, data_wait=0.5, sync_wait=0.25)}),
    Case("computes", "compute", {"shares": shares(0.93, data_wait=0.05)}, 0.93),
    Case("does a little of everything", "balanced", {"shares": shares(0.7, data_wait=0.15, sync_wait=0.05)}),
    Case("has too few steps", "insufficient", {"shares": shares(0.93), "regular_steps": 4}, 0.0),
    Case("has no steps", "insufficient", {"regular_steps": 0, "missing": "no step was identified"}),
)
BUSY, IDLE = device(0.95), device(0.4, median_us=6.0)
ON_GPU = (
    Case("computes", "compute", {"kernels": BUSY, "shares": shares(0.3, sync_wait=0.6)}, 0.95),
    Case("waits for data", "data", {"kernels": device(0.4), "shares": shares(0.3, data_wait=0.6)}),
    Case(
        "waits for the device, which idles meanwhile", "sync", {"kernels": device(0.6), "shares": shares(sync_wait=0.5)}
    ),
    Case("copies", "transfer", {"kernels": device(0.6, memcpy_share=0.36), "shares": shares(0.9)}, 0.36),
    Case("communicates", "communication", {"kernels": device(0.9, nccl_exposed_share=0.3), "shares": shares(0.9)}),
    Case("communicates behind its work", "compute", {"kernels": device(0.99, nccl_share=0.3), "shares": shares(0.9)}),
    Case("launches", "launch", {"kernels": IDLE, "shares": shares(0.9)}, 0.6),
    Case("launches, and idles for data besides", "launch", {"kernels": IDLE, "shares": shares(0.8, data_wait=0.1)}),
    Case("has room", "memory", {"kernels": device(0.7), "shares": shares(0.9), "memory_fill": 0.3}),
    Case("has no room", "balanced", {"kernels": device(0.7), "shares": shares(0.9), "memory_fill": 0.9}),
    Case("was not traced", "balanced", {"shares": shares(0.95)}),
)


@pytest.mark.parametrize("case", ON_CPU, ids=lambda case: case.behaviour)
def test_bottleneck_on_a_cpu(case: Case) -> None:
    found = diagnose(replace(NOTHING, **case.found))
    assert found.kind == case.kind
    assert case.score is None or found.score == pytest.approx(case.score)
    assert found.why
    assert found.next


@pytest.mark.parametrize("case", ON_GPU, ids=lambda case: case.behaviour)
def test_bottleneck_on_a_gpu(case: Case) -> None:
    found = diagnose(replace(NOTHING, accelerator=True, **case.found))
    assert found.kind == case.kind
    assert case.score is None or found.score == pytest.approx(case.score)


def test_room_is_not_known_of_a_gpu_that_only_torch_named(tmp_path: Path) -> None:
    process = made.rank(devices=[{"index": 0, "name": "GPU", "memory_bytes": 40 * GIB}])
    process.train("N f B . . . . Oadam")
    run, _ = analyse(made.write(tmp_path, process))
    assert run.bottleneck.kind == "balanced"
    assert [gpu.memory_total_bytes for gpu in run.environment.gpus] == [40 * GIB]


@pytest.mark.parametrize("case", [case for case in ON_GPU if "kernels" in case.found], ids=lambda case: case.behaviour)
def test_without_an_accelerator_no_bottleneck_is_one_of_a_gpu(case: Case) -> None:
    assert diagnose(replace(NOTHING, **case.found)).kind in ("data", "sync", "compute", "balanced")


def test_where_most_of_the_step_has_no_name_its_size_and_its_dearest_line_are_told() -> None:
    known = {"filename": "log.py", "row": 8, "what": "stack", "in_workers": False, "source": "stacks"}
    line = LineCost.model_validate(known | {"ms_per_step": 22.0, "share": 0.5, "calls_per_step": None})
    found = diagnose(replace(NOTHING, shares=shares(0.21, data_wait=0.04), lines=(line,)))
    assert found.kind == "balanced"
    assert "what is none of these: 75 % of the step, the largest part of it" in found.why
    assert found.next == ["Look at log.py:8: 22 ms per step"]


def test_reasons_print_their_figure_and_threshold() -> None:
    found = diagnose(replace(NOTHING, shares=shares(0.2, data_wait=0.61, sync_wait=0.12)))
    assert found.why == [
        "data wait: 61 % of the step (threshold 20 %)",
        "syncs, print, logging, saving and garbage collection: 12 % of the step (threshold 10 %)",
    ]


@pytest.mark.parametrize("share", [0.19, 0.21])
def test_a_share_that_steps_leave_near_its_threshold_is_said_to_be_about_it(share: float) -> None:
    intervals = {"data_wait": (share - 0.02, share + 0.02)}
    found = diagnose(replace(NOTHING, shares=shares(0.7, data_wait=share), intervals=intervals))
    between = f"between {share - 0.02:.0%} and {share + 0.02:.0%} as steps differ and cores are free"
    told = f"data wait: {share:.0%} of the step, {between}, so about the threshold of 20 %"
    assert told.replace("%", " %").replace("  ", " ") in found.why
    assert sum("data wait" in why for why in found.why) == 1


def test_a_machine_that_others_use_is_named() -> None:
    found = diagnose(replace(NOTHING, shares=shares(0.9), core_wait_share=0.31))
    assert any("waited for a core 31 % of the time" in why for why in found.why)
    assert found.next[0] == MEASURE_AGAIN
    assert len(found.next) > 1
    calm = diagnose(replace(NOTHING, shares=shares(0.9), core_wait_share=0.04))
    assert MEASURE_AGAIN not in calm.next
    assert not any("core" in why for why in diagnose(replace(NOTHING, shares=shares(0.9), core_wait_share=0.04)).why)


WORKER: dict[str, tuple[float, float, str]] = {
    "computes little and waits for a core": (0.05, 0.60, "compute"),
    "computes all the time": (0.95, 0.0, "data"),
    "computes whenever it has a core": (0.40, 0.55, "data"),
    "waits for a disk": (0.05, 0.02, "data"),
}


@pytest.mark.parametrize("case", WORKER)
def test_a_wait_for_data_that_waits_for_cores_explain_is_not_sure(case: str, tmp_path: Path) -> None:
    cpu, waits, kind = WORKER[case]
    process = made.rank(workers=1, queue=0.0, seconds={**made.SECONDS, "N": 0.040})
    start, waited = process.clock, 0.0
    process.phase(records.CLEAN)
    for _ in range(41):
        process.step("N")
        process.record(records.CORE_WAIT, process.clock, value=waited)
        process.step("f B Oadam")
        waited += 0.029
        process.record(records.CORE_WAIT, process.clock, value=waited)
    worker = made.worker(process)
    samples = [
        SystemSample(
            clock=start + seconds,
            cores_busy=[1.0],
            processes=[ProcessSample(pid=worker.pid, cpu_s=cpu * seconds, rss_bytes=1, core_wait_s=waits * seconds)],
        )
        for seconds in (0.1, 1.0, 2.0)
    ]
    run, _ = analyse(made.write(tmp_path, process, worker, system=samples))
    assert run.bottleneck.kind == kind, run.bottleneck.why


def test_a_share_that_is_enough_but_for_other_work_says_what_it_is_without() -> None:
    found = diagnose(replace(NOTHING, shares=shares(0.65), explained_wait=0.25, other_work=1.0))
    assert found.kind == "compute"
    assert "65 % of the step (threshold 85 %), and 87 % of it without the wait for data" in found.why[0]
    assert "without the wait" not in diagnose(replace(NOTHING, shares=shares(0.9), explained_wait=0.25)).why[0]


def test_cores_that_the_jobs_own_processes_take_hold_it_up_again(tmp_path: Path) -> None:
    process = made.rank(workers=1, queue=0.0, seconds={**made.SECONDS, "N": 0.040})
    process.train("N f B Oadam")
    start, end = process.clock - 2.0, process.clock
    worker = made.worker(process)
    for busy, other, kind in ((0.10, 0.05, "data"), (1.0, 0.95, "compute")):
        samples = [
            SystemSample(
                clock=clock,
                cores_busy=[busy],
                processes=[ProcessSample(pid=worker.pid, cpu_s=0.05 * clock, rss_bytes=1, core_wait_s=0.6 * clock)],
            )
            for clock in (start, (start + end) / 2, end)
        ]
        run, _ = analyse(made.write(tmp_path / kind, process, worker, system=samples))
        assert run.cpu.other_work_cores == pytest.approx(other)
        assert run.bottleneck.kind == kind, run.bottleneck.why


def test_a_wait_for_a_core_that_no_other_work_had_is_told_as_the_jobs_own() -> None:
    found = diagnose(replace(NOTHING, shares=shares(0.9), core_wait_share=0.31, other_work=0.02))
    assert any("31 % of the time, which the job's own processes and threads had" in why for why in found.why)
    assert MEASURE_AGAIN not in found.next


def test_without_a_loader_operators_that_a_backward_pass_went_through_are_the_forward_pass() -> None:
    parts = shares(0.0).model_copy(update={"data_wait": None, "forward": None, "backward": 0.5, "optimizer": 0.03})
    parts = parts.model_copy(update={"other": 0.47})
    assert diagnose(replace(NOTHING, shares=parts)).kind == "insufficient"
    assert diagnose(replace(NOTHING, shares=parts, graph_per_backward=0.4)).kind == "insufficient"
    found = diagnose(replace(NOTHING, shares=parts, graph_per_backward=0.8))
    assert (found.kind, found.why) == (
        "compute",
        ["forward as far as the profiled steps show it, backward and optimizer: 93 % of the step (threshold 85 %)"],
    )
    # What has another name is no forward pass, however the profiler stretched it.
    assert diagnose(replace(NOTHING, shares=parts, graph_per_backward=2.0)).score == pytest.approx(1.0)


def test_a_thread_that_waits_for_its_core_with_a_batch_at_hand_does_not_wait_for_data(tmp_path: Path) -> None:
    process = made.rank(workers=1, queue=1.0, seconds={**made.SECONDS, "N": 0.040})
    process.phase(records.CLEAN)
    waited = 0.0
    for _ in range(41):
        process.record(records.CORE_WAIT, process.clock, value=waited)
        process.step("N")
        waited += 0.039
        process.record(records.CORE_WAIT, process.clock, value=waited)
        process.step("f B Oadam")
    assert analyse(made.write(tmp_path, process))[0].bottleneck.kind == "compute"


def test_work_between_a_batch_and_its_backward_pass_that_is_not_the_models_is_no_good_state() -> None:
    parts = shares(0.99).model_copy(update={"forward": 0.96, "backward": 0.02, "optimizer": 0.01})
    found = diagnose(replace(NOTHING, shares=parts, traced_forward_share=0.03))
    assert found.kind == "balanced"
    assert any("forward: 96 % of the step, but at most 3 % of the profiled steps" in why for why in found.why)
    for seen in (0.8, None):
        assert diagnose(replace(NOTHING, shares=parts, traced_forward_share=seen)).kind == "compute"


@pytest.mark.parametrize(("seen", "kind"), [(0.20, "balanced"), (0.30, "compute")])
def test_other_work_that_takes_less_than_the_backward_pass_is_no_good_state_either(seen: float, kind: str) -> None:
    parts = shares(0.99).model_copy(update={"forward": 0.48, "backward": 0.50, "optimizer": 0.01})
    assert diagnose(replace(NOTHING, shares=parts, traced_forward_share=seen)).kind == kind


def test_other_work_that_leaves_the_model_enough_changes_nothing() -> None:
    parts = shares(0.99).model_copy(update={"forward": 0.12, "backward": 0.86, "optimizer": 0.01})
    assert diagnose(replace(NOTHING, shares=parts, traced_forward_share=0.01)).kind == "compute"


def test_a_share_about_its_threshold_is_told_once() -> None:
    found = diagnose(replace(NOTHING, shares=shares(0.87), intervals={"model": (0.80, 0.94)}))
    assert found.kind == "compute"
    (why,) = found.why
    assert "between 80 % and 94 %" in why and "about the threshold of 85 %" in why


def test_steps_that_differ_leave_the_bottleneck_open(tmp_path: Path) -> None:
    process = made.rank()
    process.phase(records.CLEAN)
    for index in range(31):
        process.seconds = {**made.SECONDS, "N": 0.040 if index % 3 == 0 else 0.004}
        process.step("N f B Oadam")
    run, _ = analyse(made.write(tmp_path, process))
    low, high = run.share_intervals["data_wait"]
    assert low < 0.20 < (run.shares.data_wait or 0.0) < high
    assert run.bottleneck.kind == "balanced"


def test_advice_goes_from_data_to_compute_to_communication_and_ends_with_measuring_again() -> None:
    kernels = device(0.5, nccl_exposed_share=0.3, memcpy_share=0.25)
    loader = TrainingLoader("DataLoader", 0, 0.3)
    parts = shares(0.2, data_wait=0.3, sync_wait=0.2)
    found = diagnose(replace(NOTHING, accelerator=True, kernels=kernels, shares=parts, loader=loader))
    order = ["workers", "every so many steps", "Pin", "no_sync", "measure again"]
    places = [next(i for i, advice in enumerate(found.next) if word in advice) for word in order]
    assert places == sorted(places)
    assert "4 to 5 here" in found.next[0]


# ------------------------------------------------------------------------------------------------ from recordings


def bottleneck(tmp_path: Path, words: str, **seconds: float) -> str:
    process = made.rank()
    process.train(words, **seconds)
    return analyse(made.write(tmp_path, process))[0].bottleneck.kind


def test_recordings_of_the_cpu(tmp_path: Path) -> None:
    assert bottleneck(tmp_path / "data", "N f B Oadam", N=0.2) == "data"
    assert bottleneck(tmp_path / "compute", "N f B Oadam", N=0.001) == "compute"
    assert bottleneck(tmp_path / "balanced", "N f B . . . . Oadam") == "balanced"


def printing(tmp_path: Path, seconds: float) -> str:
    process = made.rank()
    process.phase(records.CLEAN)
    for _ in range(11):
        process.step("N f B Oadam")
        process.call("print", 20, seconds)
    return analyse(made.write(tmp_path, process))[0].bottleneck.kind


def test_printing(tmp_path: Path) -> None:
    assert printing(tmp_path / "much", 0.02) == "sync"
    assert printing(tmp_path / "little", 0.0001) == "compute"


@pytest.mark.parametrize(("empty", "ready"), [(0.0, True), (0.03, True), (0.6, False), (None, False)])
def test_batches_that_stand_ready_need_not_be_prepared_earlier(empty: float | None, ready: bool) -> None:
    loader = TrainingLoader("DataLoader", 2, 0.3, queue_empty_share=empty)
    worked = line_cost(Line(Path("/project/train.py"), 9), "stack", 0.04, 0.1, Source.STACKS, in_workers=True)
    lines = (worked.model_copy(update={"what": "data"}),)
    found = diagnose(replace(NOTHING, shares=shares(0.6, data_wait=0.3), loader=loader, lines=lines))
    advice = "\n".join(found.next)
    assert found.kind == "data"
    assert ("Do the work per item once" in advice, "Look at" in advice) == (not ready, not ready)
    assert ("waits for the hand-over of a batch" in advice) is ready


def test_a_line_to_look_at_costs_no_more_than_the_exact_wait_and_shows_its_interval() -> None:
    def told(milliseconds: float, interval: tuple[float, float] | None) -> str:
        line = line_cost(
            Line(Path("/project/train.py"), 70), "data", milliseconds, 0.03, Source.STACKS, interval=interval
        )
        return diagnose(replace(NOTHING, shares=shares(0.7, data_wait=0.24), lines=(line,))).next[0]

    assert told(0.00955, (0.006, 0.013)) == "Look at /project/train.py:70, which takes the wait for data"
    assert told(0.005, (0.003, 0.007)) == "Look at /project/train.py:70: between 3 and 7 ms per step"
    assert told(0.005, None) == "Look at /project/train.py:70: 5 ms per step"


def test_without_a_loader_nothing_is_said_of_the_supply_of_data_and_the_model(tmp_path: Path) -> None:
    """The job makes its batches itself, in time that no record covers: 0.237 s beside 0.276 s of the model."""
    process = made.rank()
    process.train("f f B Oadam", f=0.237 / 2 + 0.1, B=0.07, O=0.006)
    run, _ = analyse(made.write(tmp_path, process))
    assert (run.shares.data_wait, run.shares.forward) == (None, None)
    assert run.bottleneck.kind == "insufficient"
    assert run.bottleneck.why == [
        "neither the wait for data nor the forward pass could be measured: 85 % of the step is not known to be one or "
        "the other"
    ]
    assert not any("suppl" in line for line in run.bottleneck.next)


def test_what_takes_the_most_is_named_where_the_step_computes(tmp_path: Path) -> None:
    found = diagnose(replace(NOTHING, shares=shares(0.95, data_wait=0.01), lines=(SLOWEST,)))
    assert found.kind == "compute"
    assert found.next[0] == "Look at /project/train.py:30: 300 ms per step"


SLOWEST = line_cost(Line(Path("/project/train.py"), 30), "stack", 0.3, 0.32, Source.STACKS)
