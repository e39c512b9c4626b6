"""The cache as an editor uses it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path

from trainlint.lint.cache import Cache

RECENT_CHARACTERS = 2_000_000
"""How much of what was found out lately stays in memory; the rest is on disk, or is found out again."""


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
        """Write what is new; the file stays open for the next check."""
        self.flush()

    def end(self) -> None:
        """Write what is new, for the last time."""
        super().save()

    def _remember(self, kind: str, key: bytes, value: str) -> None:
        known = self._recent.pop((kind, key), "")
        self._recent[kind, key] = value
        self._characters += len(value) - len(known)
        while self._characters > RECENT_CHARACTERS and len(self._recent) > 1:
            _, dropped = self._recent.popitem(last=False)
            self._characters -= len(dropped)
