"""What an earlier check in the same process found, as far as a change of texts did not touch what it looked at.

The cache knows the findings of an entry point by the content of all files that it imports. Most edits are inside one
function, though, and most entry points do not look into that. So each walk notes the functions that it looked at, and
its findings serve until the code outside of functions changes, or one of these.
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

    def holds(self, linker: Linker, closure: Iterable[Path], mentions: frozenset[str]) -> bool:
        """Whether the same would be found out now."""
        if self.mentions != mentions or self.facts.keys() != set(closure):
            return False
        changed = {path for path, facts in self.facts.items() if linker.files[path] is not facts}
        if not changed:
            return True
        return all(_same_surface(self.facts[path], linker.files[path]) for path in changed) and (
            all(self._same_body(linker, *key) for key in self.read.bodies if key[0] in changed)
            and all(linker.interest.answer(*key) == answer for key, answer in self.read.asked.items())
        )

    def _same_body(self, linker: Linker, path: Path, index: int) -> bool:
        before, now = self.facts[path], linker.files[path]
        return before.body_line(index) == now.body_line(index)


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

    def entry(self, linker: Linker, entry: Path) -> tuple[Walked, EntryFindings] | None:
        """What walking an entry point told, if it would tell the same."""
        kept = self._entries.get(entry)
        if kept is None or not kept.basis.holds(linker, linker.closure(entry), linker.mentions(entry)):
            return None
        return kept.walked, kept.found

    def keep_entry(self, linker: Linker, entry: Path, walked: Walked, found: EntryFindings) -> None:
        """Keep what walking an entry point told."""
        if found.read is not None and walked.learned is not None and not found.failures:
            self._entries[entry] = _KeptEntry(_basis(linker, entry, entry, found.read), walked, found)

    def uncalled(self, linker: Linker, path: Path, owner: Entry, called: frozenset[FunctionKey]) -> Uncalled | None:
        """What the uncalled functions of a file told, if they would tell the same."""
        kept = self._uncalled.get(path)
        if kept is None or kept.result.called != called or not _same(kept.result.owner, owner):
            return None
        if not kept.basis.holds(linker, linker.closure(path), linker.mentions(owner.path)):
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


def _same_surface(before: ModuleFacts, now: ModuleFacts) -> bool:
    """Whether all is the same but for what stands inside functions."""
    return (
        before.unit_rows == now.unit_rows
        and before.functions == now.functions
        and before.imports == now.imports
        and before.mentions == now.mentions
        and before.starts == now.starts
        and before.left_out == now.left_out
        and before.lines[: len(before.unit_rows)] == now.lines[: len(now.unit_rows)]
    )
