"""Ending a job that is still there after its measurement: all processes that it started, and nothing else."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import psutil

PATIENCE_S = 10.0
"""How long a job may take to end by itself, and after each signal."""

Means: TypeAlias = Literal["SIGINT", "SIGTERM", "SIGKILL"]
MEANS: tuple[Means, ...] = ("SIGINT", "SIGTERM", "SIGKILL")


class Ending:
    """Sends the signals, one stronger than the other, `PATIENCE_S` apart."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process = process
        self._folder = str(folder)
        self._tree: dict[int, psutil.Process] = {}
        """Processes that have been seen below the job's own: one whose parent has ended is no longer there."""
        self._due: float | None = None
        self.used: Means | None = None
        """The strongest signal that was sent."""

    @property
    def begun(self) -> bool:
        return self._due is not None

    def begin(self, due: float) -> None:
        """Send the first signal at this time, unless one was sent already."""
        if self.used is None:
            self._due = due

    def go_on(self, now: float) -> None:
        """Send what is due."""
        if self._due is None or now < self._due or self.used == MEANS[-1]:
            return
        self.used = MEANS[0] if self.used is None else MEANS[MEANS.index(self.used) + 1]
        self._due = now + PATIENCE_S
        self._send(getattr(signal, self.used))

    def is_unfinished(self, now: float) -> bool:
        """Whether signals were sent, and a process below the job's own is yet to end, or to get a stronger one."""
        if self._due is None or self.used is None or (self.used == MEANS[-1] and now >= self._due):
            return False
        return any(_lives(process) for process in self._members())

    def _send(self, number: int) -> None:
        for process in self._members():
            with suppress(Exception):  # it has ended meanwhile, or became somebody else's
                process.send_signal(number)
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _members(self) -> Iterable[psutil.Process]:
        """The processes that the job has started. Without psutil none is known."""
        try:
            import psutil
        except ImportError:
            return ()
        with suppress(psutil.Error):
            self._add(psutil.Process(self._process.pid).children(recursive=True))
        for known in self._tree.copy().values():
            with suppress(psutil.Error):
                self._add(known.children(recursive=True))
        for process in psutil.process_iter():
            with suppress(psutil.Error):  # it has ended meanwhile, or is somebody else's
                if process.environ().get("TRAINLINT_PROBE_DIR") == self._folder:
                    self._add([process])  # its parent may have ended
        return tuple(self._tree.values())

    def _add(self, processes: Iterable[psutil.Process]) -> None:
        for process in processes:
            if process.pid != self._process.pid:
                self._tree.setdefault(process.pid, process)


def _lives(process: psutil.Process) -> bool:
    import psutil

    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
