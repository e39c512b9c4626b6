"""The clean steps one after the other, for plotting."""

from __future__ import annotations

from collections.abc import Sequence

from trainlint.probe.analysis.shares import DATA, STALL, CycleParts
from trainlint.probe.measured import StepPoint


def step_points(cycles: Sequence[CycleParts]) -> list[StepPoint]:
    """A point for each cycle, regular or not."""
    return [
        StepPoint(
            start_s=one.cycle.start - cycles[0].cycle.start,
            duration_s=one.cycle.duration,
            data_wait_s=one.parts.seconds.get(DATA, 0.0),
            sync_wait_s=one.parts.seconds.get(STALL, 0.0),
            regular=one.cycle.regular,
        )
        for one in cycles
    ]
