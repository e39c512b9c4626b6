"""What a trace shows of the device's work, on traces whose truth is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.probe.kineto_traces import LAUNCH_US, GpuTrace

from trainlint.probe.traces import RankTrace, analyse
from trainlint.probe.traces.trace_analysis import DeviceUse, Direction, HostMemory, StepSource

STEPS, KERNELS = 5, 40


def analysed(trace: GpuTrace, folder: Path) -> RankTrace:
    (rank,) = analyse([trace.write(folder / "trace.json.gz")]).ranks
    return rank


def use_of(trace: GpuTrace, folder: Path) -> DeviceUse:
    use = analysed(trace, folder).main
    assert use is not None
    return use


def steps(body: Callable[[GpuTrace], None], world_size: int = 1, device: int = 0) -> GpuTrace:
    """A job of equal steps, each of which ends when the device is through."""
    trace = GpuTrace(world_size=world_size, device=device)
    for _ in range(STEPS):
        with trace.step():
            body(trace)
            trace.synchronize()
    return trace


def kernels(us: float, work_us: float = 0.0) -> Callable[[GpuTrace], None]:
    def body(trace: GpuTrace) -> None:
        for _ in range(KERNELS):
            trace.work(work_us)
            with trace.operator("aten::mul"):
                trace.kernel(us)

    return body


def test_a_launch_bound_job_leaves_the_device_idle_between_small_kernels(tmp_path: Path) -> None:
    use = use_of(steps(kernels(3.0, work_us=20.0)), tmp_path)
    assert use.kernels == STEPS * KERNELS
    assert use.kernel_median_us == pytest.approx(3.0)
    # A kernel of 3 us for every 20 us of other work, 4 us of launching and 1 us of the operator around it.
    assert use.share(use.busy_s) == pytest.approx(3 / (20 + LAUNCH_US + 1), rel=0.05)


def test_a_compute_bound_job_keeps_the_device_busy(tmp_path: Path) -> None:
    use = use_of(steps(kernels(100.0)), tmp_path)
    assert use.share(use.busy_s) > 0.97
    assert use.kernel_median_us == pytest.approx(100.0)


def communicating(compute_us: float) -> Callable[[GpuTrace], None]:
    """Reduce for 400 us after the first kernel of a step, beside other kernels of `compute_us` together."""

    def body(trace: GpuTrace) -> None:
        trace.kernel(100.0)
        trace.all_reduce(400.0)
        trace.kernel(compute_us)
        trace.wait_for_communication()
        trace.kernel(100.0)

    return body


@pytest.mark.parametrize(
    ("compute_us", "exposed_us"), [(600.0, 0.0), (300.0, 100.0), (10.0, 390.0)], ids=["hidden", "in part", "exposed"]
)
def test_communication_is_exposed_where_nothing_computes(compute_us: float, exposed_us: float, tmp_path: Path) -> None:
    use = use_of(steps(communicating(compute_us), world_size=8), tmp_path)
    assert use.communication_s == pytest.approx(STEPS * 400e-6, rel=1e-6)
    assert use.communication_exposed_s == pytest.approx(STEPS * exposed_us * 1e-6, abs=STEPS * 15e-6)
    assert use.kernels == STEPS * 3, "kernels that communicate are not counted with those that compute"


def test_a_transfer_bound_job_shows_copies_by_kind(tmp_path: Path) -> None:
    def body(trace: GpuTrace) -> None:
        trace.copy_to_device(300.0, size=3_000_000)
        trace.copy_to_device(100.0, size=1_000_000, memory="Pinned", blocks=False)
        trace.kernel(100.0)

    rank = analysed(steps(body), tmp_path)
    use = rank.main
    assert use is not None
    assert use.share(use.transfer_s) == pytest.approx(400 / 500, rel=0.06)
    pageable, pinned = rank.copies
    assert (pageable.direction, pageable.host_memory) == (Direction.TO_DEVICE, HostMemory.PAGEABLE)
    assert pageable.count == STEPS
    assert pageable.seconds == pytest.approx(STEPS * 300e-6)
    assert (pinned.host_memory, pinned.count) == (HostMemory.PINNED, STEPS)


def test_work_of_several_streams_counts_once(tmp_path: Path) -> None:
    use = use_of(steps(communicating(600.0), world_size=8), tmp_path)
    assert use.busy_s == pytest.approx(STEPS * 800e-6, rel=0.01)


def test_work_outside_the_traced_steps_is_left_out(tmp_path: Path) -> None:
    trace = steps(kernels(10.0))
    for _ in range(100):
        trace.kernel(500.0)
    use = use_of(trace, tmp_path)
    assert use.kernels == STEPS * KERNELS
    assert use.busy_s <= use.span_s


def test_fills_are_counted(tmp_path: Path) -> None:
    rank = analysed(steps(lambda trace: trace.fill(50.0)), tmp_path)
    (fills,) = rank.fills
    assert fills.count == STEPS
    assert fills.seconds == pytest.approx(STEPS * 50e-6)
    assert rank.main is not None and rank.main.busy_s == pytest.approx(STEPS * 50e-6)


def test_a_device_is_known_by_its_own_number(tmp_path: Path) -> None:
    use = use_of(steps(kernels(10.0), device=3), tmp_path)
    assert (use.index, use.name) == (3, "NVIDIA H100 80GB HBM3")


@pytest.mark.parametrize(
    ("kernel", "runtime"),
    [("kernel", "xpu_runtime"), ("mtia_ccp_events", "mtia_runtime"), ("kernel", "privateuse1_runtime")],
)
def test_other_accelerators_count_like_cuda(kernel: str, runtime: str, tmp_path: Path) -> None:
    trace = steps(kernels(100.0))
    for event in trace.events:
        event["cat"] = {"kernel": kernel, "cuda_runtime": runtime}.get(event["cat"], event["cat"])
    rank = analysed(trace, tmp_path)
    assert rank.main is not None
    assert rank.main.kernels == STEPS * KERNELS
    assert sum(wait.count for wait in rank.waits) == STEPS


def test_steps_are_the_profilers(tmp_path: Path) -> None:
    found = analysed(steps(kernels(100.0)), tmp_path).steps
    assert (found.source, found.count) == (StepSource.PROFILER, STEPS)
    assert found.median_s == pytest.approx(KERNELS * 100e-6, rel=0.02)


def test_without_marks_steps_are_the_rarest_optimizers(tmp_path: Path) -> None:
    trace = GpuTrace()
    for _ in range(6):
        for _ in range(3):
            trace.kernel(50.0)
            with trace.annotation("Optimizer.step#Adam.step"):
                trace.work(10.0)
        with trace.annotation("Optimizer.step#SGD.step"):
            trace.work(10.0)
    rank = analysed(trace, tmp_path)
    assert (rank.steps.source, rank.steps.count) == (StepSource.OPTIMIZER, 5)
    assert rank.main is not None and rank.main.kernels == 5 * 3, "the device was steps behind the host"


def test_without_any_mark_the_trace_is_one_piece_and_steps_are_unknown(tmp_path: Path) -> None:
    trace = GpuTrace()
    for _ in range(10):
        trace.kernel(100.0)
    trace.synchronize()
    rank = analysed(trace, tmp_path)
    assert (rank.steps.source, rank.steps.count, rank.steps.median_s) == (StepSource.UNKNOWN, 0, None)
    assert rank.per_step(1.0) is None
    assert rank.main is not None and rank.main.kernels == 10
