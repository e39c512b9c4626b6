"""Percentiles of few values, without interpolation: each is a value that was measured."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(values: Sequence[float], percent: int) -> float:
    """The least of the values that `percent` of a hundred of them do not exceed (nearest rank).

    Args:
        values: at least one.
        percent: 1 to 100.
    """
    rank = -(-percent * len(values) // 100)
    return sorted(values)[rank - 1]
