"""Findings as text in the cache, and back.

Each object is an array whose first item names its type; the objects that many findings share (contexts, entry points)
stand once. Only the types listed here are ever made from what is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, get_args

from trainlint.fixes.recipe import Applicability, Fix, Recipe
from trainlint.lint.finding import Finding, RelatedSite, Severity, Tag
from trainlint.lint.result import HotLoop, Position, Reported, Withheld
from trainlint.semantics.context import Context, Entry, Guard, Site
from trainlint.semantics.vocabulary import Confidence, Framework, Frequency, GradMode, GuardKind, Known, Region

_RECORDS: dict[str, type[Any]] = {
    record.__name__: record
    for record in (
        Site,
        Guard,
        Entry,
        Context,
        RelatedSite,
        Finding,
        Fix,
        Position,
        Reported,
        Withheld,
        HotLoop,
        *get_args(Recipe),
    )
}
_ENUMS: dict[str, type[Enum]] = {
    enum.__name__: enum
    for enum in (Applicability, Severity, Confidence, Framework, Frequency, GradMode, GuardKind, Known, Region, Tag)
}
_SHARED = (Entry, Context)
_NOT_STORED = frozenset({"subject", "verdict", "from_run", "asked"})
_FIELDS: dict[str, tuple[str, ...]] = {
    name: tuple(field.name for field in fields(record) if field.name not in _NOT_STORED)
    for name, record in _RECORDS.items()
}

_T = TypeVar("_T")


class UnreadableEntryError(ValueError):
    """Text that `dump` did not write."""


def dump(findings: Iterable[Reported | Withheld | Finding | HotLoop], root: Path) -> str:
    """Write findings and loops; paths below `root` are written relative to it."""
    writer = _Writer(os.path.join(root, ""))  # noqa: PTH118 - with the separator at its end
    rows = [writer.value(finding) for finding in findings]
    return json.dumps([writer.shared, rows], separators=(",", ":"))


def load(text: str, root: Path) -> list[Reported | Withheld | HotLoop]:
    """Read what `dump` wrote of a report.

    Raises:
        UnreadableEntryError: it did not.
    """
    return _load(text, root, (Reported, Withheld, HotLoop))


def load_findings(text: str, root: Path) -> list[Finding | HotLoop]:
    """Read what `dump` wrote of findings as rules make them, and of loops.

    Raises:
        UnreadableEntryError: it did not.
    """
    return _load(text, root, (Finding, HotLoop))


def _load(text: str, root: Path, kinds: tuple[type[_T], ...]) -> list[_T]:
    try:
        shared, rows = json.loads(text)
        reader = _Reader(root)
        for row in shared:
            reader.shared.append(reader.value(row))
        findings = [reader.value(row) for row in rows]
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise UnreadableEntryError(f"not stored findings: {error}") from error
    if not all(isinstance(finding, kinds) for finding in findings):
        raise UnreadableEntryError("not stored findings")
    return findings


class _Writer:
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.shared: list[object] = []
        self._places: dict[int, int] = {}
        self._alive: list[object] = []

    def value(self, value: object) -> object:
        if isinstance(value, Enum):
            return [type(value).__name__, value.value]
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, Path):
            return ["Path", self._relative(os.fspath(value))]
        if isinstance(value, tuple):
            return ["", *(self.value(item) for item in value)]
        if isinstance(value, _SHARED):
            return ["=", self._share(value)]
        return self._record(value)

    def _record(self, value: object) -> list[object]:
        kind = type(value).__name__
        if kind not in _RECORDS:
            raise TypeError(f"findings cannot hold a {kind}")
        return [kind, *(self.value(getattr(value, name)) for name in _FIELDS[kind])]

    def _share(self, value: object) -> int:
        if id(value) not in self._places:
            row = self._record(value)
            self._places[id(value)] = len(self.shared)
            self._alive.append(value)
            self.shared.append(row)
        return self._places[id(value)]

    def _relative(self, path: str) -> str:
        return path.removeprefix(self.prefix).replace(os.sep, "/") if path.startswith(self.prefix) else path


class _Reader:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.shared: list[Any] = []
        self._paths: dict[str, Path] = {}

    def value(self, value: Any) -> Any:
        if value.__class__ is not list:
            return value
        tag = value[0]
        if tag in _RECORDS:
            items = [self.value(item) if item.__class__ is list else item for item in value[1:]]
            return _RECORDS[tag](**dict(zip(_FIELDS[tag], items, strict=True)))
        if tag == "":
            return tuple([self.value(item) for item in value[1:]])
        if tag == "=":
            return self.shared[value[1]]
        if tag == "Path":
            return self._path(value[1])
        return _ENUMS[tag](value[1])

    def _path(self, text: str) -> Path:
        if text not in self._paths:
            self._paths[text] = self.root / text
        return self._paths[text]
