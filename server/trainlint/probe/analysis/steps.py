"""What a step is: from the events of a training thread to cycles that end with the update that ends a step.

Updates that follow each other with no batch and no backward pass between them are one group, labelled by its
optimizers: one `step` that calls another's, one optimizer per parameter, or GradScaler's `step` and `update`. The
label that is rarest ends a step: with gradient accumulation there is only one, with two optimizers the one that steps
less often, or last. A step lasts from the end of such a group to the end of the next.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

from trainlint.agent import records
from trainlint.probe.figures import counted
from trainlint.probe.recording import ProcessRecording, Record

OFTEN_ENOUGH = 3
"""A label that was seen less often does not end steps, unless no label was seen more often."""

TIMED = records.CLEAN, records.AFTER
"""The phases of the clean steps: some of them come after the profiler's window."""

TRAINING = (records.BACKWARD, records.UPDATE, records.SCALER_UPDATE)
"""What only a job that trains records."""


class What(Enum):
    BATCH = "batch"
    """With gradients enabled."""
    EVALUATION = "evaluation batch"
    BACKWARD = "backward"
    UPDATE = "update"
    SCALER = "scaler update"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a step consists of, at the moment that decides its order."""

    time: float
    what: What
    record: Record


@dataclass(frozen=True, slots=True)
class Group:
    """Updates that belong together, or what stands for them where no update is seen."""

    start: float
    end: float
    label: frozenset[str]
    scaled: bool = False
    skipped: bool = False
    """GradScaler left out an update, so that its optimizer may be missing from the label."""
    batches_before: int = 0
    """Batches since the group before."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """From the end of one step's update to the end of the next."""

    start: float
    end: float
    batches: int
    """Micro-batches that were delivered."""
    evaluation_batches: int
    turns: bool
    """An iterator began or ended."""
    whole: bool = True
    """False where the agent changed its phase at the start: what it did then is no part of the step."""
    regular: bool = True

    @property
    def duration(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class RankSteps:
    """The steps of one rank."""

    process: ProcessRecording
    cycles: tuple[Cycle, ...] = ()
    """The whole clean ones, in order."""
    count: int = 0
    """All clean ones, those included at whose start the agent changed its phase, which are not timed."""
    warmup: int = 0
    ends: tuple[float, ...] = ()
    """The ends of all steps, of whatever phase."""
    label: str = ""
    missing: str = ""
    """Why there are no clean cycles."""
    note: str = ""
    """What the reader should know of how they were told."""
    evaluating: frozenset[str] = frozenset()
    """Loaders whose batches are evaluated on, though gradients are enabled."""

    @property
    def regular(self) -> tuple[Cycle, ...]:
        return tuple(cycle for cycle in self.cycles if cycle.regular)

    @property
    def rank(self) -> int:
        return self.process.rank or 0

    @property
    def median_s(self) -> float | None:
        return statistics.median(cycle.duration for cycle in self.regular) if self.regular else None

    @property
    def mean_s(self) -> float | None:
        return statistics.fmean(cycle.duration for cycle in self.regular) if self.regular else None

    @property
    def cycle_s(self) -> float:
        """Mean of all clean cycles, evaluation and new epochs included; 0 where there are none."""
        return self.wall_s / len(self.cycles) if self.cycles else 0.0

    @property
    def micro_batches(self) -> float | None:
        """Batches per regular step, on average: prefetching makes single steps uneven."""
        return statistics.fmean(cycle.batches for cycle in self.regular) if self.regular else None

    @property
    def wall_s(self) -> float:
        """All clean cycles together."""
        return sum(cycle.duration for cycle in self.cycles)

    def timed(self, *kinds: int, regular_only: bool = False) -> tuple[Record, ...]:
        """The records of these kinds that the training thread wrote in its clean cycles."""
        inside = Spans((cycle.start, cycle.end) for cycle in (self.regular if regular_only else self.cycles))
        return tuple(
            record
            for record in self.process.records
            if record.kind in kinds and record.thread == 0 and record.start in inside
        )

    @property
    def loaded_elsewhere(self) -> bool:
        """Whether a thread that is not the training thread took batches from a loader in the clean cycles."""
        inside = Spans((cycle.start, cycle.end) for cycle in self.cycles)
        return any(
            record.kind == records.BATCH and record.thread != 0 and record.start in inside
            for record in self.process.records
        )


class Spans:
    """Stretches of time that do not overlap."""

    def __init__(self, spans: Iterable[tuple[float, float]]) -> None:
        self._spans = sorted(spans)
        self._starts = [start for start, _ in self._spans]

    def __contains__(self, time: float) -> bool:
        index = bisect_right(self._starts, time) - 1
        return index >= 0 and time < self._spans[index][1]

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return iter(self._spans)

    @property
    def total(self) -> float:
        return sum(end - start for start, end in self._spans)


def steps_of(process: ProcessRecording, warmup: int) -> RankSteps:
    """The clean steps of a rank. `warmup` is how many steps were to be left out, where no phase was recorded."""
    evaluating = _evaluation_loaders(_events(process.records))
    events = _events(process.records, evaluating)
    groups, how = _groups(events)
    if len(groups) < 2:
        return RankSteps(process, missing=_why_none(events, groups), label=how)
    phases = Phases(process)
    anchors = _anchors(groups, phases)
    if len(anchors) < 2:
        return RankSteps(process, missing="fewer than two updates of the optimizer that ends a step", label=how)
    # An update that ends a step may be followed by others before the next batch, so a cycle runs to the group's end.
    cycles = list(_cycles(anchors, events, process.records, phases))
    clean = [cycle for phase, cycle in cycles if phase in TIMED]
    warm = sum(1 for phase, _ in cycles if phase == records.WARMUP)
    if phases.known and not process.lost and phases.at(anchors[0].start) == records.WARMUP:
        warm += 1  # the first step, whose beginning nothing shows
    note = ""
    if not phases.known:
        clean, warm, note = clean[warmup:], min(warmup, len(clean)), "the agent recorded no phases"
    label = _in_words(anchors[-1].label, process) if how == "" else how
    count, clean = len(clean), [cycle for cycle in clean if cycle.whole]
    if not clean:
        why = f"the job ended after {counted(len(cycles), 'step')}, in the warm-up"
        return RankSteps(process, warmup=warm, label=label, missing=why)
    ends = tuple(anchor.end for anchor in anchors)
    return RankSteps(process, tuple(_told_apart(clean)), count, warm, ends, label, note=note, evaluating=evaluating)


def _why_none(events: Sequence[Event], groups: Sequence[Group]) -> str:
    if groups:
        return "fewer than two steps were seen"
    seen = sorted({event.what.value for event in events})
    return f"no step was identified: the job showed {' and '.join(seen) if seen else 'no batch, backward or update'}"


def _evaluation_loaders(events: Sequence[Event]) -> frozenset[str]:
    """The loaders whose batches are evaluated on with gradients enabled: no backward pass follows any of them before
    another batch or update, they come several in a row, and less often than backward passes by other loaders' batches.

    Batches that are fetched ahead, or by two loaders for one step, come as often as these passes.
    """
    trained: Counter[str] = Counter()
    repeated: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    batches = [event for event in events if event.what is What.BATCH]
    for event, after in pairwise(events):
        if event.what is What.BATCH and after.what is What.BACKWARD:
            trained[event.record.name] += 1
    last = ""
    for event in events:
        if event.what is What.BATCH:
            (repeated if event.record.name == last else runs)[event.record.name] += 1
            last = event.record.name
        elif event.what is What.BACKWARD:
            last = ""
    passes = sum(trained.values())
    return frozenset(
        name
        for name in {event.record.name for event in batches}
        if not trained[name] and repeated[name] and runs[name] * 2 < passes
    )


def _events(found: Iterable[Record], evaluating: frozenset[str] = frozenset()) -> list[Event]:
    """The events of the training thread, in order: a batch counts from its arrival, a backward pass from its start, an
    update from its end, so that a closure's backward passes come before the update that calls them."""
    events = []
    for record in found:
        if record.thread != 0:
            continue
        if record.kind == records.BATCH and not record.flags & records.LAST:
            graded = record.flags & records.GRADIENTS and record.name not in evaluating
            events.append(Event(record.end, What.BATCH if graded else What.EVALUATION, record))
        elif record.kind == records.BACKWARD:
            events.append(Event(record.start, What.BACKWARD, record))
        elif record.kind == records.UPDATE:
            events.append(Event(record.end, What.UPDATE, record))
        elif record.kind == records.SCALER_UPDATE:
            events.append(Event(record.end, What.SCALER, record))
    return sorted(events, key=lambda event: event.time)


# ------------------------------------------------------------------------------------------------------------ groups


def _groups(events: Sequence[Event]) -> tuple[list[Group], str]:
    """What may end a step, and how it was told where no update was seen."""
    kinds = {event.what for event in events}
    if kinds & {What.UPDATE, What.SCALER}:
        return _same_label_where_skipped(list(_runs(events, {What.UPDATE, What.SCALER}))), ""
    if What.BACKWARD in kinds:
        alone = What.BATCH not in kinds
        runs = list(_runs(events, {What.BACKWARD}, each=alone))
        return runs, "no optimizer was seen: a step ends with the last backward pass before the next batch"
    if What.BATCH in kinds:
        return list(_runs(events, {What.BATCH}, each=True)), "no update and no backward pass seen: a step is a batch"
    return [], ""


def _runs(events: Sequence[Event], ending: set[What], *, each: bool = False) -> Iterator[Group]:
    """Maximal runs of the events that may end a step, or each of them; evaluation batches end a run as others do."""
    run: list[Event] = []
    batches = 0
    for event in events:
        if event.what in ending:
            if each and run:
                yield _group(run, batches)
                run, batches = [], 0
            run.append(event)
        elif run:
            yield _group(run, batches)
            run, batches = [], 0
        if event.what is What.BATCH:
            batches += 1
    if run:
        yield _group(run, batches)


def _group(run: Sequence[Event], batches: int) -> Group:
    own = [event.record for event in run]
    scalers = [record for record in own if record.kind == records.SCALER_UPDATE]
    label = frozenset(record.name for record in own if record.kind == records.UPDATE)
    return Group(
        start=min(record.start for record in own),
        end=max(record.end for record in own),
        label=label,
        scaled=bool(scalers),
        skipped=any(record.value for record in scalers) or bool(scalers and not label),
        batches_before=batches,
    )


def _same_label_where_skipped(groups: list[Group]) -> list[Group]:
    """Give groups that lack an optimizer, since its update was skipped for infinities, the label of their kind: the one
    that is the most usual in the same place."""
    usual: dict[tuple[frozenset[str], bool], Counter[frozenset[str]]] = {}
    whole = Counter(group.label for group in groups if group.scaled and not group.skipped)
    for before, group in pairwise(groups):
        if group.scaled and not group.skipped:
            usual.setdefault(_place(before, group), Counter())[group.label] += 1
    told: list[Group] = []
    for group in groups:
        if group.skipped:
            here = usual.get(_place(told[-1], group), Counter()) if told else Counter()
            fitting = [label for label, _ in (here + whole).most_common() if label >= group.label]
            preferred = [label for label, _ in here.most_common() if label >= group.label]
            group = replace(group, label=next(iter(preferred + fitting), group.label))
        told.append(group)
    return told


def _place(before: Group, group: Group) -> tuple[frozenset[str], bool]:
    return before.label, group.batches_before > 0


# ------------------------------------------------------------------------------------------------------------ anchor


def _anchors(groups: Sequence[Group], phases: Phases) -> list[Group]:
    """The groups that end a step, of the whole recording."""
    clean = [group for group in groups if phases.at(group.start) in TIMED]
    label = _rarest(clean) or _rarest(groups)
    return [group for group in groups if group.label == label] if label is not None else []


def _rarest(groups: Sequence[Group]) -> frozenset[str] | None:
    """The label that ends a step: the rarest that is no exception; of several as rare, the last of the cycle.

    The window may cut off a part of a cycle, so counts that differ by one are the same.
    """
    counts = Counter(group.label for group in groups)
    usual = {label: count for label, count in counts.items() if count >= OFTEN_ENOUGH} or {
        label: count for label, count in counts.items() if count > 1
    }
    if not usual:
        return None
    least = min(usual.values())
    rare = [label for label, count in usual.items() if count <= least + 1]
    before_batches = Counter(group.label for group, after in pairwise(groups) if after.batches_before)
    first_seen = {label: place for place, label in reversed(list(enumerate(group.label for group in groups)))}
    return max(rare, key=lambda label: (before_batches[label] / counts[label] > 0.5, first_seen[label]))


# ------------------------------------------------------------------------------------------------------------ cycles


class Phases:
    """When the agent was in which phase."""

    def __init__(self, process: ProcessRecording) -> None:
        found = sorted((record.start, int(record.value)) for record in process.records if record.kind == records.PHASE)
        self.known = bool(found)
        self._times = [time for time, _ in found]
        self._values = [value for _, value in found]
        # Of a ring that wrapped around, the records of the first phases are gone: those left belong to the one before.
        first = max(self._values[0] - 1, records.WARMUP) if found and process.lost else records.WARMUP
        self._first = first if found else records.CLEAN

    def at(self, time: float) -> int:
        index = bisect_right(self._times, time) - 1
        return self._values[index] if index >= 0 else self._first

    def changed(self, start: float, end: float) -> bool:
        """Whether the phase changed after the one time, and no later than the other."""
        return bisect_right(self._times, end) > bisect_right(self._times, start)

    def change_between(self, start: float, end: float) -> bool:
        """Whether the phase changed after the one time and before the other."""
        return bisect_left(self._times, end) > bisect_right(self._times, start)

    def spans(self, *phases: int, until: float) -> Spans:
        """The stretches of time in these phases; the last one ends at `until`."""
        ends = [*self._times[1:], until]
        return Spans(
            (start, max(start, end))
            for start, value, end in zip(self._times, self._values, ends, strict=True)
            if value in phases
        )


def _cycles(
    anchors: Sequence[Group], events: Sequence[Event], found: Iterable[Record], phases: Phases
) -> Iterator[tuple[int, Cycle]]:
    """Each cycle that lies in one phase, with that phase.

    The agent changes its phase when the first batch or backward pass of a step shows that the one before has ended.
    """
    times = [event.time for event in events]
    turns = [
        record.end
        for record in found
        if record.kind == records.BATCH and record.thread == 0 and record.flags & (records.FIRST | records.LAST)
    ]
    turns.sort()
    for before, after in pairwise(anchors):
        own = events[bisect_right(times, before.end) : bisect_right(times, after.end)]
        begin = min((event.record.start for event in own), default=before.end)
        inner = max(begin, before.end)
        if phases.change_between(inner, after.start):
            continue
        yield (
            phases.at(inner),
            Cycle(
                start=before.end,
                end=after.end,
                batches=sum(1 for event in own if event.what is What.BATCH),
                evaluation_batches=sum(1 for event in own if event.what is What.EVALUATION),
                turns=bisect_right(turns, after.end) > bisect_right(turns, before.end),
                whole=not phases.changed(before.end, inner),
            ),
        )


def _told_apart(cycles: Sequence[Cycle]) -> Iterator[Cycle]:
    """Mark the irregular cycles: those with an evaluation or a new iterator in them, unless most cycles are so."""
    evaluating = sum(1 for cycle in cycles if cycle.evaluation_batches) * 2 > len(cycles)
    turning = sum(1 for cycle in cycles if cycle.turns) * 2 > len(cycles)
    for cycle in cycles:
        odd = (cycle.evaluation_batches and not evaluating) or (cycle.turns and not turning)
        yield replace(cycle, regular=not odd)


def _in_words(label: frozenset[str], process: ProcessRecording) -> str:
    classes = optimizer_classes(process)
    names = sorted({classes.get(name, name) for name in label})
    return f"a step ends with the update of {' and '.join(names)}" if names else "a step ends with GradScaler.update"


def optimizer_classes(process: ProcessRecording) -> dict[str, str]:
    """The class of each optimizer by the name that records give it."""
    names = process.names
    return {
        names.get(identity, str(identity)): str(note.get("class"))
        for note in process.noted("optimizer")
        if isinstance(identity := note.get("name"), int)
    }
