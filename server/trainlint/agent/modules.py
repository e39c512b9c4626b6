"""What the job's modules hold, without a call of their own code: a model may do more than answer when it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .attributes import attributes_of


def parameters_of(module: Any) -> Iterator[Any]:
    """The parameters of a module and of all those in it, each once."""
    seen: set[int] = set()
    waiting = [module]
    while waiting:
        held = attributes_of(waiting.pop())
        for value in (*held.get("_modules", {}).values(), *held.get("_parameters", {}).values()):
            if value is None or id(value) in seen:
                continue
            seen.add(id(value))
            if "_parameters" in attributes_of(value):
                waiting.append(value)
            else:
                yield value


def is_training(module: Any) -> bool:
    """Whether a module is in training mode."""
    return bool(attributes_of(module).get("training", True))
