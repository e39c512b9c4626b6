"""Participation: whether the forward of a model is a part of a training step, where nobody is seen to call it.

Who trains the layers and models of a library is not in sight, so a forward is taken to be one. Some are the whole of
what they belong to, and nothing trains through them: those that run without gradients, that make an optimizer and fit
something with it, that apply models which were trained before.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainlint.semantics import code, library, module_parameters, naming, object_types
from trainlint.semantics.state import Frame
from trainlint.semantics.text import dotted
from trainlint.semantics.values import Function, Instance, Object, is_reference


def only_infers(forward: Function) -> bool:
    """Whether a forward is there to run a trained model: it switches gradients off, or its file exports models."""
    without_gradients = any(
        is_reference(decorator, *library.NO_GRADS)
        or (isinstance(decorator, Object) and decorator.type == object_types.NO_GRAD)
        for decorator in forward.decorators
    )
    return without_gradients or any(naming.EXPORT.search(word) for word in forward.module.name.split("."))


def is_doubtful(frame: Frame, forward: Function, model: Instance) -> bool:
    """Whether a forward that nobody is seen to call may as well be no part of any training step.

    It may where its class is named for applying models, or has no parameters and stands among transforms, which
    datasets put their items through, or gives results without a graph, as a solver does. Losses are a part of training,
    be they without parameters, and so are layers that cut gradients somewhere on their way.
    """
    name = naming.snake_case(model.cls.define.name)
    if naming.LOSS.search(name):
        return False
    among_transforms = forward.module.name.rpartition(".")[2] == "transforms"
    if among_transforms and module_parameters.lacks_parameters(frame, model):
        return True
    return naming.APPLIES_MODELS.search(name) or _solves(frame, forward, model)


def _solves(frame: Frame, forward: Function, model: Instance) -> bool:
    """Whether a forward computes, with no parameter of its own, what nothing can be trained through.

    One that asks whether it is in training is a part of it then, whatever it leaves out otherwise.
    """
    if not isinstance(forward.define, code.Define) or not module_parameters.lacks_parameters(frame, model):
        return False
    names = frozenset(parameter.name for parameter in forward.define.parameters)
    body = frame.run.body(forward.module, forward.define.body)
    if any(isinstance(item, code.Attribute) and item.name == "training" for item in code.walk(body)):
        return False
    return _returns_without_gradients(body) or _detaches(body, names)


def _returns_without_gradients(body: code.Block) -> bool:
    """Whether a result is returned from where no gradients are recorded."""
    return any(
        isinstance(inner, code.Return) and inner.value is not None
        for item in code.walk(body)
        if isinstance(item, code.With) and any(_switches_gradients_off(one.value) for one in item.items)
        for inner in code.walk(item.body)
    )


def _switches_gradients_off(manager: code.Expression) -> bool:
    if not isinstance(manager, code.Call) or manager.arguments:
        return False
    return dotted(manager.function).rpartition(".")[2] in ("no_grad", "inference_mode")


def _detaches(body: code.Block, inputs: frozenset[str]) -> bool:
    """Whether a forward goes on with its inputs without their graph: `points = points.detach()`."""
    for item in code.walk(body):
        name = _detached(item.value) if isinstance(item, code.Assign) else ""
        if name in inputs and any(isinstance(target, code.Name) and target.id == name for target in item.targets):
            return True
    return False


def _detached(value: code.Expression | None) -> str:
    """The name in `name.detach()`, whatever is called on the result; empty for anything else."""
    for call in _chain(value):
        if isinstance(call.function, code.Attribute) and call.function.name == "detach":
            return dotted(call.function.value)
    return ""


def _chain(value: code.Expression | None) -> Iterator[code.Call]:
    """The calls of methods on each other's results, the last one first."""
    while isinstance(value, code.Call):
        yield value
        value = value.function.value if isinstance(value.function, code.Attribute) else None
