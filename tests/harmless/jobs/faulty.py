"""A training job in which one function of the agent, where there is an agent, always raises.

The names of the cases are those of functions, such as `steps:Steps.batch`. Each case starts the agent anew, so that
what it does at its start is among what may fail.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import gc
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

import cases
import torch


def _broken(*arguments: object, **named: object) -> None:
    __import__("builtins")._was_reached = True
    raise ValueError("made to fail")


def _with_broken(code: CodeType, name: str) -> CodeType:
    """The code of a function with the one of this qualified name, be it the same or inside it, broken."""
    if code.co_qualname == name:
        return _broken.__code__.replace(co_freevars=code.co_freevars, co_name=code.co_name)
    held = (_with_broken(one, name) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_consts=tuple(held))


def _functions(module: object) -> Iterator[FunctionType]:
    for value in list(vars(module).values()):
        for one in vars(value).values() if isinstance(value, type) else (value,):
            function = one.fget if isinstance(one, property) else one
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:  # type: ignore[attr-defined]
                yield function


def _break(name: str) -> None:
    module, _, function = name.partition(":")
    found = sys.modules.get("_trainlint_agent.agent")
    if found is None:
        return
    agent = print.agent  # type: ignore[attr-defined]
    agent.remove_hooks()
    for one in _functions(sys.modules["_trainlint_agent." + module]):
        one.__code__ = _with_broken(one.__code__, function)
    # As where it is called, when torch has been imported.
    with contextlib.suppress(ValueError):
        found.begin(agent.folder, agent._cwd)


def _train() -> None:
    training = cases.Training()
    scaler = torch.amp.GradScaler("cpu")
    logging.basicConfig(level=logging.INFO)
    for number, (x, y) in enumerate(training.loader):
        training.optimizer.zero_grad()
        loss = ((training.model(x) - y) ** 2).mean()
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.step(training.optimizer)
        scaler.update()
        logging.info("step %d", number)
        print(number, loss.item())
        if number in (3, 6):
            gc.collect()
            torch.save(training.model.state_dict(), "last.pt")
            with torch.no_grad():
                for batch in torch.utils.data.DataLoader(
                    [{"x": torch.ones(1), "attention_mask": torch.ones(3).long()}]
                ):
                    print(batch["x"])


def _case(name: str) -> None:
    _break(name)
    _train()
    if hasattr(builtins, "_was_reached"):
        Path("reached").touch()


cases.run({name: functools.partial(_case, name) for name in sys.argv[2:]})
