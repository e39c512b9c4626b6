"""What a run of `check` says on standard error when it is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from trainlint.cli.baselines import Saved
    from trainlint.cli.outcome import Outcome
    from trainlint.lint.finding import Applicability
    from trainlint.lint.result import Reported


def summary_lines(outcome: Outcome, *, fixing: bool, unsafe_fixes: bool) -> Iterator[str]:
    """Count what was found, what was fixed, what fixes are there to be asked for, and what is withheld."""
    findings, fixed, checked_files = outcome.result.findings, outcome.fixed, outcome.result.checked_files
    remaining = len(findings)
    if fixed:
        yield f"Found {_counted(remaining + fixed, 'problem')} ({fixed} fixed, {remaining} remaining)."
    elif remaining:
        concerned = len({reported.path for reported in findings})
        yield f"Found {_counted(remaining, 'problem')} in {concerned} of {_counted(checked_files, 'file')}."
    else:
        yield f"Found nothing in {_counted(checked_files, 'file')}."
    offer = _offer(findings, fixing=fixing, unsafe_fixes=unsafe_fixes) if findings else ""
    if offer:
        yield offer
    yield from fix_notes(outcome)
    withheld = outcome.result.withheld
    if withheld:
        yield f"{withheld} more with `--min-confidence low`."


def fix_notes(outcome: Outcome) -> Iterator[str]:
    """Why the number of fixes is not the one that a run without fixing tells."""
    fixed, offered = outcome.fixed, outcome.offered
    if offered is None or fixed == offered:
        return
    if fixed > offered:
        yield f"{fixed - offered} of {_counted(fixed, 'fix', 'fixes')} came up only once others had been applied."
    else:
        fixes = _counted(offered, "fix", "fixes")
        yield f"{offered - fixed} of {fixes} did not apply, or had nothing left to change after the others."


def _offer(findings: Sequence[Reported], *, fixing: bool, unsafe_fixes: bool) -> str:
    """What more a fix could do; advice that has to be followed by hand is not counted."""
    from trainlint.lint.finding import Applicability

    safe = _with_fix(findings, Applicability.SAFE)
    unsafe = _with_fix(findings, Applicability.UNSAFE)
    if fixing:
        # What could be fixed now has been, so only what was not asked for is left to offer.
        return f"{unsafe} fixable with `--unsafe-fixes`." if unsafe and not unsafe_fixes else ""
    if unsafe_fixes:
        return f"{safe + unsafe} fixable with `--fix --unsafe-fixes`." if safe + unsafe else ""
    if safe and unsafe:
        return f"{safe} fixable with `--fix` ({unsafe} more with `--fix --unsafe-fixes`)."
    if safe:
        return f"{safe} fixable with `--fix`."
    return f"None fixable with `--fix` ({unsafe} with `--fix --unsafe-fixes`)." if unsafe else ""


def _with_fix(findings: Sequence[Reported], applicability: Applicability) -> int:
    return sum(
        reported.finding.fix is not None and reported.finding.fix.applicability is applicability
        for reported in findings
    )


def changes_line(fixed: int, files: int, *, written: bool) -> str:
    """What `--fix-only` or `--diff` did, or would do."""
    verb = "Fixed" if written else "Would fix"
    return f"{verb} {_counted(fixed, 'problem')} in {_counted(files, 'file')}."


def suppression_lines(outcome: Outcome, *, written: bool) -> Iterator[str]:
    """What `--add-suppressions` did, or would do, and what comments cannot silence."""
    verb = "Silenced" if written else "Would silence"
    yield f"{verb} {_counted(outcome.fixed, 'problem')} in {_counted(len(outcome.changes), 'file')}."
    remaining = len(outcome.result.findings)
    if remaining:
        yield f"{_counted(remaining, 'problem')} {'remains' if remaining == 1 else 'remain'}."


def baseline_lines(outcome: Outcome, file: Path, saved: Saved | None) -> Iterator[str]:
    """What `--write-baseline` did."""
    yield f"Wrote {_counted(len(outcome.result.findings), 'problem')} to {file}."
    if saved is None:
        return
    if saved.added or saved.removed:
        yield f"{saved.added} added to what it listed, {saved.removed} removed."
    if saved.kept:
        yield f"{saved.kept} more kept, of files outside of the paths given."


def _counted(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"
