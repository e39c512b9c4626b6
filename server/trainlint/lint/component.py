"""Linking one part of a project and running rules over it, entry point by entry point."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.failures import Failure, guarded
from trainlint.lint.finding import Finding
from trainlint.lint.garbage import Garbage
from trainlint.lint.result import HotLoop
from trainlint.lint.rule import FileRule, Rule, RuntimeRule
from trainlint.lint.selection import Selection
from trainlint.lint.stored import dump
from trainlint.semantics.configuration_files import ConfigurationFiles
from trainlint.semantics.context import Entry
from trainlint.semantics.decoded import Decoded
from trainlint.semantics.facts import ModuleFacts
from trainlint.semantics.link import Linker, LinkOptions, Read, Walk
from trainlint.semantics.project import Project

FunctionKey = tuple[Path, int]
"""A function by its file and the index of its body."""


class Walked(NamedTuple):
    """What walking an entry point tells the others."""

    reached: frozenset[FunctionKey]
    learned: Entry | None = None
    """What it learned of the circumstances; None where it failed."""
    failures: tuple[Failure, ...] = ()


@dataclass(slots=True)
class EntryFindings:
    """What rules say about the files that an entry point runs, or about functions that nothing calls."""

    texts: dict[Path, str] = field(default_factory=dict)
    """The findings in each file, in their stored form, which processes and caches exchange."""
    failures: list[Failure] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    """Time spent in each rule, by code."""
    read: Read | None = None
    """What was looked at for them; None where it is not known."""


class Uncalled(NamedTuple):
    """What the functions of one file came to that nothing calls."""

    path: Path
    owner: Entry
    """What was known of the circumstances before; on this and on what was called the rest depends."""
    called: frozenset[FunctionKey]
    """The functions of the file that were called before."""
    reached: frozenset[FunctionKey]
    """The functions that they call."""
    trains: bool
    """Whether they, or what owns the file, train."""
    found: EntryFindings
    known: bool = False
    """Whether it comes from the cache."""


Lookup = Callable[[Path, Entry, frozenset[FunctionKey]], Uncalled | None]
"""What is known of the uncalled functions of a file, given what its owner learned and those of it that are called."""


class Component:
    """A connected part of a project under one configuration. It can be sent to another process."""

    def __init__(
        self,
        root: Path,
        facts: Mapping[Path, ModuleFacts],
        options: LinkOptions,
        selection: Selection,
        governed: Iterable[Path],
        decoded: Decoded | None = None,
        configurations: Mapping[Path, bytes] | None = None,
    ) -> None:
        """`decoded` has what was decoded of the files by an earlier check in this process, `configurations` the
        configuration files that the code names."""
        self.root = root
        self.facts = facts
        self.options = options
        self.selection = selection
        self.decoded = decoded
        self.configurations = ConfigurationFiles(configurations or {})
        self.codes = {path: selection.codes(path) for path in governed}
        """The rules that may report, for each file that the configuration governs."""

    def __getstate__(self) -> dict[str, object]:
        kept = {name: value for name, value in vars(self).items() if name not in ("linker", "rules")}
        return {**kept, "decoded": None}

    def read_code(self) -> None:
        """Have the code of all files in memory: what is read later than that, other processes cannot read."""
        for facts in self.facts.values():
            next(iter(facts.lines), None)

    @cached_property
    def linker(self) -> Linker:
        return Linker(self.facts, self.options, self.decoded, self.configurations)

    @cached_property
    def rules(self) -> list[Rule]:
        """The rules to run, in order of code."""
        wanted = frozenset().union(*self.codes.values())
        selected = self.selection.rules
        not_about_code = FileRule, RuntimeRule
        codes = [code for code in sorted(wanted) if not issubclass(selected[code], not_about_code)]
        rules = [self.selection.instance(code) for code in codes]
        return [rule for rule in rules if holds_for(rule, self.options.torch_version)]


class EntryRuns:
    """Walks entry points of a component and runs the rules over them, in this process."""

    def __init__(self, component: Component) -> None:
        self.component = component
        self._walks: dict[Path, Walk] = {}
        self._nothing = Project(torch_version=component.options.torch_version)
        self._garbage = Garbage()

    def __reduce__(self) -> tuple[type[EntryRuns], tuple[Component]]:
        """Walks cannot be sent to another process, which makes its own."""
        return EntryRuns, (self.component,)

    def walk(self, entry: Path) -> Walked:
        """Walk an entry point, and keep the walk until its findings are asked for."""
        failures: list[Failure] = []
        walk = guarded(failures, "linking", os.fspath(entry), lambda: self.component.linker.walk(entry))
        if walk is None:
            return Walked(frozenset(), None, tuple(failures))
        self._walks[entry] = walk
        return Walked(walk.reached, walk.learned)

    def findings(self, entry: Path) -> EntryFindings:
        """Complete a walk and run the rules."""
        found = self._completed(entry)
        self._garbage.collect_if_much()  # what the walk leaves, of which nothing is held here any more
        return found

    def _completed(self, entry: Path) -> EntryFindings:
        found = EntryFindings()
        if entry not in self._walks:
            found.failures += self.walk(entry).failures
        walk = self._walks.pop(entry, None)
        if walk is None:
            return found
        linker = self.component.linker
        project = guarded(found.failures, "linking", os.fspath(entry), lambda: linker.complete(walk))
        if project is not None:
            self.run_rules(project, os.fspath(entry), found)
        found.read = walk.read
        return found

    def uncalled(
        self, owner: Entry, called: frozenset[FunctionKey], lookup: Lookup = lambda path, owner, called: None
    ) -> list[Uncalled]:
        """Walk the functions that nothing calls in the files that an entry point owns, and run the rules: file by file,
        since what one calls no longer counts in the next."""
        results: list[Uncalled] = []
        by_file: dict[Path, set[FunctionKey]] = {}
        _add_by_file(by_file, called)
        for path in self.component.linker.uncalled_files(owner.path):
            own = frozenset(by_file.get(path, ()))
            result = lookup(path, owner, own) or self._uncalled_in(path, owner, own)
            _add_by_file(by_file, result.reached)
            owner = replace(owner, trains=result.trains)
            results.append(result)
            self._garbage.collect_if_much()
        return results

    def _uncalled_in(self, path: Path, owner: Entry, called: frozenset[FunctionKey]) -> Uncalled:
        found = EntryFindings()
        linker = self.component.linker
        walked = guarded(found.failures, "linking", os.fspath(path), lambda: linker.walk_uncalled(path, owner, called))
        if walked is None:
            return Uncalled(path, owner, called, frozenset(), owner.trains, found)
        found.read = walked.read
        if walked.project != self._nothing:
            self.run_rules(walked.project, os.fspath(path), found)
        return Uncalled(path, owner, called, walked.reached, walked.trains, found)

    def run_rules(self, project: Project, where: str, found: EntryFindings) -> None:
        """Add to `found` what the rules find in the project that the file `where` came to."""
        findings: dict[Path, list[Finding | HotLoop]] = {}
        for rule in self.component.rules:
            started = time.perf_counter()
            for finding in self._findings_of(rule, project, where, found.failures):
                findings.setdefault(finding.site.path, []).append(finding)
            found.seconds[rule.code] = time.perf_counter() - started
        for loop in dict.fromkeys(HotLoop(one.site, one.context.entry.path) for one in project.step_loops):
            if loop.path in self.component.codes:
                findings.setdefault(loop.path, []).append(loop)
        found.texts = {path: dump(those, self.component.root) for path, those in findings.items()}

    def _findings_of(self, rule: Rule, project: Project, where: str, failures: list[Failure]) -> list[Finding]:
        codes = self.component.codes

        def found() -> list[Finding]:
            return [finding for finding in rule.check(project) if rule.code in codes.get(finding.site.path, ())]

        findings = guarded(failures, f"{rule.code} {rule.name}", where, found) or ()
        oldest = self.component.options.oldest_torch
        return [replace(finding, fix=_fix(rule, finding, failures, oldest)) for finding in findings]


def _add_by_file(by_file: dict[Path, set[FunctionKey]], functions: Iterable[FunctionKey]) -> None:
    for function in functions:
        by_file.setdefault(function[0], set()).add(function)


def _fix(rule: Rule, finding: Finding, failures: list[Failure], oldest_torch: tuple[int, int] | None) -> Fix | None:
    where = f"{finding.site.path}:{finding.site.row}"
    what = f"the fix of {rule.code} {rule.name}"
    fix = finding.fix or guarded(failures, what, where, lambda: rule.fix(finding))
    if fix is None or fix.applicability is Applicability.DISPLAY or oldest_torch is None:
        return fix
    needed = guarded(failures, what, where, lambda: rule.fix_needs(finding))
    if needed is None or needed <= oldest_torch:
        return fix
    known, admitted = _written(needed), _written(oldest_torch)
    because = f"the fixed code is known to run with torch {known} and newer, and the project admits {admitted} as well"
    return replace(fix, applicability=Applicability.UNSAFE, because=fix.because or because)


def _written(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"


def holds_for(rule: Rule | type[Rule], torch: tuple[int, int] | None) -> bool:
    """Whether a rule holds for the torch that the project runs on, as far as it says."""
    first, last = rule.torch
    if torch is None:
        return True
    return (first is None or torch >= first) and (last is None or torch <= last)
