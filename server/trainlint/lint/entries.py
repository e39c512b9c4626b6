"""What rules find in a component, put together from entry points: those that a change concerns are walked again, the
findings of the others come from the cache.

What walking an entry point tells depends on its import closure. Its findings depend besides on which functions of the
files that it owns any entry point reaches, since it walks the others too. Both are kept under digests of just that.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from trainlint.lint.component import Component, EntryFindings, EntryRuns, FunctionKey, Walked

if TYPE_CHECKING:
    from trainlint.lint.entry_workers import PooledRuns
    from trainlint.lint.projects import ProjectFiles

_REACHED_KIND = "reached"
_FINDINGS_KIND = "entry"
_DIGEST_BYTES = 16
_T = TypeVar("_T", Walked, EntryFindings)
WORTHWHILE_S = 1.0
"""Processor time that what is left must be likely to take before other processes help: starting them, and having each
decode what it walks, costs a quarter of that."""


class Runs:
    """Walks entry points, each at most once before its findings are asked for: in this process, until so much is left
    that others are worth starting. How long a walk takes shows only once some are done."""

    def __init__(self, component: Component, jobs: int, size: Callable[[Path], int]) -> None:
        self._jobs = jobs
        self._linker = component.linker
        self._size = size
        self._here = EntryRuns(component)
        self._pool: PooledRuns | None = None
        self._spent_s = 0.0

    def walk_all(self, entries: list[Path]) -> Iterator[tuple[Path, Walked]]:
        """Walk entry points; yield what that tells, in any order."""
        left = deque(entries)
        yield from self._while_short(left, self._here.walk, self._closure_size)
        if left:
            yield from self._started(len(left)).walk_all(list(left))

    def all_findings(self, reached: Mapping[Path, frozenset[FunctionKey]]) -> Iterator[tuple[Path, EntryFindings]]:
        """Yield the findings of entry points, in any order, given what is reached in the files that each owns."""
        left = deque(reached)
        yield from self._while_short(left, lambda entry: self._here.findings(entry, reached[entry]), self._owned_size)
        if left:
            yield from self._started(len(left)).all_findings({entry: reached[entry] for entry in left})

    def close(self) -> None:
        """End what was started."""
        if self._pool is not None:
            self._pool.close()

    def _while_short(
        self, left: deque[Path], do: Callable[[Path], _T], size_of: Callable[[Path], int]
    ) -> Iterator[tuple[Path, _T]]:
        """Do it here, and take from `left`, until what is left is worth other processes, if it takes as long for its
        size as what is done."""
        before_s, size_left, size_done = self._spent_s, sum(map(size_of, left)), 0
        while left and self._pool is None:
            is_known = self._spent_s >= WORTHWHILE_S / 2
            is_much = (self._spent_s - before_s) * size_left >= WORTHWHILE_S * size_done
            if self._jobs > 1 and len(left) > 1 and is_known and is_much:
                break
            started_s = time.process_time()
            entry = left.popleft()
            done = do(entry)
            size_done += size_of(entry)
            size_left -= size_of(entry)
            self._spent_s += time.process_time() - started_s
            yield entry, done

    def _closure_size(self, entry: Path) -> int:
        """Bytes of source that an entry point imports: what walking it is likely to cost."""
        return sum(map(self._size, self._linker.closure(entry)))

    def _owned_size(self, entry: Path) -> int:
        """Bytes of source that an entry point owns: what completing its walk is likely to cost."""
        return sum(map(self._size, self._linker.owned[entry]))

    def _started(self, entries: int) -> PooledRuns:
        if self._pool is None:
            from trainlint.lint.entry_workers import PooledRuns

            self._here.component.read_code()
            self._pool = PooledRuns(self._here, min(self._jobs, entries), self._closure_size)
        return self._pool


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
        runs = Runs(self.component, jobs, lambda path: len(self.files.file(path).data))
        try:
            walked = self._walked(runs)
            reached = self._reached_in_owned(walked)
            return self._found(reached, runs)
        finally:
            runs.close()

    # ------------------------------------------------------------------------------------------------------- walks

    def _walked(self, runs: Runs) -> dict[Path, frozenset[FunctionKey]]:
        """What each entry point reaches."""
        stored = dict(self.cache.get_many(_REACHED_KIND, self._walk_keys.values()))
        walked: dict[Path, frozenset[FunctionKey]] = {}
        for entry, key in self._walk_keys.items():
            with suppress(KeyError, ValueError, TypeError, AttributeError):
                walked[entry] = self._reached_from(stored[key])
        missing = [entry for entry in self._walk_keys if entry not in walked]
        for entry, (reached, failures) in runs.walk_all(missing):
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

    def _found(self, reached: Mapping[Path, frozenset[FunctionKey]], runs: Runs) -> list[EntryFindings]:
        keys = {entry: self._findings_key(entry, functions) for entry, functions in reached.items()}
        stored = dict(self.cache.get_many(_FINDINGS_KIND, keys.values()))
        found = {entry: known for entry, key in keys.items() if (known := self._known_findings(stored.get(key)))}
        missing = {entry: functions for entry, functions in reached.items() if entry not in found}
        for entry, findings in runs.all_findings(missing):
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
