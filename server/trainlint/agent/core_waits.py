"""How long the training thread was ready to run and waited for a core, which is no time of its own work.

The kernel counts it from the thread's start. It is noted around batches and backward passes, so that the
analysis can tell what of each was such a wait.
"""

from __future__ import annotations

import os
import time

from . import records
from .agent import Agent

PATH = "/proc/thread-self/schedstat"
"""Nanoseconds on a core, nanoseconds of waiting for one, and the number of times that it got one."""


def install(agent: Agent) -> None:
    try:
        _waited_s()
    except (OSError, ValueError, IndexError):
        agent.missing("core_wait", "the system does not count how long a thread waits for a core (%s)" % PATH)
        return

    def note() -> None:
        if not agent.in_training_thread():
            return
        try:
            waited_s = _waited_s()
        except OSError:
            return  # the job has used up its descriptors
        agent.record(records.CORE_WAIT, time.perf_counter(), value=waited_s)

    agent.at_batches.append(lambda gradients: note())
    agent.after_batches.append(note)
    agent.at_backward.append(note)
    agent.after_backward.append(note)


def _waited_s() -> float:
    # It is opened each time: a descriptor that stays open might be closed, or become another file, in the job.
    opened = os.open(PATH, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(os.read(opened, 100).split()[1]) / 1e9
    finally:
        os.close(opened)
