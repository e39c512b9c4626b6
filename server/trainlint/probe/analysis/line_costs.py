"""The list of lines that cost something, from what was measured of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from trainlint.probe.evidence import Copies, Line, SyncCount
from trainlint.probe.measured import LineCost
from trainlint.probe.verdict import Source

SHOWN_LINES = 200
"""Longer lists are cut."""


def dearest(costs: Iterable[LineCost]) -> list[LineCost]:
    """The dearest first; those whose cost is not known come last."""
    return sorted(costs, key=lambda one: (-(one.ms_per_step or 0.0), -(one.share or 0.0)))[:SHOWN_LINES]


def line_cost(
    line: Line,
    what: str,
    seconds: float | None,
    step_s: float,
    source: Source,
    *,
    calls: float | None = None,
    interval: tuple[float, float] | None = None,
    in_workers: bool = False,
) -> LineCost:
    """What a line costs.

    Args:
        line: the line.
        what: a kind that `LineCost.what` lists.
        seconds: per step; None where that was not measured.
        step_s: the mean clean step, evaluation and new epochs included, which the share is of; 0 where none was timed.
        source: where the seconds come from.
        calls: per step; None where they were not counted.
        interval: the seconds between which the truth lies, where there are too few samples for a figure.
        in_workers: whether loader workers ran the line, beside the step.
    """
    return LineCost.model_validate(
        {
            "filename": str(line.path),
            "row": line.row,
            "what": what,
            "ms_per_step": None if seconds is None else seconds * 1e3,
            "interval_ms": None if interval is None else (interval[0] * 1e3, interval[1] * 1e3),
            "share": seconds / step_s if seconds is not None and step_s > 0 and not in_workers else None,
            "calls_per_step": calls,
            "in_workers": in_workers,
            "source": source.value,
        }
    )


def sync_costs(syncs: Mapping[Line, SyncCount], step_s: float) -> Iterator[LineCost]:
    """The lines that read values of tensors, or otherwise wait for the device."""
    for line, sync in syncs.items():
        yield line_cost(line, "sync", sync.wait_s_per_step, step_s, sync.source, calls=sync.calls_per_step)


def copy_costs(copies: Mapping[Line, Copies], step_s: float) -> Iterator[LineCost]:
    """The lines that copy between host and device."""
    for line, copy in copies.items():
        yield line_cost(line, "copy", copy.seconds_per_step, step_s, Source.KINETO, calls=copy.calls_per_step)
