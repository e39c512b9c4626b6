"""A small project with findings as the engine would report them, for every output format."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trainlint.fixes.recipe import Fix
from trainlint.lint.finding import Finding, RelatedSite, Severity
from trainlint.lint.result import Position, Reported, Result
from trainlint.report.formats import FORMATS
from trainlint.report.view import View
from trainlint.semantics.context import Context, Entry, Site
from trainlint.semantics.vocabulary import Confidence, Framework, Frequency, GradMode, Known, Region

TRAIN = """\
import torch

loader = torch.utils.data.DataLoader(data, batch_size=8)
for batch in loader:
    loss = model(batch)
    loss.backward()
    total += loss.item()
"""


@dataclass
class Desk:
    """Puts findings on a report: files are written to a folder, findings point into them."""

    root: Path
    findings: list[Reported] = field(default_factory=list)

    def write(self, name: str, text: str = TRAIN) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def context(self, path: Path, loop_row: int = 4) -> Context:
        return Context(
            frequency=Frequency.PER_STEP,
            region=Region.TRAINING,
            loop=Site(path, loop_row, 0, loop_row, 20, ""),
            path=("train.main", "train.train_one_epoch"),
            guards=(),
            grad=GradMode.ENABLED,
            entry=Entry(path, "train", framework=Framework.ACCELERATE, distributed=Known.YES),
        )

    def report(
        self,
        path: Path,
        place: tuple[int, int, int, int] = (7, 14, 7, 25),
        *,
        code: str = "TL201",
        name: str = "sync-in-step",
        message: str = "`loss.item()` waits for the GPU at every step",
        severity: Severity = Severity.WARNING,
        context: Context | None = None,
        fix: Fix | None = None,
        help: str = "read it at the logging interval",
        related: tuple[RelatedSite, ...] = (),
        symbol: str = "train_one_epoch",
        cell: int | None = None,
    ) -> Reported:
        """Add a finding at rows and columns from 1."""
        row, column, end_row, end_column = place
        site = Site(path, row, column - 1, end_row, end_column - 1, symbol)
        confidence = Confidence.HIGH
        finding = Finding(code, name, message, site, severity, confidence, context, help=help, related=related, fix=fix)
        start, end = Position(row, column), Position(end_row, end_column)
        url = f"https://trainlint.readthedocs.io/en/latest/rules/{name}/"
        reported = Reported(finding, path, start, end, noqa_row=end_row, url=url, cell=cell)
        self.findings.append(reported)
        return reported

    def render(self, format: str, *, colour: bool = False) -> str:
        result = Result(tuple(self.findings), checked_files=1)
        return "".join(FORMATS[format].load()(result, View(self.root, colour=colour)))
