"""Where the host's time goes in a regular step.

Each moment of a step counts once, for the first of these that covers it: waiting for a batch (with all that happens in
the loader), a stall (device syncs, print, logging, trackers, saving, garbage collection), a backward pass or an
optimizer's step (the inner one of the two). What no record covers is `forward` if a backward pass follows next, before
a batch and an update, and `other` if not. Without a loader that may as well be the making of a batch, and where another
thread takes the batches from the loader a wait for that thread, so the forward pass is not known then. On a device that
works beside the host, these are times of the host: it queues the forward pass and waits elsewhere. Copies to a device
are not timed; where there is none, there are no copies.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from trainlint.agent import records
from trainlint.probe import thresholds
from trainlint.probe.analysis.steps import Cycle, RankSteps
from trainlint.probe.measured import Shares
from trainlint.probe.recording import Record

WORKING_CALLS = frozenset({"anomaly", "data_parallel"})
"""Timed calls that are work of the forward and the backward pass; the others stall the host."""

DATA, STALL, COPY, BACKWARD, UPDATE = "data_wait", "sync_wait", "host_to_device", "backward", "optimizer"
FORWARD, OTHER = "forward", "other"
_OUTER = (DATA, STALL)
_MARKS = (records.BATCH, records.BACKWARD, records.UPDATE, records.SCALER_UPDATE)


@dataclass(frozen=True, slots=True)
class Interval:
    """A stretch of time that counts for a part of the step."""

    part: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds of each part of a step."""

    seconds: Mapping[str, float]

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    def share(self, part: str) -> float | None:
        return self.seconds.get(part, 0.0) / self.total if self.total > 0 else None


@dataclass(frozen=True, slots=True)
class CycleParts:
    """A cycle, and what it consists of."""

    cycle: Cycle
    parts: Parts


def call_type(record: Record) -> str:
    """The type of a timed call, from a name such as `print train.py:41`."""
    return record.name.partition(" ")[0]


def parts_by_cycle(steps: RankSteps, *, accelerator: bool) -> tuple[CycleParts, ...]:
    """The parts of each clean cycle. Reading a tensor's value stalls the host only where there is an accelerator."""
    own = [record for record in steps.process.records if record.thread == 0]
    intervals = sorted(_intervals(own, accelerator=accelerator), key=attrgetter("start"))
    marks = sorted((record.start, record.kind) for record in own if record.kind in _MARKS)
    starts = [start for start, _ in marks]
    found: list[CycleParts] = []
    first = 0
    for cycle in steps.cycles:
        while first < len(intervals) and intervals[first].end <= cycle.start:
            first += 1
        inside = [one for one in _starting_before(cycle.end, intervals, first) if one.end > cycle.start]
        own_marks = marks[bisect_left(starts, cycle.start) : bisect_left(starts, cycle.end)]
        found.append(CycleParts(cycle, Parts(_attributed(cycle, inside, own_marks))))
    return tuple(found)


def added(cycles: Iterable[CycleParts]) -> Parts:
    """The parts of the regular cycles together."""
    total: dict[str, float] = {}
    for one in cycles:
        if one.cycle.regular:
            for part, seconds in one.parts.seconds.items():
                total[part] = total.get(part, 0.0) + seconds
    return Parts(total)


def spread(cycles: Iterable[CycleParts], *parts: str) -> tuple[float, float] | None:
    """Between which shares that of these parts lies with 99 % confidence, as the regular cycles differ: the variance of
    a ratio of sums, with Student's t for their number. None where there are too few."""
    found = [
        (sum(one.parts.seconds.get(part, 0.0) for part in parts), one.parts.total)
        for one in cycles
        if one.cycle.regular
    ]
    whole = sum(total for _, total in found)
    freedom = len(found) - 1
    if freedom < 1 or whole <= 0:
        return None
    share = sum(own for own, _ in found) / whole
    squares = sum((own - share * total) ** 2 for own, total in found)
    half = student(freedom) * math.sqrt(squares * len(found) / freedom) / whole
    return max(0.0, share - half), min(1.0, share + half)


def student(freedom: int) -> float:
    """Standard deviations on either side of 99 % where the deviation itself is known from so few: Student's t, to the
    first order of its expansion at the normal distribution."""
    return thresholds.DEVIATIONS * (1 + (thresholds.DEVIATIONS**2 + 1) / (4 * freedom))


def shares_of(steps: RankSteps, parts: Parts, *, accelerator: bool) -> tuple[Shares, dict[str, str]]:
    """The shares of a rank's regular steps, and why some are not known; what is not known is in `other`."""
    if parts.total <= 0:
        why = steps.missing or "no regular step was timed"
        return Shares.model_validate(dict.fromkeys(Shares.model_fields)), {"shares": why}
    kinds = {record.kind for record in steps.timed(records.BATCH, records.BACKWARD, records.UPDATE)}
    missing: dict[str, str] = {}
    if records.BATCH not in kinds:
        missing[DATA] = "no loader delivered a batch in the clean steps"
        missing[FORWARD] = "it cannot be told from the making of a batch, since no loader delivered one"
        if steps.loaded_elsewhere:
            missing[DATA] = "another thread takes the batches from the loader, and how long the training thread waits "
            missing[DATA] += "for that thread is not seen"
            missing[FORWARD] = "it cannot be told from the wait for the thread that takes the batches from the loader"
    if records.BACKWARD not in kinds:
        missing[FORWARD] = missing[BACKWARD] = "no backward pass was seen"
    if records.UPDATE not in kinds:
        missing[UPDATE] = "no optimizer's step was seen"
    if accelerator:
        missing[COPY] = (
            "the host does not see how long its copies to the device take; kernels.memcpy_share of a profiled run "
            "tells how long the device copies"
        )
    told: dict[str, float | None] = {
        name: None if name in missing else parts.share(name) for name in Shares.model_fields if name != OTHER
    }
    told[OTHER] = max(0.0, 1.0 - sum(share for share in told.values() if share is not None))
    return Shares.model_validate(told), {f"shares.{name}": why for name, why in missing.items()}


def _intervals(found: Iterable[Record], *, accelerator: bool) -> Iterator[Interval]:
    for record in found:
        part = _part_of(record, accelerator=accelerator)
        if part is not None and record.duration > 0:
            yield Interval(part, record.start, record.end)


def _part_of(record: Record, *, accelerator: bool) -> str | None:
    match record.kind:
        case records.BATCH:
            return DATA
        case records.BACKWARD:
            return BACKWARD
        case records.UPDATE | records.SCALER_UPDATE:
            return UPDATE
        case records.SYNC:
            return STALL if accelerator else None
        case records.CALL:
            return None if call_type(record) in WORKING_CALLS else STALL
        case records.COLLECTION:
            return STALL
    return None


def _starting_before(end: float, intervals: Sequence[Interval], first: int) -> Iterator[Interval]:
    for index in range(first, len(intervals)):
        if intervals[index].start >= end:
            return
        yield intervals[index]


def _attributed(cycle: Cycle, inside: Sequence[Interval], marks: Sequence[tuple[float, int]]) -> dict[str, float]:
    """Seconds of each part of a cycle; `inside` are the intervals that reach into it, by their starts."""
    bounds = {cycle.start, cycle.end, *(mark for mark, _ in marks)}
    for one in inside:
        bounds.update((max(one.start, cycle.start), min(one.end, cycle.end)))
    seconds: dict[str, float] = {}
    open_now: list[Interval] = []
    coming = 0
    for start, end in pairwise(sorted(bounds)):
        while coming < len(inside) and inside[coming].start <= start:
            open_now.append(inside[coming])
            coming += 1
        open_now = [one for one in open_now if one.end > start]
        part = _covering(open_now, _next_mark(marks, end))
        seconds[part] = seconds.get(part, 0.0) + end - start
    return seconds


def _covering(open_now: Sequence[Interval], following: tuple[float, int] | None) -> str:
    """What a moment counts for, given the intervals that are open and the mark that follows."""
    parts = {one.part for one in open_now}
    for outer in _OUTER:
        if outer in parts:
            return outer
    backward_follows = following is not None and following[1] == records.BACKWARD
    if not open_now:
        return FORWARD if backward_follows else OTHER
    inner = max(open_now, key=attrgetter("start"))
    # A closure that an optimizer calls has a forward pass of its own.
    if inner.part == UPDATE and backward_follows and following is not None and following[0] < inner.end:
        return FORWARD
    return inner.part


def _next_mark(marks: Sequence[tuple[float, int]], end: float) -> tuple[float, int] | None:
    """The first mark at or after the end of a moment; marks are bounds of moments, so none lies within one."""
    index = bisect_left(marks, (end, 0))
    return marks[index] if index < len(marks) else None
