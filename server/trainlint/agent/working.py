"""The agent's own work in the midst of the job's: the job notices nothing of it, and its faults are the agent's.

While the agent works, torch.compile does not look at frames, and no function mode or tensor class of the job is told
of what is read off a tensor. An exception that the work raises turns the agent off; one that a handler of the job
raises, because a signal came just then, goes on to the job as if it had come a line later.
"""

from __future__ import annotations

import functools
import signal
import sys
from types import CodeType, FunctionType, MethodType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent import Agent


class Working:
    """Entered around the agent's work in a hook; `where` names the hook."""

    __slots__ = ("_agent", "_functions", "_look", "_where")

    def __init__(self, agent: Agent, where: str) -> None:
        self._agent = agent
        self._where = where

    def __enter__(self) -> None:
        self._look = self._agent.look(None)
        self._functions = self._agent.torch._C.DisableTorchFunction()
        self._functions.__enter__()

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        self._functions.__exit__(None, None, None)
        self._agent.look(self._look)
        if error is None:
            return False
        if isinstance(error, Exception) and not is_of_the_job(error):
            self._agent.fault(self._where, error)
            return True
        error.__traceback__ = without_agent(error.__traceback__)
        return False


def is_of_the_job(error: BaseException) -> bool:
    """Whether a handler of a signal, or a trace function, raised an exception."""
    handlers: set[Any] = {_code(signal.getsignal(number)) for number in signal.valid_signals()}
    handlers.add(_code(sys.gettrace()))
    handlers.discard(None)
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def _code(handler: Any) -> CodeType | None:
    while isinstance(handler, functools.partial):
        handler = handler.func
    if isinstance(handler, MethodType):
        handler = handler.__func__
    elif not isinstance(handler, FunctionType):
        handler = vars(type(handler)).get("__call__")
    return getattr(handler, "__code__", None)


def without_agent(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the first frame on that is none of the agent's."""
    package = __name__.rpartition(".")[0]
    while trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith(package):
        trace = trace.tb_next
    return trace
