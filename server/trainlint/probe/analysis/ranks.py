"""Ranks compared: which one the others wait for, and whether they wait for one that evaluates or saves.

Ranks that reduce gradients together take as long for a step as the slowest of them. A rank's own time leaves out what
it waited: waits that the host timed, and, where DDP reduces during the backward pass, what its backward pass takes
longer than that of the rank that is through with it soonest.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trainlint.agent import records
from trainlint.probe import thresholds
from trainlint.probe.analysis.loaders import training_loaders
from trainlint.probe.analysis.observed import Observed, number, whole
from trainlint.probe.analysis.shares import call_type
from trainlint.probe.analysis.steps import Cycle, RankSteps, Spans
from trainlint.probe.evidence import Barrier
from trainlint.probe.recording import Record
from trainlint.probe.traces.intervals import Span, overlap, union

ALWAYS = -math.inf, math.inf


@dataclass(frozen=True, slots=True)
class OwnTime:
    """A rank's regular step, and what it does of it itself."""

    steps: RankSteps
    own_s: float | None


def own_times(observed: Observed) -> tuple[OwnTime, ...]:
    """The own time of each rank with clean steps."""
    waits = [_Waits.of(steps) for steps in observed.timed]
    together = len(waits) > 1 and all(_reduces_together(one.steps) for one in waits)
    quickest = min((one.backward_s for one in waits if one.backward_s is not None), default=None)
    found = []
    for one in waits:
        median = one.steps.median_s
        hidden = one.inside_s
        if together and quickest is not None and one.backward_s is not None:
            hidden = max(hidden, one.backward_s - quickest)
        found.append(OwnTime(one.steps, None if median is None else max(0.0, median - one.outside_s - hidden)))
    return tuple(found)


def straggler(times: Sequence[OwnTime]) -> tuple[OwnTime, float] | None:
    """The rank that the others wait for, and by how much its own time exceeds that of the median rank, as a share."""
    known = [(one.own_s, one) for one in times if one.own_s is not None]
    if len(known) < 2:
        return None
    usual = statistics.median_low(own for own, _ in known)
    slowest_s, slowest = max(known, key=lambda one: one[0])
    if usual <= 0:
        return None
    above = slowest_s / usual - 1
    return (slowest, above) if above >= thresholds.STRAGGLER.value else None


@dataclass(frozen=True, slots=True)
class _Waits:
    """What a rank waited in a regular step, as medians in seconds."""

    steps: RankSteps
    outside_s: float
    inside_s: float
    """During the backward pass."""
    backward_s: float | None

    @classmethod
    def of(cls, steps: RankSteps) -> _Waits:
        backward = steps.timed(records.BACKWARD, regular_only=True)
        passes = Spans(_united(backward))
        waits = steps.timed(records.WAIT, regular_only=True)
        inside = [one for one in waits if one.start in passes]
        outside = [one for one in waits if one.start not in passes]
        regular = steps.regular
        return cls(
            steps,
            _median_in(regular, outside),
            _median_in(regular, inside),
            _median_in(regular, backward) if backward else None,
        )


def _reduces_together(steps: RankSteps) -> bool:
    return any(True for _ in steps.process.noted("ddp"))


def _median_in(cycles: Sequence[Cycle], found: Iterable[Record]) -> float:
    """The median over cycles of what the records take in each; nested ones count once."""
    spans = _united(found)
    return statistics.median(overlap([(one.start, one.end)], spans) for one in cycles) if cycles else 0.0


def _united(found: Iterable[Record]) -> list[Span]:
    return union(((one.start, one.end) for one in found), ALWAYS)


# ----------------------------------------------------------------------------------------------------------- barriers


def barrier(observed: Observed) -> Barrier | None:
    """The rank that the others wait the longest for while it alone evaluates or saves; None if none is waited for.

    What waits is a rank that in that time is in a timed wait or in a backward pass, which holds the reduction.
    """
    found: list[Barrier] = []
    for busy in observed.timed:
        for what, spans in (("evaluates", _evaluations(busy)), ("saves", _saves(busy))):
            waiting = [
                overlap(_without(spans, union([*_evaluations(other), *_saves(other)], ALWAYS)), _waiting(other))
                / other.wall_s
                for other in observed.timed
                if other is not busy
            ]
            if waiting and max(waiting) > 0:
                found.append(Barrier(busy.rank, what, max(waiting)))
    return max(found, key=lambda one: one.waiting_share, default=None)


def _evaluations(steps: RankSteps) -> list[Span]:
    """In each cycle that evaluates, from its first evaluation batch to the next batch for training, or the end."""
    batches = steps.timed(records.BATCH)
    found = []
    for cycle in steps.cycles:
        if not cycle.evaluation_batches:
            continue
        own = [one for one in batches if cycle.start <= one.start < cycle.end]
        graded = [one.start for one in own if one.flags & records.GRADIENTS]
        first = min((one.start for one in own if not one.flags & records.GRADIENTS), default=cycle.end)
        found.append((first, min((start for start in graded if start > first), default=cycle.end)))
    return found


def _saves(steps: RankSteps) -> list[Span]:
    return _united(one for one in steps.timed(records.CALL) if call_type(one) == "save")


def _waiting(steps: RankSteps) -> list[Span]:
    return _united(steps.timed(records.WAIT, records.BACKWARD))


def _without(spans: Iterable[Span], others: Sequence[Span]) -> list[Span]:
    """The stretches in which none of the others holds, not even in part: ranks that do it together wait for nobody."""
    return [span for span in spans if overlap([span], others) == 0.0]


# ------------------------------------------------------------------------------------------------- evidence by rank


def batch_digests(steps: RankSteps) -> tuple[str, ...]:
    """The digest of the first batch of each epoch of the training loader, as far as they were seen."""
    notes = list(steps.process.noted("digest"))
    loaders = [whole(note.get("loader")) for note in notes]
    own = next(iter(loaders), None)
    by_epoch = {
        whole(note.get("epoch")) or 0: str(note.get("digest"))
        for note, loader in zip(notes, loaders, strict=True)
        if loader == own and note.get("digest")
    }
    return tuple(by_epoch[epoch] for epoch in sorted(by_epoch))


def dataset_shares(ranks: Iterable[RankSteps]) -> dict[int, float]:
    """What the training loader's sampler goes through, of the data set that the ranks have in common, by process id.

    Ranks whose data sets are different `Subset`s have in common what these are parts of; data sets of different
    lengths have nothing in common that is known.
    """
    notes = {steps.process.pid: loader.note for steps in ranks for loader in training_loaders(steps)[:1]}
    parts = {note.get("part") for note in notes.values() if "part_of_length" in note}
    common = "part_of_length" if len(parts) > 1 else "dataset_length"
    lengths = {number(note.get(common)) for note in notes.values()}
    if None in parts or len(lengths) != 1:
        return {}
    (length,) = lengths
    sampled = {pid: number(note.get("sampler_length")) for pid, note in notes.items()}
    return {pid: samples / length for pid, samples in sampled.items() if samples is not None and length}


def unused_parameters(steps: RankSteps) -> int | None:
    """As DDP counted them last where it looks for them; else by the gradients that were missing."""
    counts = [_unused(note) for note in steps.process.noted("ddp")]
    return next((count for count in reversed(counts) if count is not None), None)


def _unused(note: Mapping[str, object]) -> int | None:
    missing, unused_bytes = whole(note.get("unused_parameters")), whole(note.get("unused_parameter_bytes"))
    if not note.get("find_unused_parameters") or unused_bytes is None:
        return missing
    return max(1, missing or 0) if unused_bytes else 0


def reductions_per_update(steps: RankSteps) -> float | None:
    """Backward passes that reduced gradients per optimizer step, where the agent counted them."""
    counts = [number(note.get("reductions")) for note in steps.process.noted("ddp")]
    return next((count for count in reversed(counts) if count is not None), None)
