"""Figures held against a threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainlint.probe.thresholds import FEWEST_STEPS, Threshold
from trainlint.probe.verdict import Measurement, Source

if TYPE_CHECKING:
    from trainlint.probe.measured import Measured


def reached(metric: str, value: float | None, bound: Threshold, source: Source) -> Measurement | None:
    """The figure, where it is known and no less than the threshold."""
    if value is None or value < bound.value:
        return None
    return Measurement(metric, value, bound.unit, source, bound.value)


def undercut(metric: str, value: float | None, bound: Threshold, source: Source) -> Measurement | None:
    """The figure, where it is known and no more than the threshold."""
    if value is None or value > bound.value:
        return None
    return Measurement(metric, value, bound.unit, source, bound.value)


def measured_enough(run: Measured) -> bool:
    """Whether there were enough steps for their shares to mean something."""
    # A bottleneck may also be insufficiently known because the host's parts of the steps were not told apart.
    parts = (run.shares.data_wait, run.shares.forward)
    regular = run.steps.measured - run.steps.irregular
    untold = run.shares.other is not None and parts == (None, None) and regular >= FEWEST_STEPS.value
    return run.bottleneck.kind != "insufficient" or untold
