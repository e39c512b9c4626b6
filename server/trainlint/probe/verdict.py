"""What measurements say of a finding: confirmed, refuted, not exercised or inconclusive, and by which figures."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    CONFIRMED = "confirmed"
    """Measured cost at or above the rule's threshold."""
    REFUTED = "refuted"
    """The line is known to have run in the measured steps and cost less, or the condition proved false."""
    NOT_EXERCISED = "not-exercised"
    """The line did not run."""
    INCONCLUSIVE = "inconclusive"
    """It ran, or may have, but this machine or source cannot tell; the note says what would."""


class Source(StrEnum):
    """Where a figure comes from."""

    AGENT = "agent"
    STACKS = "stacks"
    KINETO = "kineto"
    NVML = "nvml"
    PSUTIL = "psutil"


WORKER_TIME = "worker ms/step"
"""Unit of what loader workers take, all together: they run beside each other and beside the step."""
COST_TO_STEP = "cost to the step, at most"
"""What of the workers' time the step can wait for, in milliseconds per step."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure behind a verdict, with the threshold it was held against."""

    metric: str
    value: float
    unit: str
    source: Source
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    status: Status
    ms_per_step: float | None = None
    share: float | None = None
    calls_per_step: float | None = None
    evidence: tuple[Measurement, ...] = ()
    note: str = ""
