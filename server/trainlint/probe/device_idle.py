"""Why a device is idle: what of it the host's waits explain."""

from __future__ import annotations


def stall_that_costs(stall: float | None, busy: float | None) -> float | None:
    """The host's stalls as far as they cost. A host that waits for a busy device loses nothing: only as much counts as
    the device stands idle, where that is known. Shares of the step."""
    if stall is None or busy is None:
        return stall
    return min(stall, max(0.0, 1.0 - busy))


def unexplained_idle(busy: float, data_wait: float | None, stall: float | None) -> float:
    """The share of the step in which the device is idle, and the host waits neither for data nor for anything else."""
    idle = max(0.0, 1.0 - busy)
    return max(0.0, idle - (data_wait or 0.0) - (stall_that_costs(stall, busy) or 0.0))
