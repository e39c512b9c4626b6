"""Whether evaluation records a graph: the gradient mode and the model's mode when a batch is asked for."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

from . import records
from .agent import Agent
from .attributes import attributes_of
from .modules import is_training, parameters_of


class Evaluation:
    """The job's model, and the modes in which it was given batches."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._model: Any = None
        self._noted: set[bool] = set()

    def phase(self, begins: int) -> None:
        if begins == records.CLEAN:
            self._model = _largest_model(self._agent.torch)

    def batch(self, gradients: bool) -> None:
        """A batch is delivered; those that a model in evaluation mode gets with gradients enabled record a graph."""
        if gradients in self._noted:
            return
        model: Any = self._model() if self._model is not None else None
        if gradients and (model is None or is_training(model)):
            return
        self._noted.add(gradients)
        require = gradients and model is not None and any(one.requires_grad for one in parameters_of(model))
        self._agent.channel.note("evaluation", outputs_require_grad=require, gradients_enabled=gradients)


def install(agent: Agent) -> None:
    evaluation = Evaluation(agent)
    agent.at_batches.append(evaluation.batch)
    agent.at_phases.append(evaluation.phase)


def _largest_model(torch: Any) -> Any:
    """A weak reference to the module with the most parameters; the outermost one of several."""
    modules = [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module)]
    inner = {id(child) for module in modules for child in attributes_of(module).get("_modules", {}).values()}
    outer = [one for one in modules if id(one) not in inner and "_modules" in attributes_of(one)]
    largest = max(outer, key=lambda one: sum(parameter.numel() for parameter in parameters_of(one)), default=None)
    return ref(largest) if largest is not None else None
