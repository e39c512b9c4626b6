"""What rules find in a component, put together from entry points and from the functions that nothing calls: those
that a change concerns are walked again, the findings of the others come from the cache.

What walking an entry point tells depends on its import closure. What the uncalled functions of a file tell depends on
the closure of the file, on what the walk of its owner learned, and on which of its functions were called before. All
is kept under digests of just that, with what was read for it: what an earlier run found under other digests is taken
over where nothing that was read has changed.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields as dataclass_fields
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from trainlint.lint.component import Component, EntryFindings, EntryRuns, FunctionKey, Lookup, Uncalled, Walked
from trainlint.lint.earlier import Earlier, by_name, by_path, in_order, read_row
from trainlint.lint.reuse import Changes
from trainlint.semantics.context import Entry
from trainlint.semantics.vocabulary import Known
from trainlint.source.memory import processes_that_fit

if TYPE_CHECKING:
    from trainlint.lint.entry_workers import PooledRuns
    from trainlint.lint.projects import ProjectFiles
    from trainlint.lint.reuse import Kept

_REACHED_KIND = "reached"
_FINDINGS_KIND = "entry"
_UNCALLED_KIND = "uncalled"
_READ_KIND = "read"
"""What was read for what is kept under the same key."""
_OF_ENTRY = (_REACHED_KIND, _FINDINGS_KIND, _READ_KIND)
_OF_UNCALLED = (_UNCALLED_KIND, _READ_KIND)
_DIGEST_BYTES = 16
_T = TypeVar("_T", Walked, EntryFindings, list[Uncalled])
_Owners = Mapping[Path, tuple[Entry, frozenset[FunctionKey]]]
"""What the walk of each entry point learned, with the functions of the files that it owns that are called."""
WORTHWHILE_S = 1.0
"""Processor time that what is left must be likely to take before other processes help: starting them, and having each
decode what it walks, costs a quarter of that."""


GROWTH = 2.0
"""What a process that walks comes to take, over what this one takes with the facts read: 1.7 and 1.9 were seen on
1,250,000 lines of transformers."""


class Runs:
    """Walks entry points, each at most once before its findings are asked for, and what nothing calls: in this process,
    until so much is left that others are worth starting. How long a walk takes shows only once some are done."""

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

    def all_findings(self, entries: Iterable[Path]) -> Iterator[tuple[Path, EntryFindings]]:
        """Yield the findings of entry points, in any order."""
        left = deque(entries)
        yield from self._while_short(left, self._here.findings, self._closure_size)
        if left:
            yield from self._started(len(left)).all_findings(list(left))

    def all_uncalled(self, owners: _Owners, lookup: Lookup) -> Iterator[tuple[Path, list[Uncalled]]]:
        """Yield what the uncalled functions come to of the files of each owner, in any order."""
        left = deque(owners)
        yield from self._while_short(left, lambda owner: self._here.uncalled(*owners[owner], lookup), self._owned_size)
        if left:
            yield from self._started(len(left)).all_uncalled({owner: owners[owner] for owner in left})

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
            if self._jobs > 1 and len(left) > 1 and is_known and is_much and self._processes > 1:
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
        """Bytes of source that an entry point owns: what walking its uncalled functions is likely to cost."""
        return sum(map(self._size, self._linker.owned[entry]))

    def _started(self, entries: int) -> PooledRuns:
        if self._pool is None:
            from trainlint.lint.entry_workers import PooledRuns

            self._here.component.read_code()
            self._pool = PooledRuns(self._here, min(self._processes, entries), self._closure_size)
        return self._pool

    @cached_property
    def _processes(self) -> int:
        """At most, so that memory holds them: each comes to have the facts of all files as its own, and its walks."""
        return processes_that_fit(self._jobs, GROWTH)


class EntryPoints:
    """The entry points of one component in one run."""

    def __init__(
        self,
        component: Component,
        files: ProjectFiles,
        settings: bytes,
        kept: Kept | None = None,
    ) -> None:
        """`kept` has what earlier checks in this process found."""
        self.component = component
        self.linker = component.linker
        self.files = files
        self.cache = files.cache
        names = "\0".join(files.relative(path) for path in component.facts)
        self._base = blake2b(settings + names.encode("utf-8", "surrogateescape"), digest_size=_DIGEST_BYTES).digest()
        self._names = {files.relative(path): path for path in component.facts}
        self._order = {path: position for position, path in enumerate(component.facts)}
        self._digests: dict[Path, bytes] = {}
        self._closure_digests: dict[tuple[frozenset[Path], bool], bytes] = {}
        self._walk_keys = {entry: self._walk_key(entry) for entry in self.linker.entries}
        self._changes = Changes(self.linker)
        self._earlier = Earlier(files, self._base, self._names, self._changes)
        self._reuse = None if kept is None else kept.of(self._base)
        self._reused: dict[Path, EntryFindings] = {}

    def findings(self, jobs: int) -> list[EntryFindings]:
        """Return what is found, in an order that does not change, walking with at most `jobs` processes."""
        runs = Runs(self.component, jobs, lambda path: len(self.files.file(path).data))
        try:
            walked = self._walked(runs)
            found = [*self._found(walked, runs), *self._found_uncalled(self._owners(walked), runs)]
        finally:
            runs.close()
        self._earlier.keep()
        return found

    # ------------------------------------------------------------------------------------------------------- walks

    def _walked(self, runs: Runs) -> dict[Path, Walked]:
        """What walking each entry point tells."""
        stored = dict(self.cache.get_many(_REACHED_KIND, self._walk_keys.values()))
        for entry, key in self._walk_keys.items():
            if key not in stored and self._takes_over(_OF_ENTRY, key, entry, self._walk_key(entry, earlier=True)):
                stored[key] = self.cache.get(_REACHED_KIND, key) or ""
        walked: dict[Path, Walked] = {}
        for entry, key in self._walk_keys.items():
            with suppress(KeyError, ValueError, TypeError, AttributeError):
                reached, learned = json.loads(stored[key])
                walked[entry] = Walked(frozenset(by_path(reached, self._names)), _entry_from(entry, learned))
        if self._reuse is not None:
            for entry in [entry for entry in self._walk_keys if entry not in walked]:
                if (kept := self._reuse.entry(self._changes, entry)) is not None:
                    walked[entry], self._reused[entry] = kept
        missing = [entry for entry in self._walk_keys if entry not in walked]
        for entry, done in runs.walk_all(missing):
            walked[entry] = done
            if done.learned is not None:
                row = [by_name(in_order(done.reached), self.files), _entry_row(done.learned)]
                self.cache.put(_REACHED_KIND, self._walk_keys[entry], json.dumps(row, separators=(",", ":")))
        return walked

    def _owners(self, walked: Mapping[Path, Walked]) -> _Owners:
        """For each entry point what it learned, and the functions of the files it owns that any entry point calls."""
        by_file: dict[Path, set[FunctionKey]] = {}
        for function in frozenset().union(*(done.reached for done in walked.values())):
            by_file.setdefault(function[0], set()).add(function)
        return {
            entry: (learned, frozenset().union(*(by_file.get(path, ()) for path in self.linker.owned[entry])))
            for entry in self._walk_keys
            if (learned := walked[entry].learned) is not None
        }

    # ---------------------------------------------------------------------------------------------------- findings

    def _found(self, walked: Mapping[Path, Walked], runs: Runs) -> list[EntryFindings]:
        """The findings of each entry point."""
        stored = dict(self.cache.get_many(_FINDINGS_KIND, self._walk_keys.values()))
        found = dict(self._reused)
        for entry, key in self._walk_keys.items():
            with suppress(KeyError, ValueError, TypeError, AttributeError):
                found[entry] = self._findings_from(json.loads(stored[key]))
        for entry, findings in runs.all_findings([entry for entry in self._walk_keys if entry not in found]):
            # A walk that failed was tried again for the findings, which tell of the failure.
            found[entry] = findings
            if self._reuse is not None:
                self._reuse.keep_entry(self.linker, entry, walked[entry], findings)
            if not findings.failures:
                row = self._findings_row(findings)
                self.cache.put(_FINDINGS_KIND, self._walk_keys[entry], json.dumps(row, separators=(",", ":")))
                self._put_read(self._walk_keys[entry], findings)
        return [found[entry] for entry in self._walk_keys]

    def _found_uncalled(self, owners: _Owners, runs: Runs) -> list[EntryFindings]:
        """The findings in what nothing calls, file by file."""
        found: dict[Path, list[EntryFindings]] = {}
        for owner, results in runs.all_uncalled(owners, self._known_uncalled):
            found[owner] = [result.found for result in results]
            for result in results:
                if self._reuse is not None and not result.known:
                    self._reuse.keep_uncalled(self.linker, result)
                if not result.known and not result.found.failures:
                    reached = by_name(in_order(result.reached), self.files)
                    row = [reached, result.trains, self._findings_row(result.found)]
                    key = self._uncalled_key(result.path, result.owner, result.called)
                    self.cache.put(_UNCALLED_KIND, key, json.dumps(row, separators=(",", ":")))
                    self._put_read(key, result.found)
        return [one for owner in owners for one in found[owner]]

    def _known_uncalled(self, path: Path, owner: Entry, called: frozenset[FunctionKey]) -> Uncalled | None:
        """What is known of a file."""
        key = self._uncalled_key(path, owner, called)
        stored = self.cache.get(_UNCALLED_KIND, key)
        if stored is None:
            former = self._uncalled_key(path, owner, called, earlier=True)
            if self._takes_over(_OF_UNCALLED, key, path, former):
                stored = self.cache.get(_UNCALLED_KIND, key)
        with suppress(KeyError, ValueError, TypeError, AttributeError):
            rows, trains, findings = json.loads(stored or "")
            reached = frozenset(by_path(rows, self._names))
            return Uncalled(path, owner, called, reached, bool(trains), self._findings_from(findings), known=True)
        return None if self._reuse is None else self._reuse.uncalled(self._changes, path, owner, called)

    def _takes_over(self, kinds: tuple[str, ...], key: bytes, path: Path, former: bytes) -> bool:
        """Whether what an earlier run found about a file, under its `former` key, holds still; it then stands under its
        new `key` as well."""
        if former == key:
            return False
        read = self.cache.get(_READ_KIND, former)
        if read is None or not self._earlier.holds(read, self.linker.closure(path)):
            return False
        rows = {kind: self.cache.get(kind, former) for kind in kinds}
        found = {kind: row for kind, row in rows.items() if row is not None}
        if len(found) < len(kinds):
            return False
        for kind, row in found.items():
            self.cache.put(kind, key, row)
        return True

    def _put_read(self, key: bytes, found: EntryFindings) -> None:
        if found.read is not None:
            self.cache.put(_READ_KIND, key, read_row(found.read, self.files))

    def _findings_row(self, findings: EntryFindings) -> dict[str, str]:
        return {self.files.relative(path): text for path, text in findings.texts.items()}

    def _findings_from(self, row: Mapping[str, str]) -> EntryFindings:
        return EntryFindings({self._names[name]: str(stored) for name, stored in row.items()})

    # -------------------------------------------------------------------------------------------------------- keys

    def _walk_key(self, entry: Path, *, earlier: bool = False) -> bytes:
        """The key of what walking an entry point tells, now or in the earlier run."""
        if earlier and self._earlier.digests:
            return self._digest(entry, self._earlier.digests)
        key = self._digests.get(entry)
        if key is None:
            key = self._digests[entry] = self._digest(entry)
        return key

    def _digest(self, entry: Path, earlier: Mapping[Path, bytes] | None = None) -> bytes:
        """That of all that an entry point imports."""
        name = self.files.relative(entry).encode("utf-8", "surrogateescape")
        imported = self._closure_digest(self.linker.closure(entry), earlier)
        return blake2b(imported + name, digest_size=_DIGEST_BYTES).digest()

    def _closure_digest(self, closure: frozenset[Path], earlier: Mapping[Path, bytes] | None) -> bytes:
        """That of the files that one file or several import."""
        key = closure, earlier is not None
        known = self._closure_digests.get(key)
        if known is None:
            paths = sorted(closure, key=self._order.__getitem__)
            known = self._closure_digests[key] = self.files.digest_of(paths, self._base, earlier=earlier)
        return known

    def _uncalled_key(
        self, path: Path, owner: Entry, called: frozenset[FunctionKey], *, earlier: bool = False
    ) -> bytes:
        mentions = sorted(self.linker.mentions(owner.path))
        row = [self.files.relative(owner.path), _entry_row(owner), mentions, sorted(index for _, index in called)]
        digest = blake2b(self._walk_key(path, earlier=earlier), digest_size=_DIGEST_BYTES)
        digest.update(json.dumps(row).encode())
        return digest.digest()


def _entry_row(entry: Entry) -> list[object]:
    """What an entry point learned, as it is stored."""
    return [getattr(entry, name) for name in _LEARNED]


def _entry_from(path: Path, row: list[Any]) -> Entry:
    """The reverse.

    Raises:
        ValueError: the row is not what `_entry_row` makes.
    """
    made = Entry(path, str(row[0]))
    for name, value in zip(_LEARNED, row, strict=True):
        kind = type(getattr(made, name))
        setattr(made, name, tuple(map(Known, value)) if kind is tuple else kind(value))
    return made


_LEARNED = tuple(one.name for one in dataclass_fields(Entry) if one.name != "path")
"""Fields of an entry point: texts, truth values, words of the vocabulary, and tuples of `Known`."""
