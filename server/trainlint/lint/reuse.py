"""What an earlier check in the same process found, as far as a change of texts did not touch what it looked at.

The cache knows the findings of an entry point by the content of all files that it imports. Most edits are inside one
function, though, or add one, and most entry points do not look into that. So each walk notes the functions that it
looked at and the names that it missed, and its findings serve until one of these changes, or the code outside of
functions does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from trainlint.lint.component import EntryFindings, FunctionKey, Uncalled, Walked
from trainlint.semantics.context import Entry
from trainlint.semantics.decoded import Decoded
from trainlint.semantics.facts import ModuleFacts
from trainlint.semantics.link import Linker, Read
from trainlint.semantics.module_runs import names_appended

MOST_COMPONENTS = 50
"""Components whose latest results stay in memory."""


@dataclass(frozen=True, slots=True)
class _Basis:
    """What something was found out from."""

    facts: Mapping[Path, ModuleFacts]
    """Of the files that it imports."""
    read: Read
    mentions: frozenset[str]
    """What the files of the entry point mention."""

    def holds(self, changes: Changes, closure: Iterable[Path], mentions: frozenset[str]) -> bool:
        """Whether the same would be found out now."""
        if self.mentions != mentions or self.facts.keys() != set(closure):
            return False
        changed = {path: facts for path, facts in self.facts.items() if changes.linker.files[path] is not facts}
        return changes.spare(self.read, changed)


@dataclass(frozen=True, slots=True)
class _KeptEntry:
    basis: _Basis
    walked: Walked
    found: EntryFindings


@dataclass(frozen=True, slots=True)
class _KeptUncalled:
    basis: _Basis
    result: Uncalled


class Kept:
    """What outlives a check, of one project."""

    def __init__(self) -> None:
        self.decoded = Decoded()
        self._reuses: dict[bytes, Reuse] = {}

    def of(self, base: bytes) -> Reuse:
        """What earlier checks found in the component with this digest, which says all but what is in the files."""
        reuse = self._reuses.pop(base, None) or Reuse()
        self._reuses[base] = reuse
        if len(self._reuses) > MOST_COMPONENTS:
            del self._reuses[next(iter(self._reuses))]
        return reuse


class Reuse:
    """The results of the latest check of one component. Facts of files that did not change must be the same objects."""

    def __init__(self) -> None:
        self._entries: dict[Path, _KeptEntry] = {}
        self._uncalled: dict[Path, _KeptUncalled] = {}

    def entry(self, changes: Changes, entry: Path) -> tuple[Walked, EntryFindings] | None:
        """What walking an entry point told, if it would tell the same."""
        kept, linker = self._entries.get(entry), changes.linker
        if kept is None or not kept.basis.holds(changes, linker.closure(entry), linker.mentions(entry)):
            return None
        return kept.walked, kept.found

    def keep_entry(self, linker: Linker, entry: Path, walked: Walked, found: EntryFindings) -> None:
        """Keep what walking an entry point told."""
        if found.read is not None and walked.learned is not None and not found.failures:
            self._entries[entry] = _KeptEntry(_basis(linker, entry, entry, found.read), walked, found)

    def uncalled(self, changes: Changes, path: Path, owner: Entry, called: frozenset[FunctionKey]) -> Uncalled | None:
        """What the uncalled functions of a file told, if they would tell the same."""
        kept = self._uncalled.get(path)
        if kept is None or kept.result.called != called or not _same(kept.result.owner, owner):
            return None
        linker = changes.linker
        if not kept.basis.holds(changes, linker.closure(path), linker.mentions(owner.path)):
            return None
        return kept.result._replace(known=True)

    def keep_uncalled(self, linker: Linker, result: Uncalled) -> None:
        """Keep what the uncalled functions of a file told."""
        if result.found.read is not None and not result.found.failures:
            basis = _basis(linker, result.path, result.owner.path, result.found.read)
            self._uncalled[result.path] = _KeptUncalled(basis, result)


def _basis(linker: Linker, path: Path, owner: Path, read: Read) -> _Basis:
    return _Basis({one: linker.files[one] for one in linker.closure(path)}, read, linker.mentions(owner))


def _same(one: Entry, other: Entry) -> bool:
    """Whether the same is known of the circumstances."""
    return all(getattr(one, field.name) == getattr(other, field.name) for field in fields(Entry))


class Changes:
    """What differs between files as they were when something was found out and as they are now."""

    def __init__(self, linker: Linker) -> None:
        self.linker = linker
        self._appended: dict[tuple[Path, int], tuple[ModuleFacts, frozenset[str] | None]] = {}
        """What `names_appended` says of a file and the facts that it had, by their identity."""

    def spare(self, read: Read, changed: Mapping[Path, ModuleFacts]) -> bool:
        """Whether what was found out from what was `read` would be found out now, where these files are what changed,
        given as they were."""
        answer = self.linker.interest.answer
        return (
            all(self._spares_surface(read, path, before) for path, before in changed.items())
            and all(self._is_same_body(changed, *key) for key in read.bodies if key[0] in changed)
            and (not changed or all(answer(*key) == before for key, before in read.asked.items()))
        )

    def _spares_surface(self, read: Read, path: Path, before: ModuleFacts) -> bool:
        """Whether nothing of what was read outside of functions has changed in a file."""
        added = self._names_appended(path, before)
        if added is None:
            return False
        if path in read.whole:
            now = self.linker.files[path]
            return before.unit_rows == now.unit_rows and before.functions == now.functions
        return not any((path, name) in read.absent for name in added)

    def _names_appended(self, path: Path, before: ModuleFacts) -> frozenset[str] | None:
        key = path, id(before)
        if key not in self._appended:
            self._appended[key] = before, names_appended(before, self.linker.files[path])
        return self._appended[key][1]

    def _is_same_body(self, changed: Mapping[Path, ModuleFacts], path: Path, index: int) -> bool:
        return changed[path].body_line(index) == self.linker.files[path].body_line(index)
