"""Figures held against a threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainlint.probe.evidence import Measurement, Source
from trainlint.probe.thresholds import Threshold

if TYPE_CHECKING:
    from trainlint.probe.measured import Measured


def reached(metric: str, value: float | None, bound: Threshold, source: Source) -> Measurement | None:
    """The figure, where it is known and no less than the threshold."""
    known = value is not None and value >= bound.value
    return Measurement(metric, value, bound.unit, source, bound.value) if known and value is not None else None


def undercut(metric: str, value: float | None, bound: Threshold, source: Source) -> Measurement | None:
    """The figure, where it is known and no more than the threshold."""
    known = value is not None and value <= bound.value
    return Measurement(metric, value, bound.unit, source, bound.value) if known and value is not None else None


def measured_enough(run: Measured) -> bool:
    """Whether there were enough steps for their shares to mean something."""
    return run.bottleneck.kind != "insufficient"
