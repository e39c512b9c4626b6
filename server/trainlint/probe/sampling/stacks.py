"""Stacks of the ranks' threads and of the loader workers, by py-spy."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from trainlint.agent import records
from trainlint.probe import recording
from trainlint.probe.sampling.budget import Budget
from trainlint.probe.sampling.idle_cores import IdleCores, idle_s
from trainlint.probe.sampling.job import Job
from trainlint.probe.sampling.lines import Lines
from trainlint.probe.sampling.pace import Pace
from trainlint.probe.sampling.pyspy import MAIN_THREAD, Frame, Held, PySpyUnavailableError, Recorder, program
from trainlint.probe.sampling.targets import MOST_AT_ONCE, Target, chosen, noted_targets, running_targets

INTERVAL_S, LONGEST_INTERVAL_S = 0.1, 0.25
LIKELY_COST_S = 0.6e-3
"""CPU time of a sample until one is measured: that of a rank with 4 threads and a stack of 10 calls, by py-spy 0.4.3.
It grows with both."""
LEAST_COST_S = 0.05e-3
FASTEST, SLOWEST = 100, 2
"""Samples per second of one process."""
START_COST_S = 0.011
"""CPU time that py-spy 0.4.3 takes before its first sample, for the symbols of an interpreter."""
WAIT_FOR_STEP_S = 5.0
"""How long a rank may take from its first note to its first step before it is looked into without one."""
LONGEST_END_S = 8.0
LARGEST_BYTES = 16 << 20
"""Of the file of stacks; 50 steps must not take more than 50 MB in all."""

WAITS = {
    "threading.py": {"wait", "acquire", "join", "_wait_for_tstate_lock", "_acquire_restore"},
    "selectors.py": {"select"},
    "connection.py": {"_recv", "_poll", "wait"},
    "queue.py": {"get", "put"},
    "queues.py": {"get", "put"},
    "synchronize.py": {"__enter__", "acquire", "wait"},
    "subprocess.py": {"_wait", "_try_wait", "_communicate"},
    "popen_fork.py": {"poll", "wait"},
    "socket.py": {"accept", "readinto"},
}
"""Functions of the standard library, by file, in which a thread waits for another one, a process or a pipe."""


class StackSampler:
    source = "stacks"

    def __init__(self, job: Job, folder: Path, *, attached: bool) -> None:
        """Get ready.

        Raises:
            PySpyUnavailableError: py-spy is not installed.
        """
        self._job = job
        self._folder = folder
        self._attached = attached
        self._py_spy = program()
        self._writer = StackWriter(Lines(folder / "stacks.jsonl"), job)
        self._running: dict[int, Recorder] = {}
        self._first_seen: dict[int, float] = {}
        self._refused: dict[str, str] = {}
        self._left_out: set[str] = set()
        self._sampled: set[str] = set()
        self._names: dict[int, str] = {}
        self._number = 0
        self._samples_taken = 0.0
        """By those instances of py-spy that have ended."""
        self._instances = 0
        """How many of them have."""
        self._idle = IdleCores(time.perf_counter(), idle_s())
        self._budget = Budget(time.perf_counter())
        self.pace = Pace(INTERVAL_S, LONGEST_INTERVAL_S)

    @property
    def missing(self) -> dict[str, str]:
        if self._writer.lines.failure is not None:
            return {"stacks": self._writer.lines.failure}
        found = {}
        if not self._sampled:
            reason = next(iter(self._refused.values()), "no process of the job that trains was there to look into")
            return {"stacks": reason}
        if self._refused:
            found["stacks.refused"] = "; ".join(f"{name}: {reason}" for name, reason in sorted(self._refused.items()))
        if unseen := self._left_out - self._sampled:
            found["stacks.left_out"] = (
                f"at most {MOST_AT_ONCE} processes are looked into at once; left out: {', '.join(sorted(unseen))}"
            )
        if self._is_full():
            found["stacks.rest"] = f"stacks were no longer kept after {LARGEST_BYTES >> 20} MiB of them"
        return found

    def sample(self) -> None:
        self._idle.saw(time.perf_counter(), idle_s())
        self._collect()
        self._job.read_notes()
        if self._is_full() or self._is_measured():
            self._end_all()
            return
        targets = self._targets()
        wanted = chosen(targets)
        self._left_out.update(target.name for target in set(targets) - set(wanted))
        for target in wanted:
            if target.pid not in self._running and len(self._running) < MOST_AT_ONCE:
                alike = sum((one.worker is None) == (target.worker is None) for one in wanted)
                self._start(target, len(wanted), alike)

    def close(self) -> None:
        self._end_all()

    def _targets(self) -> list[Target]:
        """The processes to look into: ranks that have made a step, or take long to, and the workers of these."""
        targets = running_targets(self._job) if self._attached else noted_targets(self._job)
        ready = {target.rank for target in targets if target.worker is None and self._is_ready(target)}
        return [target for target in targets if target.rank in ready and target.name not in self._refused]

    def _is_ready(self, rank: Target) -> bool:
        now = time.perf_counter()
        if self._attached or now - self._first_seen.setdefault(rank.pid, now) > WAIT_FOR_STEP_S:
            return True
        state = self._job.noted[rank.pid].state()
        return state is not None and state > (0, 0)

    def _is_measured(self) -> bool:
        """Whether all ranks have measured what they were to, and removed their hooks."""
        ranks = [noted for noted in self._job.noted.values() if noted.role == "rank"]
        return bool(ranks) and all((rank.state() or (0, 0))[0] == records.DETACHED for rank in ranks)

    def _is_full(self) -> bool:
        return self._writer.lines.written_bytes > LARGEST_BYTES

    def _start(self, target: Target, all_of_them: int, alike: int) -> None:
        """Look into one of so many processes, so many of which are ranks like it, or workers."""
        output = self._folder / f".stacks-{target.pid}-{self._number}.json"
        self._number += 1
        self._names[target.pid] = target.name
        seconds, core_share = self._budget.chunk(time.perf_counter(), self._used_s(), self._idle.cores)
        part = 1 if alike == all_of_them else 2  # ranks together get as many samples as workers together
        rate = max(SLOWEST, min(FASTEST, int(core_share / self._cost_s() / part / alike)))
        try:
            self._running[target.pid] = Recorder(self._py_spy, target.pid, rate, seconds, output)
        except PySpyUnavailableError as error:
            self._refused[target.name] = str(error)

    def _cost_s(self) -> float:
        """CPU time of one sample."""
        if not self._samples_taken:
            return LIKELY_COST_S
        return max(LEAST_COST_S, (self._used_s() - self._instances * START_COST_S) / self._samples_taken)

    def _used_s(self) -> float:
        """CPU time of those instances of py-spy that have ended."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime if self._samples_taken else 0.0

    def _collect(self) -> None:
        """Read what has ended."""
        for pid in [pid for pid, recorder in self._running.items() if recorder.is_over()]:
            self._finish(self._running.pop(pid), LONGEST_END_S)

    def _end_all(self) -> None:
        for recorder in self._running.values():
            recorder.interrupt()
        until = time.perf_counter() + LONGEST_END_S
        while self._running:
            _, recorder = self._running.popitem()
            self._finish(recorder, max(0.1, until - time.perf_counter()))

    def _finish(self, recorder: Recorder, longest_s: float) -> None:
        reason, name = recorder.finish(longest_s), self._names[recorder.pid]
        if reason is None:
            self._samples_taken += recorder.samples
            self._instances += 1
            self._sampled.add(name)
            self._writer.write(recorder)
        elif self._job.is_alive(recorder.pid):
            self._refused[name] = reason


class StackWriter:
    """Writes what py-spy recorded as lines of a recording, each stack once."""

    def __init__(self, lines: Lines, job: Job) -> None:
        self.lines = lines
        self._job = job
        self._ids: dict[tuple[Frame, ...], int] = {}
        self._calls: dict[tuple[Frame, Path | None], recording.Frame] = {}

    def write(self, recorder: Recorder) -> None:
        noted = self._job.noted.get(recorder.pid)
        folder = Path(noted.cwd) if noted is not None and noted.cwd is not None else None
        lines: list[recording.StackTable | recording.StackSample | recording.StackLook] = []
        found = list(recorder.held())
        if not found:
            return
        look = _look(recorder, found)
        for held in found:
            if not held.frames:
                continue  # a thread of C code that Python has heard of
            active = not waits(held.frames)
            if held.thread == MAIN_THREAD or (active and not held.last):
                lines += [*self._table(held.frames, folder), *self._samples(recorder, held, active, look)]
        self.lines.write(*lines, look)

    def _table(self, frames: tuple[Frame, ...], folder: Path | None) -> Iterable[recording.StackTable]:
        if frames not in self._ids:
            self._ids[frames] = len(self._ids)
            yield recording.StackTable(
                id=self._ids[frames],
                frames=[self._call(frame, folder) for frame in frames],
            )

    def _call(self, frame: Frame, folder: Path | None) -> recording.Frame:
        found = self._calls.get((frame, folder))
        if found is None:
            path = _absolute(frame.path, folder)
            found = recording.Frame(path=path, row=frame.row, function=frame.function)
            self._calls[frame, folder] = found
        return found

    def _samples(
        self, recorder: Recorder, held: Held, active: bool, look: recording.StackLook
    ) -> Iterable[recording.StackSample]:
        """As many samples as py-spy is likely to have taken of it: of the same stack on end it tells no number."""
        count = max(1, round(held.duration_s / look.duration_s * look.reads))
        weight = held.duration_s / count
        for number in range(count):
            yield recording.StackSample(
                clock=recorder.started + held.start_s + number * weight,
                pid=recorder.pid,
                thread=held.thread,
                stack=self._ids[held.frames],
                active=active,
                weight_s=weight,
            )


def _look(recorder: Recorder, found: Sequence[Held]) -> recording.StackLook:
    """When py-spy looked, and how often: on a busy machine less often than it was told to."""
    start = min(held.start_s for held in found)
    duration = max(held.start_s + held.duration_s for held in found) - start
    reads, failed = recorder.rate * duration, 0
    if recorder.counted is not None:
        stacks, failed = recorder.counted
        threads = sum(held.duration_s for held in found) / duration
        reads = max(1.0, stacks / max(1.0, threads))
    return recording.StackLook(
        clock=recorder.started + start, pid=recorder.pid, duration_s=duration, reads=reads, failed=failed
    )


def waits(frames: tuple[Frame, ...]) -> bool:
    """Whether the innermost call waits, in the standard library, for something else to happen."""
    file, function = frames[0].path.rpartition("/")[2], frames[0].function.rpartition(".")[2]
    return function in WAITS.get(file, ())


def _absolute(path: str, folder: Path | None) -> str:
    return path if folder is None or not path or path.startswith(("/", "<")) else str(folder / path)
