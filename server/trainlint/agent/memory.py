"""Memory of the device after each step, and the most that was held."""

from __future__ import annotations

import time

from . import records
from .agent import Agent


def install(agent: Agent) -> None:
    cuda = agent.torch.cuda

    def at_boundary() -> None:
        if cuda.is_initialized() and agent.phases.phase in (records.CLEAN, records.AFTER):
            held = cuda.memory_stats_as_nested_dict()
            allocated = held["allocated_bytes"]["all"]["current"]
            reserved = held["reserved_bytes"]["all"]["current"]
            agent.record(records.MEMORY, time.perf_counter(), float(reserved), float(allocated))

    def at_phase(phase: int) -> None:
        if cuda.is_initialized() and agent.phases.phase == records.CLEAN:
            reserved, allocated = cuda.max_memory_reserved(), cuda.max_memory_allocated()
            agent.record(records.MEMORY, time.perf_counter(), float(reserved), float(allocated), flags=records.PEAK)

    agent.at_boundaries.append(at_boundary)
    agent.at_phases.append(at_phase)
