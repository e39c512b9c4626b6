"""Stacks by py-spy: what is made of its output, and what it sees of a real program."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainlint.agent import control, records
from trainlint.probe import machine, recording, sampling
from trainlint.probe.recording import Options, Recording
from trainlint.probe.sampling.pyspy import Frame, failure, parse
from trainlint.probe.sampling.stacks import waits
from trainlint.probe.sampling.targets import Target, chosen

UNNAMED = ("thread (7)", "", 0)
MAIN = ("thread (1): MainThread", "", 0)


def event(phase: str, clock_us: int, call: tuple[str, str, int], thread: int = 1) -> dict[str, object]:
    name, path, row = call
    return {"ph": phase, "ts": clock_us, "tid": thread, "name": name, "args": {"filename": path, "line": row}}


def test_a_stack_lasts_until_the_thread_has_another_one() -> None:
    main, a, b = ("main", "/t.py", 9), ("a", "/t.py", 2), ("b", "/t.py", 5)
    begun = [event("B", 100_000, call) for call in (MAIN, main, a)]
    changed = [event("E", 130_000, a), event("B", 130_000, b)]
    ended = [event("E", 200_000, call) for call in (b, main, MAIN)]
    first, second = parse([*begun, *changed, *ended])
    assert (first.start_s, first.duration_s, first.thread, first.last) == (
        0.1,
        pytest.approx(0.03),
        "MainThread",
        False,
    )
    assert first.frames == (Frame("/t.py", 2, "a"), Frame("/t.py", 9, "main"))
    assert (second.start_s, second.duration_s, second.last) == (0.13, pytest.approx(0.07), True)
    assert second.frames == (Frame("/t.py", 5, "b"), Frame("/t.py", 9, "main"))


def test_threads_are_kept_apart() -> None:
    other = ("thread (2): Thread-1 (pin)", "", 0)
    events = [event("B", 0, MAIN), event("B", 10, other, 2), event("B", 20, ("f", "/t.py", 1), 2), event("E", 50, MAIN)]
    assert [(held.thread, held.start_s * 1e6) for held in parse([*events, event("E", 50, other, 2)])] == [
        ("Thread-1 (pin)", 10),
        ("MainThread", 0),
        ("Thread-1 (pin)", 20),
    ]


@pytest.mark.parametrize(
    ("outermost", "pid", "name"), [("<module>", 1, "MainThread"), ("run", 7, "MainThread"), ("run", 1, "")]
)
def test_without_the_module_threading_a_thread_has_no_name(outermost: str, pid: int, name: str) -> None:
    call = (outermost, "/t.py", 1)
    events = [event("B", 0, UNNAMED), event("B", 0, call), event("E", 9, call), event("E", 9, UNNAMED)]
    assert [held.thread for held in parse([one | {"pid": pid} for one in events])] == [name]


FAILURES = {
    "Permission Denied: Try running again with elevated permissions by going 'sudo env !!'": "SYS_PTRACE",
    "Error: Failed to suspend process\nReason: Operation not permitted (os error 1)": "SYS_PTRACE",
    "Error: Failed to get process executable name. Check that the process is running.\n": "ended before",
    "Error: Failed to find python version from target process\n\nStack backtrace:\n   0: x": "no Python that it knows",
    "Error: Unsupported version of Python: 3.99.0\n": "a newer py-spy may know it",
    "Error: something else\n\nStack backtrace:\n   0: secret": "py-spy failed: something else",
    "": "it said nothing",
}


@pytest.mark.parametrize("said", FAILURES)
def test_what_py_spy_says_becomes_what_to_do(said: str) -> None:
    assert FAILURES[said] in failure(said)
    assert "\n" not in failure(said) and "backtrace" not in failure(said) and "secret" not in failure(said)


WAITS = {
    ("/usr/lib/python3.12/queue.py", "get"): True,
    ("/usr/lib/python3.12/multiprocessing/connection.py", "Connection._recv"): True,
    ("/usr/lib/python3.12/threading.py", "Condition.wait"): True,
    ("/usr/lib/python3.12/threading.py", "Thread.run"): False,
    ("/project/train.py", "wait"): False,
}


@pytest.mark.parametrize("call", WAITS)
def test_a_thread_that_waits_in_the_standard_library_is_idle(call: tuple[str, str]) -> None:
    path, function = call
    assert waits((Frame(path, 1, function), Frame("/project/train.py", 3, "main"))) is WAITS[call]


def ranks_and_workers(ranks: int, workers: int) -> list[Target]:
    found = [Target(rank, None, 100 * rank, f"rank {rank}") for rank in range(ranks)]
    return found + [
        Target(rank, worker, 100 * rank + worker + 1, f"worker {worker} of rank {rank}")
        for rank in range(ranks)
        for worker in range(workers)
    ]


CHOSEN = {
    "all of a few": ((2, 3), 2, 6),
    "one rank with many workers": ((1, 40), 1, 15),
    "many ranks without workers": ((64, 0), 16, 0),
    "half and half": ((32, 4), 8, 8),
    "more places for ranks where there are few workers": ((32, 0), 16, 0),
}


@pytest.mark.parametrize("case", CHOSEN)
def test_at_most_sixteen_are_looked_into_spread_over_ranks(case: str) -> None:
    (ranks, workers), ranks_taken, workers_taken = CHOSEN[case]
    taken = chosen(ranks_and_workers(ranks, workers))
    numbers = [target.rank for target in taken if target.worker is None]
    assert (len(numbers), len(taken) - len(numbers)) == (ranks_taken, workers_taken)
    if ranks > len(numbers):
        assert numbers == [place * ranks // len(numbers) for place in range(len(numbers))], "evenly"
    owners = [target.rank for target in taken if target.worker is not None]
    assert set(owners) <= set(numbers)
    assert max((owners.count(rank) for rank in owners), default=0) <= -(-workers_taken // len(numbers))


JOB = """
import json, sys, time

def compute(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass  # row 7

def main(truth):
    spent = {"compute": 0.0, "sleep": 0.0}
    print("ready", flush=True)
    until = time.perf_counter() + 30
    while time.perf_counter() < until:
        start = time.perf_counter()
        compute(0.03)  # row 15
        middle = time.perf_counter()
        time.sleep(0.12)  # row 17
        end = time.perf_counter()
        with open(truth, "a") as file:
            file.write(json.dumps([start, middle, end]) + "\\n")

main(sys.argv[1])
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A program that computes a fifth of the time, sleeps the rest, and notes the truth about it."""
    script = tmp_path / "job.py"
    script.write_text(JOB)
    with subprocess.Popen(
        [sys.executable, script, tmp_path / "truth"], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def read(folder: Path) -> Recording:
    recording.write_manifest(folder, machine.manifest("attach", [], folder, Options(), folder))
    return recording.read(folder)


def own_row(seen: Recording, stack: int, script: Path) -> int | None:
    """The row of the outermost call below `main`."""
    rows = [frame.row for frame in seen.stacks[stack] if frame.path == str(script) and frame.function == "main"]
    return rows[0] if rows else None


def test_samples_have_the_shares_and_the_times_that_the_program_measured(
    job: subprocess.Popen[str], tmp_path: Path
) -> None:
    samplers = sampling.start(tmp_path, job.pid, Options(), attached=True)
    time.sleep(5)
    missing = samplers.stop()
    assert "stacks" not in missing, missing
    seen = read(tmp_path)
    assert seen.broken == ()
    samples = [one for one in seen.stack_samples if one.thread == "MainThread"]
    first, last = samples[0].clock, samples[-1].clock + samples[-1].weight_s
    looked_at = sum(one.weight_s for one in samples)
    assert 0.85 < looked_at / (last - first) < 1.01, "all the time but where py-spy is started anew"
    truth = [json.loads(line) for line in (tmp_path / "truth").read_text().splitlines()]
    told = [times for times in truth if first <= times[0] and times[2] <= last]
    computed = sum(middle - start for start, middle, _ in told) / sum(end - start for start, _, end in told)
    rows = [(own_row(seen, one.stack, tmp_path / "job.py"), one) for one in samples]
    found = sum(one.weight_s for row, one in rows if row == 15) / looked_at
    spread = (2 * computed * (1 - computed) / len(samples)) ** 0.5
    assert found == pytest.approx(computed, abs=max(0.05, 4 * spread)), f"by {len(samples)} samples"
    sighted = [one.clock for (row, one), (before, _) in zip(rows[1:], rows, strict=False) if row == 15 != before]
    within = [any(start - 0.015 <= clock <= middle + 0.015 for start, middle, _ in told) for clock in sighted]
    assert sum(within) >= 0.75 * len(within), "a fifth of the time is computed; by chance it would be two fifths"
    assert all(one.active for row, one in rows if row == 17), "a line that sleeps takes that time"


def test_a_run_is_looked_into_from_the_first_step_until_its_agents_let_go(
    job: subprocess.Popen[str], tmp_path: Path
) -> None:
    ring = agent(tmp_path, job.pid)
    samplers = sampling.start(tmp_path, job.pid, Options())
    time.sleep(1.5)
    before_step = time.perf_counter()
    step(ring, records.WARMUP, 1)
    time.sleep(3)
    let_go = time.perf_counter()
    step(ring, records.DETACHED, 60)
    time.sleep(3)
    assert "stacks" not in samplers.stop()
    clocks = [one.clock for one in read(tmp_path).stack_samples]
    assert clocks and before_step < min(clocks) and max(clocks) < let_go + 2


def test_a_run_without_anybody_who_trains_is_missing_stacks(job: subprocess.Popen[str], tmp_path: Path) -> None:
    samplers = sampling.start(tmp_path, job.pid, Options())
    time.sleep(0.5)
    assert samplers.stop()["stacks"] == "no process of the job that trains was there to look into"


def agent(folder: Path, pid: int) -> Path:
    """What the agent of a rank leaves before its first step; returns its ring."""
    (folder / "processes").mkdir()
    notes = [
        {"note": "process", "pid": pid, "parent": 1, "cwd": str(folder)},
        {"note": "role", "role": "rank", "rank": 0},
    ]
    (folder / "processes" / f"{pid}-1.notes").write_text("".join(f"{json.dumps(note)}\n" for note in notes))
    ring = folder / "processes" / f"{pid}-1.ring"
    ring.write_bytes(records.HEADER.pack(records.MAGIC, pid, 16, 0, 0.0, 0.0).ljust(records.HEADER_BYTES, b"\0"))
    return ring


def step(ring: Path, phase: int, steps: int) -> None:
    content = bytearray(ring.read_bytes())
    control.STATE.pack_into(content, control.STATE_OFFSET, phase, steps, 0, 0)
    ring.write_bytes(content)
