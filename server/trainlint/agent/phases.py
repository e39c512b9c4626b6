"""The phases of a measurement, and its end: the same on every rank, since all count the same steps.

Warm-up; the clean steps but for the last of them; the profiler's window; the rest of the clean steps; and then either
the job's end at the boundary, or its hooks removed. A rank that cannot profile counts the window's steps all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import control, records

if TYPE_CHECKING:
    from .agent import Agent

CLEAN_AGAIN = 10
"""As many of the clean steps come after the window, or a fifth of them if that is less."""
UNSETTLED = 2
"""The warm-up is so many times as long while what ends a step is not sure."""
STACK_STEPS = 3
"""Profiled with stacks after the others: one for the profiler to warm up, and two."""


class Phases:
    """The phase that a process is in; called at each boundary between steps."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.phase = records.WARMUP
        self.steps = 0
        """Complete steps in all."""
        self.window: Callable[[], None] | None = None
        """Called at the boundaries that the window begins with, and at each in it and at its end."""
        self._in_phase = 0
        self._clean = 0
        options = agent.options
        self._warmup = int(options.get("warmup", 10))
        wanted = max(1, int(options.get("steps", 50)))
        profile = bool(options.get("profile", True)) and int(options.get("profile_steps", 5)) > 0
        again = min(CLEAN_AGAIN, wanted // 5) if profile else 0
        # One to start the profiler, the stacks, and one for the job to settle.
        window = int(options.get("profile_steps", 5)) + 1 + STACK_STEPS + 1 if profile else 0
        self._lengths = {records.CLEAN: wanted - again, records.WINDOW: window, records.AFTER: again}

    def new_anchor(self, seen: int) -> None:
        """Steps end with other updates than was thought: count anew."""
        if self.phase == records.WARMUP:
            self._in_phase = max(0, seen - 1)
        elif self.phase == records.CLEAN:
            self._in_phase = self._clean = 0

    def step(self, settled: bool) -> None:
        """A step has ended; `settled` is as in `Boundaries`.

        Raises:
            SystemExit: the measurement has ended, and the job is to end with it.
        """
        agent = self._agent
        self.steps += 1
        self._in_phase += 1
        if self.phase in (records.CLEAN, records.AFTER):
            self._clean += 1
        for call in agent.at_boundaries:
            call()
        self._go_on(settled)
        if agent.on:
            self.say()
            self._obey()

    def say(self, off: bool = False) -> None:
        """Let the probe know how far the process is."""
        self._agent.channel.state(self.phase, self.steps, self._clean, off)

    def _go_on(self, settled: bool) -> None:
        if self.phase == records.WARMUP:
            if self._in_phase >= self._warmup * (1 if settled else UNSETTLED):
                self._enter(records.CLEAN)
            return
        if self.phase == records.WINDOW and self.window is not None:
            self.window()
        if self._in_phase >= self._lengths[self.phase]:
            # A phase without steps is never entered: what ends with the one before has yet to be noted.
            later = [phase for phase in (records.WINDOW, records.AFTER) if phase > self.phase and self._lengths[phase]]
            if not later:
                self._finish()
                return
            self._enter(later[0])
            if self.phase == records.WINDOW and self.window is not None:
                self.window()

    def _enter(self, phase: int) -> None:
        agent = self._agent
        for call in agent.at_phases:
            call(phase)
        self.phase, self._in_phase = phase, 0
        # What comes after the window is timed as what came before.
        shown = records.CLEAN if phase == records.AFTER else phase
        agent.record(records.PHASE, time.perf_counter(), value=shown)

    def _finish(self) -> None:
        self._detach()
        if not self._agent.options.get("keep_running"):
            self._end(planned=True)

    def _obey(self) -> None:
        commands, after = self._agent.control.read()
        if commands & control.END and self.steps >= after:
            self._detach()
            self._end(planned=False)
        elif commands & control.DETACH:
            self._detach()

    def _detach(self) -> None:
        agent = self._agent
        self._enter(records.DETACHED)
        self.say()
        agent.remove_hooks()

    def _end(self, planned: bool) -> None:
        self._agent.channel.note("stop", step=self.steps, planned=planned)
        raise SystemExit(0)
