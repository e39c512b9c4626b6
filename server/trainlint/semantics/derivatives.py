"""Derivatives: which forwards ask for them, as one does that tells forces by an energy."""

from __future__ import annotations

from trainlint.semantics import classes, code
from trainlint.semantics.module_parameters import DEEPEST_MODULE
from trainlint.semantics.state import Frame
from trainlint.semantics.text import called_name
from trainlint.semantics.values import Function, Instance, options

_DIFFERENTIATING = frozenset({"grad", "jacobian", "hessian", "vjp", "jvp"})
"""Functions of `torch.autograd` that return derivatives, by the name that they are called by."""
_RECORDING = frozenset({"enable_grad", "set_grad_enabled"})
"""What switches autograd on for them."""


def differentiates(frame: Frame, model: Instance) -> bool:
    """Whether the forward of a model asks for derivatives itself, as one does that tells forces by its energy: it needs
    autograd in evaluation too, unless it switches that on."""
    known = frame.run.differentiating.get(id(model.cls))
    if known is None:
        known = frame.run.differentiating[id(model.cls)] = _differentiates(frame, model, 0)
    return known


def _differentiates(frame: Frame, model: Instance, depth: int) -> bool:
    if _asks_for_derivatives(frame, model):
        return True
    model.settle()
    parts = (option for value in model.attributes.values() for option in options(value))
    return depth < DEEPEST_MODULE and any(
        _differentiates(frame, part, depth + 1)
        for part in parts
        if isinstance(part, Instance) and part is not model and classes.is_module_class(part.cls)
    )


def _asks_for_derivatives(frame: Frame, model: Instance) -> bool:
    """Whether the forward of a model, or a function that it leads to, asks for derivatives and leaves it to its callers
    whether autograd records."""
    forward = classes.find_member(model.cls, "forward")
    waiting = [forward] if isinstance(forward, Function) else []
    seen: set[int] = set()
    while waiting:
        function = waiting.pop()
        if id(function.define) in seen or not isinstance(function.define, code.Define):
            continue
        seen.add(id(function.define))
        body = frame.run.body(function.module, function.define.body)
        words = function.module.facts.words(function.define.body)
        if not _DIFFERENTIATING.isdisjoint(words) and _RECORDING.isdisjoint(words):
            calls = (item for item in code.walk(body) if isinstance(item, code.Call))
            if any(called_name(call.function) in _DIFFERENTIATING for call in calls):
                return True
        named = (classes.find_member(model.cls, word) or function.module.variables.get(word) for word in words)
        waiting += [one for one in named if isinstance(one, Function)]
    return False
