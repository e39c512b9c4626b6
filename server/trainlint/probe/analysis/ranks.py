"""Ranks compared: which one the others wait for, and whether they wait for one that evaluates or saves.

Ranks that reduce gradients together take as long for a step as the slowest of them. A rank's own time leaves out what
it waited: for a core, in waits that the host timed, and, where DDP reduces during the backward pass, what its backward
pass takes longer than that of the rank that is through with it soonest. Ranks are compared step by step, and one is a
straggler only if it is the slower one in so many steps that chance does not explain it, in either half of them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trainlint.agent import records
from trainlint.probe import thresholds
from trainlint.probe.analysis.core_waits import CoreWaits
from trainlint.probe.analysis.loaders import training_loaders
from trainlint.probe.analysis.observed import Observed, line_of, number, whole
from trainlint.probe.analysis.shares import call_type
from trainlint.probe.analysis.steps import RankSteps
from trainlint.probe.evidence import Barrier, EpochStarts
from trainlint.probe.recording import Record
from trainlint.probe.traces.intervals import Span, overlap, total, union, without

ALWAYS = -math.inf, math.inf


@dataclass(frozen=True, slots=True)
class OwnTime:
    """A rank's regular step, and what it does of it itself."""

    steps: RankSteps
    own_s: float | None
    """The median over steps."""
    above: float | None = None
    """By how much that exceeds the own time of the median rank in the same step, as a share; the median over steps."""
    above_at_least: float | None = None
    """With 99 % confidence; None where there are too few steps to say so."""


def own_times(observed: Observed) -> tuple[OwnTime, ...]:
    """The own time of each rank with clean steps."""
    ranks = [(steps, _parts_of(steps)) for steps in observed.timed]
    if not ranks:
        return ()
    together = len(ranks) > 1 and all(_reduces_together(steps) for steps, _ in ranks)
    own: list[list[float]] = [[] for _ in ranks]
    # All ranks count the same steps, so the first of one is the first of all.
    for parts in zip(*(parts for _, parts in ranks), strict=False):
        if all(one.regular for one in parts):
            quickest = min(one.backward_s for one in parts)
            for times, one in zip(own, parts, strict=True):
                hidden = max(one.inside_s, one.backward_s - quickest) if together else one.inside_s
                times.append(max(0.0, one.busy_s + one.backward_s - hidden))
    usual = [statistics.median_low(step) for step in zip(*own, strict=True)]
    found = []
    for (steps, _), times in zip(ranks, own, strict=True):
        above = [time / median - 1 for time, median in zip(times, usual, strict=True) if median > 0]
        if len(ranks) < 2 or not above:
            found.append(OwnTime(steps, statistics.median(times) if times else None))
        else:
            found.append(
                OwnTime(steps, statistics.median(times), statistics.median(above), _at_least_throughout(above))
            )
    return tuple(found)


def straggler(times: Sequence[OwnTime]) -> tuple[OwnTime, float] | None:
    """The rank that the others wait for, and by how much its own time exceeds that of the median rank, as a share."""
    known = [(one.above, one) for one in times if one.above is not None]
    if not known:
        return None
    above, slowest = max(known, key=lambda one: one[0])
    sure = slowest.above_at_least is not None and slowest.above_at_least >= thresholds.STRAGGLER.value
    return (slowest, above) if sure else None


def _at_least_throughout(above: Sequence[float]) -> float | None:
    """The lower end of the median's 99 % interval, no more than the median of either half of the steps; None where
    these are too few. Other work that takes a rank's cores for a while slows steps that follow each other, and a sign
    test takes them for independent ones."""
    least = _median_at_least(sorted(above))
    if least is None or len(above) < thresholds.FEWEST_COMPARED_STEPS.value:
        return None
    middle = len(above) // 2
    return min(least, statistics.median(above[:middle]), statistics.median(above[middle:]))


def _median_at_least(ordered: Sequence[float]) -> float | None:
    """The lower end of the median's 99 % interval, whatever the distribution: a sign test of each smaller value."""
    tail = (1 - math.erf(thresholds.DEVIATIONS / math.sqrt(2))) / 2
    chance, below = 0.0, -1
    for smaller in range(len(ordered)):
        chance += math.comb(len(ordered), smaller) / 2 ** len(ordered)
        if chance > tail:
            break
        below = smaller
    return ordered[below] if below >= 0 else None


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a step of a rank consists of, in seconds, without waits for a core."""

    regular: bool
    busy_s: float
    """Outside the backward pass and of waits that the host timed."""
    backward_s: float
    inside_s: float
    """Of the backward pass, in waits that the host timed."""


def _parts_of(steps: RankSteps) -> list[_Parts]:
    passes = _united(steps.timed(records.BACKWARD))
    waits = _united(steps.timed(records.WAIT))
    cores = CoreWaits(steps)
    found = []
    for cycle in steps.cycles:
        within = (cycle.start, cycle.end)
        backward = union(passes, within)
        waiting = union(waits, within)
        outside = without([within], union([*backward, *waiting], within))
        found.append(
            _Parts(
                cycle.regular,
                busy_s=total(outside) - cores.within(outside),
                backward_s=total(backward) - cores.within(backward),
                inside_s=overlap(backward, waiting),
            )
        )
    return found


def _reduces_together(steps: RankSteps) -> bool:
    return any(True for _ in steps.process.noted("ddp"))


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


def _trains(batch: Record, steps: RankSteps) -> bool:
    return bool(batch.flags & records.GRADIENTS) and batch.name not in steps.evaluating


def _evaluations(steps: RankSteps) -> list[Span]:
    """In each cycle that evaluates, from its first evaluation batch to the next batch for training, or the end."""
    batches = steps.timed(records.BATCH)
    found = []
    for cycle in steps.cycles:
        if not cycle.evaluation_batches:
            continue
        own = [one for one in batches if cycle.start <= one.start < cycle.end]
        graded = [one.start for one in own if _trains(one, steps)]
        first = min((one.start for one in own if not _trains(one, steps)), default=cycle.end)
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


def epoch_starts(steps: RankSteps) -> tuple[EpochStarts, ...]:
    """How the epochs of each training loader began, as far as they were seen."""
    by_loader: dict[int | None, dict[int, str]] = {}
    for note in steps.process.noted("digest"):
        if note.get("digest"):
            epochs = by_loader.setdefault(whole(note.get("loader")), {})
            epochs[whole(note.get("epoch")) or 0] = str(note.get("digest"))
    loaders = {whole(note.get("name")): note for note in steps.process.noted("loader")}
    return tuple(
        EpochStarts(
            digests=tuple(epochs[epoch] for epoch in sorted(epochs)),
            distributed_sampler=known if isinstance(known := note.get("distributed_sampler"), bool) else None,
            line=line_of(str(note.get("line"))),
        )
        for loader, epochs in by_loader.items()
        for note in (loaders.get(loader, {}),)
    )


def dataset_shares(ranks: Iterable[RankSteps]) -> dict[int, float]:
    """What the training loader's sampler goes through, of the dataset that the ranks have in common, by process id.

    Ranks whose datasets are different `Subset`s have in common what these are parts of; datasets of different
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
    """As DDP counted them last, or else by the gradients that were missing, in modules in which it looks for them."""
    counts = [_unused(note) for note in steps.process.noted("ddp") if note.get("find_unused_parameters")]
    return next((count for count in reversed(counts) if count is not None), None)


def _unused(note: Mapping[str, object]) -> int | None:
    missing, unused_bytes = whole(note.get("unused_parameters")), whole(note.get("unused_parameter_bytes"))
    if unused_bytes is None:
        return missing
    return max(1, missing or 0) if unused_bytes else 0


def reductions_per_update(steps: RankSteps) -> float | None:
    """Backward passes that reduced gradients per optimizer step, where the agent counted them."""
    counts = [number(note.get("reductions")) for note in steps.process.noted("ddp")]
    return next((count for count in reversed(counts) if count is not None), None)
