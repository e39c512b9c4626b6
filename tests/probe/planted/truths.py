"""What programs wrote about themselves (`programs/truth.py`), and the lines that they watched."""

from __future__ import annotations

import ast
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

Span = tuple[float, float]
ALWAYS: Span = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Noted:
    name: str
    start: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Truth:
    """What one process noted while the probe timed steps, in the order of its clock."""

    pid: int
    stretches: tuple[tuple[Noted, ...], ...]
    """The stretches of timed steps; between them the profiler's window may lie."""

    @property
    def notes(self) -> tuple[Noted, ...]:
        return tuple(note for stretch in self.stretches for note in stretch)

    def named(self, *names: str) -> list[Noted]:
        return [note for note in self.notes if note.name in names]

    def seconds(self, name: str) -> float:
        return sum(note.seconds for note in self.named(name))

    @property
    def steps(self) -> int:
        return len(self.named("step"))

    def median_step_s(self) -> float:
        return statistics.median(later.start - earlier.start for earlier, later in self._pairs("step"))

    def medians_s(self, steps: int) -> tuple[float, float]:
        """Between which values the median lies if so many steps more or fewer are counted, on either side: where steps
        are of two kinds, such as with two workers that deliver at once, that is far apart."""
        found = sorted(later.start - earlier.start for earlier, later in self._pairs("step"))
        middle = len(found) // 2
        return found[max(0, middle - steps)], found[min(len(found) - 1, middle + steps)]

    def share_of(self, name: str) -> float:
        """Of the time from the first step to the last in each stretch."""
        inside = whole = 0.0
        for stretch in self.stretches:
            ends = [note.start for note in stretch if note.name == "step"]
            if len(ends) > 1:
                whole += ends[-1] - ends[0]
                inside += sum(note.seconds for note in stretch if note.name == name and note.start < ends[-1])
        return inside / whole

    def data_wait_share(self) -> float:
        """From the end of a step to the next batch, as a share of the time from step to step within epochs."""
        waits = whole = 0.0
        for stretch in self.stretches:
            marks = [note for note in stretch if note.name in ("epoch", "batch", "step")]
            for step, batch, end in zip(marks, marks[1:], marks[2:], strict=False):
                if (step.name, batch.name, end.name) == ("step", "batch", "step"):
                    waits += batch.start - step.start
                    whole += end.start - step.start
        return waits / whole

    def _pairs(self, *names: str) -> Iterator[tuple[Noted, Noted]]:
        """Notes that follow each other in a stretch."""
        for stretch in self.stretches:
            yield from pairwise(note for note in stretch if note.name in names)


def read_truth(prefix: Path, spans: Sequence[Span] = (ALWAYS,)) -> list[Truth]:
    """What each process of a job noted in its file PREFIX.PID while one of the spans lasted."""
    found = []
    for path in sorted(prefix.parent.glob(f"{prefix.name}.*")):
        notes: list[Noted] = []
        for line in path.read_text(encoding="utf-8").splitlines():
            name, start, seconds = line.split()
            notes.append(Noted(name, float(start), float(seconds)))
        notes.sort(key=lambda note: note.start)
        inside = (tuple(note for note in notes if start <= note.start < end) for start, end in spans)
        found.append(Truth(int(path.suffix[1:]), tuple(inside)))
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
