"""The planted programs, and what `expected.toml` says that a probe must find in each."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
MARK = re.compile(r"# expect: (TL\d{3}(?:, TL\d{3})*)$")

Platform = Literal["cpu", "gpu"]
Expected = Literal["confirmed", "refuted", "not-exercised", "inconclusive", "figure"]


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Bottlenecks(Model):
    """The kinds that are right."""

    cpu: list[str]
    gpu: list[str]


class Codes(Model):
    cpu: list[str] = []
    gpu: list[str] = []


class ExpectedFinding(Model):
    code: str
    at: str
    """A piece of the line."""
    cpu: Expected
    gpu: Expected
    watch: str | None = None
    """The watched line that measures what the finding costs in loader workers."""


class ExpectedLine(Model):
    watch: str
    what: str
    in_workers: bool = False


class Program(Model):
    name: str
    bottleneck: Bottlenecks
    ranks: int = 1
    clean: bool = False
    runtime: Codes = Codes()
    findings: list[ExpectedFinding] = []
    lines: list[ExpectedLine] = []
    data_wait: bool = False
    """Whether the time from a step's end to the next batch is the wait for data alone."""
    evaluation: bool = False
    """Whether the time in `evaluation` is all that evaluations add to the steps."""
    samples_per_step: int | None = None
    tokens: bool = False
    own_profiler: bool = False
    slowest_rank: int | None = None

    @property
    def script(self) -> Path:
        return PROGRAMS / f"{self.name}.py"

    def __str__(self) -> str:
        return self.name


def programs() -> list[Program]:
    tables = tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))
    return [Program.model_validate({"name": name, **table}) for name, table in tables.items()]


def row_of(piece: str, code: str, script: Path) -> int:
    """The row that holds a piece of text and the mark of a code; there must be one."""
    lines = script.read_text(encoding="utf-8").splitlines()
    rows = [
        row
        for row, line in enumerate(lines, 1)
        if piece in line and (match := MARK.search(line)) and code in match[1].split(", ")
    ]
    assert len(rows) == 1, f"{script.name}: rows {rows} hold {piece!r} and expect {code}"
    return rows[0]


def marks(script: Path) -> set[tuple[str, int]]:
    """The codes and rows that the marks of a program ask for."""
    return {
        (code, row)
        for row, line in enumerate(script.read_text(encoding="utf-8").splitlines(), 1)
        if (match := MARK.search(line))
        for code in match[1].split(", ")
    }
