"""Batches and updates, from the scopes that torch itself opens around them for its profiler.

`DataLoader` iterators and `Optimizer.step` run inside a `record_function` scope with a name of their own. Watching the
scopes needs no hook that `torch.compile` would trace and no wrapper that would show in a traceback.
"""

from __future__ import annotations

import functools
import sys
import time
from types import FrameType
from typing import Any, Protocol

from .agent import Agent

clock = time.perf_counter


class Watcher(Protocol):
    """Is told of scopes whose name begins with its prefix."""

    prefix: str

    def enter(self, frame: FrameType) -> object:
        """The scope begins in `frame`; what is returned is handed to `leave`."""

    def leave(self, frame: FrameType, start: float, kept: object, error: object) -> None:
        """The scope ends; `error` is the class of the exception that ends it, or None."""


def install(agent: Agent) -> None:
    from .loaders import Batches
    from .optimizers import Updates

    scope: Any = agent.torch.autograd.profiler.record_function
    watchers: tuple[Watcher, ...] = (Batches(agent), Updates(agent))
    agent.replace(scope, "__enter__", _entering(agent, scope.__enter__, watchers))
    agent.replace(scope, "__exit__", _leaving(agent, scope.__exit__))


def _entering(agent: Agent, original: Any, watchers: tuple[Watcher, ...]) -> Any:
    @functools.wraps(original)
    def __enter__(self: Any) -> Any:  # noqa: N807 - takes its place
        if agent.on:
            frame = sys._getframe(1)
            with agent.working("scope"):
                for watcher in watchers:
                    if self.name.startswith(watcher.prefix):
                        kept = watcher.enter(frame)
                        self._trainlint = watcher, clock(), kept
                        break
        return original(self)

    return __enter__


def _leaving(agent: Agent, original: Any) -> Any:
    @functools.wraps(original)
    def __exit__(self: Any, exc_type: Any, exc_value: Any, traceback: Any) -> Any:  # noqa: N807 - takes its place
        watched = self.__dict__.pop("_trainlint", None)
        left = original(self, exc_type, exc_value, traceback)
        if watched is not None and agent.on:
            watcher, start, kept = watched
            frame = sys._getframe(1)
            with agent.working("scope"):
                watcher.leave(frame, start, kept, exc_type)
        return left

    return __exit__
