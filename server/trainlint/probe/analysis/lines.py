"""What single lines of the job's own code cost: timed calls, reads of values, and stack samples.

A figure is that of the rank on which the line costs the most, since the others wait for it, per clean step, regular or
not: a line that runs every tenth step counts a tenth each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from trainlint.agent import records
from trainlint.probe import thresholds
from trainlint.probe.analysis.observed import Observed, line_of, own_code
from trainlint.probe.analysis.shares import WORKING_CALLS, call_type
from trainlint.probe.analysis.steps import RankSteps
from trainlint.probe.evidence import Line, StackSamples, SyncCount, TimedCalls
from trainlint.probe.recording import Frame, Record, StackSample
from trainlint.probe.traces.intervals import total, union
from trainlint.probe.traces.sites import JobCode

What = Literal["data", "stack"]
K = TypeVar("K")

WORKER_ENTRY = "torch/utils/data/_utils/worker.py"
"""Frames outside this one are those of the process that forked the worker."""
LOADING = "torch/utils/data/"
MAIN_THREAD = "MainThread"


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
    return TimedCalls(len(found) / count, _united_seconds(found) / count)


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
    code = _OwnCode(own_code(observed.recording))
    threads: dict[tuple[int, bool], _Thread] = {}
    for sample in observed.recording.stack_samples:
        steps = ranks.get(sample.pid) or owners.get(sample.pid)
        if steps is None or sample.thread != MAIN_THREAD or sample.clock not in spans[steps.process.pid]:
            continue
        in_workers = sample.pid not in ranks
        thread = threads.setdefault((steps.process.pid, in_workers), _Thread(len(steps.cycles), in_workers, code))
        thread.add(sample, observed.recording.stacks.get(sample.stack, ()))
    found: dict[Line, SampledLine] = {}
    for thread in threads.values():
        for line, sampled in thread.lines():
            known = found.get(line)
            if known is None or known.within.seconds_per_step < sampled.within.seconds_per_step:
                found[line] = sampled
    return found


@dataclass(slots=True)
class _Tally:
    samples: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
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
        self._all = _Tally()
        self._within: dict[Line, _Tally] = {}
        self._itself: dict[Line, _Tally] = {}
        self._loading: dict[Line, int] = {}

    def add(self, sample: StackSample, stack: Sequence[Frame]) -> None:
        frames = list(_inside_worker(stack)) if self._in_workers else stack
        own = [line for frame in frames if (line := self._code.line(frame)) is not None]
        self._all.add(sample.weight_s)
        for line in set(own):
            self._within.setdefault(line, _Tally()).add(sample.weight_s)
        if own:
            self._itself.setdefault(own[0], _Tally()).add(sample.weight_s)
            if self._in_workers or any(LOADING in frame.path for frame in frames):
                self._loading[own[0]] = self._loading.get(own[0], 0) + 1

    def lines(self) -> Iterator[tuple[Line, SampledLine]]:
        for line, within in self._within.items():
            itself = self._itself.get(line, _Tally())
            loads = self._loading.get(line, 0) * 2 > itself.samples
            yield (
                line,
                SampledLine(
                    StackSamples(
                        within.seconds / self._steps, within.samples, self._in_workers, self._interval(within)
                    ),
                    itself.seconds / self._steps,
                    self._interval(itself),
                    "data" if loads else "stack",
                ),
            )

    def _interval(self, tally: _Tally) -> tuple[float, float] | None:
        """Between how many seconds per step the truth lies, where there are too few samples for a figure."""
        if tally.samples >= thresholds.EXACT_SAMPLES.value:
            return None
        low, high = share_interval(tally.samples, self._all.samples)
        each = self._all.seconds / self._steps
        return low * each, high * each


def _inside_worker(stack: Iterable[Frame]) -> Iterator[Frame]:
    for frame in stack:
        if frame.path.endswith(WORKER_ENTRY):
            return
        yield frame


def share_interval(hits: int, samples: int) -> tuple[float, float]:
    """Between which shares the truth lies, with 99 % confidence, if `hits` of so many samples showed it (Wilson)."""
    if samples <= 0:
        return 0.0, 1.0
    share, deviations = hits / samples, thresholds.DEVIATIONS
    square = deviations**2
    middle = (share + square / (2 * samples)) / (1 + square / samples)
    half = deviations / (1 + square / samples) * math.sqrt(share * (1 - share) / samples + square / (4 * samples**2))
    return max(0.0, middle - half), min(1.0, middle + half)
