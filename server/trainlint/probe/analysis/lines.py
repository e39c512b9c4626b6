"""What single lines of the job's own code cost: timed calls, reads of values, and stack samples.

A figure is that of the rank on which the line costs the most, since the others wait for it, per clean step, regular or
not: a line that runs every tenth step counts a tenth each.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Literal, TypeVar

from trainlint.agent import records
from trainlint.probe import thresholds
from trainlint.probe.analysis.observed import Observed, agent_folders, line_of, number, own_code, whole
from trainlint.probe.analysis.shares import WORKING_CALLS, call_type, student
from trainlint.probe.analysis.steps import RankSteps, Spans
from trainlint.probe.analysis.torn_stacks import put_right
from trainlint.probe.evidence import Line, StackSamples, SyncCount, TimedCalls
from trainlint.probe.recording import Frame, ProcessRecording, Record, Recording, StackLook, StackSample
from trainlint.probe.traces.intervals import Span, overlap, total, union
from trainlint.probe.traces.sites import JobCode

What = Literal["data", "stack"]
K = TypeVar("K")

WORKER_ENTRY = "torch/utils/data/_utils/worker.py"
"""Frames outside this one are those of the process that forked the worker."""
LOADING = "torch/utils/data/"
MAIN_THREAD = "MainThread"
FEW_RUNS = 20
"""As many runs of samples tell by themselves how much they differ."""


@dataclass(frozen=True, slots=True)
class SampledLine:
    """What the samples show of one line: with it on the stack, and as the innermost line of the job's own code."""

    within: StackSamples
    itself_s: float = 0.0
    itself_interval_s: tuple[float, float] | None = None
    what: What = "stack"


@dataclass(frozen=True, slots=True)
class CallCosts:
    """Timed calls by line, all together and by type."""

    by_line: Mapping[Line, TimedCalls] = field(default_factory=dict)
    by_type: Mapping[tuple[Line, str], TimedCalls] = field(default_factory=dict)


# ------------------------------------------------------------------------------------------------------ timed events


def call_costs(observed: Observed) -> CallCosts:
    """The calls that the agent timed, without those that do the work of the step."""
    by_line: dict[Line, TimedCalls] = {}
    by_type: dict[tuple[Line, str], TimedCalls] = {}
    for steps in observed.timed:
        found = [one for one in steps.timed(records.CALL) if call_type(one) not in WORKING_CALLS]
        for line, own in _by(found, _line_of_call).items():
            _keep_dearest(by_line, line, _timed_calls(own, steps))
            for kind, alike in _by(own, call_type).items():
                _keep_dearest(by_type, (line, kind), _timed_calls(alike, steps))
    return CallCosts(by_line, by_type)


def sync_counts(observed: Observed) -> dict[Line, SyncCount]:
    """The reads of values; what they wait is not known where no accelerator makes the host wait."""
    costs: dict[Line, TimedCalls] = {}
    for steps in observed.timed:
        for line, own in _by(steps.timed(records.SYNC), lambda one: line_of(one.name)).items():
            _keep_dearest(costs, line, _timed_calls(own, steps))
    return {
        line: SyncCount(cost.calls_per_step, cost.seconds_per_step if observed.accelerator else None)
        for line, cost in costs.items()
    }


def working_share(observed: Observed, kind: str) -> float | None:
    """The share of the step that timed calls of one kind of work take, on the rank where it is largest; None if there
    were none."""
    shares = []
    for steps in observed.timed:
        found = [one for one in steps.timed(records.CALL) if call_type(one) == kind]
        if found:
            shares.append(_united_seconds(found) / steps.wall_s)
    return max(shares, default=None)


def anomaly_passes_share(observed: Observed) -> float | None:
    """The share of the measured backward passes with anomaly mode on, on the rank where it is largest; None if no rank
    says."""
    shares = []
    for steps in observed.timed:
        for note in list(steps.process.noted("anomaly"))[-1:]:
            passes, with_mode = whole(note.get("passes")), whole(note.get("with_mode"))
            if passes and with_mode is not None:
                shares.append(with_mode / passes)
    return max(shares, default=None)


def printed_lines(steps: RankSteps) -> frozenset[Line]:
    """The lines that printed or logged on a rank."""
    found = (_line_of_call(one) for one in steps.timed(records.CALL) if call_type(one) in ("print", "logging"))
    return frozenset(line for line in found if line is not None)


def _line_of_call(record: Record) -> Line | None:
    return line_of(record.name.partition(" ")[2])


def _by(found: Iterable[Record], key: Callable[[Record], K | None]) -> dict[K, list[Record]]:
    groups: dict[K, list[Record]] = {}
    for record in found:
        group = key(record)
        if group is not None:
            groups.setdefault(group, []).append(record)
    return groups


def _timed_calls(found: Sequence[Record], steps: RankSteps) -> TimedCalls:
    count = len(steps.cycles)
    took = [one.duration for one in found]
    usual = median(took)
    slow = sum(one - usual for one in took if one > usual)
    return TimedCalls(len(found) / count, _united_seconds(found) / count, max(took) / count, slow / count)


def _united_seconds(found: Iterable[Record]) -> float:
    """The time that records take together; one within another counts once."""
    return total(union(((one.start, one.end) for one in found), (-math.inf, math.inf)))


def _keep_dearest(costs: dict[K, TimedCalls], key: K, cost: TimedCalls) -> None:
    known = costs.get(key)
    if known is None or known.seconds_per_step < cost.seconds_per_step:
        costs[key] = cost


# ------------------------------------------------------------------------------------------------------------ samples


def sampled_lines(observed: Observed) -> dict[Line, SampledLine]:
    """The lines that stack samples show, in training threads and in loader workers."""
    ranks = {steps.process.pid: steps for steps in observed.timed}
    owners = {pid: steps for pid, steps in observed.workers.items() if steps.cycles}
    spans = {steps.process.pid: observed.clean_spans(steps) for steps in observed.timed}
    job = own_code(observed.recording)
    code, stacks = _OwnCode(job), put_right(observed.recording.stacks, job)
    between_steps = _agent_between_steps(observed.recording)
    threads: dict[tuple[int, bool], _Thread] = {}
    for sample in sorted(observed.recording.stack_samples, key=attrgetter("pid", "clock")):
        steps = ranks.get(sample.pid) or owners.get(sample.pid)
        if steps is None or sample.thread != MAIN_THREAD or sample.clock not in spans[steps.process.pid]:
            continue
        if sample.stack in between_steps:
            continue
        in_workers = sample.pid not in ranks
        thread = threads.setdefault((steps.process.pid, in_workers), _Thread(len(steps.cycles), in_workers, code))
        thread.add(sample, stacks.get(sample.stack, ()))
    found: dict[Line, SampledLine] = {}
    for (pid, in_workers), thread in threads.items():
        pids = {worker for worker, steps in owners.items() if steps.process.pid == pid} if in_workers else {pid}
        for line, sampled in thread.lines(_seen(observed.recording, pids, list(spans[pid]))):
            known = found.get(line)
            if known is None or known.within.seconds_per_step < sampled.within.seconds_per_step:
                found[line] = sampled
    return found


def _agent_between_steps(recording: Recording) -> Set[int]:
    """The stacks in which the agent changes its phase or obeys the probe, at the end of a step that is not timed. A
    stack counts until the next read, which on a busy machine comes late: in a clean step, to whose lines it is nothing.
    """
    phases = {str(folder / "phases.py") for folder in agent_folders(recording)}
    return {number for number, stack in recording.stacks.items() if any(frame.path in phases for frame in stack)}


def looked_at_lines(observed: Observed, spans: Spans) -> dict[Line, SampledLine]:
    """The lines of a job of which no steps are known, by the process that spends the most time in each; all the time
    that it was looked at counts as one step."""
    recording = observed.recording
    job = own_code(recording)
    code, stacks = _OwnCode(job), put_right(recording.stacks, job)
    threads: dict[int, _Thread] = {}
    for sample in sorted(recording.stack_samples, key=attrgetter("pid", "clock")):
        if sample.thread == MAIN_THREAD:
            stack = stacks.get(sample.stack, ())
            in_worker = any(frame.path.endswith(WORKER_ENTRY) for frame in stack)
            threads.setdefault(sample.pid, _Thread(1, in_worker, code)).add(sample, stack)
    found: dict[Line, SampledLine] = {}
    for pid, thread in threads.items():
        looks = [look for look in recording.stack_looks if look.pid == pid]
        reads, failed = sum(look.reads for look in looks), sum(look.failed for look in looks)
        whole = _Seen(spans.total, reads if looks else None, failed / (failed + reads) if failed else 0.0)
        for line, sampled in thread.lines(whole):
            known = found.get(line)
            if known is None or known.itself_s < sampled.itself_s:
                found[line] = sampled
    return found


@dataclass(frozen=True, slots=True)
class _Seen:
    """How much of some processes was seen."""

    lived_s: float
    """Their time in the clean steps, looked at or not: a sampler that starts anew looks away for a moment."""
    reads: float | None
    """How often their stacks were read; None where the recording does not say."""
    failed_share: float
    """Of the attempts to read them."""


def _seen(recording: Recording, pids: Set[int], spans: Sequence[Span]) -> _Seen:
    looks = [look for look in recording.stack_looks if look.pid in pids]
    inside = [overlap([(look.clock, look.clock + look.duration_s)], spans) / look.duration_s for look in looks]
    reads = sum(look.reads * share for look, share in zip(looks, inside, strict=True))
    failed = sum(look.failed * share for look, share in zip(looks, inside, strict=True))
    lives = [_life(process, looks) for process in recording.processes if process.pid in pids]
    return _Seen(
        sum(overlap([life], spans) for life in lives),
        reads if looks else None,
        failed / (failed + reads) if failed else 0.0,
    )


def _life(process: ProcessRecording, looks: Iterable[StackLook]) -> Span:
    """From when to when a process is known to have been there; a rank's clean steps are within its life."""
    start = next((clock for note in process.noted("process") if (clock := number(note.get("clock")))), -math.inf)
    end = next((clock for note in process.noted("end") if (clock := number(note.get("clock")))), None)
    if end is None:
        # It was killed, or lives on.
        own = [look.clock + look.duration_s for look in looks if look.pid == process.pid]
        end = max(own, default=math.inf) if process.role == "worker" else math.inf
    return start, end


@dataclass(slots=True)
class _Tally:
    """The samples that show something, one after the other."""

    samples: int = 0
    seconds: float = 0.0
    runs: list[tuple[float, float]] = field(default_factory=list)
    """Of samples on end: when they began, on a clock that counts looked-at time alone, and how long they lasted."""
    _last: int = -2

    def add(self, seconds: float, place: int, clock: float) -> None:
        if place == self._last + 1:
            start, lasted = self.runs[-1]
            self.runs[-1] = start, lasted + seconds
        else:
            self.runs.append((clock, seconds))
        self._last = place
        self.samples += 1
        self.seconds += seconds


class _OwnCode:
    """Frames of the job's own code, each looked up once."""

    def __init__(self, code: JobCode) -> None:
        self._code = code
        self._files: dict[str, Path | None] = {}

    def line(self, frame: Frame) -> Line | None:
        if frame.path not in self._files:
            self._files[frame.path] = self._code.file(frame.path)
        path = self._files[frame.path]
        return Line(path, frame.row) if path is not None else None


class _Thread:
    """The samples of a training thread, or of all workers of a rank."""

    def __init__(self, steps: int, in_workers: bool, code: _OwnCode) -> None:
        self._code = code
        self._steps = steps
        self._in_workers = in_workers
        self._samples: list[tuple[float, list[Line], bool]] = []
        """The time that each stands for, the job's own lines on its stack, and whether it is in a loader."""

    def add(self, sample: StackSample, stack: Sequence[Frame]) -> None:
        """Add a sample; those of a process come in the order of time."""
        frames = list(_inside_worker(stack)) if self._in_workers else stack
        own = [line for frame in frames if (line := self._code.line(frame)) is not None]
        loads = self._in_workers or any(LOADING in frame.path for frame in frames)
        self._samples.append((sample.weight_s, own, loads))

    def lines(self, seen: _Seen) -> Iterator[tuple[Line, SampledLine]]:
        within, itself = dict[Line, _Tally](), dict[Line, _Tally]()
        loading: Counter[Line] = Counter()
        clock = 0.0
        for place, (seconds, own, loads) in enumerate(self._samples):
            for line in set(own):
                within.setdefault(line, _Tally()).add(seconds, place, clock)
            if own:
                itself.setdefault(own[0], _Tally()).add(seconds, place, clock)
                loading[own[0]] += loads
            clock += seconds
        for line, tally in within.items():
            own_tally = itself.get(line, _Tally())
            figure, interval = self._figure(tally, clock, seen)
            own_figure, own_interval = self._figure(own_tally, clock, seen)
            yield (
                line,
                SampledLine(
                    StackSamples(figure, tally.samples, self._in_workers, interval),
                    own_figure,
                    own_interval,
                    "data" if loading[line] * 2 > own_tally.samples else "stack",
                ),
            )

    def _figure(self, tally: _Tally, looked_s: float, seen: _Seen) -> tuple[float, tuple[float, float] | None]:
        """Seconds per step, and between which the truth lies where the samples do not tell it closely."""
        if looked_s <= 0:
            return 0.0, None
        reads = float(len(self._samples)) if seen.reads is None else seen.reads
        whole_s = (looked_s if seen.reads is None else seen.lived_s) / self._steps
        share = tally.seconds / looked_s
        low, high = _interval(tally, looked_s, reads)
        # What the reads that failed would have shown is not known.
        low, high = low * (1 - seen.failed_share), high * (1 - seen.failed_share) + seen.failed_share
        exact = max(high - share, share - low) <= thresholds.EXACT_WITHIN.value * share
        return share * whole_s, None if exact else (low * whole_s, high * whole_s)


def _interval(tally: _Tally, looked_s: float, reads: float) -> tuple[float, float]:
    """Between which shares the truth lies.

    A stack stands for the time until the next read, which comes when chance has it: such weights have a deviation as
    large as their mean, so `reads` are worth half as many samples of equal weight. Where the reader comes late or in
    bursts they are worth less, as the runs show (`_worth`). A line that is seldom seen owes its share to how long the
    reader was away after it, so the number of runs counts beside their time; a read that finds what the one before it
    found begins no run.
    """
    share, count = min(1.0, tally.seconds / looked_s), len(tally.runs)
    samples = min(reads / 2, _worth(tally.runs, share, looked_s))
    low, high = share_interval(share, samples)
    if 0 < count < FEW_RUNS and share < 1:
        by_runs = share_interval(min(1.0, count / (1 - share) / max(reads, 1.0)), samples)
        low, high = min(low, by_runs[0]), max(high, by_runs[1])
    return low, high


def _worth(runs: Sequence[tuple[float, float]], share: float, looked_s: float) -> float:
    """As many independent samples would tell the share as closely as these runs do; infinity where they do not show it.

    From the start of a run to that of the next, the time in the run would be the same part of the whole each time: how
    far it is not gives the variance of the share, as of a ratio of sums, and Student's t stands for their number.
    """
    if len(runs) < 2 or share >= 1:
        return math.inf
    starts = [start for start, _ in runs]
    wholes = [later - start for start, later in zip(starts, [*starts[1:], looked_s + starts[0]], strict=True)]
    squares = sum((own - share * whole) ** 2 for (_, own), whole in zip(runs, wholes, strict=True))
    freedom = len(runs) - 1
    wider = student(freedom) / thresholds.DEVIATIONS
    variance = squares / looked_s**2 * len(runs) / freedom * wider**2
    return share * (1 - share) / variance if variance > 0 else math.inf


def _inside_worker(stack: Iterable[Frame]) -> Iterator[Frame]:
    for frame in stack:
        if frame.path.endswith(WORKER_ENTRY):
            return
        yield frame


def share_interval(share: float, samples: float) -> tuple[float, float]:
    """Between which shares the truth lies with 99 % confidence, if so many independent samples show this (Wilson)."""
    if samples <= 0:
        return 0.0, 1.0
    deviations = thresholds.DEVIATIONS
    square = deviations**2
    middle = (share + square / (2 * samples)) / (1 + square / samples)
    half = deviations / (1 + square / samples) * math.sqrt(share * (1 - share) / samples + square / (4 * samples**2))
    return max(0.0, middle - half), min(1.0, middle + half)
