"""How a report is to look: what paths are relative to, and where the text behind the findings comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trainlint.lint.result import Reported
from trainlint.report.paths import shown
from trainlint.report.sources import Sources
from trainlint.report.style import printable


@dataclass(frozen=True, slots=True)
class View:
    root: Path
    """Absolute; files below it are shown relative to it."""
    sources: Sources = field(default_factory=Sources)
    colour: bool = False

    def place(self, reported: Reported) -> str:
        """Return `path:row:column`; in a notebook `path:cell N:row:column`. It is always one line."""
        cell = "" if reported.cell is None else f"cell {reported.cell}:"
        return f"{printable(shown(reported.path, self.root))}:{cell}{reported.location.row}:{reported.location.column}"
