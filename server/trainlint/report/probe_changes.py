"""The words for what changed between two results, the same in all formats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainlint.probe.figures import milliseconds, number, percent, signed_percent
from trainlint.report.probe_lines import line_place
from trainlint.report.probe_sections import place
from trainlint.report.view import View

if TYPE_CHECKING:
    from trainlint.report.probe_compare import Comparison, LineChange, ShareChange, VerdictChange


def comparison_texts(comparison: Comparison, view: View) -> Iterator[str]:
    """The comparison in sentences, one a line."""
    yield from headlines(comparison)
    yield from (share_text(share) for share in comparison.shares)
    yield from changes(comparison, view)


def headlines(comparison: Comparison) -> Iterator[str]:
    """What can be compared, and how throughput and bottleneck changed."""
    yield from (f"cannot be compared: {obstacle}" for obstacle in comparison.obstacles)
    yield from (f"differs: {difference}" for difference in comparison.differences)
    yield from (f"busy machine: {load}" for load in comparison.loads)
    yield rate_text(comparison)
    earlier, now = comparison.bottlenecks
    yield f"bottleneck: {now}, as before" if earlier == now else f"bottleneck: {now}, before {earlier}"


def changes(comparison: Comparison, view: View) -> Iterator[str]:
    """The verdicts that are others now, and the lines that got dearer or cheaper."""
    yield from (verdict_text(change, view) for change in comparison.verdicts)
    yield from (line_text(change, view) for change in comparison.lines)


def rate_text(comparison: Comparison) -> str:
    """The change of throughput, and whether it is more than noise."""
    rate = comparison.rate
    if rate is None:
        return "throughput: not compared"
    figures = f"{number(rate.now)} {rate.unit}, before {number(rate.earlier)} ({signed_percent(rate.change)}"
    if rate.noise is None:
        return f"throughput: {figures}; the spread of the steps is not known, so this may be noise)"
    verdict = "" if rate.is_clear else ", which is within the noise"
    if rate.is_clear and comparison.loads:
        verdict = ", which other work on the machine may explain"
    return f"throughput: {figures}, uncertain by {percent(rate.noise)}){verdict}"


def share_text(share: ShareChange) -> str:
    if share.earlier_s is None or share.now_s is None:
        return f"{share.label}: {percent(share.now)} of the step, before {percent(share.earlier)}"
    now = f"{milliseconds(share.now_s)} ({percent(share.now)})"
    return f"{share.label}: {now}, before {milliseconds(share.earlier_s)} ({percent(share.earlier)})"


def verdict_text(change: VerdictChange, view: View) -> str:
    what = f"{place(change.finding, view)} {change.finding.code} {change.finding.name}"
    earlier, now = (status.value if status else "without a verdict" for status in (change.earlier, change.now))
    if change.gone:
        return f"{what}: is there no more; was {earlier}"
    return f"{what}: new, {now}" if change.new else f"{what}: {now}, before {earlier}"


def line_text(change: LineChange, view: View) -> str:
    word = "dearer" if change.now_ms > change.earlier_ms else "cheaper"
    figures = f"{number(change.now_ms)} ms per step, before {number(change.earlier_ms)} ms"
    return f"{line_place(change.line, view)} got {word}: {figures}"
