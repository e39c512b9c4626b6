"""The parts of a step add up, and each moment of it counts once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import made_recordings as made
import pytest
from made_recordings import MadeProcess

from trainlint.agent import records
from trainlint.probe.analysis import analyse
from trainlint.probe.measured import Shares

GPU = [{"index": 0, "name": "GPU", "uuid": "GPU-0", "memory_bytes": 1 << 34}]


@dataclass(frozen=True)
class Case:
    behaviour: str
    seconds: dict[str, float]
    """Seconds of each part of a step; parts that are missing take none."""
    words: str = ""
    unknown: tuple[str, ...] = field(default=())


def shares(tmp_path: Path, process: MadeProcess) -> Shares:
    return analyse(made.write(tmp_path, process))[0].shares


CASES = (
    Case(
        "each part by its own record, the forward pass by what follows",
        {"data_wait": 0.010, "forward": 0.020, "backward": 0.030, "optimizer": 0.008, "other": 0.002},
        "N f B . Oadam",
    ),
    Case(
        "two micro-batches have two forward passes",
        {"data_wait": 0.020, "forward": 0.040, "backward": 0.060, "optimizer": 0.008},
        "N f B N f B Oadam",
    ),
    Case(
        "time before a batch is no forward pass",
        {"data_wait": 0.010, "forward": 0.020, "backward": 0.030, "optimizer": 0.008, "other": 0.004},
        ". . N f B Oadam",
    ),
    Case(
        "a closure's passes count for themselves, not for the optimizer that calls it",
        {"data_wait": 0.010, "forward": 0.040, "backward": 0.060, "optimizer": 0.002},
        "N [ f B f B . ]adam",
    ),
    Case(
        "optimizers that step in the backward pass",
        {"data_wait": 0.010, "backward": 0.020, "forward": 0.020, "optimizer": 0.016},
        "N f { f Oa Ob }",
    ),
    Case(
        "without a loader the wait for data is not known, nor the forward pass from the making of a batch",
        {"other": 0.020, "backward": 0.030, "optimizer": 0.008},
        "f B Oadam",
        ("data_wait", "forward"),
    ),
    Case(
        "a hand-written update is among the rest",
        {"data_wait": 0.010, "forward": 0.020, "backward": 0.030, "other": 0.004},
        "N f B . .",
        ("optimizer",),
    ),
    Case(
        "without a backward pass there is no telling the forward pass",
        {"data_wait": 0.010, "optimizer": 0.008, "other": 0.020},
        "N f Oadam",
        ("forward", "backward"),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.behaviour)
def test_shares(case: Case, tmp_path: Path) -> None:
    process = made.rank()
    process.train(case.words)
    found = shares(tmp_path, process)
    step = sum(case.seconds.values())
    expected = {name: case.seconds.get(name, 0.0) / step for name in Shares.model_fields}
    expected |= dict.fromkeys(case.unknown)  # type: ignore[arg-type]
    assert found.model_dump() == pytest.approx(expected)
    assert sum(share for _, share in found if share is not None) == pytest.approx(1.0)


def test_a_wait_for_a_thread_that_takes_the_batches_is_no_forward_pass(tmp_path: Path) -> None:
    process = made.rank()
    process.phase(records.CLEAN)
    for _ in range(31):
        process.record(records.BATCH, process.clock, 0.020, name=made.LOADER, flags=records.GRADIENTS, thread=1)
        process.step("f B Oadam")
    run, _ = analyse(made.write(tmp_path, process))
    assert (run.shares.data_wait, run.shares.forward) == (None, None)
    assert run.shares.backward == pytest.approx(0.030 / 0.058)
    assert "another thread takes the batches" in run.environment.missing["shares.data_wait"]
    assert "thread that takes the batches" in run.environment.missing["shares.forward"]
    assert run.bottleneck.kind == "insufficient"


def test_a_stall_within_a_pass_counts_as_a_stall_and_one_within_a_wait_for_data_as_the_wait(tmp_path: Path) -> None:
    process = made.rank()
    process.phase(records.CLEAN)
    for _ in range(11):
        start = process.clock
        process.call("print", 9, 0.004)
        process.clock += 0.006
        process.record(records.BATCH, start, 0.010, name=made.LOADER, value=-1, flags=records.GRADIENTS)
        process.clock += 0.020
        start = process.clock
        process.clock += 0.010
        process.spend(records.COLLECTION, 0.005, value=2)
        process.clock += 0.015
        process.record(records.BACKWARD, start, 0.030)
        start = process.clock
        process.spend(records.SYNC, 0.001, name=f"{made.TRAIN}:20")
        process.clock += 0.001
        process.record(records.CALL, start, 0.002, name=f"print {made.TRAIN}:20")
        process.step("Oadam")
    found = shares(tmp_path, process)
    seconds = {"data_wait": 0.010, "forward": 0.020, "backward": 0.025, "optimizer": 0.008, "sync_wait": 0.007}
    step = sum(seconds.values())
    expected = {name: seconds.get(name, 0.0) / step for name in Shares.model_fields}
    assert found.model_dump() == pytest.approx(expected, abs=1e-9)


def reading_values(devices: list[dict[str, object]]) -> MadeProcess:
    process = made.rank()
    process.note("torch", version="2.13.0", cuda="12.8" if devices else None, devices=devices)
    process.phase(records.CLEAN)
    for _ in range(11):
        process.step("N f B Oadam")
        process.spend(records.SYNC, 0.032, name=f"{made.TRAIN}:20")
    return process


def test_reading_a_value_stalls_only_where_there_is_an_accelerator(tmp_path: Path) -> None:
    on_cpu = shares(tmp_path / "cpu", reading_values([]))
    assert (on_cpu.sync_wait, on_cpu.other) == (pytest.approx(0.0), pytest.approx(0.32))
    on_gpu = shares(tmp_path / "gpu", reading_values(list(GPU)))
    assert (on_gpu.sync_wait, on_gpu.other) == (pytest.approx(0.32), pytest.approx(0.0))
    assert on_gpu.host_to_device is None


def test_irregular_steps_do_not_count(tmp_path: Path) -> None:
    process = made.rank()
    plain, turns = "N f B Oadam", "n1 n n n n n n N1 f B Oadam"
    process.train([plain, plain, plain, turns])
    found = shares(tmp_path, process)
    assert found.data_wait == pytest.approx(0.010 / 0.068)
