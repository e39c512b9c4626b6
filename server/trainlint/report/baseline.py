"""Baselines: files that list known findings, so that only others are reported.

A finding is recognized by its file, its rule, the symbol around it and its source line without the spacing, so moving
lines does not make it new. Equal ones are counted: one more than the baseline has is new.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainlint.lint.result import Reported
from trainlint.report.fingerprint import fingerprint
from trainlint.report.paths import text_of
from trainlint.report.sources import Sources
from trainlint.source.discovery import absolute

VERSION = 1
_FORMAT = "trainlint-baseline"


class BrokenBaseline(Exception):  # noqa: N818
    """A file is no baseline that this version can read. The message continues a sentence that names the file."""

    def __init__(self, reason: str, *, damaged: bool) -> None:
        super().__init__(reason)
        self.damaged = damaged
        """Whether the file holds nothing, or was a baseline once: writing a new one over it destroys nothing else."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    path: Annotated[str, Field(min_length=1)]
    """Relative to the folder of the baseline, with forward slashes."""
    code: str
    symbol: str
    fingerprint: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    count: Annotated[int, Field(ge=1)]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal["trainlint-baseline"]  # what _FORMAT says
    version: Literal[1]
    findings: list[_Entry]


class Known(NamedTuple):
    """What findings of a baseline are recognized by."""

    path: str
    code: str
    symbol: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Baseline:
    folder: Path
    """Absolute; paths in the baseline are relative to it."""
    counts: Counter[Known] = field(default_factory=Counter)

    def new(self, findings: Iterable[Reported], sources: Sources) -> list[Reported]:
        """The findings that are not known; of equal ones, the first are."""
        left = self.counts.copy()
        found = []
        for reported in findings:
            known = _known(reported, sources, self.folder)
            if left[known] > 0:
                left[known] -= 1
            else:
                found.append(reported)
        return found

    def stale(self, findings: Iterable[Reported], sources: Sources, checked: Iterable[Path]) -> Counter[Known]:
        """The known findings that are there no more, in files that were checked or that are gone."""
        gone = self.counts - Counter(_known(reported, sources, self.folder) for reported in findings)
        names = {_name(path, self.folder) for path in checked}
        return Counter({known: count for known, count in gone.items() if known.path in names or self._is_gone(known)})

    def elsewhere(self, paths: Iterable[Path]) -> Baseline:
        """What is known of files that are still there, and lie in none of these absolute paths."""
        tops = frozenset(paths)
        counts = {
            known: count
            for known, count in self.counts.items()
            if not self._is_gone(known) and tops.isdisjoint((place := self._place(known), *place.parents))
        }
        return Baseline(self.folder, Counter(counts))

    def _is_gone(self, known: Known) -> bool:
        return not os.path.lexists(self._place(known))

    def _place(self, known: Known) -> Path:
        return absolute(self.folder / known.path)


def baseline_of(findings: Iterable[Reported], sources: Sources, folder: Path) -> Baseline:
    """The baseline, to lie in `folder`, that knows all of these findings."""
    return Baseline(folder, Counter(_known(reported, sources, folder) for reported in findings))


def as_json(baseline: Baseline) -> str:
    """The text of the file: sorted, one finding a line, so that changes of it read well and merge well."""
    entries = [
        json.dumps(_Entry(**known._asdict(), count=count).model_dump(), ensure_ascii=False)
        for known, count in sorted(baseline.counts.items())
    ]
    listed = "[\n    " + ",\n    ".join(entries) + "\n  ]" if entries else "[]"
    return f'{{\n  "format": "{_FORMAT}",\n  "version": {VERSION},\n  "findings": {listed}\n}}\n'


def read_baseline(data: bytes, folder: Path) -> Baseline:
    """Read the content of a baseline that lies in `folder`.

    Raises:
        BrokenBaseline: with the reason.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BrokenBaseline("is not UTF-8 text", damaged=_FORMAT.encode() in data) from error
    try:
        file = _File.model_validate_json(text)
    except ValidationError as error:
        raise BrokenBaseline(_reason(error), damaged=_FORMAT in text or not text.strip()) from error
    counts: Counter[Known] = Counter()
    for entry in file.findings:
        counts[Known(entry.path, entry.code, entry.symbol, entry.fingerprint)] += entry.count
    return Baseline(folder, counts)


def _reason(error: ValidationError) -> str:
    """The first thing that is wrong."""
    first = error.errors(include_url=False)[0]
    if first["loc"] == ("version",) and first["type"] != "missing":
        return f"has a version other than {VERSION}, the one that this trainlint reads"
    place = ".".join(map(str, first["loc"]))
    message = first["msg"][:1].lower() + first["msg"][1:]
    return f"is no baseline: {f'`{place}`: ' if place else ''}{message}"


def _known(reported: Reported, sources: Sources, folder: Path) -> Known:
    finding = reported.finding
    name = _name(reported.path, folder)
    return Known(name, finding.code, finding.site.symbol, fingerprint(reported, sources))


def _name(path: Path, folder: Path) -> str:
    """How the baseline names a file; also one that lies beside or above its folder."""
    try:
        relative = os.path.relpath(path, folder)
    except ValueError:  # on another drive
        relative = str(path)
    return text_of(Path(relative)).replace(os.sep, "/")
