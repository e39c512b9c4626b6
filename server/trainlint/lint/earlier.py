"""What the run before found in a component, as far as what changed since did not touch what was looked at.

What entry points and uncalled functions tell is kept under digests of all files that they import. With it is kept what
was read for it, and for the component the contents that its files had in the latest run. From these follow the digests
under which that run kept its findings, and whether they still hold: see `lint.reuse`, which does the same in memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from trainlint.lint.extraction import stored_facts
from trainlint.lint.reuse import Changes
from trainlint.semantics.link import Read

if TYPE_CHECKING:
    from trainlint.lint.projects import ProjectFiles
    from trainlint.semantics.facts import ModuleFacts

T = TypeVar("T")
Ordered = TypeVar("Ordered", int, str)
_CONTENTS_KIND = "contents"
_MOST_CHANGED = 20
"""Files whose former facts are worth comparing with; a change of more is likely to touch most."""


class Earlier:
    """The contents that the files of a component had in the latest run that looked into it."""

    def __init__(self, files: ProjectFiles, base: bytes, names: Mapping[str, Path], changes: Changes) -> None:
        """`base` is a digest of all but the contents, `names` has the files by their names in the cache."""
        self._files = files
        self._base = base
        self._names = names
        self._changes = changes

    def keep(self) -> None:
        """Keep the contents that the files have now, for the next run."""
        digests = [self._files.file(path).digest.hex() for path in self._names.values()]
        self._files.cache.put(_CONTENTS_KIND, self._base, " ".join(digests))

    @cached_property
    def digests(self) -> Mapping[Path, bytes]:
        """The former digests of the files that have changed since; none where nothing can be told."""
        stored = (self._files.cache.get(_CONTENTS_KIND, self._base) or "").split()
        if len(stored) != len(self._names):
            return {}
        try:
            former = {path: bytes.fromhex(text) for path, text in zip(self._names.values(), stored, strict=True)}
        except ValueError:
            return {}
        changed = {path: digest for path, digest in former.items() if digest != self._files.file(path).digest}
        return changed if len(changed) <= _MOST_CHANGED else {}

    def holds(self, read: str, closure: Iterable[Path]) -> bool:
        """Whether what was found from what was `read`, as `read_row` writes it, in a closure of files holds still."""
        changed = {}
        for path in self.digests.keys() & set(closure):
            former = self._facts.get(path)
            # Rules ask what the files of a closure mention without saying so.
            if former is None or former.all_mentions != self._changes.linker.files[path].all_mentions:
                return False
            changed[path] = former
        try:
            return self._changes.spare(_read_from(json.loads(read), self._names), changed)
        except (ValueError, TypeError, LookupError, AttributeError):
            return False

    @cached_property
    def _facts(self) -> dict[Path, ModuleFacts]:
        """The former facts of the files that have changed."""
        found = {}
        for path, digest in self.digests.items():
            facts = stored_facts(self._files.cache, self._files.content_key_of(digest))
            if facts is not None:
                found[path] = facts
        return found


def read_row(read: Read, files: ProjectFiles) -> str:
    """What was read, as it is stored."""
    asked = [(path, (what, answer)) for (path, what), answer in read.asked.items()]
    row = [
        by_name(in_order(read.bodies), files),
        by_name(asked, files),
        by_name(in_order(read.absent), files),
        sorted(map(files.relative, read.whole)),
    ]
    return json.dumps(row, separators=(",", ":"))


def _read_from(row: list[Any], names: Mapping[str, Path]) -> Read:
    """The reverse.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: the row is not what `read_row` writes.
    """
    bodies, asked, absent, whole = row
    return Read(
        frozenset(by_path(bodies, names)),
        {(path, what): answer for path, (what, answer) in by_path(asked, names)},
        frozenset(by_path(absent, names)),
        frozenset(names[name] for name in whole),
    )


def in_order(pairs: Iterable[tuple[Path, Ordered]]) -> list[tuple[Path, Ordered]]:
    """Sorted, by the texts of the paths: paths themselves take thirty times as long to compare."""
    return sorted(pairs, key=lambda pair: (os.fspath(pair[0]), pair[1]))


def by_name(pairs: Iterable[tuple[Path, T]], files: ProjectFiles) -> dict[str, list[T]]:
    """What belongs to files, under their names in the cache."""
    found: dict[str, list[T]] = {}
    for path, one in pairs:
        found.setdefault(files.relative(path), []).append(one)
    return found


def by_path(rows: Mapping[str, Iterable[T]], names: Mapping[str, Path]) -> Iterator[tuple[Path, T]]:
    """The reverse.

    Raises:
        KeyError: none of the files has such a name.
    """
    return ((names[name], one) for name, those in rows.items() for one in those)
