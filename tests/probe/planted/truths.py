"""What programs wrote about themselves (`programs/truth.py`), and the lines that they watched."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Noted:
    name: str
    start: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Truth:
    """What one process noted, in the order of its clock."""

    pid: int
    notes: tuple[Noted, ...]

    def within(self, spans: Sequence[Span]) -> Truth:
        """What was noted while one of the spans lasted."""
        inside = tuple(note for note in self.notes if any(start <= note.start < end for start, end in spans))
        return Truth(self.pid, inside)

    def named(self, *names: str) -> list[Noted]:
        return [note for note in self.notes if note.name in names]

    def seconds(self, name: str) -> float:
        return sum(note.seconds for note in self.named(name))

    @property
    def steps(self) -> int:
        return len(self.named("step"))

    def median_step_s(self) -> float:
        ends = [note.start for note in self.named("step")]
        return statistics.median(later - earlier for earlier, later in pairwise(ends))

    def data_wait_share(self) -> float:
        """From the end of a step to the next batch, as a share of the time from the first step to the last."""
        marks = self.named("batch", "step")
        waits = [
            later.start - earlier.start
            for earlier, later in pairwise(marks)
            if (earlier.name, later.name) == ("step", "batch")
        ]
        ends = [note.start for note in self.named("step")]
        return sum(waits) / (ends[-1] - ends[0])


def read_truth(prefix: Path) -> list[Truth]:
    """What each process of a job noted in its file PREFIX.PID."""
    found = []
    for path in sorted(prefix.parent.glob(f"{prefix.name}.*")):
        notes = []
        for line in path.read_text(encoding="utf-8").splitlines():
            name, start, seconds = line.split()
            notes.append(Noted(name, float(start), float(seconds)))
        found.append(Truth(int(path.suffix[1:]), tuple(sorted(notes, key=lambda note: note.start))))
    return found


def watched_rows(name: str, files: Iterable[Path]) -> tuple[Path, range]:
    """The file and the rows of the block that is watched under a name; there must be one."""
    found = [
        (path, range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1))
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.With) and any(map(_watches(name), node.items))
    ]
    assert len(found) == 1, f"{name} is watched at {found}"
    return found[0]


def _watches(name: str) -> Callable[[ast.withitem], bool]:
    return lambda item: ast.unparse(item.context_expr) == f"truth.watch({name!r})"
