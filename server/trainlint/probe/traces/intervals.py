"""Spans of time: what they cover together, and where they lie within others. Times are in any one unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Span = tuple[float, float]
"""Start and end."""


def union(spans: Iterable[Span], within: Span) -> list[Span]:
    """The spans cut to `within`, merged where they touch, by their starts."""
    low, high = within
    merged: list[Span] = []
    for start, end in sorted(spans):
        start, end = max(start, low), min(end, high)
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def total(spans: Iterable[Span]) -> float:
    """What merged spans cover."""
    return sum(end - start for start, end in spans)


def without(left: Sequence[Span], right: Sequence[Span]) -> list[Span]:
    """What of one list of merged spans the other does not cover."""
    kept: list[Span] = []
    j = 0
    for start, end in left:
        while j < len(right) and right[j][1] <= start:
            j += 1
        i = j
        while i < len(right) and right[i][0] < end:
            if right[i][0] > start:
                kept.append((start, right[i][0]))
            start = max(start, right[i][1])
            i += 1
        if start < end:
            kept.append((start, end))
    return kept


def overlap(left: Sequence[Span], right: Sequence[Span]) -> float:
    """What two lists of merged spans cover both."""
    shared, i, j = 0.0, 0, 0
    while i < len(left) and j < len(right):
        shared += max(0.0, min(left[i][1], right[j][1]) - max(left[i][0], right[j][0]))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return shared
