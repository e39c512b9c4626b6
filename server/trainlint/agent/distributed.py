"""Ranks that work together: who waits for a collective, and what DDP itself counts."""

from __future__ import annotations

import gc
import time
from types import FrameType
from typing import Any

from . import records
from .agent import Agent
from .modules import parameters_of
from .wrapping import wrapped

clock = time.perf_counter


def install(agent: Agent) -> None:
    distributed: Any = agent.torch.distributed
    if not distributed.is_available():
        return
    modules = _Wrapped(agent)
    agent.at_training.append(lambda: _time_waits(agent))
    agent.at_backward.append(modules.backward)
    agent.after_backward.append(modules.reduced)
    agent.at_phases.append(modules.phase)


def _time_waits(agent: Agent) -> None:
    """Every blocking collective waits for its work here, in Python or in the job's own code."""
    distributed: Any = agent.torch.distributed
    if not distributed.is_initialized():
        return
    agent.set_role("rank", rank=distributed.get_rank(), world_size=distributed.get_world_size(), **agent.local_rank())
    work: Any = distributed.Work

    def waited(arguments: tuple[Any, ...], result: Any, start: float, frame: FrameType) -> None:
        end = clock()
        agent.record(records.WAIT, start, end - start, name=agent.lines.name(frame))

    agent.replace(work, "wait", wrapped(agent, work.wait, "wait", waited))
    # Before a forward pass DDP sends the first rank's buffers (as of BatchNorm) to the others, who may come late.
    wraps: Any = agent.torch.nn.parallel.DistributedDataParallel
    send = wraps.__dict__.get("_sync_buffers")
    if send is not None:
        agent.replace(wraps, "_sync_buffers", wrapped(agent, send, "buffers", waited))


class _Wrapped:
    """The modules that DDP wraps, and how often their gradients are reduced."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._modules: list[Any] = []
        self._reductions = 0
        self._first_step = 0
        self._unused: list[int] = []

    def backward(self) -> None:
        """A backward pass begins; it reduces gradients unless it is inside `no_sync`."""
        self._reductions += any(one.require_backward_grad_sync for one in self._modules)

    def reduced(self) -> None:
        """A backward pass has ended: count once what no gradient came for, before the job clears gradients."""
        if self._modules and not self._unused:
            self._unused = [
                sum(1 for one in parameters_of(module) if one.requires_grad and one.grad is None)
                for module in self._modules
            ]

    def phase(self, begins: int) -> None:
        agent = self._agent
        if begins == records.CLEAN:
            self._modules = _modules(agent.torch)
            self._reductions, self._first_step, self._unused = 0, agent.phases.steps, []
        elif agent.phases.phase == records.CLEAN:
            steps = max(agent.phases.steps - self._first_step, 1)
            for module, unused in zip(self._modules, self._unused):
                self._note(module, unused, self._reductions / steps)
            self._modules = []

    def _note(self, module: Any, unused: int, reductions: float) -> None:
        told: dict[str, Any] = {}
        try:
            told = module._get_ddp_logging_data()
        except (AttributeError, RuntimeError):
            self._agent.missing("ddp", "this version of DDP tells nothing of its buckets")
        self._agent.channel.note(
            "ddp",
            # DDP itself counts only where it looks for such parameters, and in bytes.
            unused_parameters=unused,
            rebuilt_buckets=bool(told.get("has_rebuilt_buckets", 0)),
            bucket_sizes=str(told.get("rebuilt_bucket_sizes") or told.get("bucket_sizes") or ""),
            find_unused_parameters=bool(getattr(module, "find_unused_parameters", False)),
            unused_parameter_bytes=told.get("unused_parameter_size"),
            reductions=reductions,
        )


def _modules(torch: Any) -> list[Any]:
    if not torch.distributed.is_initialized():
        return []
    wraps = torch.nn.parallel.DistributedDataParallel
    return [one for one in gc.get_objects() if type(one).__mro__.count(wraps)]
