"""Signals that reach the probe while a job runs: they are for the job, and each reaches it once."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import suppress
from types import FrameType

FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
SENT_BY_KERNEL = 0x80
"""SI_KERNEL: a key of the terminal, or its end, which the job is told of as well, being in the same process group; but
of a line that is cut only the leader of the session is told."""


class Forwarding:
    """While it is entered, signals do not end the probe. A signal that is ignored stays so, for the job as well.

    Where signals can be waited for with what is known of their origin, as on Linux, those that the kernel sent to the
    whole process group are not passed on; elsewhere this is guessed from the terminal's foreground.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._before: dict[int, object] = {}
        self._early: list[int] = []
        self._blocked = False

    def __enter__(self) -> Forwarding:
        if threading.current_thread() is threading.main_thread():
            for number in FORWARDED:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._arrived)
        return self

    def __exit__(self, *_: object) -> None:
        if self._blocked:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._waited)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what `signal` itself returned
        self._process = None

    def pass_to(self, process: subprocess.Popen[bytes]) -> None:
        """From now on signals are this process's; those started later inherit that they are blocked, and undo that."""
        self._process = process
        for number in self._early:
            self._forward(number)
        if self._before and hasattr(signal, "sigtimedwait"):
            signal.pthread_sigmask(signal.SIG_BLOCK, self._waited)
            self._blocked = True

    def wait(self, seconds: float) -> None:
        """Wait until a signal came, the process ended, or the time is over."""
        if not self._blocked:
            if self._process is not None:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(seconds)
            return
        told = signal.sigtimedwait(self._waited, seconds)
        if told is None or told.si_signo not in self._before:
            return
        if told.si_code != SENT_BY_KERNEL or (told.si_signo == signal.SIGHUP and os.getsid(0) == os.getpid()):
            self._forward(told.si_signo)

    @property
    def _waited(self) -> set[int]:
        return {*self._before, signal.SIGCHLD}

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self._process is None:
            self._early.append(number)
        elif number not in FROM_TERMINAL or not _in_foreground():
            self._forward(number)

    def _forward(self, number: int) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)


def _in_foreground() -> bool:
    """Whether the terminal's keys reach this process group, wherever the standard streams lead."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
