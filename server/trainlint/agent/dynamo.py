"""What code Dynamo has traced, in functions that it inlines too: from there on it runs as other code."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

from .agent import Agent
from .wrapping import wrapped


class Traced:
    """The code that was traced in a process."""

    def __init__(self) -> None:
        self.tells = True
        """False where this torch does not say what it traces."""
        self._tracings: list[list[CodeType]] = []
        """Of each tracing, as far as it has come."""

    def add(self, context: Any) -> None:
        """A tracing begins."""
        traced = getattr(context, "traced_code", None)
        if traced is None:
            self.tells = False
        else:
            self._tracings.append(traced)

    def codes(self) -> list[CodeType]:
        return [code for codes in self._tracings for code in codes]

    def may_use(self, name: str) -> bool:
        """Whether code that was traced may use a global name."""
        return not self.tells or any(name in code.co_names for code in self.codes())


def install(agent: Agent) -> None:
    agent.traced = traced = Traced()

    def begins(arguments: tuple[Any, ...], result: Any, start: float, frame: FrameType) -> None:
        traced.add(arguments[0])

    def follow() -> None:
        context: Any = sys.modules["torch._guards"].__dict__["TracingContext"]
        agent.replace(context, "__init__", wrapped(agent, context.__init__, "traced", begins))

    agent.with_compilers.append(follow)
