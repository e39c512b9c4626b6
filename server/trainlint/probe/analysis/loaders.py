"""What the training loaders show: whether its queue ran empty, how epochs begin, and how many samples a step takes."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from trainlint.agent import records
from trainlint.probe import thresholds
from trainlint.probe.analysis.observed import line_of, whole
from trainlint.probe.analysis.steps import RankSteps
from trainlint.probe.evidence import Line
from trainlint.probe.recording import ProcessRecording, Record

Note = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class TrainingLoader:
    """A loader that delivered batches with gradients enabled."""

    name: str
    workers: int
    data_wait_share: float
    """The waits for its batches, of the regular steps."""
    batch_size: int | None = None
    queue_empty_share: float | None = None
    """Of the batches after an iterator's first, those before which no batch stood ready."""
    epoch_start_s: float | None = None
    steps_per_epoch: float | None = None
    batches_per_step: float | None = None
    """Its own: another loader may take part in the step."""
    starved_share: float | None = None
    """As `data_wait_share`, of the waits before which no batch stood ready; None without workers."""
    workers_busy: float | None = None
    """The share of the clean steps in which a worker computed, or waited for a core to compute on; None where that is
    not known."""
    note: Note = field(default_factory=dict)

    @property
    def line(self) -> Line | None:
        """Where it was made, or iterated over."""
        return line_of(str(self.note.get("line")))

    @property
    def keeps_up(self) -> bool:
        """Whether its workers have batches ready when one is asked for."""
        empty, busy = self.queue_empty_share, self.workers_busy
        has_room = busy is None or busy < thresholds.WORKERS_BUSY.value
        return self.workers > 0 and empty is not None and empty < thresholds.QUEUE_EMPTY.value and has_room

    @property
    def samples_per_step(self) -> float | None:
        if self.batch_size is None or not self.batches_per_step:
            return None
        return self.batch_size * self.batches_per_step


def training_loaders(steps: RankSteps) -> tuple[TrainingLoader, ...]:
    """The training loaders of a rank that delivered a batch in its clean steps, the one with the most batches first."""
    graded = [one for one in steps.timed(records.BATCH) if one.flags & records.GRADIENTS]
    batches = [one for one in graded if one.name not in steps.evaluating]
    delivered = [one for one in batches if not one.flags & records.LAST]
    names = Counter(one.name for one in delivered)
    return tuple(
        _loader(steps, name, [one for one in delivered if one.name == name]) for name, _ in names.most_common()
    )


def _loader(steps: RankSteps, name: str, own: list[Record]) -> TrainingLoader:
    note = loader_notes(steps.process).get(name, {})
    later = [one for one in own if not one.flags & records.FIRST and one.value >= 0]
    regular = [one for one in steps.timed(records.BATCH, regular_only=True) if one.name == name]
    count = sum(1 for one in regular if one.flags & records.GRADIENTS and not one.flags & records.LAST)
    counted = [one for one in regular if one.value >= 0]
    seconds = sum(cycle.duration for cycle in steps.regular)
    return TrainingLoader(
        name=name,
        workers=_workers(note, own),
        data_wait_share=sum(one.duration for one in regular) / seconds if seconds > 0 else 0.0,
        batch_size=whole(note.get("batch_size")),
        queue_empty_share=sum(1 for one in later if one.value == 0) / len(later) if later else None,
        epoch_start_s=_epoch_start(own),
        steps_per_epoch=_steps_per_epoch(steps, name),
        batches_per_step=count / len(steps.regular) if steps.regular else None,
        starved_share=sum(one.duration for one in counted if one.value == 0) / seconds if counted else None,
        note=note,
    )


def loader_notes(process: ProcessRecording) -> Mapping[str, Note]:
    """What a process noted of its loaders, by the name that records give them; the last note of a loader counts."""
    names = process.names
    return {
        names.get(identity, str(identity)): note
        for note in process.noted("loader")
        if (identity := whole(note.get("name"))) is not None
    }


def _workers(note: Note, own: list[Record]) -> int:
    said = whole(note.get("workers"))
    return said if said is not None else int(any(one.value >= 0 for one in own))


def _epoch_start(own: list[Record]) -> float | None:
    starts = [one.duration for one in own if one.flags & records.FIRST]
    return statistics.median(starts) if starts else None


def _steps_per_epoch(steps: RankSteps, name: str) -> float | None:
    """The median number of cycles between two iterators of the loader; None where no two began in the clean steps."""
    starts = [
        one.end
        for one in steps.process.records
        if one.kind == records.BATCH and one.name == name and one.flags & records.FIRST
    ]
    counts = [
        bisect_right(steps.ends, after) - bisect_right(steps.ends, before)
        for before, after in pairwise(sorted(starts))
        if steps.cycles and steps.cycles[0].start <= before
    ]
    return statistics.median(counts) if counts else None
