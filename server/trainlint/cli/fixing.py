"""Fixing for `trainlint check`: lint, apply, and lint again until nothing changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trainlint.cli.drafts import Check, Drafts
from trainlint.cli.outcome import Outcome
from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.result import Result
from trainlint.report.sources import target_of

MOST_ROUNDS = 10
"""Fixes that undo each other would never end."""


def applicable_kinds(unsafe_fixes: bool) -> frozenset[Applicability]:
    """The kinds of fix that may be applied."""
    return frozenset({Applicability.SAFE, Applicability.UNSAFE} if unsafe_fixes else {Applicability.SAFE})


def fix_until_stable(check: Check, texts: Mapping[Path, bytes], kinds: frozenset[Applicability]) -> Outcome:
    """Lint and fix in memory until no fix of these `kinds` applies any more; `texts` holds standard input."""
    drafts = Drafts(texts)
    result = check(drafts.texts)
    offered = None
    for _ in range(MOST_ROUNDS):
        # A file is read here after the engine has read it, so it is linted again with the very text that gets fixed.
        if drafts.open(_fixes_by_file(result, kinds)):
            result = check(drafts.texts)
        if offered is None:
            offered = sum(map(len, _fixes_by_file(result, kinds).values()))
        if not _apply(drafts, _fixes_by_file(result, kinds)):
            break
        result = check(drafts.texts)
    else:
        if _apply(drafts, _fixes_by_file(result, kinds), keep=False):
            drafts.problems.append(f"fixes did not settle in {MOST_ROUNDS} rounds; the result of the last one is kept")
    return drafts.outcome(result, offered)


def _apply(drafts: Drafts, fixes: Mapping[Path, list[Fix]], *, keep: bool = True) -> bool:
    """Apply what goes together; return whether a text changed. With `keep` false, only find out."""
    if not fixes:
        return False
    from trainlint.fixes.apply import apply_fixes

    changed = False
    for path, wanted in fixes.items():
        if path not in drafts:
            continue
        applied = apply_fixes(drafts.text(path), wanted)
        if applied.text == drafts.text(path):
            continue
        if not keep:
            return True
        changed = drafts.take(path, applied.text, len(applied.applied)) or changed
    return changed


def _fixes_by_file(result: Result, kinds: frozenset[Applicability]) -> dict[Path, list[Fix]]:
    """The fixes of these kinds with edits, by the file that they change."""
    found: dict[Path, list[Fix]] = {}
    for reported in result.findings:
        fix = reported.finding.fix
        if fix is not None and fix.applicability in kinds and target_of(fix) == reported.path:
            found.setdefault(reported.path, []).append(fix)
    return found
