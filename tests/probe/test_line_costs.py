"""What lines cost: timed calls and reads exactly, stack samples within an interval that contains the truth."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

import made_recordings as made
import pytest
from made_recordings import TRAIN, MadeProcess

from trainlint.agent import records
from trainlint.probe.analysis import analyse
from trainlint.probe.analysis.lines import share_interval
from trainlint.probe.evidence import Evidence, Line
from trainlint.probe.measured import LineCost, Measured
from trainlint.probe.model import Model
from trainlint.probe.recording import Frame, StackLook, StackSample, StackTable

WORKER = "/venv/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py"
FETCH = "/venv/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py"


def line(row: int) -> Line:
    return Line(Path(TRAIN), row)


def cost(found: Measured, row: int, what: str) -> LineCost:
    (one,) = [one for one in found.lines if (one.row, one.what) == (row, what)]
    return one


def frames(*places: tuple[str, int]) -> list[Frame]:
    return [Frame(path=path, row=row, function="f") for path, row in places]


def sampled(process: MadeProcess, start: float, end: float, stacks: list[int], each_s: float) -> Iterator[Model]:
    """A sample of each stack in turn, evenly spaced."""
    count = int((end - start) / each_s)
    for index in range(count):
        yield StackSample(
            clock=start + (index + 0.5) * each_s,
            pid=process.pid,
            thread="MainThread",
            stack=stacks[index % len(stacks)],
            weight_s=each_s,
        )


# ------------------------------------------------------------------------------------------------------ timed events


def test_a_call_every_fifth_step_costs_a_fifth(tmp_path: Path) -> None:
    process = made.rank()
    process.phase(records.CLEAN)
    for index in range(21):
        if index % 5 == 1:
            process.call("save", 30, 0.050)
        process.call("print", 31, 0.004)
        process.step("N f B Oadam")
    run, evidence = analyse(made.write(tmp_path, process))
    assert evidence.calls[line(30)].calls_per_step == pytest.approx(0.2)
    assert evidence.calls[line(30)].seconds_per_step == pytest.approx(0.010)
    assert evidence.calls[line(30)].longest_s_per_step == pytest.approx(0.0025)
    assert evidence.calls[line(30)].slow_s_per_step == 0
    assert cost(run, 31, "print").ms_per_step == pytest.approx(4.0)
    assert cost(run, 31, "print").share == pytest.approx(0.004 / 0.082)


def test_what_slow_calls_take_beyond_the_median_is_told_apart(tmp_path: Path) -> None:
    process = made.rank()
    process.phase(records.CLEAN)
    for index in range(21):
        process.call("print", 31, 0.022 if index in (5, 15) else 0.002)
        process.step("N f B Oadam")
    _, evidence = analyse(made.write(tmp_path, process))
    assert evidence.calls[line(31)].seconds_per_step == pytest.approx(0.004)
    assert evidence.calls[line(31)].longest_s_per_step == pytest.approx(0.0011)
    assert evidence.calls[line(31)].slow_s_per_step == pytest.approx(0.002)


def test_a_line_of_an_evaluation_is_a_share_of_all_the_time_and_not_of_a_regular_step(tmp_path: Path) -> None:
    process = made.rank()
    process.phase(records.CLEAN)
    for index in range(41):
        if index % 4 == 1:
            for row in (50, 51, 52):
                process.call("print", row, 0.400)
            process.step("n1 . n . n/ N1 f B Oadam")
        else:
            process.step("N f B Oadam")
    run, _ = analyse(made.write(tmp_path, process))
    assert run.steps.irregular == 10
    shares = [cost(run, row, "print").share for row in (50, 51, 52)]
    assert cost(run, 50, "print").ms_per_step == pytest.approx(100.0)
    assert run.steps.mean_s is not None
    assert run.steps.mean_s < 0.1
    assert sum(share or 0.0 for share in shares) < 1.0
    assert shares == [pytest.approx(shares[0])] * 3


def test_one_call_within_another_on_a_line_counts_once(tmp_path: Path) -> None:
    process = made.rank()
    process.phase(records.CLEAN)
    for _ in range(11):
        start = process.clock
        process.call("print", 31, 0.003)
        process.clock += 0.001
        process.record(records.CALL, start, 0.004, name=f"logging {TRAIN}:31")
        process.step("N f B Oadam")
    _, evidence = analyse(made.write(tmp_path, process))
    assert evidence.calls[line(31)].seconds_per_step == pytest.approx(0.004)


def test_reads_of_values_are_counted_and_cost_nothing_without_an_accelerator(tmp_path: Path) -> None:
    process = made.rank()
    process.phase(records.CLEAN)
    for _ in range(11):
        for _ in range(3):
            process.spend(records.SYNC, 0.001, name=f"{TRAIN}:40")
        process.step("N f B Oadam")
    run, evidence = analyse(made.write(tmp_path, process))
    assert evidence.syncs[line(40)].calls_per_step == pytest.approx(3.0)
    assert evidence.syncs[line(40)].wait_s_per_step is None
    assert cost(run, 40, "sync").ms_per_step is None


def test_a_line_costs_what_it_costs_on_the_rank_where_it_costs_most(tmp_path: Path) -> None:
    ranks = [made.rank(number, world_size=2) for number in range(2)]
    for process in ranks:
        process.phase(records.CLEAN)
        for _ in range(11):
            if process.rank == 1:
                process.call("logging", 50, 0.006)
            process.step("N f B Oadam")
    _, evidence = analyse(made.write(tmp_path, *ranks))
    assert evidence.calls[line(50)].seconds_per_step == pytest.approx(0.006)
    assert [one.printed_lines for one in evidence.ranks] == [frozenset(), {line(50)}]


def test_work_that_is_timed_is_a_share_and_no_stall(tmp_path: Path) -> None:
    process = made.rank()
    process.phase(records.CLEAN)
    for _ in range(11):
        process.step("N f")
        process.call("anomaly", 3, 0.032)
        process.step("B Oadam")
    run, evidence = analyse(made.write(tmp_path, process))
    assert evidence.anomaly_mode_share == pytest.approx(0.32)
    assert evidence.data_parallel_share is None
    assert run.shares.sync_wait == pytest.approx(0.0)


# ------------------------------------------------------------------------------------------------------------ samples


def test_samples_of_a_worker_are_attributed_within_the_worker(tmp_path: Path) -> None:
    process = made.rank(workers=1, queue=0.0)
    start = process.clock
    process.train("N f B Oadam", warmup=0, clean=50)
    worker = made.worker(process)
    table = [
        StackTable(id=1, frames=frames((TRAIN, 7), (FETCH, 52), (WORKER, 310), (TRAIN, 60))),
        StackTable(id=2, frames=frames(("/usr/lib/python3.11/queue.py", 9), (WORKER, 280), (TRAIN, 60))),
    ]
    samples = sampled(worker, start, process.clock, [1, 1, 2, 1], 0.01)
    run, evidence = analyse(made.write(tmp_path, process, worker, stacks=[*table, *samples]))
    assert set(evidence.stacks) == {line(7)}
    assert evidence.stacks[line(7)].in_workers
    assert evidence.stacks[line(7)].seconds_per_step == pytest.approx(0.75 * 0.068, rel=0.05)
    assert evidence.stacks[line(7)].interval_s is None
    assert cost(run, 7, "data").in_workers
    assert cost(run, 7, "data").share is None


@pytest.mark.parametrize("recorded", ["here", "elsewhere"])
def test_the_innermost_own_line_has_the_time_and_the_lines_that_call_it_hold_it(tmp_path: Path, recorded: str) -> None:
    process = made.rank()
    start = process.clock
    process.train("N f B Oadam", warmup=0, clean=50)
    folder = tmp_path if recorded == "here" else Path("/recorded/elsewhere")
    agent = str(folder / "agent" / "backward.py")
    table = [StackTable(id=1, frames=frames((agent, 3), (TRAIN, 12), (TRAIN, 60)))]
    samples = sampled(process, start, process.clock, [1], 0.01)
    run, evidence = analyse(made.write(tmp_path, process, stacks=[*table, *samples], folder=str(folder)))
    assert {one.row for one in run.lines} == {12}
    assert set(evidence.stacks) == {line(12), line(60)}
    assert evidence.stacks[line(60)].seconds_per_step == pytest.approx(0.068, rel=0.05)


def test_generated_code_is_no_line_of_the_job_but_what_runs_it_is(tmp_path: Path) -> None:
    process = made.rank()
    process.phase(records.CLEAN)
    process.step("N f B Oadam")
    start = process.clock
    for _ in range(10):
        process.step("N f B Oadam")
    graph = f"/cache/inductor/qq/cqq4{'a2z7' * 12}.py"
    table = StackTable(id=0, frames=frames((graph, 113), ("<eval_with_key>.0", 7), (TRAIN, 18), (TRAIN, 40)))
    samples = sampled(process, start, process.clock, [0], 0.005)
    run, evidence = analyse(made.write(tmp_path, process, stacks=[table, *samples]))
    assert {(Path(one.filename), one.row) for one in run.lines} == {(Path(TRAIN), 18)}
    assert set(evidence.stacks) == {line(18), line(40)}


def test_what_the_agent_does_between_steps_is_no_cost_of_the_line_that_it_was_called_from(tmp_path: Path) -> None:
    process = made.rank()
    start = process.clock
    process.train("N f B Oadam", warmup=0, clean=50)
    agent = tmp_path / "agent"
    changing = frames((str(agent / "evaluation.py"), 45), (str(agent / "phases.py"), 97), (TRAIN, 19))
    table = [StackTable(id=1, frames=changing), StackTable(id=2, frames=frames((TRAIN, 12)))]
    samples = list(sampled(process, start, process.clock, [1, 2], 0.01))
    look = StackLook(clock=start, pid=process.pid, duration_s=process.clock - start, reads=len(samples), failed=0)
    run, evidence = analyse(made.write(tmp_path, process, stacks=[*table, *samples, look]))
    assert set(evidence.stacks) == {line(12)}
    assert cost(run, 12, "stack").ms_per_step == pytest.approx(68.0, rel=0.05)


def test_samples_outside_the_clean_steps_and_of_other_threads_do_not_count(tmp_path: Path) -> None:
    process = made.rank()
    process.train("N f B Oadam", warmup=10, clean=20)
    outside = list(sampled(process, 99.0, 100.0, [1], 0.01))
    inside = list(sampled(process, 101.0, 101.5, [1], 0.01))
    other = [one.model_copy(update={"thread": "Thread-3"}) for one in inside]
    table = StackTable(id=1, frames=frames((TRAIN, 12)))
    _, evidence = analyse(made.write(tmp_path, process, stacks=[table, *outside, *other]))
    assert evidence.stacks == {}


def test_intervals_contain_the_truth_ninety_nine_times_in_a_hundred() -> None:
    chance = random.Random(1)
    for share in (0.01, 0.05, 0.3, 0.8):
        missed = 0
        for _ in range(500):
            hits = sum(chance.random() < share for _ in range(120))
            low, high = share_interval(hits / 120, 120)
            missed += not low <= share <= high
        assert missed <= 15


def test_few_samples_have_an_interval_around_the_truth(tmp_path: Path) -> None:
    process = made.rank()
    start = process.clock
    process.train("N f B Oadam", warmup=0, clean=50)
    table = [StackTable(id=row, frames=frames((TRAIN, row))) for row in (1, 2)]
    samples = sampled(process, start, process.clock, [1, 2, 2, 2], 0.05)
    run, _ = analyse(made.write(tmp_path, process, stacks=[*table, *samples]))
    one = cost(run, 1, "stack")
    assert one.interval_ms is not None
    assert one.interval_ms[0] < 0.25 * 68 < one.interval_ms[1]


def read_by_chance(process: MadeProcess, start: float, parts: dict[int, float], waits: Iterator[float]) -> list[Model]:
    """What a sampler sees of a thread that spends the parts of each step in stacks: it reads after each wait, and a
    stack counts until the next read."""
    step_s, found, clock = sum(parts.values()), [], start
    while clock < process.clock:
        wait = min(next(waits), process.clock - clock)
        place = (clock - start) % step_s
        stack = next(one for one, end in zip(parts, accumulate(parts.values()), strict=True) if place < end)
        found.append(StackSample(clock=clock, pid=process.pid, thread="MainThread", stack=stack, weight_s=wait))
        clock += wait
    return [*found, StackLook(clock=start, pid=process.pid, duration_s=process.clock - start, reads=len(found))]


def even(chance: random.Random) -> Iterator[float]:
    """The waits of a sampler that has a core whenever it wants one."""
    while True:
        yield chance.expovariate(20)


def late(chance: random.Random) -> Iterator[float]:
    """The waits of one that often waits for a core, and then makes up for what it missed."""
    owed = 0.0
    while True:
        wait = chance.expovariate(20) - owed
        held_up = chance.expovariate(5) if chance.random() < 0.2 else 0.0
        owed = max(0.0, held_up - wait)
        yield max(wait, held_up, 0.0005)


@pytest.mark.parametrize("waits", [even, late])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.8])
def test_a_sampler_that_reads_when_chance_has_it_is_no_surer_than_it_can_be(
    waits: Callable[[random.Random], Iterator[float]], share: float, tmp_path: Path
) -> None:
    process = made.rank()
    start = process.clock
    process.train("N f B Oadam", warmup=0, clean=50)
    table = [StackTable(id=row, frames=frames((TRAIN, row))) for row in (1, 2)]
    chance, missed, trials = random.Random(3), 0, 100
    for trial in range(trials):
        samples = read_by_chance(process, start, {1: 0.068 * share, 2: 0.068 * (1 - share)}, waits(chance))
        _, evidence = analyse(made.write(tmp_path / str(trial), process, stacks=[*table, *samples]))
        seen = evidence.stacks.get(line(1))
        if seen is None:
            continue  # nothing is said of a line that no sample shows
        low, high = seen.interval_s or (seen.seconds_per_step * 0.85, seen.seconds_per_step * 1.15)
        missed += not low <= 0.068 * share <= high
    assert missed <= 4


def test_time_in_which_nobody_looked_is_taken_to_be_like_the_rest(tmp_path: Path) -> None:
    process = made.rank()
    start = process.clock
    process.train("N f B Oadam", warmup=0, clean=50)
    seen = list(sampled(process, start, start + 1.7, [1, 2, 2, 2], 0.01))
    look = StackLook(clock=start, pid=process.pid, duration_s=1.7, reads=170)
    table = [StackTable(id=row, frames=frames((TRAIN, row))) for row in (1, 2)]
    _, evidence = analyse(made.write(tmp_path, process, stacks=[*table, *seen, look]))
    assert evidence.stacks[line(1)].seconds_per_step == pytest.approx(0.25 * 0.068, rel=0.05)


def test_a_worker_counts_for_as_long_as_it_lived(tmp_path: Path) -> None:
    process = made.rank(workers=1, queue=0.0)
    start = process.clock
    process.train("N f B Oadam", warmup=0, clean=50)
    worker = made.worker(process)
    worker.note("process", clock=start)
    worker.note("end", clock=start + 1.7)
    table = [StackTable(id=1, frames=frames((TRAIN, 7), (FETCH, 52), (WORKER, 310)))]
    samples = sampled(worker, start + 0.2, start + 1.7, [1], 0.01)
    look = StackLook(clock=start + 0.2, pid=worker.pid, duration_s=1.5, reads=150)
    _, evidence = analyse(made.write(tmp_path, process, worker, stacks=[*table, *samples, look]))
    assert evidence.stacks[line(7)].seconds_per_step == pytest.approx(1.7 / 50, rel=0.05)


def test_reads_that_failed_leave_room_for_what_they_would_have_shown(tmp_path: Path) -> None:
    process = made.rank()
    start = process.clock
    process.train("N f B Oadam", warmup=0, clean=50)
    table = [StackTable(id=row, frames=frames((TRAIN, row))) for row in (1, 2)]
    widths = []
    for failed in (0, 100):
        samples = sampled(process, start, process.clock, [1, 2, 2, 2], 0.05)
        look = StackLook(clock=start, pid=process.pid, duration_s=process.clock - start, reads=68, failed=failed)
        folder = tmp_path / str(failed)
        low, high = cost(
            analyse(made.write(folder, process, stacks=[*table, *samples, look]))[0], 1, "stack"
        ).interval_ms or (0, 0)
        widths.append(high - low)
    assert widths[1] - widths[0] == pytest.approx(100 / 168 * (68 - widths[0]), rel=0.05)


# ---------------------------------------------------------------------------------------------------------------- ran


def watched(tmp_path: Path, *, seen_in_warmup: bool = False, seen: bool = False, watching: bool = True) -> Evidence:
    process = made.rank()
    if watching:
        process.note("watched", lines=[f"{TRAIN}:12"])
    if seen_in_warmup:
        process.record(records.LINE, process.clock, name=f"{TRAIN}:12")
    process.train("N f B Oadam")
    if seen:
        process.record(records.LINE, process.clock - 0.1, name=f"{TRAIN}:12")
    return analyse(made.write(tmp_path, process))[1]


def test_whether_a_line_ran(tmp_path: Path) -> None:
    assert watched(tmp_path / "seen", seen=True).ran == {line(12): True}
    assert watched(tmp_path / "unseen").ran == {line(12): False}
    assert watched(tmp_path / "before", seen_in_warmup=True).ran == {}
    assert watched(tmp_path / "unknown", watching=False).ran == {}


def test_a_line_of_which_a_worker_does_not_know_is_not_known(tmp_path: Path) -> None:
    process = made.rank()
    process.note("watched", lines=[f"{TRAIN}:12"])
    process.train("N f B Oadam")
    assert analyse(made.write(tmp_path, process, made.worker(process)))[1].ran == {}
