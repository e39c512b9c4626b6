"""Updates: each `step` of an optimizer, and what optimizer it was."""

from __future__ import annotations

import time
from types import FrameType
from typing import Any

from . import records
from .agent import Agent
from .identity import ByIdentity


class Updates:
    """Watches the scopes of `Optimizer.step`."""

    prefix = "Optimizer.step#"

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._labels: ByIdentity[str] = ByIdentity()
        self._count = 0
        agent.at_forks.append(self._labels.clear)

    def enter(self, frame: FrameType) -> object:
        return frame.f_locals.get("self")

    def leave(self, frame: FrameType, start: float, kept: object, error: object) -> None:
        agent = self._agent
        if error is not None or kept is None:
            return
        agent.trains()
        agent.stepped.add(id(kept))
        label = self._labels.get(kept)
        if label is None:
            label = self._learn(kept)
        agent.record(records.UPDATE, start, time.perf_counter() - start, name=agent.channel.name(label))
        if agent.in_training_thread():
            agent.steps.update(label)

    def _learn(self, optimizer: Any) -> str:
        self._count += 1
        kind = type(optimizer).__name__
        label = self._labels[optimizer] = kind if self._count == 1 else "%s %d" % (kind, self._count)
        parameters = sum(len(group["params"]) for group in optimizer.param_groups)
        channel = self._agent.channel
        channel.note("optimizer", name=channel.name(label), parameters=parameters, **{"class": kind})
        return label
