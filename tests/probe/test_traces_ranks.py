"""What traces of several ranks show together, and how often ranks reduce gradients."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.probe.kineto_traces import GpuTrace

from trainlint.probe.traces import RankTrace, TraceAnalysis, analyse

STEPS, BUCKETS = 4, 3


def data_parallel_step(trace: GpuTrace, micro_batches: int, reducing: int, own_us: float = 0.0) -> None:
    """A step that accumulates over micro-batches, of which the last `reducing` reduce their gradients."""
    with trace.step():
        trace.work(own_us)
        for number in range(micro_batches):
            with trace.forward():
                trace.kernel(100.0)
            with trace.backward():
                trace.kernel(200.0)
                for _ in range(BUCKETS if number >= micro_batches - reducing else 0):
                    trace.all_reduce(50.0)
        trace.wait_for_communication()
        with trace.annotation("Optimizer.step#AdamW.step"):
            trace.kernel(30.0)
        trace.synchronize("cudaDeviceSynchronize")


def job(folder: Path, own_us: Sequence[float] = (0.0, 0.0), micro_batches: int = 1, reducing: int = 1) -> TraceAnalysis:
    """The analysis of a job with a rank for each of `own_us`."""
    paths = []
    for rank, us in enumerate(own_us):
        trace = GpuTrace(rank, len(own_us))
        for _ in range(STEPS):
            data_parallel_step(trace, micro_batches, reducing, us)
        paths.append(trace.write(folder / f"{rank}.json.gz"))
    return analyse(paths[::-1])


def first_rank(analysis: TraceAnalysis) -> RankTrace:
    return analysis.ranks[0]


def test_ranks_are_ordered_by_their_own_numbers(tmp_path: Path) -> None:
    analysis = job(tmp_path, [0.0, 0.0, 0.0])
    assert [rank.rank for rank in analysis.ranks] == [0, 1, 2]
    assert analysis.world_size == 3
    assert analysis.has_device


def test_a_straggler_has_longer_steps(tmp_path: Path) -> None:
    fast, slow = (rank.steps.median_s for rank in job(tmp_path, [0.0, 2000.0]).ranks)
    assert fast is not None and slow is not None
    assert slow - fast == pytest.approx(2000e-6, rel=0.01)


@pytest.mark.parametrize(
    ("micro_batches", "reducing", "rounds"), [(1, 1, 1.0), (4, 4, 4.0), (4, 1, 1.0), (3, 2, 2.0), (2, 0, 0.0)]
)
def test_backward_passes_that_reduce_are_counted_for_each_update(
    micro_batches: int, reducing: int, rounds: float, tmp_path: Path
) -> None:
    rank = first_rank(job(tmp_path, micro_batches=micro_batches, reducing=reducing))
    assert rank.updates == STEPS
    assert rank.reductions_per_update == rounds


def test_backward_passes_are_told_apart_without_the_wrappers_annotation(tmp_path: Path) -> None:
    trace = GpuTrace(0, 2)
    for _ in range(STEPS):
        data_parallel_step(trace, micro_batches=2, reducing=2)
    trace.events = [event for event in trace.events if event["name"] != "DistributedDataParallel.forward"]
    rank = first_rank(analyse([trace.write(tmp_path / "trace.json")]))
    assert rank.reductions_per_update == 2.0


def test_a_run_on_one_rank_reduces_nothing(tmp_path: Path) -> None:
    trace = GpuTrace(0, 1)
    for _ in range(STEPS):
        data_parallel_step(trace, micro_batches=1, reducing=0)
    rank = first_rank(analyse([trace.write(tmp_path / "trace.json")]))
    assert rank.reductions_per_update is None


def test_reductions_are_known_by_their_operators_where_the_backend_annotates_nothing(tmp_path: Path) -> None:
    trace = GpuTrace(0, 2)
    for _ in range(STEPS):
        data_parallel_step(trace, micro_batches=2, reducing=1)
        with trace.operator("c10d::barrier"):
            trace.work(10.0)
    trace.events = [event for event in trace.events if event["name"] != "nccl:all_reduce"]
    rank = first_rank(analyse([trace.write(tmp_path / "trace.json")]))
    assert rank.reductions_per_update == 1.0


def test_parts_of_the_host_s_step_are_timed(tmp_path: Path) -> None:
    parts = first_rank(job(tmp_path, micro_batches=2)).parts
    assert parts.data_wait_s is None
    assert parts.forward_s and parts.backward_s and parts.optimizer_s
    assert parts.backward_s > parts.forward_s
