"""How many of the machine's cores have nothing to do, of those that the probe and its job may use."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

OVER_S = 1.0
"""The time over which idle cores are counted, at least."""
QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""What a container may use of the machine's cores: `max`, or microseconds in each period."""


class IdleCores:
    """The mean of late, from the time that cores were idle in all as it was seen now and then."""

    def __init__(self, clock: float, idle_s: float | None) -> None:
        self._seen = [(clock, idle_s)]

    @property
    def cores(self) -> float | None:
        """None before it was seen for long enough, and where it is not known."""
        (start, idle), (end, idle_now) = self._seen[0], self._seen[-1]
        if idle is None or idle_now is None or end - start < OVER_S:
            return None
        return (idle_now - idle) / (end - start)

    def saw(self, clock: float, idle_s: float | None) -> None:
        if clock - self._seen[-1][0] < OVER_S / 10:
            return
        self._seen.append((clock, idle_s))
        while len(self._seen) > 2 and clock - self._seen[1][0] >= OVER_S:
            del self._seen[0]


def idle_s() -> float | None:
    """How long the cores that this process may use have been idle, all of them together; None where a quota says how
    long they may be used, since the machine's idle time is not for the taking then."""
    try:
        if not QUOTA.read_text().startswith("max"):
            return None
    except OSError:
        pass
    idle = [float(one.idle) for one in psutil.cpu_times(percpu=True)]
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(idle))
    return sum(idle[core] for core in usable if core < len(idle))
