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
        look = agent.look(None)
        try:
            if phase == "start":
                began = clock()
                return
            duration = clock() - began
            agent.record(records.COLLECTION, began, duration, float(info["generation"]))
            frame = sys._getframe().f_back
            if frame is not None and _asks(frame):
                agent.record(records.CALL, began, duration, name=agent.lines.name(frame, "collect "))
        except Exception:
            agent.fault("collection")
        finally:
            agent.look(look)

    gc.callbacks.append(collection)
    agent.undo_with(lambda: gc.callbacks.remove(collection))


def _asks(frame: FrameType) -> bool:
    """Whether a line calls `gc.collect` itself, rather than happening to allocate."""
    code = frame.f_code
    return "collect" in code.co_names and "collect" in linecache.getline(code.co_filename, frame.f_lineno)
