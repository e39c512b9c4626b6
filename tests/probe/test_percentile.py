"""Percentiles by the nearest rank, also where the rank is a whole number."""

from __future__ import annotations

import pytest

from trainlint.probe.analysis.percentile import percentile


@pytest.mark.parametrize(
    ("count", "percent", "rank"),
    [
        (1, 90, 1),
        (2, 90, 2),
        (9, 90, 9),
        (10, 90, 9),
        (11, 90, 10),
        (20, 90, 18),
        (50, 90, 45),
        (10, 10, 1),
        (11, 10, 2),
        (30, 10, 3),
        (50, 10, 5),
        (4, 50, 2),
    ],
)
def test_the_least_value_that_so_many_values_do_not_exceed(count: int, percent: int, rank: int) -> None:
    values = [float(value) for value in range(1, count + 1)]
    assert percentile(values[::-1], percent) == rank
    assert sum(value <= rank for value in values) * 100 >= percent * count
