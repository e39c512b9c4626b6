"""When a sampler is due: at its interval, and seldom enough that it stays cheap on a machine of any size."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

CORE_SHARE = 0.004
"""Of one core, for each sampler. What one sample costs grows with the processes, cores and GPUs of the machine."""


class Pace:
    def __init__(self, interval_s: float, longest_s: float = 10.0) -> None:
        self._interval_s, self._longest_s = interval_s, longest_s
        self.due = time.perf_counter()

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Take a sample within this; the next one is due later the dearer it was."""
        started, cpu = time.perf_counter(), time.process_time()
        yield
        spent = time.process_time() - cpu
        self.due = started + max(self._interval_s, min(self._longest_s, spent / CORE_SHARE))
