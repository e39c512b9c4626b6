"""What the probe and its samplers say to each other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Follow:
    """Count these processes in with the job."""

    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """Write what there is, and end."""


@dataclass(frozen=True, slots=True)
class Ended:
    """All is written."""

    missing: dict[str, str]
    """What could not be sampled, and why, with what to do."""
    cpu_s: float | None
    """CPU time of the samplers and the programs that they started; None where that is not known."""
