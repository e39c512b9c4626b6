"""Processes of the job: what torch they have, which are workers of a loader, and how they end."""

from __future__ import annotations

import atexit
import functools
import inspect
import multiprocessing.process
import multiprocessing.util
import os
import sys
import time
from typing import Any

from .agent import Agent
from .attributes import loaded_files

SPOKEN_OF = (
    "CUDA_LAUNCH_BLOCKING",
    "NCCL_DEBUG",
    "NCCL_IB_DISABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_SHM_DISABLE",
    "OMP_NUM_THREADS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TOKENIZERS_PARALLELISM",
    "TORCH_DISTRIBUTED_DEBUG",
    "TORCH_LOGS",
    "TORCH_SHOW_CPP_STACKTRACES",
)
"""Environment variables that rules speak about."""


class _Child:
    """Stands for the agent in the registry of what multiprocessing calls in its children, forked or spawned."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent


def install(agent: Agent) -> None:
    os.register_at_fork(after_in_child=agent.forked)
    child = _Child(agent)
    agent.child = child
    multiprocessing.util.register_after_fork(child, _in_child)
    atexit.register(_end, agent)
    # Said early too: a job may be killed, or end by os._exit.
    agent.at_phases.append(lambda phase: _say_files(agent))
    if agent.started_as == "spawn":
        _wait_for_worker(agent)
    agent.channel.note("environment", variables={name: os.environ.get(name, "") for name in SPOKEN_OF})


def _wait_for_worker(agent: Agent) -> None:
    """A spawned process calls nothing of the registry: it finds the loop of a loader's worker by name."""
    worker: Any = sys.modules["torch.utils.data._utils.worker"]
    loop = worker._worker_loop

    @functools.wraps(loop)
    def _worker_loop(*args: Any, **kwargs: Any) -> Any:
        _in_child(agent.child)
        return loop(*args, **kwargs)

    agent.replace(worker, "_worker_loop", _worker_loop)


def _in_child(child: _Child) -> None:
    agent = child.agent
    if not agent.on:
        return
    try:
        process: Any = multiprocessing.process.current_process()
        target = getattr(getattr(process, "_target", None), "__module__", "")
        if target == "torch.utils.data._utils.worker":
            names = inspect.unwrap(process._target).__code__.co_varnames
            agent.set_role("worker", worker=dict(zip(names, process._args)).get("worker_id"))
        multiprocessing.util.Finalize(None, _end, args=(agent,), exitpriority=-100)
    except Exception as error:
        agent.fault("child", error)


def _end(agent: Agent) -> None:
    try:
        if agent.role != "other":
            _say_files(agent)
        else:
            agent.say_torch()
        for call in agent.at_end if agent.on else ():
            call()
        agent.channel.note("end", time=time.time(), clock=time.perf_counter())
    except Exception:
        pass
    try:
        # A profiler that is running while the process ends would crash it.
        agent.remove_hooks()
    except Exception:
        return


def _say_files(agent: Agent) -> None:
    agent.channel.note("files", paths=_own_files(agent))


def _own_files(agent: Agent) -> list[str]:
    """The source files of the job's own code that are loaded."""
    # An interpreter that has run its script forgets the script's path before it calls what is registered for the end.
    files = [agent.script, *loaded_files()]
    own = {agent.lines.path(one) for one in files if isinstance(one, str) and one.endswith(".py")}
    return sorted(one for one in own if agent.lines.is_own(one) and os.path.exists(one))
