"""What rules find in a component, put together from entry points: those that a change concerns are walked again, the
findings of the others come from the cache.

What walking an entry point tells depends on its import closure. Its findings depend besides on which functions of the
files that it owns any entry point reaches, since it walks the others too. Both are kept under digests of just that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trainlint.lint.component import Component, EntryFindings, EntryRuns, FunctionKey, Walked

if TYPE_CHECKING:
    from trainlint.lint.projects import ProjectFiles

_REACHED_KIND = "reached"
_FINDINGS_KIND = "entry"
_DIGEST_BYTES = 16
WORTHWHILE = 1_500_000
"""Bytes of source to be walked, each file counted for each entry point that imports it, from which on several
processes do: about half a second of work."""


class Runs(Protocol):
    """Where entry points are walked; each is walked at most once before its findings are asked for."""

    def walk_all(self, entries: list[Path]) -> Iterator[tuple[Path, Walked]]:
        """Walk entry points; yield what that tells, in any order."""

    def all_findings(self, reached: Mapping[Path, frozenset[FunctionKey]]) -> Iterator[tuple[Path, EntryFindings]]:
        """Yield the findings of entry points, in any order, given what is reached in the files that each owns."""

    def close(self) -> None:
        """End what was started."""


class LocalRuns:
    """Walks entry points in this process."""

    def __init__(self, component: Component) -> None:
        self._runs = EntryRuns(component)

    def walk_all(self, entries: list[Path]) -> Iterator[tuple[Path, Walked]]:
        for entry in entries:
            yield entry, self._runs.walk(entry)

    def all_findings(self, reached: Mapping[Path, frozenset[FunctionKey]]) -> Iterator[tuple[Path, EntryFindings]]:
        for entry, functions in reached.items():
            yield entry, self._runs.findings(entry, functions)

    def close(self) -> None:
        pass


class _RunsOnDemand:
    """Sets up where entry points are walked once one must be."""

    def __init__(self, points: EntryPoints, jobs: int) -> None:
        self._points = points
        self._jobs = jobs
        self._runs: Runs | None = None

    def of(self, entries: Sequence[Path]) -> Runs:
        """Where to walk these entry points, and all that come later."""
        if self._runs is None:
            self._runs = self._points.runs_for(entries, self._jobs)
        return self._runs

    def close(self) -> None:
        if self._runs is not None:
            self._runs.close()


class EntryPoints:
    """The entry points of one component in one run."""

    def __init__(self, component: Component, files: ProjectFiles, settings: bytes) -> None:
        self.component = component
        self.linker = component.linker
        self.files = files
        self.cache = files.cache
        names = "\0".join(files.relative(path) for path in component.facts)
        self._base = blake2b(settings + names.encode("utf-8", "surrogateescape"), digest_size=_DIGEST_BYTES).digest()
        self._names = {files.relative(path): path for path in component.facts}
        self._walk_keys = {entry: self._walk_key(entry) for entry in self.linker.entries}

    def findings(self, jobs: int) -> list[EntryFindings]:
        """Return what is found, in the order of the entry points, walking with at most `jobs` processes."""
        runs = _RunsOnDemand(self, jobs)
        try:
            walked = self._walked(runs)
            reached = self._reached_in_owned(walked)
            return self._found(reached, runs)
        finally:
            runs.close()

    def runs_for(self, entries: Sequence[Path], jobs: int) -> Runs:
        """Where to walk these entry points: in this process, unless they are much work."""
        count = min(jobs, len(entries), 1 + sum(map(self.cost, entries)) // WORTHWHILE) if jobs > 1 else 1
        if count < 2:
            return LocalRuns(self.component)
        from trainlint.lint.entry_workers import PooledRuns

        return PooledRuns(self.component, count, self.cost)

    def cost(self, entry: Path) -> int:
        """Bytes of source in the import closure of an entry point: what walking it is likely to cost."""
        return sum(len(self.files.file(path).data) for path in self.linker.closure(entry))

    # ------------------------------------------------------------------------------------------------------- walks

    def _walked(self, runs: _RunsOnDemand) -> dict[Path, frozenset[FunctionKey]]:
        """What each entry point reaches."""
        stored = dict(self.cache.get_many(_REACHED_KIND, self._walk_keys.values()))
        walked: dict[Path, frozenset[FunctionKey]] = {}
        for entry, key in self._walk_keys.items():
            with suppress(KeyError, ValueError, TypeError, AttributeError):
                walked[entry] = self._reached_from(stored[key])
        missing = [entry for entry in self._walk_keys if entry not in walked]
        for entry, (reached, failures) in runs.of(missing).walk_all(missing) if missing else ():
            walked[entry] = reached
            if not failures:
                self.cache.put(_REACHED_KIND, self._walk_keys[entry], self._reached_text(reached))
        return walked

    def _reached_in_owned(self, walked: Mapping[Path, frozenset[FunctionKey]]) -> dict[Path, frozenset[FunctionKey]]:
        """For each entry point, the functions of the files it owns that any entry point reaches."""
        by_file: dict[Path, set[FunctionKey]] = {}
        for function in frozenset().union(*walked.values()):
            by_file.setdefault(function[0], set()).add(function)
        owned = self.linker.owned
        return {
            entry: frozenset().union(*(by_file.get(path, ()) for path in owned[entry])) for entry in self._walk_keys
        }

    def _reached_text(self, reached: frozenset[FunctionKey]) -> str:
        rows: dict[str, list[int]] = {}
        for path, index in sorted(reached):
            rows.setdefault(self.files.relative(path), []).append(index)
        return json.dumps(rows, separators=(",", ":"))

    def _reached_from(self, text: str) -> frozenset[FunctionKey]:
        return frozenset((self._names[name], index) for name, rows in json.loads(text).items() for index in rows)

    # ---------------------------------------------------------------------------------------------------- findings

    def _found(self, reached: Mapping[Path, frozenset[FunctionKey]], runs: _RunsOnDemand) -> list[EntryFindings]:
        keys = {entry: self._findings_key(entry, functions) for entry, functions in reached.items()}
        stored = dict(self.cache.get_many(_FINDINGS_KIND, keys.values()))
        found = {entry: known for entry, key in keys.items() if (known := self._known_findings(stored.get(key)))}
        missing = {entry: functions for entry, functions in reached.items() if entry not in found}
        for entry, findings in runs.of(list(missing)).all_findings(missing) if missing else ():
            # A walk that failed was tried again for the findings, which tell of the failure.
            found[entry] = findings
            if not findings.failures:
                self.cache.put(_FINDINGS_KIND, keys[entry], self._text_of(findings.texts))
        return [found[entry] for entry in keys]

    def _text_of(self, texts: Mapping[Path, str]) -> str:
        return json.dumps({self.files.relative(path): text for path, text in texts.items()}, separators=(",", ":"))

    def _known_findings(self, text: str | None) -> EntryFindings | None:
        if text is None:
            return None
        try:
            return EntryFindings({self._names[name]: str(stored) for name, stored in json.loads(text).items()})
        except (KeyError, ValueError, AttributeError):
            return None

    # -------------------------------------------------------------------------------------------------------- keys

    def _walk_key(self, entry: Path) -> bytes:
        name = self.files.relative(entry).encode("utf-8", "surrogateescape")
        closure = self.linker.closure(entry)
        return self.files.digest_of((path for path in self.component.facts if path in closure), self._base, name)

    def _findings_key(self, entry: Path, reached: frozenset[FunctionKey]) -> bytes:
        owned = "\0".join(self.files.relative(path) for path in self.linker.owned[entry])
        digest = blake2b(self._walk_keys[entry], digest_size=_DIGEST_BYTES)
        digest.update(owned.encode("utf-8", "surrogateescape") + b"\n" + self._reached_text(reached).encode())
        return digest.digest()
