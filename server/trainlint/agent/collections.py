"""Pauses of Python's garbage collector, and the lines that ask for one."""

from __future__ import annotations

import gc
import linecache
import sys
import time
from types import FrameType

from . import records
from .agent import Agent

clock = time.perf_counter


def install(agent: Agent) -> None:
    began = 0.0

    def collection(phase: str, info: dict[str, int]) -> None:
        nonlocal began
        if not agent.on:
            return
        if phase == "start":
            began = clock()
            return
        duration = clock() - began
        frame = sys._getframe().f_back
        with agent.working("collection"):
            agent.record(records.COLLECTION, began, duration, float(info["generation"]))
            if frame is not None and _asks(frame):
                agent.record(records.CALL, began, duration, name=agent.lines.name(frame, "collect "))

    def undo() -> None:
        if collection in gc.callbacks:  # the job may have cleared them
            gc.callbacks.remove(collection)

    gc.callbacks.append(collection)
    agent.undo_with(undo)


def _asks(frame: FrameType) -> bool:
    """Whether a line calls `gc.collect` itself, rather than happening to allocate."""
    code = frame.f_code
    return "collect" in code.co_names and "collect" in linecache.getline(code.co_filename, frame.f_lineno)
