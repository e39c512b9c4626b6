"""The fix that two rules share: report every few steps instead of at each one."""

from __future__ import annotations

from trainlint.fixes.recipe import Applicability, Fix, GuardStatement
from trainlint.semantics.project import Report
from trainlint.semantics.vocabulary import GuardKind

INTERVAL = 50
"""Steps between two reports. Also Lightning's default for `log_every_n_steps`, and the baseline of 50 steps over which
throughput is compared (articles 000 and 003)."""


def report_at_interval(report: Report, what: str) -> Fix:
    """Put the report under an interval guard, where a name counts the steps; else say so.

    The counter may count micro-batches, of which an accumulation test leaves every n-th: both tests together might
    never hold.
    """
    message = f"{what} every {INTERVAL} steps"
    counter = report.context.counter
    movable = report.stands_alone and report.only_reads
    if not counter or not movable or report.context.under(GuardKind.ACCUMULATION):
        return Fix(Applicability.DISPLAY, message)
    return Fix(Applicability.UNSAFE, message, (GuardStatement(report.site, f"{counter} % {INTERVAL} == 0"),))
