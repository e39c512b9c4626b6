"""What a run of the linter returns: findings with their final positions, ready for any report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.lint.finding import Finding, Severity, Tag
from trainlint.semantics.context import Site

if TYPE_CHECKING:
    from trainlint.probe.verdict import Verdict


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a file as users see it: row and column from 1, columns in Unicode characters."""

    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Reported:
    """A finding that selection, confidence, severity and suppressions let through."""

    finding: Finding
    path: Path
    """Absolute; equals `finding.site.path`."""
    location: Position
    end_location: Position
    noqa_row: int
    """The row on which a suppression comment would go: the last row of the flagged logical line."""
    url: str | None
    """The page of the rule; None where its pack publishes none."""
    cell: int | None = None
    tag: Tag | None = None
    """How editors may show the code, besides its severity."""
    verdict: Verdict | None = None
    """What a run that was measured says about it; None where none speaks about the code as it is."""
    from_run: bool = False
    """Whether such a run shows it, and nothing in the code does."""

    @property
    def severity(self) -> Severity:
        """How severe it is: what is confirmed weighs one level more, what is refuted is a hint."""
        severity = self.finding.severity
        if self.verdict is None:
            return severity
        from trainlint.probe.verdict import Status

        if self.verdict.status is Status.CONFIRMED:
            return Severity(min(severity + 1, Severity.ERROR))
        return Severity.HINT if self.verdict.status is Status.REFUTED else severity


@dataclass(frozen=True, slots=True)
class HotLoop:
    """A step loop in a file, and the entry point that runs it."""

    site: Site
    """In a report, its rows are those that users see: in a notebook, of its cell."""
    entry: Path

    @property
    def path(self) -> Path:
        return self.site.path


@dataclass(frozen=True, slots=True)
class Withheld:
    """Findings in a file that are not reported only because they are less certain than `min-confidence` asks for."""

    path: Path
    severity: Severity
    count: int


def order(reported: Reported) -> tuple[str, int, Position, str, Position, str]:
    """The order of findings in a report: path, cell, row, column, code."""
    finding = reported.finding
    place = str(reported.path), reported.cell or 0
    return (*place, reported.location, finding.code, reported.end_location, finding.message)


@dataclass(frozen=True, slots=True)
class Result:
    """All that a run has to say."""

    findings: tuple[Reported, ...]
    """Ordered by path, row, column, code."""
    checked_files: int
    paths: tuple[Path, ...] = ()
    """The files that were linted, ordered."""
    loops: tuple[HotLoop, ...] = ()
    """The step loops of these files, ordered likewise."""
    withheld: int = 0
    """Number of further findings that a lower `min-confidence` would report."""
    warnings: tuple[str, ...] = ()
    """For standard error: broken rule packs, unusable caches."""
    errors: tuple[str, ...] = ()
    """For standard error: rules that failed, which makes the exit code 2."""
    rule_seconds: tuple[tuple[str, float], ...] = ()
    """Time spent in each rule's `check`, by code, slowest first, where it was asked for; cached findings took none."""
    inputs: frozenset[str] = frozenset()
    """Where the configuration files lie, or may come to lie, that the code names, and folders of such files: on these
    the findings depend. Absolute paths, as text, since there may be thousands."""
