"""Device memory over the clean steps: whether it grows, how full the device is, and how much lies broken up."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from trainlint.agent import records
from trainlint.probe.analysis.steps import RankSteps
from trainlint.probe.evidence import MemoryPeak
from trainlint.probe.thresholds import DEVIATIONS

FEWEST = 10
"""Fewer readings show no trend."""
MOST = 200
"""As many readings, evenly spaced, are compared with one another."""


def slope(steps: RankSteps) -> float | None:
    """Bytes that are allocated more after each step than after the one before; 0 where no trend stands out of the ups
    and downs (Mann-Kendall test, Theil-Sen slope). None if it was not read."""
    readings = [one for one in steps.timed(records.MEMORY) if not one.flags & records.PEAK]
    if len(readings) < FEWEST:
        return None
    stride = max(1, math.ceil(len(readings) / MOST))
    values = [one.value for one in readings][::stride]
    count = len(values)
    ups = sum(_sign(values[j] - values[i]) for i in range(count) for j in range(i + 1, count))
    spread = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    if abs(ups) <= DEVIATIONS * spread:
        return 0.0
    steps_apart = stride * len(steps.cycles) / len(readings)
    slopes = [(values[j] - values[i]) / ((j - i) * steps_apart) for i in range(count) for j in range(i + 1, count)]
    return statistics.median(slopes)


def peak(steps: RankSteps) -> MemoryPeak | None:
    """The most that the process held, as its allocator counts it."""
    found = [one for one in steps.process.records if one.kind == records.MEMORY and one.flags & records.PEAK]
    return MemoryPeak(max(one.value for one in found), max(one.duration for one in found)) if found else None


def largest(peaks: Sequence[MemoryPeak]) -> MemoryPeak | None:
    """The peak of the rank that reserves the most."""
    return max(peaks, key=lambda one: one.reserved, default=None)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
