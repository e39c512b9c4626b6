"""The profiler's window: a few steps under torch.profiler, then a few more with stacks, from the training thread.

The steps of the window are in no timing. A job that uses a profiler itself keeps it to itself: two at once would leave
one of them empty.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from .agent import Agent
from .phases import STACK_STEPS


class Window:
    """Profiles from boundary to boundary."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._active = int(agent.options.get("profile_steps", 5))
        self._begin()

    def _begin(self) -> None:
        self._profiler: Any = None
        self._ran = 0
        self._refused = False
        self._traces: dict[str, str] = {}

    def boundary(self) -> None:
        """A step of the window begins, or its last one has ended."""
        place, self._ran = self._ran, self._ran + 1
        if place == 0:
            self._refused = self._is_taken()
        if self._refused:
            return
        try:
            self._drive(place)
        except Exception as error:
            self._refused = True
            self.stop()
            self._agent.missing("kineto", "the profiler failed: %s" % error)

    def _drive(self, place: int) -> None:
        first, last = self._active + 1, self._active + 1 + STACK_STEPS
        if place in (first, last):
            # The schedule's last step writes the trace.
            self._profiler.step()
            self.stop()
        if place == 0:
            self._start(self._active, "trace", stacks=False)
        elif place == first:
            self._start(STACK_STEPS - 1, "stacks", stacks=True)
        elif place < last:
            self._profiler.step()
        elif place == last and "trace" in self._traces:
            self._agent.channel.note(
                "trace",
                path=self._traces["trace"],
                steps=self._active,
                stack_steps=STACK_STEPS - 1 if "stacks" in self._traces else 0,
                stacks=self._traces.get("stacks"),
            )

    def _is_taken(self) -> bool:
        torch = self._agent.torch
        if torch._C._autograd._profiler_enabled() or _profilers_of_the_job(torch):
            self._agent.missing("kineto", "the job uses a profiler itself, so that none was started beside it")
            return True
        return False

    def _start(self, active: int, name: str, stacks: bool) -> None:
        profiler = self._agent.torch.profiler
        activities = [profiler.ProfilerActivity.CPU]
        if self._agent.torch.cuda.is_initialized():
            activities.append(profiler.ProfilerActivity.CUDA)
        path = os.path.join(self._agent.folder, "traces", "%d-%d-%s.json.gz" % (os.getpid(), time.time_ns(), name))
        self._profiler = profiler.profile(
            activities=activities,
            schedule=profiler.schedule(wait=0, warmup=1, active=active, repeat=1),
            on_trace_ready=self._writing(path, name),
            with_stack=stacks,
            record_shapes=not stacks,
            with_flops=not stacks,
        )
        self._profiler.start()

    def _writing(self, path: str, name: str) -> Callable[[Any], None]:
        def ready(profiler: Any) -> None:
            profiler.export_chrome_trace(path)
            self._traces[name] = path

        return ready

    def stop(self) -> None:
        """End the profiler that is running, if one is."""
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            profiler.stop()

    def forked(self) -> None:
        """In a forked child, the profiler is the parent's."""
        self._begin()
        self._agent.phases.window = self.boundary


def install(agent: Agent) -> None:
    window = Window(agent)
    agent.phases.window = window.boundary
    agent.at_forks.append(window.forked)
    agent.undo_with(window.stop)


def _profilers_of_the_job(torch: Any) -> bool:
    """Whether a frame of the training thread holds a profiler that is between two of its schedule's windows."""
    frame: FrameType | None = sys._getframe(1)
    kinds = (torch.profiler.profile, torch.autograd.profiler.profile)
    while frame is not None:
        if any(type(value) in kinds for value in frame.f_locals.values()):
            return True
        frame = frame.f_back
    return False
