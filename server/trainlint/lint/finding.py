"""A finding: what a rule says about one place in the code."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.semantics.context import Context, Site
from trainlint.semantics.vocabulary import Confidence

if TYPE_CHECKING:
    from trainlint.probe.verdict import Measurement

CANNOT_LINT = frozenset({"TL001", "TL002"})
"""The rules that say that a file, or a part of it, cannot be linted: always reported, and silenced by no comment."""


class Severity(IntEnum):
    HINT = 0
    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def label(self) -> str:
        return self.name.lower()


class Tag(StrEnum):
    """How an editor may show code that a rule flags."""

    UNNECESSARY = "unnecessary"
    """Faded: nothing changes if it goes."""
    DEPRECATED = "deprecated"
    """Struck out."""


class Family(StrEnum):
    """Rule families; the value is the folder in the rule pack, the order that of the codes."""

    TOOL = "tool"
    DATA = "data"
    STEP = "step"
    DISTRIBUTED = "distributed"
    COMPUTE = "compute"
    MEMORY = "memory"
    CHECKPOINT = "checkpoint"
    RUNTIME = "runtime"


@dataclass(frozen=True, slots=True)
class RelatedSite:
    """Another place that explains the finding: the loop that makes it hot, the loader, the caller."""

    site: Site
    message: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule reports. The engine fills `fix`; the probe's verdict joins it in reports."""

    code: str
    name: str
    message: str
    """One sentence without a full stop, naming the expression and what it costs."""
    site: Site
    severity: Severity
    confidence: Confidence
    context: Context | None = None
    """None for findings about a file rather than about code that runs (TL0)."""
    help: str = ""
    """What to do instead, in one sentence."""
    related: tuple[RelatedSite, ...] = ()
    subject: object = field(default=None, compare=False, repr=False)
    """The project record that the rule reported, for `Rule.fix`; not kept in caches or reports."""
    fix: Fix | None = None


@dataclass(frozen=True, slots=True)
class RuntimeFinding:
    """What only a run shows: it names no line that a rule flagged, and often no line at all."""

    code: str
    name: str
    message: str
    severity: Severity
    path: Path | None = None
    row: int | None = None
    evidence: tuple[Measurement, ...] = ()


__all__ = [
    "CANNOT_LINT",
    "Applicability",
    "Family",
    "Finding",
    "Fix",
    "RelatedSite",
    "RuntimeFinding",
    "Severity",
    "Tag",
]
