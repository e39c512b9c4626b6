"""Backward passes, and gradient scalers.

Whether a scaler skips a step for infinities shows without asking the device: it does not call the optimizer then. An
optimizer that looks at the infinities itself is called in any case, and what it did is not known.
"""

from __future__ import annotations

import functools
import threading
import time
from types import FrameType
from typing import Any

from . import records
from .agent import Agent
from .anomalies import Anomalies
from .wrapping import disguise, wrapped

clock = time.perf_counter


def install(agent: Agent) -> None:
    autograd: Any = agent.torch.autograd
    # Both `backward` and `grad` come through here; neither is replaced, so that torch.compile knows them.
    agent.replace(autograd, "_engine_run_backward", _watching(agent, autograd._engine_run_backward))
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


def _watching(agent: Agent, original: Any) -> Any:
    """The engine's call, with a record of each pass that is no part of another one."""
    inside = threading.local()
    anomalies = Anomalies(agent)
    agent.at_phases.append(anomalies.phase)
    agent.at_end.append(anomalies.say)
    tracing = getattr(agent.torch._C, "_len_torch_dispatch_stack", None)

    def begins(roots: Any) -> bool:
        """Whether the pass counts: one that a compiler makes to trace it is none of the job's."""
        if not agent.on or getattr(inside, "pass_", False) or (tracing is not None and tracing()):
            return False
        look = agent.look(None)
        try:
            agent.trains()
            for call in agent.at_backward:
                call()
            anomalies.count(roots)
            if agent.in_training_thread():
                agent.steps.backward()
        except Exception:
            agent.fault("backward")
        finally:
            agent.look(look)
        return agent.on

    @functools.wraps(original)
    def _engine_run_backward(*args: Any, **kwargs: Any) -> Any:
        counts = begins(args[0] if args else ())
        if counts:
            inside.pass_ = True
        start = clock()
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ is not None else None
            raise
        finally:
            if counts:
                inside.pass_ = False
                look = agent.look(None)
                try:
                    agent.record(records.BACKWARD, start, clock() - start)
                    for call in agent.after_backward:
                        call()
                except Exception:
                    agent.fault("backward")
                finally:
                    agent.look(look)

    disguise(_engine_run_backward, original)
    return _engine_run_backward
