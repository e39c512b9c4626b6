"""Functions of torch and of libraries with something done after each call, in a way that the job does not notice."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from .compilers import DISGUISED

if TYPE_CHECKING:
    from .agent import Agent

After = Callable[[tuple[Any, ...], Any, float, FrameType], None]
"""Takes the call's arguments, its result, its start, and the frame that called."""
Before = Callable[[tuple[Any, ...], dict[str, Any]], None]
"""Takes the call's arguments."""


def wrapped(agent: Agent, original: Any, where: str, after: After) -> Any:
    """`original`, with `after` called where it returned.

    The new function's code says that it is from the file of the original, by which `logging` and `torch.compile` tell
    what to skip, and it leaves no frame in a traceback (from Python 3.11 on: before, an exception keeps what it had).
    """

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        start = clock()
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ is not None else None
            raise
        if agent.on:
            frame = sys._getframe(1)
            with agent.working(where):
                after(args, result, start, frame)
        return result

    disguise(call, original)
    return call


def preceded(agent: Agent, original: Any, where: str, before: Before) -> Any:
    """A method, with `before` called ahead of each call."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if agent.on:
            with agent.working(where):
                before(args, kwargs)
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ is not None else None
            raise

    disguise(call, original)
    return call


def disguise(function: Any, original: Any) -> None:
    """Have a function's code say that it is another's."""
    code = getattr(original, "__code__", None)
    if code is not None:
        own = function.__code__.replace(co_filename=code.co_filename, co_name=code.co_name)
        function.__code__ = own.replace(co_qualname=code.co_qualname) if hasattr(code, "co_qualname") else own
        DISGUISED.append(function.__code__)


clock = time.perf_counter
