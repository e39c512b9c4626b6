"""Reads of tensor values, by the line that reads: each one makes the host wait for the device.

`item()`, `float(t)`, `if t:` and the like all come to one operator, whose kernel for the devices in use is replaced by
one that times it and calls on. No graph of torch.compile and no dispatch of the job changes by it.
"""

from __future__ import annotations

import os
import sys
import time
from types import FrameType
from typing import Any

from . import records
from .agent import Agent
from .working import without_agent
from .wrapping import preceded

clock = time.perf_counter

OPERATOR = "_local_scalar_dense"


def install(agent: Agent) -> None:
    agent.at_training.append(lambda: _override(agent))


def _override(agent: Agent) -> None:
    torch = agent.torch
    key = _key(torch)
    agent.accelerator = key != "AutogradCPU"
    if "aten/%s/%s" % (OPERATOR, key) in getattr(torch.library, "_impls", ()):
        _say_taken(agent)
        return
    library = torch.library.Library("aten", "IMPL")

    def destroy() -> None:
        library._destroy()
        # By these names torch forgets, when a library is destroyed once more, what others have registered since.
        library._op_impls.clear()

    agent.undo_with(destroy)
    library.impl(OPERATOR, _reading(agent), key)

    def registers(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        operator = arguments[1] if len(arguments) > 1 else named.get("op_name")
        if OPERATOR in str(operator):
            destroy()
            _say_taken(agent)

    agent.replace(torch.library.Library, "impl", preceded(agent, torch.library.Library.impl, "library", registers))


def _say_taken(agent: Agent) -> None:
    agent.missing("syncs", "the job has a kernel of its own for reads of tensor values, which were not timed beside it")


def _key(torch: Any) -> str:
    """The key of the device that the job works on, as far as its first steps show."""
    if torch.cuda.is_initialized():
        return "AutogradCUDA"
    named = getattr(torch._C, "_get_privateuse1_backend_name", None)
    if named is not None and named() != "privateuseone":
        return "AutogradPrivateUse1"
    return "AutogradCPU"


def _reading(agent: Agent) -> Any:
    torch = agent.torch
    operator = torch.ops.aten._local_scalar_dense.default
    below = torch._C._AutoDispatchBelowAutograd
    own = tuple(os.path.dirname(str(one.__file__)) + os.sep for one in (torch.optim, torch.utils.data))

    def _say(start: float, frame: FrameType) -> None:
        # On a CPU, optimizers read their own counters of steps, and loaders their seeds.
        if agent.accelerator or not frame.f_code.co_filename.startswith(own):
            end = clock()
            agent.record(records.SYNC, start, end - start, name=agent.lines.name(frame))

    def _local_scalar_dense(tensor: Any) -> Any:
        look = agent.look(None)
        start = clock()
        try:
            with below():
                value = operator(tensor)
            if agent.on:
                frame = sys._getframe(1)
                with agent.working("sync"):
                    _say(start, frame)
            return value
        except BaseException as error:
            error.__traceback__ = without_agent(error.__traceback__)
            raise
        finally:
            agent.look(look)

    return _local_scalar_dense
