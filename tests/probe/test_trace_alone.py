"""What traces that somebody recorded lead to, without a run that anybody watched: figures, evidence, a bottleneck."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.probe.kineto_traces import GpuTrace

from trainlint.probe.analysis import analyse_traces
from trainlint.probe.evidence import Line
from trainlint.probe.measured import Measured
from trainlint.probe.traces import UnusableTraceError
from trainlint.report.probe_facts import kernel_facts
from trainlint.report.probe_result import ProbeResult
from trainlint.report.view import View

STEPS = 3
SCRIPT = "def report(loss):\n    return loss.item()\n"


def launch_bound(trace: GpuTrace) -> None:
    for _ in range(100):
        trace.work(20.0)
        trace.kernel(3.0)


def compute_bound(trace: GpuTrace) -> None:
    for _ in range(100):
        trace.kernel(200.0)


def communication_bound(trace: GpuTrace) -> None:
    trace.kernel(5000.0)
    trace.all_reduce(3000.0)
    trace.wait_for_communication()
    trace.kernel(5000.0)


def hidden_communication(trace: GpuTrace) -> None:
    trace.kernel(3000.0)
    trace.all_reduce(3000.0)
    trace.kernel(7000.0)


def transfer_bound(trace: GpuTrace) -> None:
    trace.copy_to_device(4000.0)
    trace.kernel(6000.0)


def cloning(trace: GpuTrace) -> None:
    trace.copy_on_device(4000.0)
    trace.kernel(6000.0)


def sync_bound(trace: GpuTrace) -> None:
    """The device idles after each read, while the host goes on to the next one."""
    for _ in range(10):
        trace.kernel(500.0)
        with trace.function("train.py", 1, "report"):
            trace.item()
        trace.work(500.0)


def data_bound(trace: GpuTrace) -> None:
    with trace.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
        trace.work(5000.0)
    trace.kernel(5000.0)
    trace.synchronize()


def measured(folder: Path, body: Callable[[GpuTrace], None], steps: int = STEPS, ranks: int = 1) -> Measured:
    paths = []
    for rank in range(ranks):
        trace = GpuTrace(rank, max(ranks, 2))
        for _ in range(steps):
            with trace.step():
                body(trace)
                if body is not data_bound:
                    trace.wait_for_communication()
                    trace.work(trace.free[7] - trace.now)
        paths.append(trace.write(folder / f"{rank}.json"))
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    result, _ = analyse_traces(paths, [folder], ["trainlint", "probe", "--trace"])
    return result


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (launch_bound, "launch"),
        (compute_bound, "compute"),
        (communication_bound, "communication"),
        (hidden_communication, "compute"),
        (transfer_bound, "transfer"),
        (cloning, "compute"),
        (sync_bound, "sync"),
        (data_bound, "data"),
    ],
)
def test_the_bottleneck_is_the_planted_one(body: Callable[[GpuTrace], None], kind: str, tmp_path: Path) -> None:
    bottleneck = measured(tmp_path, body).bottleneck
    assert bottleneck.kind == kind, bottleneck
    assert bottleneck.why and bottleneck.next


@pytest.mark.parametrize("body", [launch_bound, communication_bound, transfer_bound, sync_bound, data_bound])
def test_shares_add_up(body: Callable[[GpuTrace], None], tmp_path: Path) -> None:
    shares = measured(tmp_path, body).shares
    assert sum(share for _, share in shares if share is not None) == pytest.approx(1.0)
    assert all(share is None or 0 <= share <= 1 for _, share in shares)


def test_copies_within_the_device_are_no_transfers(tmp_path: Path) -> None:
    kernels = measured(tmp_path, cloning).kernels
    assert kernels is not None
    assert (kernels.memcpy_share, kernels.busy_share) == (0.0, pytest.approx(1.0, abs=0.01))


def test_what_a_trace_cannot_tell_is_named(tmp_path: Path) -> None:
    result = measured(tmp_path, compute_bound)
    assert {"gpu", "cpu", "loader", "stacks", "steps.samples_per_s"} <= result.environment.missing.keys()
    assert result.environment.sources == ["kineto"]
    assert (result.gpu, result.cpu.util_mean, result.loader, result.steps.mfu) == ([], None, None, None)
    assert "print" in result.environment.missing["shares.sync_wait"]


def test_devices_ranks_and_steps_are_told(tmp_path: Path) -> None:
    result = measured(tmp_path, compute_bound, ranks=2)
    assert [gpu.name for gpu in result.environment.gpus] == ["NVIDIA H100 80GB HBM3"]
    assert result.environment.world_size == 2
    assert [rank.rank for rank in result.ranks] == [0, 1]
    assert (result.steps.measured, result.steps.warmup) == (STEPS, 0)
    assert result.steps.median_s == pytest.approx(100 * 200e-6, rel=0.01)
    assert result.kernels is not None and result.kernels.count_per_step == 100


def test_two_traces_of_a_rank_are_one_rank_whose_times_are_those_without_stacks(tmp_path: Path) -> None:
    paths = []
    for name, stacks, work in (("plain", False, 1000.0), ("with-stacks", True, 3000.0)):
        trace = GpuTrace(0, 1, stacks=stacks)
        for _ in range(STEPS):
            with trace.step(), trace.function("train.py", 1, "report"):
                trace.kernel(500.0)
                trace.item()
                trace.work(work)
        paths.append(trace.write(tmp_path / f"{name}.json"))
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    result, evidence = analyse_traces(paths, [tmp_path], [])
    assert (result.environment.world_size, [rank.rank for rank in result.ranks]) == (1, [0])
    assert len(evidence.ranks) == 1
    assert result.steps.median_s == pytest.approx(1500e-6, rel=0.05)
    assert evidence.syncs.keys() == {Line(tmp_path / "train.py", 2)}


def test_lines_that_wait_are_evidence_and_costs(tmp_path: Path) -> None:
    result = measured(tmp_path, sync_bound)
    cost = result.lines[0]
    assert (cost.filename, cost.row, cost.what, cost.source) == (str(tmp_path / "train.py"), 2, "sync", "kineto")
    assert cost.calls_per_step == 10
    assert cost.share is not None and cost.share > 0.3
    _, evidence = analyse_traces([tmp_path / "0.json"], [tmp_path], [])
    assert evidence.accelerator
    assert evidence.syncs[Line(tmp_path / "train.py", 2)].calls_per_step == 10


def test_one_step_is_not_enough_for_a_diagnosis(tmp_path: Path) -> None:
    bottleneck = measured(tmp_path, compute_bound, steps=1).bottleneck
    assert bottleneck.kind == "insufficient"
    assert "1 regular step was timed (2 steps are needed)" in bottleneck.why[0]


def test_a_trace_without_steps_says_how_to_mark_them(tmp_path: Path) -> None:
    trace = GpuTrace()
    compute_bound(trace)
    result, evidence = analyse_traces([trace.write(tmp_path / "trace.json")], [], [])
    assert result.bottleneck.kind == "insufficient"
    assert "profiler.step()" in result.bottleneck.why[0]
    assert result.environment.missing["steps"] == result.bottleneck.why[0]
    assert (result.steps.measured, result.steps.median_s, evidence.step_s) == (0, None, 0.0)
    assert result.shares.data_wait is None
    assert result.kernels is not None and result.kernels.count_per_step is None
    assert next(kernel_facts(ProbeResult.of(result, [], [], View(tmp_path)))).figure == "median 200 us"


def test_files_that_are_no_traces_are_refused_or_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{", encoding="utf-8")
    with pytest.raises(UnusableTraceError, match=r"broken\.json is cut off"):
        analyse_traces([broken], [], [])
    trace = GpuTrace()
    for _ in range(STEPS):
        with trace.step():
            compute_bound(trace)
    result, _ = analyse_traces([broken, trace.write(tmp_path / "good.json")], [], [])
    assert "broken.json is cut off" in result.environment.missing["kineto"]
