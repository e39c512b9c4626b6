"""The engine behind `trainlint check`: from named paths to findings, reading no more than the answer needs.

What an unchanged project does not need is imported where it is needed: the parser, the rules, the settings' models.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.lint.cache import FOLDER, Cache
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.checking import Checked, ProjectCheck
from trainlint.lint.extraction import Extraction
from trainlint.lint.governing import Governance
from trainlint.lint.packs import Pack, fingerprint, installation_state, installed_packs
from trainlint.lint.projects import ProjectFiles
from trainlint.lint.result import HotLoop, Reported, Result, order
from trainlint.source.discovery import (
    absolute,
    context_files,
    discover,
    is_excluded,
    is_shared_place,
    project_root,
    scripts_in,
)

if TYPE_CHECKING:
    from trainlint.source.documents import Document


def check(paths: Sequence[Path], options: CheckOptions | None = None) -> Result:
    """Lint the named files and folders.

    Findings of a file are the same however it was named. Standard input is a path of its own (the file name it is said
    to have, existing or not) whose content stands in `options.texts`. A path that does not exist is an unreadable file.

    Raises:
        ConfigError: a configuration file or an override is wrong; the message names file, key and spelling.
    """
    with collector_paused():
        return Run([absolute(path) for path in paths], options or CheckOptions()).result()


class Run:
    """One check of named files and folders."""

    def __init__(self, paths: Sequence[Path], options: CheckOptions) -> None:
        self.paths = paths
        self.options = options
        self.texts = {absolute(path): data for path, data in options.texts.items()}
        self.warnings: list[str] = []
        self._caches: dict[Path | None, Cache] = {}
        self._roots: dict[Path, Path] = {}

    def result(self) -> Result:
        """Check project by project."""
        named = self._named()
        checked = [self._check_project(root, files) for root, files in sorted(self._by_root(named).items())]
        self.save()
        return self._joined(checked, named)

    def _named(self) -> list[Path]:
        """The files to report on, sorted."""
        governance = self.governance
        direct = {path for path in self.paths if path in self.texts or not os.path.lexists(path)}
        given = direct
        if self.options.force_exclude:
            given = {path for path in direct if not is_excluded(path, governance.filters_for(path.parent))}
        walked = discover(
            [path for path in self.paths if path not in direct],
            governance.filters_for,
            force_exclude=self.options.force_exclude,
            unreadable=lambda path, reason: self.warnings.append(f"{path}: {reason}"),
        )
        named = sorted(given.union(walked))
        self.warnings += self._without_files(named)
        return named

    def _without_files(self, named: Sequence[Path]) -> Iterator[str]:
        """What to say about given paths that are not there, or folders in which nothing is to be linted."""
        for path in self.paths:
            if path in self.texts:
                continue
            if not os.path.lexists(path):
                yield f"{path}: no such file or folder"
            elif os.path.isdir(path):  # noqa: PTH112 - Path.is_dir fails without permission
                below = os.path.join(path, "")  # noqa: PTH118 - with the separator at its end
                if not any(os.fspath(file).startswith(below) for file in named):
                    yield f"{path}: no Python files or notebooks found in this folder"

    def _by_root(self, named: Sequence[Path]) -> dict[Path, list[Path]]:
        by_root: dict[Path, list[Path]] = {}
        for path in named:
            by_root.setdefault(self.root_of(path.parent), []).append(path)
        return by_root

    def _check_project(self, root: Path, named: list[Path]) -> Checked:
        """Check files of one project. Files that are no part of it, being excluded, new or out of the ordinary, see the
        project and one another; the others are not changed by them."""
        project = self.project(root)
        context = self.context(root)
        inside = set(context)
        others = [path for path in named if path not in inside]
        if len(others) < len(named):
            project.check(context, [path for path in named if path in inside])
        if others:
            project.check(sorted([*context, *others]), others)
        return project.checked

    def project(self, root: Path) -> ProjectCheck:
        """What checks the files of the project at `root`."""
        files = ProjectFiles(root, self.texts, self.cache_of(root), self.governance.fingerprint)
        return ProjectCheck(files, self.governance, Extraction(files, self.jobs, self.options.progress), self.jobs)

    def context(self, root: Path) -> list[Path]:
        """The files of the project at `root`; in a place where unrelated things lie, the scripts side by side."""
        if is_shared_place(root):
            return sorted(scripts_in(root))
        return context_files(root, self.governance.filters_for(root))

    def _joined(self, checked: Sequence[Checked], named: Sequence[Path]) -> Result:
        findings = [reported for one in checked for reported in one.findings]
        withheld = [held for one in checked for held in one.withheld]
        if self.options.verdicts is not None:
            findings = [*self.options.verdicts.joined(findings, self._document), *self._shown_by_runs(named)]
        if findings or withheld:
            from trainlint.lint.finding import Severity

            least = Severity[(self.options.min_severity or "hint").upper()]
            findings = sorted((one for one in findings if one.severity >= least), key=order)
            withheld = [one for one in withheld if one.severity >= least]
        seconds: dict[str, float] = {}
        for one in checked if self.options.timings else ():
            for code, spent in one.seconds.items():
                seconds[code] = seconds.get(code, 0.0) + spent
        failures = dict.fromkeys(failure.text(self.options.verbose) for one in checked for failure in one.failures)
        return Result(
            findings=tuple(findings),
            checked_files=len(named),
            paths=tuple(named),
            loops=tuple(sorted((loop for one in checked for loop in one.loops), key=_loop_order)),
            withheld=sum(one.count for one in withheld),
            inputs=frozenset().union(*(one.inputs for one in checked)),
            warnings=tuple(dict.fromkeys(self._all_warnings())),
            errors=tuple(failures),
            rule_seconds=tuple(sorted(seconds.items(), key=lambda item: (-item[1], item[0]))),
        )

    def _shown_by_runs(self, named: Sequence[Path]) -> Iterator[Reported]:
        """What only runs show in the files to report on."""
        from trainlint.lint.reporting import FileReport

        assert self.options.verdicts is not None
        for document, shown in self.options.verdicts.shown(named, self._document):
            selection = self.governance.of_folder(document.path.parent).selection
            yield from FileReport(document, selection).shown_by_runs(shown)

    def _document(self, path: Path) -> Document | None:
        """A file as it is checked; None where it has no text."""
        from trainlint.source.documents import Unreadable, decode, read_document

        try:
            return decode(path, self.texts[path]) if path in self.texts else read_document(path)
        except Unreadable:
            return None

    def _all_warnings(self) -> Iterator[str]:
        yield from self.warnings
        yield from self.governance.warnings()
        for cache in self.caches():
            if cache.warning is not None:
                yield cache.warning

    # ------------------------------------------------------------------------------------------------------ context

    @cached_property
    def governance(self) -> Governance:
        """The configurations of this run."""
        return Governance(self.options, self.packs, fingerprint(self.packs), self.cache_of)

    @cached_property
    def packs(self) -> tuple[Pack, ...]:
        """The installed rule packs, as the cache of the first project knows them."""
        first = self.paths[0] if self.paths else Path.cwd()
        cache = self.cache_of(self.root_of(first if first.is_dir() else first.parent))
        state = installation_state()
        stored = cache.get("packs", state)
        known = None if stored is None else _packs_from(stored)
        if known is not None:
            return known
        packs = installed_packs()
        cache.put("packs", state, json.dumps(packs))
        return packs

    @cached_property
    def jobs(self) -> int:
        """The most processes to parse with."""
        if self.options.jobs is not None:
            return self.options.jobs
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity is not None else os.cpu_count() or 1

    def root_of(self, folder: Path) -> Path:
        """The root of the project that a folder belongs to."""
        if folder not in self._roots:
            self._roots[folder] = project_root(folder)
        return self._roots[folder]

    def cache_of(self, root: Path) -> Cache:
        """The cache of the project at `root`."""
        folder = self.cache_folder(root)
        if folder not in self._caches:
            self._caches[folder] = Cache(folder)
        return self._caches[folder]

    def cache_folder(self, root: Path) -> Path | None:
        """Where the cache of the project at `root` lies; None for nowhere."""
        return (self.options.cache_dir or root / FOLDER) if self.options.cache else None

    def save(self) -> None:
        """Write what is new to the caches."""
        for cache in self.caches():
            cache.save()

    def caches(self) -> Iterable[Cache]:
        """The caches that this check uses."""
        return self._caches.values()


def _packs_from(text: str) -> tuple[Pack, ...] | None:
    try:
        return tuple(Pack(*map(str, row)) for row in json.loads(text))
    except (ValueError, TypeError):
        return None


def _loop_order(loop: HotLoop) -> tuple[str, int, int, int, str]:
    site = loop.site
    return str(site.path), site.cell or 0, site.row, site.column, str(loop.entry)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Spare the garbage collector the sight of what lives through the whole run."""
    was_on = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        # What is left is moved to the oldest generation, to be looked at in its turn: else it counts as just made, and
        # the next object to be made has it all looked at.
        gc.freeze()
        gc.unfreeze()
        if was_on:
            gc.enable()
