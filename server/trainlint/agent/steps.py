"""Telling steps while the job runs: the same definition by which the analysis reads the records.

Updates with no batch and no backward pass between them are one group; its label is the set of its optimizers. A step
ends with the group whose label is the rarest of those seen often enough; of several as rare, with the one that batches
follow. Where no optimizer is seen, a step ends with the last backward pass before a batch; where no backward pass is
seen either, a step is a batch. That a group has ended shows at the next batch or backward pass: this is the boundary.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Protocol

OFTEN_ENOUGH = 3
GROUPS_REMEMBERED = 128
"""Labels that are no longer seen are forgotten, so that a job may change its optimizers."""
WITHOUT_UPDATES = 6
"""After as many batches or backward passes without an update, these are taken for steps themselves."""

Label = frozenset[str]
BACKWARD, BATCH = "backward", "batch"


class Boundaries(Protocol):
    """What happens at the boundaries of steps."""

    def step(self, settled: bool) -> None:
        """A step has ended; `settled` says that no update was seen that may yet turn out to end steps."""

    def new_anchor(self, seen: int) -> None:
        """Steps end with other updates than was thought; as many of them were seen."""


class Steps:
    """The groups of a training thread, and the boundaries between steps."""

    def __init__(self, boundaries: Boundaries) -> None:
        self._boundaries = boundaries
        self._open: set[str] | None = None
        self._scaled = False
        self._labels: deque[Label] = deque(maxlen=GROUPS_REMEMBERED)
        self._before_batches: Counter[Label] = Counter()
        self._usual_scaled: Counter[Label] = Counter()
        self._anchor: Label | None = None
        self._unit = ""
        """What stands for an update: nothing where updates are seen, else BACKWARD or BATCH."""
        self._seen: Counter[str] = Counter()

    def batch(self, gradients: bool) -> None:
        """The job asks a loader for a batch."""
        self._close(before_batch=gradients)
        if gradients:
            self._without_update(BATCH)

    def backward(self) -> None:
        """A backward pass begins."""
        self._close(before_batch=False)
        self._without_update(BACKWARD)

    def update(self, optimizer: str) -> None:
        """An optimizer stepped."""
        self._updates()
        self._opened().add(optimizer)

    def scaler_update(self) -> None:
        """A gradient scaler was updated, whether or not its step was skipped."""
        self._updates()
        self._opened()
        self._scaled = True

    # --------------------------------------------------------------------------------------------------------- groups

    def _updates(self) -> None:
        if self._unit or not self._seen["update"]:
            # What stood for updates until now ends no steps.
            self._unit, self._open = "", None
            self._labels.clear()
            self._before_batches.clear()
        self._seen["update"] += 1

    def _opened(self) -> set[str]:
        if self._open is None:
            self._open, self._scaled = set(), False
        return self._open

    def _without_update(self, unit: str) -> None:
        """Take batches or backward passes for updates where there are none."""
        if self._seen["update"]:
            return
        self._seen[unit] += 1
        stands = unit == BACKWARD or not self._seen[BACKWARD]
        if self._unit != unit and stands and self._seen[unit] >= WITHOUT_UPDATES:
            self._unit, self._open = unit, None
            self._labels.clear()
        if self._unit == unit:
            self._opened().add(unit)

    def _close(self, before_batch: bool) -> None:
        """The open group ends, unless backward passes that stand for updates go on until the next batch."""
        if self._open is None:
            return
        if self._unit == BACKWARD and not before_batch and self._seen[BATCH]:
            return
        label, self._open = self._labelled(frozenset(self._open)), None
        self._labels.append(label)
        if before_batch:
            self._before_batches[label] += 1
        anchor = self._rarest()
        if anchor != self._anchor:
            self._anchor = anchor
            self._boundaries.new_anchor(self._labels.count(anchor) if anchor is not None else 0)
        if label == anchor:
            self._boundaries.step(settled=all(self._labels.count(one) >= OFTEN_ENOUGH for one in set(self._labels)))

    def _labelled(self, label: Label) -> Label:
        """The label of a group, that of its kind where an update was skipped for infinities."""
        if not self._scaled:
            return label
        fitting = [one for one, _ in self._usual_scaled.most_common() if one >= label]
        if not label:
            return fitting[0] if fitting else label
        self._usual_scaled[label] += 1
        return label

    def _rarest(self) -> Label | None:
        counts = Counter(self._labels)
        usual = {label: count for label, count in counts.items() if count >= OFTEN_ENOUGH}
        if not usual:
            return None
        least = min(usual.values())
        rare = [label for label, count in usual.items() if count <= least + 1]
        return max(rare, key=lambda label: 2 * self._before_batches[label] > counts[label]) if rare else None
