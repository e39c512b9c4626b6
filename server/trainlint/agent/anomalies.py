"""Whether autograd's anomaly mode was on in the clean steps: in the backward pass, or in the forward pass before it."""

from __future__ import annotations

from typing import Any

from . import records
from .agent import Agent

STACK = "traceback_"
"""Where autograd keeps the stack of the forward pass, in what it knows of an operation, if anomaly mode was on."""


class Anomalies:
    """Counts backward passes of the clean steps, and those with anomaly mode on."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._passes = self._with_mode = 0

    def count(self, roots: Any) -> None:
        """A backward pass begins at `roots`."""
        agent = self._agent
        if agent.phases.phase not in (records.CLEAN, records.AFTER):
            return
        self._passes += 1
        self._with_mode += bool(agent.torch.is_anomaly_enabled() or any(map(_has_stack, roots)))

    def phase(self, begins: int) -> None:
        if self._agent.phases.phase in (records.CLEAN, records.AFTER):
            self.say()

    def say(self) -> None:
        if self._passes:
            self._agent.channel.note("anomaly", passes=self._passes, with_mode=self._with_mode)


def _has_stack(root: Any) -> bool:
    operation = getattr(root, "grad_fn", None)
    return operation is not None and STACK in operation.metadata
