"""The engine kept warm between checks, for editors: what one check read, parsed and linked serves the next.

A check gives what `lint.engine.check` gives for the same texts. Nothing is read from disk twice unless `forget` says
that it may have changed, and what was found out about unsaved text stays in memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.lint.cache import FOLDER, Cache
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.checking import ProjectCheck
from trainlint.lint.engine import Run, collector_paused
from trainlint.lint.extraction import Extraction
from trainlint.lint.governing import Governance
from trainlint.lint.packs import fingerprint, installed_packs
from trainlint.lint.projects import Plan, ProjectFiles, SourceFile, content_digest, plan_of
from trainlint.lint.reporting import read_or_report
from trainlint.lint.reuse import Kept
from trainlint.lint.workers import Broken, Outcome, guarded
from trainlint.semantics.facts import ModuleFacts
from trainlint.semantics.incremental import LiveModule
from trainlint.source.documents import Unreadable, decode

if TYPE_CHECKING:
    from trainlint.lint.closure import Outline
    from trainlint.lint.result import Reported, Result

RECENT_CHARACTERS = 2_000_000
"""How much of what was found out lately stays in memory; the rest is on disk, or is found out again."""


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
        self.files: dict[Path, LiveFiles] = {}
        self.extractions: dict[Path, LiveExtraction] = {}
        self.caches: dict[Path | None, LiveCache] = {}
        self.contexts: dict[Path, list[Path]] = {}
        self.roots: dict[Path, Path] = {}
        self.governance: Governance | None = None
        self._parsed: dict[Path, bytes] = {}
        """For each open text that has facts, how it was when it last parsed."""
        self.kept: dict[Path, Kept] = {}

    def check(self, paths: Sequence[Path], texts: Mapping[Path, bytes], *, keeps: bool = False) -> LiveResult:
        """Check files and folders, named by absolute paths. `texts` stands in for what is on disk; `keeps` says that
        it is what is on disk, so that what is found out is worth keeping for the next start.

        A text that stopped parsing counts as it was when it last did, for the sake of the files that use it.

        Raises:
            ConfigError: as `lint.engine.check` does.
        """
        broken = self._broken(texts)
        linked = {**texts, **{path: self._parsed[path] for path in broken}}
        for files in self.files.values():
            files.renew(linked)
        for cache in self.caches.values():
            cache.keeps = keeps and not broken
        with collector_paused():
            run = _LiveRun(self, paths, replace(self.options, texts=linked), keeps=keeps)
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
        extraction = self.extractions.get(self.roots.get(path.parent, path))
        return extraction if extraction is not None and extraction.knows(path, data) else None

    def _errors(self, path: Path, data: bytes, why: Broken) -> tuple[Reported, ...]:
        """What is reported on a text that does not parse."""
        assert self.governance is not None
        report = read_or_report(path, data, self.governance.of_folder(path.parent).selection)
        return tuple(report if isinstance(report, list) else report.syntax_error(why.message, why.row, why.column))

    def forget(self, paths: Iterable[Path]) -> None:
        """Look at these files on disk again, and at which files there are, and at all configuration."""
        gone = set(paths)
        for files in self.files.values():
            files.forget(gone)
        self.contexts.clear()
        self.roots.clear()
        self.governance = None

    def close(self) -> None:
        """Write what is worth keeping."""
        for cache in self.caches.values():
            Cache.save(cache)


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
        engine = self.engine
        if root not in engine.files:
            cache = self.cache_of(root)
            engine.files[root] = LiveFiles(root, self.texts, cache, self.governance.fingerprint)
            engine.extractions[root] = LiveExtraction(engine.files[root], self.jobs, self.options.progress)
            engine.kept[root] = Kept()
        kept = engine.kept[root]
        kept.decoded.forget_replaced()
        return ProjectCheck(engine.files[root], self.governance, engine.extractions[root], self.jobs, kept)

    def context(self, root: Path) -> list[Path]:
        if root not in self.engine.contexts:
            self.engine.contexts[root] = super().context(root)
        return self.engine.contexts[root]

    def root_of(self, folder: Path) -> Path:
        if folder not in self.engine.roots:
            self.engine.roots[folder] = super().root_of(folder)
        return self.engine.roots[folder]

    def cache_of(self, root: Path) -> Cache:
        folder = None
        if self.options.cache:
            folder = self.options.cache_dir or root / FOLDER
        if folder not in self.engine.caches:
            self.engine.caches[folder] = LiveCache(folder, keeps=self._keeps)
        return self.engine.caches[folder]

    def caches(self) -> Iterable[Cache]:
        return self.engine.caches.values()


class LiveCache(Cache):
    """A cache that has what was used lately in memory, and puts on disk only what is about the files as they lie
    there."""

    def __init__(self, folder: Path | None, *, keeps: bool) -> None:
        super().__init__(folder)
        self.keeps = keeps
        """Whether what is put now is about the files as they lie on disk."""
        self._recent: OrderedDict[tuple[str, bytes], str] = OrderedDict()
        self._characters = 0

    def get_many(self, kind: str, keys: Iterable[bytes]) -> Iterator[tuple[bytes, str]]:
        unknown = []
        for key in keys:
            value = self._recent.get((kind, key))
            if value is None:
                unknown.append(key)
            else:
                self._recent.move_to_end((kind, key))
                yield key, value
        for key, value in super().get_many(kind, unknown) if unknown else ():
            self._remember(kind, key, value)
            yield key, value

    def holds(self, kind: str, keys: Iterable[bytes]) -> set[bytes]:
        wanted = set(keys)
        found = {key for key in wanted if (kind, key) in self._recent}
        return found | super().holds(kind, wanted - found) if found < wanted else found

    def put(self, kind: str, key: bytes, value: str) -> None:
        self._remember(kind, key, value)
        if self.keeps:
            super().put(kind, key, value)

    def note_use(self, kind: str, keys: Iterable[bytes]) -> None:
        """Nothing: an editor reads the same entries all day, and one run on the command line keeps them as well."""

    def save(self) -> None:
        """Write what is new, and go on."""
        self.flush()

    def _remember(self, kind: str, key: bytes, value: str) -> None:
        known = self._recent.pop((kind, key), "")
        self._recent[kind, key] = value
        self._characters += len(value) - len(known)
        while self._characters > RECENT_CHARACTERS and len(self._recent) > 1:
            _, dropped = self._recent.popitem(last=False)
            self._characters -= len(dropped)


class LiveFiles(ProjectFiles):
    """The files of a project, each read once until it is said to have changed."""

    def __init__(self, root: Path, texts: Mapping[Path, bytes], cache: Cache, fingerprint: bytes) -> None:
        super().__init__(root, texts, cache, fingerprint)
        self._outlined: dict[Path, tuple[bytes, Outline]] = {}
        self._planned: tuple[dict[Path, Outline], Plan] | None = None

    def renew(self, texts: Mapping[Path, bytes]) -> None:
        """Take other texts in place of what is on disk."""
        before, self._texts = self._texts, texts
        if before is not texts:
            self.forget({path for path in (*before, *texts) if before.get(path) != texts.get(path)}, on_disk=False)

    def forget(self, paths: Iterable[Path], *, on_disk: bool = True) -> None:
        """Read these files again when they are next asked for."""
        for path in paths:
            self._files.pop(path, None)
            self.unreadable.pop(path, None)
        if on_disk:
            self.__dict__.pop("requirements", None)

    def is_open(self, path: Path) -> bool:
        """Whether a text stands in for what is on disk."""
        return path in self._texts

    def plan(self, paths: Iterable[Path]) -> Plan:
        outlines = self._outlines(self.read(paths))
        if self._planned is None or self._planned[0] != outlines:
            self._planned = outlines, plan_of(outlines)
        return self._planned[1]

    def _outlines(self, files: list[SourceFile]) -> dict[Path, Outline]:
        unknown = [file for file in files if self._outlined.get(file.path, (b"",))[0] != file.digest]
        for path, outline in super()._outlines(unknown).items() if unknown else ():
            self._outlined[path] = self._files[path].digest, outline
        return {file.path: self._outlined[file.path][1] for file in files}


class LiveExtraction(Extraction):
    """The facts of a project's files, kept from check to check. Those of texts that an editor has open come of what
    changed in them."""

    def __init__(self, files: LiveFiles, jobs: int, progress: Callable[[int, int], None] | None = None) -> None:
        super().__init__(files, jobs, progress)
        self._files: LiveFiles = files
        self._known: dict[Path, tuple[bytes, ModuleFacts]] = {}
        self._live: dict[Path, LiveModule] = {}
        """The texts that are open."""
        self._failed: dict[Path, bytes] = {}
        """The content of open texts that have no facts."""

    def knows(self, path: Path, data: bytes) -> bool:
        """Whether there are facts of this content of a file."""
        return self._known.get(path, (b"", None))[0] == content_digest(path, data)

    def prepare(self, paths: Iterable[Path]) -> None:
        unknown = []
        for path in paths:
            if self._files.is_open(path):
                self.update(path, self.files.file(path).data)
            else:
                self._live.pop(path, None)
                if not self._is_known(path):
                    unknown.append(path)
        super().prepare(unknown)

    def facts(self, paths: Sequence[Path]) -> dict[Path, ModuleFacts]:
        missing = [path for path in paths if not self._is_known(path) and self.outcome(path) is None]
        for path, facts in super().facts(missing).items():
            self._known[path] = self.files.file(path).digest, facts
        # The order of the files is part of the answer.
        return {path: self._known[path][1] for path in paths if self._is_known(path)}

    def update(self, path: Path, data: bytes) -> Outcome | None:
        """Find out the facts of a text that is open in an editor; return what keeps it from having any."""
        digest = content_digest(path, data)
        if self._known.get(path, (b"", None))[0] == digest:
            return None
        if self._failed.get(path) == digest:
            return self._outcomes[digest]
        try:
            text = decode(path, data).text
        except Unreadable:
            return None
        live = self._live.setdefault(path, LiveModule())
        outcome = guarded(lambda: live.update(text))
        self._outcomes.pop(self._failed.pop(path, b""), None)
        if path in self._known:
            self._left_out.pop(self._known[path][0], None)
        if isinstance(outcome, ModuleFacts):
            self._known[path] = digest, outcome
            self._left_out[digest] = outcome.left_out
            return None
        self._outcomes[digest] = outcome
        self._failed[path] = digest
        return outcome

    def _is_known(self, path: Path) -> bool:
        return self._known.get(path, (b"", None))[0] == self.files.file(path).digest
