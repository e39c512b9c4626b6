"""Why a finding is, or is not, at a row: what stands there, what the model knows of it, what a rule asked of it, and
what became of what the rule found."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, partial
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

from trainlint.config.versions import Admitted, admitted_torch
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.checking import link_options
from trainlint.lint.component import Component, EntryFindings, EntryRuns, FunctionKey, Walked, holds_for
from trainlint.lint.engine import Run, collector_paused
from trainlint.lint.extraction import Extraction
from trainlint.lint.failures import guarded
from trainlint.lint.finding import CANNOT_LINT, Finding, Severity
from trainlint.lint.projects import ProjectFiles
from trainlint.lint.questions import Asked, Reason, RecordHere, Sought, listen, looked_for, reasons, records_at
from trainlint.lint.reporting import strongest
from trainlint.lint.result import Reported
from trainlint.lint.rule import FileRule, Rule, RuntimeRule
from trainlint.lint.selection import Selection
from trainlint.semantics.context import Context, Entry, Site
from trainlint.semantics.project import Project, StepLoop
from trainlint.semantics.vocabulary import Confidence
from trainlint.source.discovery import is_excluded
from trainlint.source.documents import Document, Unreadable, decode
from trainlint.source.suppressions import Suppression, Suppressions


class NoSuchPlaceError(Exception):
    """A file has no such row; the message says what it has."""


class Asking(NamedTuple):
    """A row, as users see it, and the rule that is asked about."""

    path: Path
    cell: int | None
    row: int
    rule: str | None
    """The code; None to ask about all rules."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A function of the project, and where it stands."""

    name: str
    """`module.function`, as call paths have it."""
    path: Path
    row: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """What a rule found, and what keeps it out of the report."""

    finding: Finding
    not_selected: bool = False
    ignored_by: str | None = None
    """The pattern of `per-file-ignores`."""
    wrong_torch: bool = False
    """Whether the rule does not hold for the torch release of the project."""
    silenced_by: Suppression | None = None
    too_uncertain: bool = False
    """Whether its confidence is less than what is asked for."""


class Unshown(NamedTuple):
    """What a check would report but for one of its options."""

    reported: Reported
    reason: str


@dataclass(slots=True)
class Explanation:
    """All that is known about a row and the rules in question."""

    asking: Asking
    document: Document | None
    """None where the file has no text."""
    selection: Selection
    torch: Admitted = field(default_factory=Admitted)
    """The torch releases that the project admits."""
    reported: tuple[Reported, ...] = ()
    """What a check reports at the row."""
    all_reported: tuple[Reported, ...] = ()
    """What it reports in the whole file: a baseline counts equal ones."""
    left_out: list[Unshown] = field(default_factory=list)
    """What a check would report at the row but for its options."""
    instead: tuple[Reported, ...] = ()
    """What keeps the whole file from being linted, wherever it is reported."""
    dropped: list[Dropped] = field(default_factory=list)
    records: list[RecordHere] = field(default_factory=list)
    """What stands at the row."""
    reasons: list[Reason] = field(default_factory=list)
    """Why the rule passes over it, where no finding comes of it."""
    looked_for: list[Sought] = field(default_factory=list)
    """What the rule looks through."""
    step_loops: list[StepLoop] = field(default_factory=list)
    """The step loops in whose bodies the row is, those around others before them."""
    is_linked: bool = False
    """Whether the file belongs to training code."""
    is_excluded: bool = False
    """Whether the file is linted only where it is named."""
    function: str = ""
    """Qualified name of the function that the row stands in; empty at module level, and where that is not known."""
    is_text: bool = False
    """Whether the row is part of a text that stands by itself, such as a docstring."""
    is_walked: bool = True
    """Whether the analysis got into that function."""
    entries: list[Entry] = field(default_factory=list)
    """The entry points that run code of the row."""
    definitions: dict[tuple[Path, str], Definition] = field(default_factory=dict)
    """The functions on the ways to the row, by entry point and name."""
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    """Defects that showed."""

    def leave_out(self, findings: Collection[Reported], reason: str) -> None:
        """Take findings that are reported at the row as left out."""
        self.left_out += [Unshown(one, reason) for one in findings]
        self.reported = tuple(one for one in self.reported if one not in findings)

    @property
    def wrong_torch(self) -> bool:
        """Whether the rule in question does not hold for the release of torch."""
        return self.rule is not None and not holds_for(self.rule, self.torch.newest)

    @property
    def rule(self) -> type[Rule] | None:
        """The rule in question; None where all are."""
        return None if self.asking.rule is None else self.selection.registry.rules[self.asking.rule]


def explain(asking: Asking, options: CheckOptions) -> Explanation:
    """Look up all that is known about a row.

    Raises:
        NoSuchPlaceError: the file has no such row.
        ConfigError: a configuration is wrong.
    """
    with collector_paused():
        return _Explaining(asking, options).explanation()


class _Explaining:
    def __init__(self, asking: Asking, options: CheckOptions) -> None:
        self.asking = asking
        self.path = asking.path
        self.least_severe = None if options.min_severity is None else Severity[options.min_severity.upper()]
        self.run = Run([asking.path], replace(options, min_severity=None))
        self.root = self.run.root_of(asking.path.parent)
        self.files = ProjectFiles(
            self.root, self.run.texts, self.run.cache_of(self.root), self.run.governance.fingerprint
        )
        self.governing = self.run.governance.of_folder(asking.path.parent)
        self.found = Explanation(asking, self._document(), self.governing.selection)

    def explanation(self) -> Explanation:
        found = self.found
        rows = self._rows()
        found.is_excluded = is_excluded(self.path, self.governing.filters)
        self._look(rows)
        self._take_reported(rows)
        return found

    def _document(self) -> Document | None:
        files = self.files.read([self.path])
        try:
            return decode(self.path, files[0].data) if files else None
        except Unreadable:
            return None

    def _rows(self) -> range:
        """The rows of the program that the row in question is: one, or none where there is no text.

        Raises:
            NoSuchPlaceError: the file has no such row.
        """
        document, asking = self.found.document, self.asking
        if document is None:
            return range(0)
        ended = document.text.endswith(("\n", "\r"))
        last = document.index.rows - (ended and document.index.rows > 1)
        for row in range(1, last + 1) if asking.cell is not None else [asking.row]:
            place = document.place(row, 0)
            if (place.cell, place.row) == (asking.cell, asking.row) and 1 <= row <= last:
                return range(row, row + 1)
        if asking.cell is not None:
            raise NoSuchPlaceError(f"cell {asking.cell} has no row {asking.row}, or there is no such cell of code")
        raise NoSuchPlaceError(f"the file has {last} row{'' if last == 1 else 's'}, no row {asking.row}")

    # ------------------------------------------------------------------------------------------------- what is found

    def _look(self, rows: range) -> None:
        """Look at the row as the rules do."""
        paths = sorted({*self.run.context(self.root), self.path})
        plan = self.files.plan(paths)
        component = next((one for one in plan.components if self.path in one.files), None)
        if component is None or not rows:
            return
        extraction = Extraction(self.files, self.run.jobs)
        extraction.prepare(component.files)
        facts = extraction.facts(component.files)
        options = link_options(self.governing, self.root)
        self.found.torch = admitted_torch(self.root, self.governing.resolved.settings.torch_version)
        if self.path not in facts:
            return
        self.found.is_linked = True
        contents = self.files.configurations(component).contents
        selection = self.governing.selection
        component_here = Component(self.root, facts, options, selection, [self.path], configurations=contents)
        looking = _Looking(component_here, self.path, rows[0], list(self._questioned()))
        looking.walk_all()
        self._place(looking)
        self.found.dropped = [self._dropped(finding) for finding in strongest(looking.here)]
        self.found.records = looking.records
        self.found.entries = list(dict.fromkeys(looking.entries))
        if self.asking.rule is not None and not looking.here:
            self.found.reasons = list(looking.reasons.values())
            self.found.looked_for = sorted(looking.looked_for)

    def _questioned(self) -> Iterator[Rule]:
        """The rules in question that are about code, selected or not."""
        selection = self.governing.selection
        codes = selection.registry.rules if self.asking.rule is None else [self.asking.rule]
        for code in codes:
            if not issubclass(selection.registry.rules[code], FileRule | RuntimeRule):
                yield selection.instance(code)

    def _dropped(self, finding: Finding) -> Dropped:
        """What keeps a finding from being reported, as far as anything does."""
        selection, site = self.governing.selection, finding.site
        suppressions = self._suppressions
        return Dropped(
            finding,
            not_selected=not selection.choices[finding.code].selected,
            ignored_by=selection.ignored_by(self.path, finding.code),
            wrong_torch=not holds_for(selection.instance(finding.code), self.found.torch.newest),
            silenced_by=suppressions.find(finding.code, finding.name, site.row, site.end_row),
            too_uncertain=finding.confidence < Confidence[selection.min_confidence.upper()],
        )

    @cached_property
    def _suppressions(self) -> Suppressions:
        assert self.found.document is not None
        return Suppressions.parse(self.found.document.text, self.found.document.index)

    def _place(self, looking: _Looking) -> None:
        """Tell which function the row is in, and where the functions are on the ways to it."""
        found, linker = self.found, looking.linker
        assert found.document is not None
        found.is_text = any(first <= looking.row <= last for first, last in _texts(found.document.text))
        functions = list(_functions(found.document.text))
        around = [one for one in functions if one.first <= looking.row <= one.last]
        if around:
            found.function = around[-1].name
            names = [one.qualname for one in linker.files[self.path].functions]
            keys = {(self.path, index) for index, name in enumerate(names) if name == found.function}
            found.is_walked = not keys or not keys.isdisjoint(looking.reached)
        ends = _ends_of_loops(found.document.text)
        around_it = (one for one in looking.step_loops if one.site.row < looking.row <= ends.get(one.site.row, 0))
        found.step_loops = sorted(around_it, key=lambda loop: loop.site.row)
        records = [*(record for _, record in looking.records), *found.step_loops]
        wanted = {(record.context.entry.path, name) for record in records for name in _path_of(record)}
        found.definitions = dict(self._definitions(looking, wanted))

    def _definitions(
        self, looking: _Looking, wanted: set[tuple[Path, str]]
    ) -> Iterator[tuple[tuple[Path, str], Definition]]:
        """Where the functions are that an entry point calls by these names. Several scripts may have the same name: of
        them, an entry point's own is meant, and else none is told."""
        by_name: dict[str, list[Definition]] = {}
        names = {name for _, name in wanted}
        for path in looking.linker.files if names else ():
            module = looking.linker.map.module_name(path) or path.stem
            text = self._text(path) if any(name.startswith(f"{module}.") for name in names) else ""
            for one in _functions(text):
                if (name := f"{module}.{one.name}") in names:
                    by_name.setdefault(name, []).append(Definition(name, path, one.first))
        for entry, name in wanted:
            reached = looking.linker.closure(entry)
            found = [one for one in by_name.get(name, ()) if one.path in reached]
            own = [one for one in found if one.path == entry]
            if len({one.path for one in own or found}) == 1:
                yield (entry, name), (own or found)[0]

    def _text(self, path: Path) -> str:
        try:
            return decode(path, self.files.file(path).data).text
        except Unreadable:
            return ""

    def _take_reported(self, rows: range) -> None:
        """Take what a check reports at the row."""
        result = self.run.result()
        self.found.warnings, self.found.errors = result.warnings, result.errors
        here = [one for one in result.findings if one.cell == self.asking.cell or not rows]
        self.found.all_reported = result.findings
        if not self.found.is_linked:  # else a single statement is left out, and the others are not
            self.found.instead = tuple(one for one in result.findings if one.finding.code in CANNOT_LINT)
        self.found.reported = tuple(
            one
            for one in here
            if one.location.row <= self.asking.row <= one.end_location.row
            and self.asking.rule in (None, one.finding.code)
        )
        if self.least_severe is not None:
            self._leave_out_mild(self.least_severe)

    def _leave_out_mild(self, least: Severity) -> None:
        """Leave out what is less severe than a check is to report."""
        self.found.all_reported = tuple(one for one in self.found.all_reported if one.severity >= least)
        for one in self.found.reported:
            if one.severity < least:
                self.found.leave_out(
                    [one], f"its severity is {one.severity.label}, and `--min-severity` is {least.label}"
                )


class _Looking(EntryRuns):
    """Walks all that the findings of a project come from, and looks at one row of a file on the way."""

    def __init__(self, component: Component, path: Path, row: int, rules: Sequence[Rule]) -> None:
        super().__init__(component)
        self.linker = component.linker
        self.path = path
        self.row = row
        self.questioned = rules
        self.reached: set[FunctionKey] = set()
        self.here: list[Finding] = []
        """What the rules find at the row."""
        self.records: list[RecordHere] = []
        self.reasons: dict[object, Reason] = {}
        """Why the rule in question passes over them; once for entry points of which it is told the same."""
        self.looked_for: set[Sought] = set()
        self.step_loops: list[StepLoop] = []
        """Those in the file."""
        self.entries: list[Entry] = []

    def walk_all(self) -> None:
        """Walk the entry points, and then what none of them calls, as a check does."""
        walked: list[Walked] = []
        for entry in self.linker.entries:
            walked.append(self.walk(entry))
            self.findings(entry)
        called = frozenset().union(*(one.reached for one in walked))
        self.reached |= called
        for one in walked:
            if one.learned is not None:
                for result in self.uncalled(one.learned, called):
                    self.reached |= result.reached

    def run_rules(self, project: Project, where: str, found: EntryFindings) -> None:
        """Look at the row, in place of reporting on all of the project."""
        if self.path not in self.linker.closure(Path(where)):
            return
        records = list(records_at(project, self._stands_here))
        self.records += records
        self.step_loops += [loop for loop in project.step_loops if loop.site.path == self.path]
        self.entries += [entry for entry in project.entries if records]
        for rule in self.questioned:
            heard = guarded(found.failures, rule.code, where, partial(listen, rule, project, self._stands_here))
            if heard is None:
                continue
            findings, asked = heard
            here = [one for one in findings if self._stands_here(one.site)]
            self.here += here
            if len(self.questioned) == 1:
                self.looked_for |= looked_for(rule, project)
                self._pass_over(rule, project, () if here else asked)

    def _pass_over(self, rule: Rule, project: Project, asked: Sequence[Asked]) -> None:
        """Find out why a rule passes over records, but for those of which that is known."""
        new = {key: one for one in asked if (key := _heard(one)) not in self.reasons}
        for key, one in new.items():
            for reason in reasons(rule, project, [one], self._stands_here):
                self.reasons[key] = reason

    def _stands_here(self, site: Site) -> bool:
        return site.path == self.path and site.row <= self.row <= site.end_row


def _heard(asked: Asked) -> tuple[object, ...]:
    """What a rule was told of a record, to know it by among entry points that run the same code."""
    plain = bool, int, str, Enum, NoneType
    answers = (
        (one.of, one.name, str(one.arguments), one.answer if isinstance(one.answer, plain) else type(one.answer))
        for one in asked.questions
    )
    return type(asked.record), asked.record.site, *answers


class _Function(NamedTuple):
    name: str
    """Dotted path within the module, as `FunctionSummary.qualname` has it."""
    first: int
    last: int


def _tree(text: str) -> ast.AST:
    """The tree of a program; an empty one where Python cannot parse it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ast.Module([], [])


def _ends_of_loops(text: str) -> dict[int, int]:
    """The last row of each loop of a program, by its first row."""
    loops = (node for node in ast.walk(_tree(text)) if isinstance(node, ast.For | ast.AsyncFor | ast.While))
    return {loop.lineno: loop.end_lineno or loop.lineno for loop in loops}


def _texts(text: str) -> Iterator[tuple[int, int]]:
    """The first and last rows of the texts of a program that are statements of their own."""
    for node in ast.walk(_tree(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.end_lineno or node.lineno


def _functions(text: str) -> Iterator[_Function]:
    """The functions of a program, those around others before them; none where Python cannot parse it."""
    waiting: list[tuple[str, ast.AST]] = [("", _tree(text))]
    while waiting:
        prefix, node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            prefix += node.name
            if not isinstance(node, ast.ClassDef):
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                yield _Function(prefix, first, node.end_lineno or node.lineno)
            prefix += "."
        waiting += [(prefix, child) for child in reversed(list(ast.iter_child_nodes(node)))]


def _path_of(record: Any) -> tuple[str, ...]:
    """The ways of calls to a record; some records hold wherever they stand."""
    context = getattr(record, "context", None)
    return context.path if isinstance(context, Context) else ()
