"""How much memory this process has, and how much more there is."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

MACHINE = Path("/proc/meminfo")
OWN = Path("/proc/self/statm")
GROUP = Path("/sys/fs/cgroup")
"""The limits of a container, where it has any (cgroup v2)."""


def processes_that_fit(wanted: int, growth: float) -> int:
    """As many processes, `wanted` at most and one at least, as memory holds if each comes to take `growth` times what
    this one takes now; `wanted` where the system does not tell, as on Windows and macOS."""
    free, own = available_bytes(), resident_bytes()
    if free is None or own is None:
        return wanted
    return max(1, min(wanted, int(free / (own * growth))))


def resident_bytes() -> int | None:
    """The memory that this process takes now; None where the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        return int(OWN.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None


def available_bytes() -> int | None:
    """What can still be taken, of the machine's memory and of a container's: files kept in memory give way."""
    known = [free for free in (_machine(), _group()) if free is not None]
    return min(known, default=None)


def _machine() -> int | None:
    kibibytes = _figures(MACHINE).get("MemAvailable:")
    return None if kibibytes is None else kibibytes * 1024


def _group() -> int | None:
    with suppress(OSError, ValueError):
        limit = int((GROUP / "memory.max").read_text())
        used = int((GROUP / "memory.current").read_text())
        return max(0, limit - used + _figures(GROUP / "memory.stat").get("inactive_file", 0))
    return None


def _figures(path: Path) -> dict[str, int]:
    """The lines `name number` of a file; nothing where it cannot be read."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}
