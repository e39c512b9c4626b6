"""What the server and its analysis process say to each other: immutable snapshots of texts one way, findings back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.fixes.recipe import Fix
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.result import HotLoop, Reported
from trainlint.report.sources import PlacedEdit

if TYPE_CHECKING:
    from trainlint.lint.verdicts import Verdicts


@dataclass(frozen=True, slots=True)
class Settle:
    """How to check the files of one folder; what was known of it is dropped."""

    folder: str
    options: CheckOptions


@dataclass(frozen=True, slots=True)
class Drop:
    """A folder is no longer part of the workspace."""

    folder: str


@dataclass(frozen=True, slots=True)
class Forget:
    """Files changed on disk, or may have."""

    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Judge:
    """What runs say about the findings, from now on."""

    verdicts: Verdicts


@dataclass(frozen=True, slots=True)
class Check:
    """Check files of a folder, or all of it."""

    folder: str
    texts: Mapping[Path, bytes | None]
    """The open texts of the folder that changed since the last check, by path; None for one that was closed."""
    paths: tuple[Path, ...]
    """What to report on: the open files, or the folder."""
    background: bool = False
    """Whether it gives way to a check that somebody waits for."""
    number: int = 0
    """Which question it is: the answer has the same."""


@dataclass(frozen=True, slots=True)
class RealizeFix:
    """Turn a fix into edits of the text that it was made for."""

    reported: Reported
    data: bytes
    number: int = 0


@dataclass(frozen=True, slots=True)
class RealizeAll:
    """Turn fixes that go together into edits of one text."""

    path: Path
    fixes: tuple[Fix, ...]
    data: bytes
    number: int = 0


Lines = Mapping[tuple[Path, int | None, int], str]
"""Lines of texts, by file, cell and row."""
Order = Settle | Drop | Forget | Judge
Question = Check | RealizeFix | RealizeAll


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check came to."""

    number: int
    findings: tuple[Reported, ...] = ()
    loops: tuple[HotLoop, ...] = ()
    """The step loops of the checked files."""
    broken: Mapping[Path, tuple[Reported, ...]] = field(default_factory=dict)
    """What is wrong with the open texts that stopped parsing; what `findings` says of these is about how they were when
    they last did."""
    lines: Lines = field(default_factory=dict)
    """Those lines that places are in and that are not ASCII, by file, cell and row: columns depend on them."""
    broken_lines: Lines = field(default_factory=dict)
    """Likewise of the places in `broken`, which are in the texts as they are."""
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    """Defects of trainlint, or of rules."""
    configuration_error: str | None = None
    gave_way: bool = False
    """Whether it was broken off for another check."""
    inputs: frozenset[str] = frozenset()
    """Configuration files that the code names, as `Result.inputs` has them."""


@dataclass(frozen=True, slots=True)
class Realized:
    """The edits of a fix; none where it does not apply."""

    number: int
    edits: tuple[PlacedEdit, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """How many of how many files are parsed."""

    number: int
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Fault:
    """A request that trainlint failed at."""

    number: int
    summary: str
    traceback: str


Answer = Checked | Realized | Fault
Message = Answer | Progress
