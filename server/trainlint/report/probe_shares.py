"""The parts of a regular step as reports show them: rounded so that they add up."""

from __future__ import annotations

from dataclasses import dataclass

from trainlint.probe.figures import adding_up
from trainlint.report.probe_result import ProbeResult

SHARE_LABELS = {
    "data_wait": "data wait",
    "host_to_device": "host to device",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "sync_wait": "host stalls",
    "other": "other",
}
"""Host stalls are device syncs, print, logging, trackers, saving and garbage collection."""


@dataclass(frozen=True, slots=True)
class ShareRow:
    """A part of a regular step, rounded so that all parts add up."""

    field: str
    label: str
    share: float | None
    """As measured, for bars; None where it was not."""
    percent: str
    milliseconds: str
    """Of the mean step; empty where that is not known."""


def share_rows(result: ProbeResult) -> list[ShareRow]:
    """The parts of a regular step, in the order in which they happen."""
    measured = _measured_shares(result)
    percentages = _column([share * 100 for share in measured.values()], 1, "%")
    times = _times(result, list(measured.values()))
    figures = dict(zip(measured, zip(percentages, times, strict=True), strict=True))
    return [
        ShareRow(field, label, measured.get(field), *figures.get(field, ("not measured", "")))
        for field, label in SHARE_LABELS.items()
    ]


def share_total(result: ProbeResult) -> ShareRow | None:
    """The sum of the parts; None where none was measured."""
    shares = list(_measured_shares(result).values())
    if not shares:
        return None
    total = sum(shares)
    return ShareRow("total", "the step", total, *_column([total * 100], 1, "%"), *_times(result, [total]))


def _measured_shares(result: ProbeResult) -> dict[str, float]:
    shares = {field: getattr(result.shares, field) for field in SHARE_LABELS}
    return {field: share for field, share in shares.items() if share is not None}


def _times(result: ProbeResult, shares: list[float]) -> list[str]:
    mean = result.steps.mean_s
    if mean is None:
        return [""] * len(shares)
    digits = 0 if mean >= 1 else 1 if mean >= 0.01 else 2
    return _column([share * mean * 1e3 for share in shares], digits, "ms")


def _column(parts: list[float], digits: int, unit: str) -> list[str]:
    return [f"{part:.{digits}f} {unit}" for part in adding_up(parts, digits)]
