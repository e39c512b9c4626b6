"""`--statistics`: how often each rule was reported."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from trainlint.lint.finding import Applicability
from trainlint.lint.result import Reported


@dataclass(frozen=True, slots=True)
class RuleCount:
    code: str
    name: str
    count: int
    fixable: bool
    """Whether all of them can be fixed, by the fixes that were asked for."""
    fixable_count: int


def count_by_rule(findings: Sequence[Reported], applicable: frozenset[Applicability]) -> list[RuleCount]:
    """Return the rules by falling count, then by code. `applicable` are the kinds of fix that were asked for."""
    groups: dict[str, list[Reported]] = {}
    for reported in findings:
        groups.setdefault(reported.finding.code, []).append(reported)
    counts = [_counted(code, group, applicable) for code, group in groups.items()]
    return sorted(counts, key=lambda entry: (-entry.count, entry.code))


def _counted(code: str, group: Sequence[Reported], applicable: frozenset[Applicability]) -> RuleCount:
    fixable = sum(
        reported.finding.fix is not None and reported.finding.fix.applicability in applicable for reported in group
    )
    return RuleCount(code, group[0].finding.name, len(group), fixable == len(group), fixable)


def as_text(counts: Sequence[RuleCount], command: str) -> str:
    """Return a table: count, code, a mark if all or some can be fixed, name; and what the marks mean. `command` says
    how the fixes are applied."""
    width = max((len(str(entry.count)) for entry in counts), default=0)
    rows = [f"{entry.count:>{width}}  {entry.code}  {_mark(entry)} {entry.name}" for entry in counts]
    marks = {_mark(entry) for entry in counts}
    legend = [f"{mark} {meaning} with `{command}`" for mark, meaning in _MEANINGS.items() if mark in marks]
    return "".join(f"{line}\n" for line in (*rows, *legend))


_MEANINGS = {"[*]": "fixable", "[-]": "some of them fixable"}


def _mark(entry: RuleCount) -> str:
    return "[*]" if entry.fixable else "[-]" if entry.fixable_count else "[ ]"


def as_json(counts: Sequence[RuleCount]) -> str:
    return json.dumps([asdict(entry) for entry in counts], indent=2) + "\n"
