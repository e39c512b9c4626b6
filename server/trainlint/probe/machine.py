"""What a recording says about the machine and the moment it was made."""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from trainlint.probe.recording import Manifest, Options


def manifest(
    kind: Literal["run", "attach"],
    command: Sequence[str],
    cwd: Path | str,
    options: Options,
    folder: Path,
    job_pid: int | None = None,
) -> Manifest:
    """The manifest of a recording that starts now, on this machine and in `folder`."""
    return Manifest(
        kind=kind,
        command=list(command),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        clock=time.perf_counter(),
        cwd=str(cwd),
        probe_pid=os.getpid(),
        job_pid=job_pid,
        host=socket.gethostname(),
        platform=platform.platform(),
        cores=usable_cores(),
        physical_cores=physical_cores(),
        memory_bytes=memory_bytes(),
        options=options,
        folder=str(folder.absolute()),
    )


def usable_cores() -> int:
    """Cores that processes started from here may run on: fewer than the machine has where an affinity is set."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count() or 1


def physical_cores() -> int | None:
    """Cores without counting the threads of each; None where that is not known."""
    try:
        import psutil
    except ImportError:
        return None
    cores: int | None = psutil.cpu_count(logical=False)
    return cores


def memory_bytes() -> int | None:
    """The machine's memory; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
