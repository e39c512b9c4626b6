"""The engine kept warm between checks, for editors: what one check read, parsed and linked serves the next.

A check gives what `lint.engine.check` gives for the same texts. Nothing is read from disk twice unless `forget` says
that it may have changed, and what was found out about unsaved text stays in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.lint.cache import Cache
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.checking import ProjectCheck
from trainlint.lint.engine import Run, collector_paused
from trainlint.lint.governing import Governance
from trainlint.lint.live_cache import LiveCache
from trainlint.lint.live_files import LiveExtraction, LiveFiles
from trainlint.lint.packs import fingerprint, installed_packs
from trainlint.lint.reporting import read_or_report
from trainlint.lint.reuse import Kept
from trainlint.lint.workers import Broken

if TYPE_CHECKING:
    from trainlint.lint.result import Reported, Result
    from trainlint.lint.verdicts import Verdicts


@dataclass(frozen=True, slots=True)
class _Project:
    """What outlives a check of one project."""

    files: LiveFiles
    extraction: LiveExtraction
    kept: Kept


@dataclass(frozen=True, slots=True)
class LiveResult:
    """What a check of texts under change has to say."""

    result: Result
    """What was found in the texts that parse; in those that do not, what was found when they last did."""
    broken: Mapping[Path, tuple[Reported, ...]]
    """What is wrong with the texts that stopped parsing."""
    linked: Mapping[Path, bytes]
    """The open texts that `result` is about."""


class LiveEngine:
    """Checks the projects below one folder of an editor's workspace, again and again."""

    def __init__(self, options: CheckOptions) -> None:
        """Each check is given its own texts in place of those of the `options`."""
        self.options = options
        self.packs = installed_packs()
        self.projects: dict[Path, _Project] = {}
        """By their root."""
        self.caches: dict[Path | None, LiveCache] = {}
        self.contexts: dict[Path, list[Path]] = {}
        self.roots: dict[Path, Path] = {}
        self.governance: Governance | None = None
        self._parsed: dict[Path, bytes] = {}
        """For each open text that has facts, how it was when it last parsed."""

    def check(
        self,
        paths: Sequence[Path],
        texts: Mapping[Path, bytes],
        *,
        keeps: bool = False,
        verdicts: Verdicts | None = None,
    ) -> LiveResult:
        """Check files and folders, named by absolute paths. `texts` stands in for what is on disk; `keeps` says that
        it is what is on disk, so that what is found out is worth keeping for the next start; `verdicts` join the
        findings.

        A text that stopped parsing counts as it was when it last did, for the sake of the files that use it.

        Raises:
            ConfigError: as `lint.engine.check` does.
        """
        broken = self._broken(texts)
        linked = {**texts, **{path: self._parsed[path] for path in broken}}
        for project in self.projects.values():
            project.files.renew(linked)
        for cache in self.caches.values():
            cache.keeps = keeps and not broken
        with collector_paused():
            run = _LiveRun(self, paths, replace(self.options, texts=linked, verdicts=verdicts), keeps=keeps)
            result = run.result()
        self._parsed = {path: data for path, data in linked.items() if self._extraction_of(path, data) is not None}
        return LiveResult(result, {path: self._errors(path, texts[path], why) for path, why in broken.items()}, linked)

    def _broken(self, texts: Mapping[Path, bytes]) -> dict[Path, Broken]:
        """The texts that parsed before and do not any more, with what is wrong with them."""
        found = {}
        for path, data in texts.items():
            before = self._parsed.get(path)
            if before is None or before == data:
                continue
            extraction = self._extraction_of(path, before)
            outcome = None if extraction is None else extraction.update(path, data)
            if isinstance(outcome, Broken):
                found[path] = outcome
        return found

    def _extraction_of(self, path: Path, data: bytes) -> LiveExtraction | None:
        """What has the facts of a text; None where nobody has any."""
        project = self.projects.get(self.roots.get(path.parent, path))
        return project.extraction if project is not None and project.extraction.knows(path, data) else None

    def _errors(self, path: Path, data: bytes, why: Broken) -> tuple[Reported, ...]:
        """What is reported on a text that does not parse."""
        assert self.governance is not None
        report = read_or_report(path, data, self.governance.of_folder(path.parent).selection)
        return tuple(report if isinstance(report, list) else report.syntax_error(why.message, why.row, why.column))

    def forget(self, paths: Iterable[Path]) -> None:
        """Look at these files on disk again, and at which files there are, and at all configuration."""
        gone = set(paths)
        for project in self.projects.values():
            project.files.forget(gone)
        self.contexts.clear()
        self.roots.clear()
        self.governance = None

    def close(self) -> None:
        """Write what is worth keeping."""
        for cache in self.caches.values():
            cache.end()


class _LiveRun(Run):
    """A check that takes what outlives it from the engine."""

    def __init__(self, engine: LiveEngine, paths: Sequence[Path], options: CheckOptions, *, keeps: bool) -> None:
        super().__init__(paths, options)
        self.engine = engine
        self.packs = engine.packs
        self._keeps = keeps
        if engine.governance is None:
            fresh = replace(options, texts={})
            engine.governance = Governance(fresh, engine.packs, fingerprint(engine.packs), self.cache_of)
        self.governance = engine.governance

    def project(self, root: Path) -> ProjectCheck:
        projects = self.engine.projects
        if root not in projects:
            files = LiveFiles(root, self.texts, self.cache_of(root), self.governance.fingerprint)
            projects[root] = _Project(files, LiveExtraction(files, self.jobs, self.options.progress), Kept())
        project = projects[root]
        project.kept.decoded.forget_replaced()
        return ProjectCheck(project.files, self.governance, project.extraction, self.jobs, project.kept)

    def context(self, root: Path) -> list[Path]:
        if root not in self.engine.contexts:
            self.engine.contexts[root] = super().context(root)
        return self.engine.contexts[root]

    def root_of(self, folder: Path) -> Path:
        if folder not in self.engine.roots:
            self.engine.roots[folder] = super().root_of(folder)
        return self.engine.roots[folder]

    def cache_of(self, root: Path) -> Cache:
        folder = self.cache_folder(root)
        if folder not in self.engine.caches:
            self.engine.caches[folder] = LiveCache(folder, keeps=self._keeps)
        return self.engine.caches[folder]

    def caches(self) -> Iterable[Cache]:
        return self.engine.caches.values()
