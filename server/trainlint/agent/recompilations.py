"""How often torch.compile compiled during the clean steps, by its own counters."""

from __future__ import annotations

import sys
from typing import Any

from . import records
from .agent import Agent


def install(agent: Agent) -> None:
    start = 0

    def at_phase(begins: int) -> None:
        nonlocal start
        if agent.phases.phase in (records.CLEAN, records.AFTER) and _counters() is not None:
            breaks = sum(_counters().get("graph_break", {}).values())
            agent.channel.note("recompilations", start=start, end=_compiled(), graph_breaks=breaks)
        start = _compiled()

    agent.at_phases.append(at_phase)


def _counters() -> Any:
    return getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)


def _compiled() -> int:
    counters = _counters()
    return int(counters.get("stats", {}).get("unique_graphs", 0)) if counters is not None else 0
