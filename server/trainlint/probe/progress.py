"""How far a job is, as the rings of its processes say while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainlint.agent import control, records


@dataclass(frozen=True, slots=True)
class State:
    """How far one process is, or the job as a whole: then it is the process that is furthest."""

    phase: int = records.WARMUP
    """One of `records.PHASES`."""
    steps: int = 0
    """Complete steps, those of the warm-up included."""
    clean_steps: int = 0
    off: bool = False
    """Whether the agent turned itself off after a fault."""
    processes: int = 1

    @property
    def phase_name(self) -> str:
        return records.PHASES[self.phase] if self.phase < len(records.PHASES) else "detached"

    @property
    def is_training(self) -> bool:
        """Whether further steps may come that the agent sees."""
        return self.steps > 0 and self.phase != records.DETACHED and not self.off

    @property
    def is_done(self) -> bool:
        """Whether all was measured that was asked for."""
        return self.steps > 0 and self.phase == records.DETACHED and not self.off


def states(folder: Path) -> dict[str, State]:
    """The state of each process that has left records, by the name of its ring."""
    found = {}
    for ring in (folder / "processes").glob("*.ring"):
        try:
            with ring.open("rb", buffering=0) as stream:
                header = stream.read(records.HEADER_BYTES)
        except OSError:
            continue
        if len(header) == records.HEADER_BYTES and header.startswith(records.MAGIC):
            phase, steps, clean, off = control.STATE.unpack_from(header, control.STATE_OFFSET)
            found[ring.name] = State(phase, steps, clean, bool(off))
    return found


def furthest(of: Mapping[str, State]) -> State:
    """The job's state."""
    if not of:
        return State(processes=0)
    first = max(of.values(), key=lambda state: (state.clean_steps, state.steps, state.phase))
    return State(first.phase, first.steps, first.clean_steps, first.off, len(of))
