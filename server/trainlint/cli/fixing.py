"""Fixing for `trainlint check`: lint, apply, and lint again until nothing changes; then write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from trainlint.cli.outcome import Change, Outcome
from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.result import Result
from trainlint.report.sources import target_of
from trainlint.source.documents import Document, Unreadable, Unwritable, decode, read_document

MOST_ROUNDS = 10
"""Fixes that undo each other would never end."""

Check: TypeAlias = Callable[[Mapping[Path, bytes]], Result]
"""Lints, with texts that stand in for what is on disk."""


def applicable_kinds(unsafe_fixes: bool) -> frozenset[Applicability]:
    """The kinds of fix that may be applied."""
    return frozenset({Applicability.SAFE, Applicability.UNSAFE} if unsafe_fixes else {Applicability.SAFE})


def fix_until_stable(check: Check, texts: Mapping[Path, bytes], kinds: frozenset[Applicability]) -> Outcome:
    """Lint and fix in memory until no fix of these `kinds` applies any more; `texts` holds standard input."""
    fixing = _Fixing(dict(texts))
    result = check(fixing.texts)
    offered = None
    for _ in range(MOST_ROUNDS):
        # A file is read here after the engine has read it, so it is linted again with the very text that gets fixed.
        if fixing.open(_fixes_by_file(result, kinds)):
            result = check(fixing.texts)
        if offered is None:
            offered = sum(map(len, _fixes_by_file(result, kinds).values()))
        if not fixing.apply(_fixes_by_file(result, kinds)):
            break
        result = check(fixing.texts)
    else:
        if fixing.apply(_fixes_by_file(result, kinds), keep=False):
            fixing.problems.append(f"fixes did not settle in {MOST_ROUNDS} rounds; the result of the last one is kept")
    return fixing.outcome(result, offered)


def write(outcome: Outcome, check: Check) -> Outcome:
    """Replace the changed files on disk; where one cannot be, its findings remain, and it is linted as it is."""
    from trainlint.fixes.write import FileChanged, write_atomically

    written: list[Change] = []
    problems = list(outcome.problems)
    for change in outcome.changes:
        try:
            write_atomically(change.path, change.data, change.document.data)
        except FileChanged as error:
            problems.append(str(error))
        except OSError as error:
            reason = error.strerror
            problems.append(f"{change.path} could not be written: {reason.lower()}" if reason else str(error))
        else:
            written.append(change)
    if len(written) == len(outcome.changes):
        return outcome
    return Outcome(check({}), {}, tuple(written), tuple(problems))


@dataclass(slots=True)
class _Fixing:
    """The state between two rounds."""

    texts: dict[Path, bytes]
    originals: dict[Path, Document] = field(default_factory=dict)
    current: dict[Path, str] = field(default_factory=dict)
    fixed: dict[Path, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def open(self, fixes: Mapping[Path, list[Fix]]) -> bool:
        """Read the files that are to be fixed for the first time; return whether any was read from disk."""
        read = False
        for path in fixes:
            if path in self.originals:
                continue
            data = self.texts.get(path)
            try:
                document = read_document(path) if data is None else decode(path, data)
            except Unreadable:
                continue
            self.originals[path] = document
            self.current[path] = document.text
            self.texts[path] = document.data
            read = read or data is None
        return read

    def apply(self, fixes: Mapping[Path, list[Fix]], *, keep: bool = True) -> bool:
        """Apply what goes together; return whether a text changed. With `keep` false, only find out."""
        if not fixes:
            return False
        from trainlint.fixes.apply import apply_fixes

        changed = False
        for path, wanted in fixes.items():
            if path not in self.originals:
                continue
            applied = apply_fixes(self.current[path], wanted)
            if applied.text == self.current[path]:
                continue
            if not keep:
                return True
            changed = self._take(path, applied.text, len(applied.applied)) or changed
        return changed

    def _take(self, path: Path, text: str, count: int) -> bool:
        try:
            self.texts[path] = self.originals[path].encode(text)
        except Unwritable as error:
            problem = f"{path} is not fixed: it {error.reason}"
            if problem not in self.problems:
                self.problems.append(problem)
            return False
        self.current[path] = text
        self.fixed[path] = self.fixed.get(path, 0) + count
        return True

    def outcome(self, result: Result, offered: int | None) -> Outcome:
        changes = tuple(
            Change(document, self.current[path], self.texts[path], self.fixed[path])
            for path, document in sorted(self.originals.items())
            if self.current[path] != document.text
        )
        return Outcome(result, self.texts, changes, tuple(self.problems), offered)


def _fixes_by_file(result: Result, kinds: frozenset[Applicability]) -> dict[Path, list[Fix]]:
    """The fixes of these kinds with edits, by the file that they change."""
    found: dict[Path, list[Fix]] = {}
    for reported in result.findings:
        fix = reported.finding.fix
        if fix is not None and fix.applicability in kinds and target_of(fix) == reported.path:
            found.setdefault(reported.path, []).append(fix)
    return found
