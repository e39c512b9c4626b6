"""Being nothing to torch.compile: no frame of the agent is traced, and none is counted.

Dynamo looks at each Python frame that runs while compiled code does. The agent's code is marked to be left alone, and
what hooks call runs while Dynamo does not look.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from .imports import when_loaded

if TYPE_CHECKING:
    from .agent import Agent


def looking(torch: Any) -> Callable[[Any], Any]:
    """Sets what looks at frames, None for nothing, and returns what did until now."""
    evaluation = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    found: Any = getattr(evaluation, "set_eval_frame", None)
    return found if found is not None else lambda _: None


def install(agent: Agent) -> None:
    """Prepare for the loading of Dynamo, which may have been already."""

    def before() -> None:
        for call in agent.before_compilers:
            call()

    def loaded() -> None:
        _leave_alone()
        for call in agent.with_compilers:
            call()

    if "torch._dynamo" in sys.modules:
        before()
        loaded()
    else:
        agent.undo_with(when_loaded("torch._dynamo", loaded, before))


def _leave_alone() -> None:
    """Mark all code of the agent, by the functions that there are: some have code that was made for them."""
    skip: Any = sys.modules["torch._dynamo.eval_frame"].__dict__.get("skip_code")
    if skip is None:
        return
    package = __name__.rpartition(".")[0]
    for name, module in list(sys.modules.items()):
        if name.startswith(package + "."):
            for value in list(vars(module).values()):
                functions = vars(value).values() if isinstance(value, type) else (value,)
                for function in functions:
                    if isinstance(function, FunctionType) and function.__module__.startswith(package):
                        _mark(skip, function.__code__)
    for code in DISGUISED:
        _mark(skip, code)


def _mark(skip: Callable[[CodeType], None], code: CodeType) -> None:
    """Mark a function's code and that of the functions inside it."""
    skip(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _mark(skip, constant)


DISGUISED: list[CodeType] = []
"""Code of the agent that says to be from elsewhere."""
