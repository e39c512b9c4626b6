"""What reports write of single lines: their source, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trainlint.probe.figures import number, percent
from trainlint.probe.measured import LineCost
from trainlint.report.probe_result import ProbeResult
from trainlint.report.probe_sections import file_name
from trainlint.report.style import printable
from trainlint.report.verdicts import calls_text
from trainlint.report.view import View
from trainlint.report.width import expand_tabs
from trainlint.source.alignment import row_digest

LINE_COSTS = {
    "data": "wait for data",
    "sync": "read of a tensor",
    "print": "print",
    "logging": "logging",
    "tracker": "experiment tracker",
    "save": "saving",
    "collect": "garbage collection",
    "stack": "stack samples",
    "copy": "copy to or from the device",
    "call": "call",
}

MOST_LINES = 10
"""Of those that cost something, in texts."""


def line_place(line: LineCost, view: View) -> str:
    return f"{file_name(line.filename, view)}:{line.row}"


def source_text(result: ProbeResult, filename: str, cell: int | None, row: int, view: View) -> str:
    """The source of a row, without its margins; empty where it is not what it was when the job ran."""
    return source_row(result, filename, cell, row, view).strip()


def source_row(result: ProbeResult, filename: str, cell: int | None, row: int, view: View) -> str:
    """Likewise, with its indentation."""
    text = view.sources.line(Path(filename), cell, row)
    recorded = result.row_digest(filename, row) if cell is None else None
    if recorded is not None and recorded != row_digest(text):
        return ""
    return printable(expand_tabs(text.rstrip(), 0)[0])


LEAST_MS, LEAST_SHARE = 0.001, 0.0005
"""What figures no longer tell from nothing."""


def between(low: float, high: float, written: Callable[[float], str], *, least: float) -> str:
    """Return `1.2 to 3.4`, or `up to 3.4` where it may as well be nothing."""
    if low < least:
        return f"up to {written(high)}"
    return written(low) if written(low) == written(high) else f"{written(low)} to {written(high)}"


def line_cost(line: LineCost) -> str:
    """What the line costs at each step; an interval where there are few samples."""
    figure = line_figure(line)
    if figure:
        return f"{figure} ms"
    return "cost not measured" if line.share is None else "steps not known"


def line_figure(line: LineCost) -> str:
    """That without its unit; empty where it was not measured."""
    if line.interval_ms is not None:
        return between(*line.interval_ms, number, least=LEAST_MS)
    return "" if line.ms_per_step is None else number(line.ms_per_step)


def line_share(line: LineCost) -> str:
    """That as a share of the step; empty where it is not known."""
    if line.share is None:
        return ""
    if line.share_interval is not None:
        return between(*line.share_interval, percent, least=LEAST_SHARE)
    return percent(line.share) if line.interval_ms is None else f"about {percent(line.share)}"


def line_notes(line: LineCost) -> str:
    """What kind of cost it is, how often, and where."""
    parts = ["making batches" if line.what == "data" and line.in_workers else LINE_COSTS[line.what]]
    if line.calls_per_step is not None:
        parts.append(calls_text(line.calls_per_step))
    if line.in_workers:
        parts.append("in loader workers, beside the step")
    return ", ".join(parts)
