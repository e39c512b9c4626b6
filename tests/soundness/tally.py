"""What the sweep counts, and what it holds against the linter."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """The promises that can be broken, as the table names them."""

    CRASH = "crash"
    """An exit status other than 0 and 1, a traceback, or a report that is no JSON."""
    TIMEOUT = "timeout"
    FALSE_ERROR = "false error"
    """A file that Python compiles is reported as one that does not parse, or cannot be read."""
    UNSTABLE = "unstable"
    """Another run, the cache, another number of processes or a file named alone gives other findings."""
    BROKEN = "broken"
    """After fixing, a file no longer compiles or no longer parses."""
    UNSETTLED = "unsettled"
    """A fix is still offered after fixing, or a second run of fixing changes something."""
    STRAY = "stray"
    """A row changed that no edit of a fix touches, or another file than the report says."""
    MODE = "mode"
    """The permissions of a file changed."""
    MEANING = "meaning"
    """A fix with a known meaning left code that means something else."""
    COMMENT = "comment"
    """A fix lost or changed a comment."""


@dataclass(frozen=True)
class Failure:
    kind: Kind
    place: str
    """A file, with its row where one is known; or the tree."""
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.place}: {self.what}"


@dataclass
class Tally:
    """The outcome for one tree."""

    tree: str
    files: int = 0
    lines: int = 0
    findings: int = 0
    fixes: int = 0
    """Fixes that `--fix --unsafe-fixes` applied."""
    planted: int = 0
    """Fixes that the sweep made up for places in the code, and that were applied."""
    refused: int = 0
    """Those that were not offered there."""
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)

    def fail(self, kind: Kind, place: object, what: str) -> None:
        self.failures.append(Failure(kind, str(place), what))


def table(tallies: list[Tally]) -> str:
    """The tallies, one row a tree, with their sum where there are several."""
    header = ("tree", "files", "lines", "findings", "fixes", "planted", "refused", "seconds", "failures")
    rows = [_row(tally) for tally in tallies]
    if len(tallies) > 1:
        rows.append(("all", *(f"{sum(int(row[column].split()[0]) for row in rows)}" for column in range(1, 9))))
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in (header, *rows))
    )


def _row(tally: Tally) -> tuple[str, ...]:
    counts = (tally.files, tally.lines, tally.findings, tally.fixes, tally.planted, tally.refused)
    kinds = Counter(failure.kind for failure in tally.failures)
    failures = f"{len(tally.failures)}"
    if kinds:
        failures += f" ({', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))})"
    return (tally.tree, *map(str, counts), f"{tally.seconds:.0f}", failures)
