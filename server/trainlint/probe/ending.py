"""Ending a job that is still there after its measurement: its whole tree, and nothing else."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import psutil

PATIENCE_S = 10.0
"""How long a job may take to end by itself, and after each signal."""

Means: TypeAlias = Literal["SIGINT", "SIGTERM", "SIGKILL"]
MEANS: tuple[Means, ...] = ("SIGINT", "SIGTERM", "SIGKILL")


class Ending:
    """Sends the signals, one stronger than the other, `PATIENCE_S` apart."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._tree: dict[int, psutil.Process] = {}
        """Processes that have been seen in the tree: one whose parent has ended is found no more."""
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

    def _send(self, number: int) -> None:
        for process in self._members():
            with suppress(Exception):  # it has ended meanwhile, or became somebody else's
                process.send_signal(number)
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _members(self) -> Iterable[psutil.Process]:
        """The processes below the job's own, deepest last. Without psutil none is known."""
        try:
            import psutil
        except ImportError:
            return ()
        with suppress(psutil.Error):
            for child in psutil.Process(self._process.pid).children(recursive=True):
                self._tree.setdefault(child.pid, child)
        for known in list(self._tree.values()):
            with suppress(psutil.Error):
                for child in known.children(recursive=True):
                    self._tree.setdefault(child.pid, child)
        return tuple(self._tree.values())
