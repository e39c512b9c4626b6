"""Backward passes, and gradient scalers.

Warnings of the job's hooks count the frames between them and the line of the job, so no frame may stand around a pass.
Torch asks what its logger for graphs logs before each pass, and looks at the answer once more after it: the answer is
what tells of both.

Whether a scaler skips a step for infinities shows without asking the device: it does not call the optimizer then. An
optimizer that looks at the infinities itself is called in any case, and what it did is not known.
"""

from __future__ import annotations

import sys
import threading
import time
from types import FrameType
from typing import Any

from . import records
from .agent import Agent
from .anomalies import Anomalies
from .working import without_agent
from .wrapping import wrapped

clock = time.perf_counter


def install(agent: Agent) -> None:
    _watch_passes(agent)
    _watch_scalers(agent)


def _watch_scalers(agent: Agent) -> None:
    scaler: Any = agent.torch.amp.GradScaler
    skipped = False

    def stepped(arguments: tuple[Any, ...], result: Any, start: float, frame: FrameType) -> None:
        nonlocal skipped
        optimizer = arguments[1] if len(arguments) > 1 else None
        # Steps of optimizers that torch does not mark are not seen at all.
        if getattr(getattr(type(optimizer), "step", None), "hooked", False) and id(optimizer) not in agent.stepped:
            skipped = True

    def updated(arguments: tuple[Any, ...], result: Any, start: float, frame: FrameType) -> None:
        nonlocal skipped
        agent.record(records.SCALER_UPDATE, start, clock() - start, float(skipped))
        skipped = False
        agent.stepped.clear()
        if agent.in_training_thread():
            agent.steps.scaler_update()

    agent.replace(scaler, "step", wrapped(agent, scaler.step, "scaler", stepped))
    agent.replace(scaler, "update", wrapped(agent, scaler.update, "scaler", updated))


def _watch_passes(agent: Agent) -> None:
    """Both `backward` and `torch.autograd.grad` come through one function."""
    graph: Any = agent.torch.autograd.graph
    engine, logger = graph._engine_run_backward.__code__, graph.__dict__.get("log")
    if logger is None or "getEffectiveLevel" not in engine.co_names:
        agent.missing("backward", "this version of torch tells nothing of backward passes")
        return
    passes = _Passes(agent)

    def get_effective_level() -> int:
        level: int = type(logger).getEffectiveLevel(logger)
        asks = sys._getframe(1)
        try:
            return _Level(level, passes) if asks.f_code is engine and passes.begins(asks) else level
        except BaseException as error:
            error.__traceback__ = without_agent(error.__traceback__)
            raise

    def undo() -> None:
        if vars(logger).get("getEffectiveLevel") is get_effective_level:
            del logger.getEffectiveLevel

    logger.getEffectiveLevel = get_effective_level
    agent.undo_with(undo)


class _Passes:
    """Passes that are no part of another one."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._inside = threading.local()
        self._anomalies = Anomalies(agent)
        agent.at_phases.append(self._anomalies.phase)
        agent.at_end.append(self._anomalies.say)
        self._tracing = getattr(agent.torch._C, "_len_torch_dispatch_stack", None)

    def begins(self, engine: FrameType) -> bool:
        """Whether the pass counts: one that a compiler makes to trace it is none of the job's."""
        agent = self._agent
        tracing = self._tracing is not None and self._tracing()
        if not agent.on or tracing or getattr(self._inside, "pass_", False):
            return False
        with agent.working("backward"):
            agent.trains()
            for call in agent.at_backward:
                call()
            self._anomalies.count(engine.f_locals.get("t_outputs", ()))
            if agent.in_training_thread():
                agent.steps.backward()
        self._inside.pass_ = agent.on
        return agent.on

    def ended(self, start: float) -> None:
        self._inside.pass_ = False
        agent = self._agent
        if agent.on:
            with agent.working("backward"):
                agent.record(records.BACKWARD, start, clock() - start)
                for call in agent.after_backward:
                    call()


class _Level(int):
    """A level of logging that remembers which pass asked for it."""

    _passes: _Passes

    def __new__(cls, level: int, passes: _Passes) -> _Level:
        made = super().__new__(cls, level)
        made._passes = passes
        return made

    def __le__(self, other: int) -> Any:
        return _Answer(int(self) <= other, self._passes)


class _Answer:
    """Whether the graph is to be logged: asked for before the pass and after it."""

    def __init__(self, value: bool, passes: _Passes) -> None:
        self._value = value
        self._passes = passes
        self._start = 0.0

    def __bool__(self) -> bool:
        if self._start:
            try:
                self._passes.ended(self._start)
            except BaseException as error:
                error.__traceback__ = without_agent(error.__traceback__)
                raise
        self._start = clock()
        return self._value
