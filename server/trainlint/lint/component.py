"""Running rules over one linked part of a project."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from trainlint.fixes.recipe import Fix
from trainlint.lint.finding import Finding
from trainlint.lint.rule import FileRule, Rule
from trainlint.lint.selection import Selection
from trainlint.semantics.facts import ModuleFacts
from trainlint.semantics.link import LinkOptions, link
from trainlint.semantics.project import Project

_T = TypeVar("_T")


@dataclass(slots=True)
class RuleRun:
    """What running rules came to."""

    findings: dict[Path, list[Finding]] = field(default_factory=dict)
    errors: list[Failure] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    """Time spent in each rule, by code."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A defect of a rule, or of trainlint, that showed on some files."""

    what: str
    """What failed: a rule's code and name, or a stage of the analysis."""
    where: str
    summary: str
    traceback: str

    def text(self, verbose: bool) -> str:
        """The message for standard error."""
        text = f"internal error: {self.what} failed on {self.where}: {self.summary}"
        return f"{text}\n{self.traceback.rstrip()}" if verbose else text


def run_rules(
    facts: Mapping[Path, ModuleFacts], options: LinkOptions, selection: Selection, files: Iterable[Path]
) -> RuleRun:
    """Link a connected part of a project and run the selected rules on it; keep what they say about `files`."""
    run = RuleRun()
    codes = {path: selection.codes(path) for path in files}
    wanted = frozenset().union(*codes.values())
    rules = [selection.instance(code) for code in sorted(wanted) if not issubclass(selection.rules[code], FileRule)]
    if not rules or not facts:
        return run
    where = _described(facts)
    project = _guarded(run, "linking", where, lambda: link(facts, options))
    if project is None:
        return run
    for rule in rules:
        if _holds_for(rule, project.torch_version):
            started = time.perf_counter()
            _run(rule, project, codes, where, run)
            run.seconds[rule.code] = run.seconds.get(rule.code, 0.0) + time.perf_counter() - started
    return run


def _run(rule: Rule, project: Project, codes: Mapping[Path, frozenset[str]], where: str, run: RuleRun) -> None:
    def found() -> list[Finding]:
        return [finding for finding in rule.check(project) if rule.code in codes.get(finding.site.path, ())]

    for finding in _guarded(run, f"{rule.code} {rule.name}", where, found) or ():
        run.findings.setdefault(finding.site.path, []).append(replace(finding, fix=_fix(rule, finding, run)))


def _fix(rule: Rule, finding: Finding, run: RuleRun) -> Fix | None:
    where = f"{finding.site.path}:{finding.site.row}"
    return finding.fix or _guarded(run, f"the fix of {rule.code} {rule.name}", where, lambda: rule.fix(finding))


def _guarded(run: RuleRun, what: str, where: str, action: Callable[[], _T]) -> _T | None:
    """Do it; a defect becomes an error of the run, and the run goes on."""
    try:
        return action()
    except Exception as error:
        import traceback

        summary = f"{type(error).__name__}: {error}"
        run.errors.append(Failure(what, where, summary, traceback.format_exc()))
        return None


def _described(facts: Mapping[Path, ModuleFacts]) -> str:
    first, *others = sorted(facts)
    return str(first) if not others else f"{first} and {len(others)} files linked with it"


def _holds_for(rule: Rule, torch: tuple[int, int] | None) -> bool:
    """Whether a rule holds for the lowest torch release that the project admits."""
    first, last = rule.torch
    if torch is None:
        return True
    return (first is None or torch >= first) and (last is None or torch <= last)
