"""Which lines of the job's code a trace blames for waits, copies and fills, on traces whose truth is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.probe.kineto_traces import GpuTrace

from trainlint.probe.evidence import Line
from trainlint.probe.traces import RankTrace, analyse, line_evidence
from trainlint.probe.traces.trace_analysis import Direction, HostMemory

STEPS = 4
SOURCE = """\
import torch


def report(loss, accuracy):
    value = loss.item()
    print(value)


def validate(loss, accuracy):
    first = loss.item()
    second = accuracy.item()
    return first, second


def move(batch):
    return batch.to("cuda")


def check(loss):
    if loss > 3:
        raise ValueError
    return float(loss)


def twice(losses):
    for loss in losses:
        loss.item()
    losses[0].item()


def train(loader, model):
    for batch in loader:
        loss = model(batch)
        loss.item()


train([], None)
"""


def row_of(text: str, occurrence: int = 0) -> int:
    rows = [number for number, line in enumerate(SOURCE.splitlines(), 1) if text in line]
    return rows[occurrence]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The folder of the job's script."""
    (tmp_path / "train.py").write_text(SOURCE, encoding="utf-8")
    return tmp_path


def traced(body: Callable[[GpuTrace], object], folder: Path, stacks: bool = True) -> RankTrace:
    """The analysis of equal steps that run within `train`, itself called by the script."""
    trace = GpuTrace(stacks=stacks)
    with (
        trace.function("train.py", row_of("train([]"), "<module>"),
        trace.function("train.py", row_of("loss = "), "train"),
    ):
        for _ in range(STEPS):
            with trace.step():
                body(trace)
    (rank,) = analyse([trace.write(folder / "trace.json")], [folder]).ranks
    return rank


def waits_by_row(rank: RankTrace) -> dict[int, float]:
    """Microseconds of waiting per step by the rows that are certain."""
    waits: dict[int, float] = {}
    for wait in rank.waits:
        if wait.site is not None and wait.site.exact:
            waits[wait.site.row] = waits.get(wait.site.row, 0.0) + wait.seconds * 1e6 / STEPS
    return waits


def test_a_wait_is_blamed_on_the_line_that_read_the_value(job: Path) -> None:
    waited = []

    def body(trace: GpuTrace) -> None:
        trace.kernel(500.0)
        with trace.function("train.py", row_of("def report"), "report"):
            waited.append(trace.item())

    rank = traced(body, job)
    assert waits_by_row(rank) == {row_of("loss.item()"): pytest.approx(sum(waited) / STEPS, rel=1e-3)}
    assert {wait.operation for wait in rank.waits} == {"aten::item"}
    assert {wait.call for wait in rank.waits} == {"cudaMemcpyAsync", "cudaStreamSynchronize"}


def test_waits_are_evidence_about_a_line_in_seconds_per_step(job: Path) -> None:
    def body(trace: GpuTrace) -> None:
        trace.kernel(500.0)
        with trace.function("train.py", row_of("def report"), "report"):
            trace.item()

    trace = job / "trace.json"
    traced(body, job)
    evidence = line_evidence(analyse([trace, trace], [job]).ranks)
    count = evidence.syncs[Line(job / "train.py", row_of("loss.item()"))]
    assert count.calls_per_step == 1.0, (
        "a read is one call, though it copies and synchronizes, and on two ranks as well"
    )
    assert count.wait_s_per_step == pytest.approx(500e-6, rel=0.05)


def test_two_reads_in_one_function_are_told_apart_by_their_order(job: Path) -> None:
    def body(trace: GpuTrace) -> None:
        with trace.function("train.py", row_of("def validate"), "validate"):
            trace.kernel(100.0)
            trace.item()
            trace.kernel(700.0)
            trace.item()

    waits = waits_by_row(traced(body, job))
    assert waits[row_of("first = ")] == pytest.approx(100, rel=0.2)
    assert waits[row_of("second = ")] == pytest.approx(700, rel=0.05)


def test_reads_that_order_does_not_tell_apart_stay_with_the_function(job: Path) -> None:
    def body(trace: GpuTrace) -> None:
        with trace.function("train.py", row_of("def twice"), "twice"):
            for _ in range(3):
                trace.item()
            trace.item()

    rank = traced(body, job)
    assert waits_by_row(rank) == {}
    assert {wait.site.function for wait in rank.waits if wait.site} == {"twice"}
    assert line_evidence(analyse([job / "trace.json"], [job]).ranks).syncs == {}


def test_a_function_that_ran_when_profiling_began_is_searched_as_well(job: Path) -> None:
    rank = traced(lambda trace: trace.item(), job)
    assert waits_by_row(rank).keys() == {row_of("loss.item()", -1)}


@pytest.mark.parametrize(
    ("operator", "text"), [("aten::is_nonzero", "if loss > 3"), ("aten::item", "return float(loss)")]
)
def test_reads_without_a_call_are_found_by_their_construct(operator: str, text: str, job: Path) -> None:
    def body(trace: GpuTrace) -> None:
        trace.kernel(300.0)
        with trace.function("train.py", row_of("def check"), "check"), trace.operator(operator):
            trace.copy_to_host(1.0)

    assert waits_by_row(traced(body, job)).keys() == {row_of(text)}


def test_code_of_libraries_is_not_blamed(job: Path) -> None:
    def body(trace: GpuTrace) -> None:
        trace.kernel(300.0)
        with (
            trace.function("train.py", row_of("def report"), "report"),
            trace.function("/venv/lib/python3.11/site-packages/metrics/mean.py", 7, "item"),
            trace.function("torch/_tensor.py", 1045, "__format__"),
        ):
            trace.item()

    assert waits_by_row(traced(body, job)).keys() == {row_of("loss.item()")}


def test_code_of_the_agent_is_not_blamed(job: Path) -> None:
    agent = job / "recording" / "agent"
    agent.mkdir(parents=True)
    (agent / "hooks.py").touch()
    trace = GpuTrace()
    with trace.function("train.py", row_of("def report"), "report"):
        for name in ("hooks.py", str(agent / "hooks.py")):
            with trace.step(), trace.function(name, 3, "item"):
                trace.item()
    (rank,) = analyse([trace.write(job / "trace.json")], [job], [agent]).ranks
    assert {wait.site.function for wait in rank.waits if wait.site} == {"report"}


def test_a_job_whose_source_is_elsewhere_is_blamed_by_function(tmp_path: Path) -> None:
    def body(trace: GpuTrace) -> None:
        with trace.function("project/report.py", 4, "report"):
            trace.item()

    (wait, *_) = traced(body, tmp_path).waits
    assert wait.site is not None
    assert (wait.site.path, wait.site.row, wait.site.function, wait.site.exact) == (
        Path("project/report.py"),
        4,
        "report",
        False,
    )


def test_without_stacks_a_wait_is_blamed_on_its_operator(job: Path) -> None:
    rank = traced(lambda trace: trace.item(), job, stacks=False)
    assert not rank.has_stacks
    assert {(wait.site, wait.operation) for wait in rank.waits} == {(None, "aten::item")}


@pytest.mark.parametrize("memory", ["Pageable", "Pinned"])
def test_copies_are_evidence_about_the_line_that_moves(memory: str, job: Path) -> None:
    def body(trace: GpuTrace) -> None:
        with trace.function("train.py", row_of("def move"), "move"):
            trace.copy_to_device(250.0, size=1000, memory=memory)

    rank = traced(body, job)
    (copies,) = rank.copies
    assert (copies.direction, copies.host_memory) == (Direction.TO_DEVICE, HostMemory(memory.lower()))
    assert copies.host_s > 0
    evidence = line_evidence(analyse([job / "trace.json"], [job]).ranks)
    found = evidence.copies[Line(job / "train.py", row_of("batch.to"))]
    assert (found.calls_per_step, found.pageable) == (1.0, memory == "Pageable")
    assert found.seconds_per_step == pytest.approx(250e-6, rel=1e-3)


def test_the_launch_of_a_graph_is_no_copy_though_it_starts_some(job: Path) -> None:
    def body(trace: GpuTrace) -> None:
        with trace.function("train.py", row_of("def move"), "move"), trace.function("torch/cuda/graphs.py", 88, "to"):
            trace.replay(copies=10, us=2.0)

    rank = traced(body, job)
    found = line_evidence([rank]).copies[Line(job / "train.py", row_of("batch.to"))]
    assert found.calls_per_step == 10
    assert found.seconds_per_step == pytest.approx(20e-6)
    assert rank.parts.copy_s == 0.0


def test_fills_are_evidence_about_the_line_that_zeroes(job: Path) -> None:
    def body(trace: GpuTrace) -> None:
        with (
            trace.function("train.py", row_of("def report"), "report"),
            trace.function("torch/optim/optimizer.py", 900, "item"),
        ):
            for _ in range(10):
                trace.fill(20.0)

    traced(body, job)
    found = line_evidence(analyse([job / "trace.json"], [job]).ranks).memsets[
        Line(job / "train.py", row_of("loss.item()"))
    ]
    assert found.calls_per_step == 10.0
    assert found.seconds_per_step == pytest.approx(200e-6, rel=1e-3)
