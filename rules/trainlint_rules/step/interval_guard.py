"""The fix that two rules share: report every few steps instead of at each one."""

from __future__ import annotations

from pathlib import Path

from trainlint.fixes.recipe import Applicability, Fix, GuardStatement
from trainlint.lint.rule import Occurrence
from trainlint.semantics.context import Interval
from trainlint.semantics.project import Project, Report
from trainlint.semantics.vocabulary import GuardKind

INTERVAL = 50
"""Steps between two reports, where the code has no interval of its own. Also Lightning's default for
`log_every_n_steps`."""


class OwnIntervals:
    """The interval tests that a project has already: `step % args.log_every == 0`."""

    def __init__(self, project: Project) -> None:
        self._intervals: dict[tuple[Path, str], dict[Interval, None]] = {}
        records: tuple[Occurrence, ...] = (*project.reports, *project.syncs, *project.calls)
        for record in records:
            for guard in record.context.guards:
                interval = guard.asked.interval
                if guard.kind is GuardKind.INTERVAL and guard.in_step and interval is not None:
                    self._intervals.setdefault(record.site.function, {})[interval] = None

    def test_for(self, report: Report) -> str:
        """A test in the same function by the same counter against a name; empty where there is none."""
        own = self._intervals.get(report.site.function, ())
        return next((interval.text for interval in own if interval.counter == report.context.counter), "")


def report_at_interval(report: Report, what: str, own_test: str = "") -> Fix:
    """Put the report under an interval guard, where a name counts the steps; else say so.

    The counter may count micro-batches, of which an accumulation test leaves every n-th: both tests together might
    never hold.
    """
    message = f"{what} where `{own_test}`" if own_test else f"{what} every {INTERVAL} steps"
    counter = report.context.counter
    movable = report.stands_alone and report.only_reads
    if not counter or not movable or report.context.under(GuardKind.ACCUMULATION):
        return Fix(Applicability.DISPLAY, message)
    return Fix(
        Applicability.UNSAFE, message, (GuardStatement(report.site, own_test or f"{counter} % {INTERVAL} == 0"),)
    )
