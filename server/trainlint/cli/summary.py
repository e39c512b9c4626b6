"""What a run of `check` says on standard error when it is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainlint.lint.finding import Applicability
    from trainlint.lint.result import Reported


def summary_lines(
    findings: Sequence[Reported], *, fixed: int, checked_files: int, fixing: bool, unsafe_fixes: bool
) -> Iterator[str]:
    """Count what was found, what was fixed, and what fixes are there to be asked for."""
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


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
