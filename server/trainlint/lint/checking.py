"""Checking the named files of one project."""

from __future__ import annotations

import ast
import gc
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.lint.projects import ProjectFiles
from trainlint.lint.result import Reported

if TYPE_CHECKING:
    from trainlint.lint.component import Failure
    from trainlint.lint.finding import Finding
    from trainlint.lint.governing import Governance, Governing
    from trainlint.lint.workers import Failed, Outcome
    from trainlint.semantics.facts import ModuleFacts
    from trainlint.semantics.link import LinkOptions

_FACTS_KIND = "facts"
_FINDINGS_KIND = "findings"
_NOTHING = "[]"
"""Stored findings where there are none: the usual case, known without importing what findings are made of."""
_BROKEN = "!"
"""Starts what is stored in place of the facts of a file that does not parse."""
_COLLECT_AFTER = 2_000_000
"""Bytes of source, about 50,000 lines: linked, they take up to 100 MB."""
_SPEAKING = (b"noqa", b"trainlint")
"""Words without which a file has no suppressions."""


@dataclass(slots=True)
class Checked:
    """What checking came to."""

    findings: list[Reported] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    """Time spent in each rule, by code."""


@dataclass(frozen=True, slots=True)
class _Task:
    """Files that are linked together, and those among them that one configuration governs: what is cached as one."""

    key: bytes
    component: tuple[Path, ...]
    governed: tuple[Path, ...]
    governing: Governing
    plain: bool
    """Whether it is a single file that no training library is in reach of: only its syntax is checked."""


class ProjectCheck:
    """One run over one project."""

    def __init__(
        self,
        files: ProjectFiles,
        governance: Governance,
        jobs: int,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.files = files
        self.cache = files.cache
        self.governance = governance
        self.jobs = jobs
        self.progress = progress
        self.checked = Checked()
        self._uncollected = 0
        self._undecodable: set[Path] = set()
        self._outcomes: dict[bytes, Outcome] = {}
        """What came of the files that have no facts, by content."""

    def check(self, context: list[Path], named: list[Path]) -> None:
        """Check the `named` files as part of `context`: the files of the project, sorted, the named ones included."""
        wanted = set(named)
        plan = self.files.plan(context)
        tasks = [
            task
            for component in plan.components
            if not wanted.isdisjoint(component)
            for task in self._tasks(component)
            if not wanted.isdisjoint(task.governed)
        ]
        plain = [self._plain_task(path) for path in plan.plain if path in wanted]
        stored = dict(self.cache.get_many(_FINDINGS_KIND, [task.key for task in (*tasks, *plain)]))
        missed = [task for task in (*tasks, *plain) if not self._take_stored(task, stored.get(task.key), wanted)]
        self._extract(path for task in missed if not task.plain for path in task.component)
        for task in missed:
            self._take(self._analyse(task), wanted)
        self._report_unreadable(named)

    def _take(self, reported: Iterable[Reported], wanted: set[Path]) -> None:
        self.checked.findings += [one for one in reported if one.path in wanted]

    def _report_unreadable(self, named: Iterable[Path]) -> None:
        for path in named:
            if path in self.files.unreadable:
                from trainlint.lint.reporting import unreadable

                selection = self.governance.of_folder(path.parent).selection
                self.checked.findings += unreadable(path, self.files.unreadable[path], selection)

    # ------------------------------------------------------------------------------------------------------- tasks

    def _tasks(self, component: tuple[Path, ...]) -> Iterator[_Task]:
        """The component once for each configuration that governs some of its files."""
        by_governing: dict[Governing, list[Path]] = {}
        for path in component:
            by_governing.setdefault(self.governance.of_folder(path.parent), []).append(path)
        for governing, governed in by_governing.items():
            yield self._task(component, governed, governing, plain=False)

    def _plain_task(self, path: Path) -> _Task:
        return self._task((path,), [path], self.governance.of_folder(path.parent), plain=True)

    def _task(self, component: tuple[Path, ...], governed: list[Path], governing: Governing, *, plain: bool) -> _Task:
        settings = (governing.digest, self._name(governing.root), self.files.requirements)
        names = [self._name(path) for path in governed]
        key = self.files.digest_of(component, *settings, b"plain" if plain else b"linked", *names)
        return _Task(key, component, tuple(governed), governing, plain)

    def _name(self, path: Path) -> bytes:
        return self.files.relative(path).encode("utf-8", "surrogateescape") + b"\n"

    def _take_stored(self, task: _Task, text: str | None, wanted: set[Path]) -> bool:
        """Take the findings that an earlier run stored; return whether it did."""
        if text is None:
            return False
        if text != _NOTHING:
            from trainlint.lint.stored import UnreadableEntryError, load

            try:
                self._take(load(text, self.files.root), wanted)
            except UnreadableEntryError:
                return False
        if not task.plain:
            self.cache.note_use(_FACTS_KIND, map(self.files.content_key, task.component))
        return True

    # ----------------------------------------------------------------------------------------------------- analysis

    def _analyse(self, task: _Task) -> list[Reported]:
        """Find what there is to report on the files that the task's configuration governs."""
        failures = len(self.checked.failures)
        found = self._parse_plain(task.component[0]) if task.plain else self._run_rules(task)
        reported = []
        crashed = False
        for path in task.governed:
            outcome = self._outcomes.get(self.files.file(path).digest)
            crashed = crashed or type(outcome).__name__ == "Crashed"
            reported += self._report(path, found.get(path, ()), outcome, task.governing)
        if not crashed and len(self.checked.failures) == failures:
            self._store(task.key, reported)
        return reported

    def _store(self, key: bytes, reported: list[Reported]) -> None:
        from trainlint.lint.stored import dump

        self.cache.put(_FINDINGS_KIND, key, dump(reported, self.files.root) if reported else _NOTHING)

    def _run_rules(self, task: _Task) -> Mapping[Path, Sequence[Finding]]:
        from trainlint.lint.component import run_rules

        facts = {path: found for path in task.component if (found := self._facts_of(path)) is not None}
        options = _link_options(task.governing, self.files.root)
        run = run_rules(facts, options, task.governing.selection, task.governed)
        self.checked.failures += run.errors
        for code, seconds in run.seconds.items():
            self.checked.seconds[code] = self.checked.seconds.get(code, 0.0) + seconds
        self._collect(sum(len(self.files.file(path).data) for path in facts))
        return run.findings

    def _collect(self, size: int) -> None:
        """Free the cycles of linked projects, once enough bytes of source went into them."""
        self._uncollected += size
        if self._uncollected > _COLLECT_AFTER:
            gc.collect()
            self._uncollected = 0

    def _report(
        self, path: Path, found: Iterable[Finding], outcome: Outcome | None, governing: Governing
    ) -> list[Reported]:
        """What is said about one file, given what rules found in it or what kept it from being parsed."""
        data = self.files.file(path).data
        if not found and outcome is None and path not in self._undecodable and not _may_speak(data):
            return []
        from trainlint.lint.reporting import read_or_report, unreadable
        from trainlint.lint.workers import Broken, Crashed, Failed

        if isinstance(outcome, Crashed):
            return unreadable(path, "makes the parser crash", governing.selection)
        if isinstance(outcome, Failed):
            self._fail(path, outcome)
            return []
        report = read_or_report(path, data, governing.selection)
        if isinstance(report, list):
            return report
        if isinstance(outcome, Broken):
            return report.syntax_error(outcome.message, outcome.row, outcome.column)
        return report.findings(found)

    def _fail(self, path: Path, outcome: Failed) -> None:
        from trainlint.lint.component import Failure

        self.checked.failures.append(Failure("the analysis", str(path), outcome.summary, outcome.traceback))

    # ------------------------------------------------------------------------------------------------------ parsing

    def _parse_plain(self, path: Path) -> Mapping[Path, Sequence[Finding]]:
        """Find out whether a file that is not linked parses. libcst has the last word, since it knows more grammars
        than the Python that runs."""
        text = self._text(path)
        if text is not None and not _parses(text):
            self._extract([path])
            self._facts_of(path)
        return {}

    def _extract(self, paths: Iterable[Path]) -> None:
        """Have the facts of all these files in the cache, as far as they have any."""
        keys = {self.files.content_key(path): path for path in paths}
        known = self.cache.holds(_FACTS_KIND, keys)
        unknown = [path for key, path in keys.items() if key not in known]
        texts = {path: text for path in unknown if (text := self._text(path)) is not None}
        if texts:
            from trainlint.lint.workers import extract_all

            todo = list(texts)
            outcomes = extract_all([texts[path] for path in todo], self.jobs)
            for done, (index, outcome) in enumerate(outcomes, start=1):
                self._keep(todo[index], outcome)
                if self.progress is not None:
                    self.progress(done, len(todo))
            self.cache.flush()

    def _keep(self, path: Path, outcome: Outcome) -> None:
        from trainlint.lint.workers import Broken, Extracted

        key = self.files.content_key(path)
        if isinstance(outcome, Extracted):
            self.cache.put(_FACTS_KIND, key, outcome.facts)
        elif isinstance(outcome, Broken):
            self.cache.put(_FACTS_KIND, key, _BROKEN + json.dumps(outcome))
        else:
            self._outcomes[self.files.file(path).digest] = outcome

    def _facts_of(self, path: Path) -> ModuleFacts | None:
        """The facts of a file; None where it has none, with the reason among the outcomes."""
        from trainlint.semantics.facts import ModuleFacts

        key = self.files.content_key(path)
        for attempt in range(2):
            stored = self.cache.get(_FACTS_KIND, key)
            if stored is not None:
                try:
                    if stored.startswith(_BROKEN):
                        self._outcomes[self.files.file(path).digest] = _broken(stored)
                        return None
                    return ModuleFacts.load(stored)
                except ValueError:
                    pass
            text = self._text(path) if attempt == 0 and self.files.file(path).digest not in self._outcomes else None
            if text is None:
                return None
            from trainlint.lint.workers import outcome_of

            self._keep(path, outcome_of(text))
        return None

    def _text(self, path: Path) -> str | None:
        from trainlint.source.documents import Unreadable, decode

        try:
            return decode(path, self.files.file(path).data).text
        except Unreadable:
            # Reported where the file is reported on.
            self._undecodable.add(path)
            return None


def _may_speak(data: bytes) -> bool:
    """Whether a file may hold suppressions."""
    lowered = data.lower()
    return any(word in lowered for word in _SPEAKING)


def _parses(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def _broken(stored: str) -> Outcome:
    from trainlint.lint.workers import Broken

    message, row, column = json.loads(stored.removeprefix(_BROKEN))
    return Broken(str(message), int(row), int(column))


def _link_options(governing: Governing, root: Path) -> LinkOptions:
    from trainlint.config.versions import lowest_torch
    from trainlint.semantics.link import LinkOptions

    settings = governing.resolved.settings
    return LinkOptions(
        device=settings.device,
        distributed=settings.distributed,
        step_functions=settings.step_functions,
        sync_functions=settings.sync_functions,
        rank_guards=settings.rank_guards,
        loader_factories=settings.loader_factories,
        torch_version=lowest_torch(root, settings.torch_version),
    )
