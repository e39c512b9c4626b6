"""What a run of `check` came to, before anything is written or reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainlint.lint.result import Result
    from trainlint.source.documents import Document


@dataclass(frozen=True, slots=True)
class Change:
    """What fixing, or suppressing, makes of a file."""

    document: Document
    """As it was found."""
    text: str
    data: bytes
    """The text as it is to be stored."""
    fixes: int
    """Number of fixes that are in it, or of findings that its comments silence."""

    @property
    def path(self) -> Path:
        return self.document.path


@dataclass(frozen=True, slots=True)
class Outcome:
    """What linting, and fixing or suppressing where it was asked for, came to."""

    result: Result
    """What remains."""
    texts: Mapping[Path, bytes] = field(default_factory=dict)
    """What was linted in place of what is on disk."""
    changes: tuple[Change, ...] = ()
    """By path."""
    problems: tuple[str, ...] = ()
    """What could not be done, for standard error."""
    offered: int | None = None
    """Number of fixes that could be asked for before any was applied; None where that says nothing about the changes.
    """

    @property
    def fixed(self) -> int:
        """Number of fixes that are in the changes."""
        return sum(change.fixes for change in self.changes)
