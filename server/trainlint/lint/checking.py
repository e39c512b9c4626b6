"""Checking the named files of one project."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.lint.extraction import CODE_KIND, FACTS_KIND, Extraction
from trainlint.lint.file_reports import NOTHING, FileReports
from trainlint.lint.projects import Configurations, ProjectFiles
from trainlint.lint.result import HotLoop, Reported, Withheld

if TYPE_CHECKING:
    from trainlint.lint.failures import Failure
    from trainlint.lint.governing import Governance, Governing
    from trainlint.lint.reuse import Kept
    from trainlint.semantics.link import LinkOptions

_TASK_KIND = "findings"


@dataclass(slots=True)
class Checked:
    """What checking came to."""

    findings: list[Reported] = field(default_factory=list)
    withheld: list[Withheld] = field(default_factory=list)
    loops: list[HotLoop] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    """Time spent in each rule, by code."""
    inputs: set[str] = field(default_factory=set)
    """Where configuration files may lie that the code names, and folders of such, as `Result.inputs` has them."""


@dataclass(frozen=True, slots=True)
class _Task:
    """Files that are linked together, and those among them that one configuration governs: what is cached as one."""

    key: bytes
    component: tuple[Path, ...]
    governed: tuple[Path, ...]
    governing: Governing
    settings: bytes
    """A digest of what the findings depend on besides the files themselves."""
    plain: bool
    """Whether it is a single file that no training library is in reach of: only its syntax is checked."""
    configurations: Configurations


class ProjectCheck:
    """One run over one project."""

    def __init__(
        self,
        files: ProjectFiles,
        governance: Governance,
        extraction: Extraction,
        jobs: int,
        kept: Kept | None = None,
    ) -> None:
        """`kept` is what outlives this check."""
        self.files = files
        self.cache = files.cache
        self.governance = governance
        self.jobs = jobs
        self.extraction = extraction
        self.kept = kept
        self.checked = Checked()

    def check(self, context: list[Path], named: list[Path]) -> None:
        """Check the `named` files as part of `context`: the files of the project, sorted, the named ones included."""
        wanted = set(named)
        plan = self.files.plan(context)
        tasks = [
            task
            for component in plan.components
            if not wanted.isdisjoint(component.files)
            for task in self._tasks(component.files, self.files.configurations(component))
            if not wanted.isdisjoint(task.governed)
        ]
        plain = [self._plain_task(path) for path in plan.plain if path in wanted]
        stored = dict(self.cache.get_many(_TASK_KIND, [task.key for task in (*tasks, *plain)]))
        missed = [task for task in (*tasks, *plain) if not self._take_stored(task, stored.get(task.key), wanted)]
        self.extraction.prepare(path for task in missed if not task.plain for path in task.component)
        for task in missed:
            self._take(self._analyse(task), wanted)
        self._report_unreadable(named)

    def _take(self, reports: Iterable[str], wanted: set[Path]) -> None:
        """Take what stored reports say about the wanted files.

        Raises:
            UnreadableEntryError: they are not stored reports.
        """
        for report in reports:
            from trainlint.lint.stored import load

            for one in load(report, self.files.root):
                if one.path not in wanted:
                    continue
                if isinstance(one, Reported):
                    self.checked.findings.append(one)
                elif isinstance(one, HotLoop):
                    self.checked.loops.append(one)
                else:
                    self.checked.withheld.append(one)

    def _report_unreadable(self, named: Iterable[Path]) -> None:
        for path in named:
            if path in self.files.unreadable:
                from trainlint.lint.reporting import unreadable

                selection = self.governance.of_folder(path.parent).selection
                self.checked.findings += unreadable(path, self.files.unreadable[path], selection)

    # ------------------------------------------------------------------------------------------------------- tasks

    def _tasks(self, component: tuple[Path, ...], configurations: Configurations) -> Iterator[_Task]:
        """The component once for each configuration that governs some of its files."""
        self.checked.inputs.update(configurations.places)
        by_governing: dict[Governing, list[Path]] = {}
        for path in component:
            by_governing.setdefault(self.governance.of_folder(path.parent), []).append(path)
        for governing, governed in by_governing.items():
            yield self._task(component, governed, governing, configurations, plain=False)

    def _plain_task(self, path: Path) -> _Task:
        return self._task((path,), [path], self.governance.of_folder(path.parent), Configurations(), plain=True)

    def _task(
        self,
        component: tuple[Path, ...],
        governed: list[Path],
        governing: Governing,
        configurations: Configurations,
        *,
        plain: bool,
    ) -> _Task:
        parts = [governing.digest, self._name(governing.root), self.files.requirements]
        parts.append(configurations.digest(self.files.relative))
        names = [self._name(path) for path in governed]
        settings = self.files.digest_of((), *parts, b"plain" if plain else b"linked", *names)
        key = self.files.digest_of(component, settings)
        return _Task(key, component, tuple(governed), governing, settings, plain, configurations)

    def _name(self, path: Path) -> bytes:
        return self.files.relative(path).encode("utf-8", "surrogateescape") + b"\n"

    def _take_stored(self, task: _Task, text: str | None, wanted: set[Path]) -> bool:
        """Take the findings that an earlier run stored; return whether it did."""
        if text is None:
            return False
        if text != NOTHING:
            from trainlint.lint.stored import UnreadableEntryError

            checked = self.checked
            before, withheld, loops = len(checked.findings), len(checked.withheld), len(checked.loops)
            try:
                self._take(map(str, json.loads(text)), wanted)
            except (UnreadableEntryError, ValueError, TypeError):
                del checked.findings[before:], checked.withheld[withheld:], checked.loops[loops:]
                return False
        if not task.plain:
            for kind in (FACTS_KIND, CODE_KIND):
                self.cache.note_use(kind, map(self.files.content_key, task.component))
        return True

    # ----------------------------------------------------------------------------------------------------- analysis

    def _analyse(self, task: _Task) -> list[str]:
        """Find what there is to report on the files that the task's configuration governs: stored reports."""
        failures = len(self.checked.failures)
        found: dict[Path, list[str]] = {path: [] for path in task.governed}
        if task.plain:
            self._parse_plain(task.component[0])
        else:
            self._run_rules(task, found)
        crashed = self._note_crashes(task.governed)
        reports = FileReports(self.files, self.extraction, task.governing, self._settings_of_reports(task)).of(found)
        if not crashed and len(self.checked.failures) == failures:
            self.cache.put(_TASK_KIND, task.key, json.dumps(reports) if reports else NOTHING)
        return reports

    def _settings_of_reports(self, task: _Task) -> bytes:
        """A digest of what the report on a file depends on besides its text and what rules found in it."""
        return self.files.digest_of((), task.governing.digest, self._name(task.governing.root))

    def _run_rules(self, task: _Task, found: dict[Path, list[str]]) -> None:
        """Add what rules find to `found`, and their failures and times to what checking came to."""
        facts = self.extraction.facts(task.component)
        if not facts:
            return
        from trainlint.lint.component import Component
        from trainlint.lint.entries import EntryPoints

        options = link_options(task.governing, self.files.root)
        decoded = None if self.kept is None else self.kept.decoded
        selection, contents = task.governing.selection, task.configurations.contents
        component = Component(self.files.root, facts, options, selection, task.governed, decoded, contents)
        if not component.rules:
            return
        for findings in EntryPoints(component, self.files, task.settings, self.kept).findings(self.jobs):
            for path, text in findings.texts.items():
                found[path].append(text)
            self.checked.failures += findings.failures
            for code, seconds in findings.seconds.items():
                self.checked.seconds[code] = self.checked.seconds.get(code, 0.0) + seconds

    def _note_crashes(self, paths: Iterable[Path]) -> bool:
        """Tell of files at which trainlint failed; return whether any made it or the parser fail."""
        crashed = False
        for path in paths:
            outcome = self.extraction.outcome(path)
            if outcome is None:
                continue
            from trainlint.lint.failures import Failure
            from trainlint.lint.workers import Crashed, Failed

            crashed = crashed or isinstance(outcome, Crashed | Failed)
            if isinstance(outcome, Failed):
                self.checked.failures.append(Failure("the analysis", str(path), outcome.summary, outcome.traceback))
        return crashed

    def _parse_plain(self, path: Path) -> None:
        """Find out whether a file that is not linked parses. libcst has the last word, since it knows more grammars
        than the Python that runs. A large one is data, and its tree would take gigabytes."""
        from trainlint.semantics.limits import MOST_CHARACTERS

        text = self.extraction.text(path)
        if text is not None and len(text) <= MOST_CHARACTERS and not _parses(text):
            self.extraction.parses(path)


def _parses(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def link_options(governing: Governing, root: Path) -> LinkOptions:
    """What the settings, and what the project depends on, tell the analyzer."""
    from trainlint.config.versions import admitted_torch
    from trainlint.semantics.link import LinkOptions

    settings = governing.resolved.settings
    torch = admitted_torch(root, settings.torch_version)
    return LinkOptions(
        device=settings.device,
        distributed=settings.distributed,
        step_functions=settings.step_functions,
        sync_functions=settings.sync_functions,
        rank_guards=settings.rank_guards,
        loader_factories=settings.loader_factories,
        torch_version=torch.newest,
        oldest_torch=torch.oldest,
    )
