"""How far the processes of a job are, as their agents note it in the headers of their rings while the job runs."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainlint.agent import control, records

_HEAD_BYTES = control.STATE_OFFSET + control.STATE.size


@dataclass(frozen=True, slots=True)
class State:
    """How far one process is."""

    pid: int
    phase: int
    """One of the numbers that `records.PHASES` names."""
    steps: int
    """Complete steps since its start."""
    clean: int
    """Those of them that count."""
    is_off: bool
    """Whether a fault has turned its agent off."""

    @property
    def phase_name(self) -> str:
        return records.PHASES[self.phase] if self.phase < len(records.PHASES) else ""


def states(folder: Path) -> Iterator[State]:
    """Yield the states of the processes that a recording knows of; those that left no ring yet are missing."""
    for ring in sorted((folder / "processes").glob("*.ring")):
        try:
            with ring.open("rb") as file:
                head = file.read(_HEAD_BYTES)
            magic, pid = struct.unpack_from("<8sI", head)
            if magic == records.MAGIC:
                phase, steps, clean, off = control.STATE.unpack_from(head, control.STATE_OFFSET)
                yield State(pid, phase, steps, clean, bool(off))
        except (OSError, struct.error):
            continue  # it is being made, or gone


def furthest(folder: Path) -> State | None:
    """The state of the process that has made the most steps; None where none has made any."""
    return max((state for state in states(folder) if state.steps), key=lambda state: state.steps, default=None)
