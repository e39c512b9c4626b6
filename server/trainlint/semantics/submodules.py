"""Submodules: which of them the forward of a model leaves out, so that their parameters get no gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainlint.semantics import classes, code, library, object_types
from trainlint.semantics.state import Frame
from trainlint.semantics.text import called_name, dotted
from trainlint.semantics.values import Function, Instance, Listing, Object, Unknown, Value, options
from trainlint.semantics.vocabulary import Known


def conditional_forward(frame: Frame, model: Value) -> Known:
    """Whether a model's forward leaves submodules out under a condition; unknown for code outside the project."""
    found = {_conditional(frame, option) for option in options(model)}
    return found.pop() if len(found) == 1 else Known.UNKNOWN


def note_trained(frame: Frame, model: Value, *, steps: tuple[str, ...] = ("forward",)) -> None:
    """Note that a framework trains a model, by the methods `steps`."""
    found = {_conditional(frame, option, steps) for option in options(model)}
    entry = frame.run.entry
    entry.conditional_forwards = tuple(sorted({*entry.conditional_forwards, *found}))


def _conditional(frame: Frame, model: Value, steps: tuple[str, ...] = ("forward",)) -> Known:
    if isinstance(model, Object):
        runs_all = library.ALL_PARAMETERS_RUN.match(model.origin)
        if runs_all or model.origin.startswith(("torchvision.models", "torch.nn.")):
            return Known.NO
        return (
            conditional_forward(frame, model.inner)
            if model.inner is not None and model.type != object_types.MODEL
            else Known.UNKNOWN
        )
    if not isinstance(model, Instance):
        return Known.UNKNOWN
    found = [member for name in steps if isinstance(member := classes.find_member(model.cls, name), Function)]
    if not found:
        return Known.UNKNOWN
    model.settle()
    seen: set[int] = set()
    skips = any(_trains_in_parts(frame, method) or _skips_submodules(frame, model, method, seen) for method in found)
    return Known.YES if skips or _forgets_submodules(frame, model) else Known.NO


def _trains_in_parts(frame: Frame, step: Function) -> bool:
    """Whether a step goes backward several times, or for one of several optimizers, so that a backward pass may leave
    out what another one trains: the generator while the discriminator is trained."""
    define = step.define
    if not isinstance(define, code.Define):
        return False
    passes = _backward_passes(frame, step, define.body)
    return passes > 1 or any(parameter.name == "optimizer_idx" for parameter in define.parameters)


def _backward_passes(frame: Frame, step: Function, body: int) -> int:
    """How many calls in a body, and in the functions that it defines, go backward."""
    count = 0
    for node in code.walk(frame.run.body(step.module, body)):
        if isinstance(node, code.Define):
            count += _backward_passes(frame, step, node.body)
        elif isinstance(node, code.Call) and isinstance(node.function, code.Attribute):
            count += node.function.name in ("manual_backward", "backward")
    return count


def _forgets_submodules(frame: Frame, model: Instance) -> bool:
    """Whether a layer of a model is assigned, and mentioned nowhere else in its classes."""
    layers = {name for name, value in model.attributes.items() if _is_layer(value)}
    for cls in classes.lineage(model.cls):
        for member in cls.members.values():
            if isinstance(member, Function) and isinstance(member.define, code.Define):
                read = _attributes_read(frame.run.body(member.module, member.define.body))
                if not read.isdisjoint(_ALL_SUBMODULES):
                    return False
                layers -= read
    return bool(layers)


_ALL_SUBMODULES = frozenset(("children", "named_children", "_modules", "getattr"))
"""Ways to reach a submodule without its name."""


def _attributes_read(body: code.Block) -> set[str]:
    """The names of the attributes that a body reads, and of the functions it mentions."""
    assigned = {
        target.at
        for node in code.walk(body)
        if isinstance(node, code.Assign)
        for target in node.targets
        if isinstance(target, code.Attribute)
    }
    names = {node.name for node in code.walk(body) if isinstance(node, code.Attribute) and node.at not in assigned}
    return names | {node.id for node in code.walk(body) if isinstance(node, code.Name)}


def _skips_submodules(frame: Frame, model: Instance, function: Function, seen: set[int]) -> bool:
    define = function.define
    if not isinstance(define, code.Define) or define.body in seen:
        return False
    seen.add(define.body)
    body = frame.run.body(function.module, define.body)
    for item in code.walk(body):
        if isinstance(item, code.If | code.Conditional | code.Try) and _calls_submodule(model, item):
            return True
        if isinstance(item, code.For) and any(isinstance(inner, code.Leave) for inner in code.walk(item.body)):
            return True
        if isinstance(item, code.Call) and _calls_skipping(frame, model, item, seen):
            return True
    return False


def _calls_skipping(frame: Frame, model: Instance, call: code.Call, seen: set[int]) -> bool:
    """Whether a call runs a method or a submodule of the model that leaves something out under a condition."""
    if isinstance(call.function, code.Name):
        forward = classes.find_member(model.cls, "forward") if call.function.id == "self" else None
        return isinstance(forward, Function) and _skips_submodules(frame, model, forward, seen)
    if not isinstance(call.function, code.Attribute) or dotted(call.function.value) != "self":
        return False
    member = classes.find_member(model.cls, call.function.name)
    if isinstance(member, Function) and _skips_submodules(frame, model, member, seen):
        return True
    attribute = model.attributes.get(call.function.name)
    return isinstance(attribute, Instance) and len(seen) < 40 and _conditional(frame, attribute) is Known.YES


def _calls_submodule(model: Instance, node: Any) -> bool:
    """Whether one branch of a condition runs a submodule that another does not."""
    if isinstance(node, code.Try):
        return False
    branches = [node.body, node.orelse]
    used = [_submodules_used(model, branch) for branch in branches]
    return used[0] != used[1]


def _submodules_used(model: Instance, branch: object) -> set[str]:
    names = set()
    for item in code.walk(branch):
        if isinstance(item, code.Attribute) and isinstance(item.value, code.Name) and item.value.id == "self":
            names |= {item.name} if _is_layer(model.attributes.get(item.name)) else set()
    return names


_DEEPEST_LAYER = 8
"""Modules inside of modules are looked through this deep."""
_REGISTERING = frozenset({"Parameter", "register_parameter", "add_module", "register_module"})


def keeps_buffers_alone(frame: Frame, model: Instance) -> bool:
    """Whether a module of the project's own has no parameters, so that its calls need no gradients.

    What is assigned to an attribute is a constant or made by torch; anything else may be a submodule.
    """
    known = frame.run.buffers_alone.get(id(model.cls))
    if known is None:
        known = frame.run.buffers_alone[id(model.cls)] = _keeps_buffers_alone(frame, model)
    return known


def _keeps_buffers_alone(frame: Frame, model: Instance) -> bool:
    if classes.library_bases(model.cls) != {"torch.nn.Module"}:
        return False
    for cls in classes.lineage(model.cls):
        for member in cls.members.values():
            if isinstance(member, Function) and isinstance(member.define, code.Define):
                body = frame.run.body(member.module, member.define.body)
                if not _REGISTERING.isdisjoint(member.module.facts.words(member.define.body)):
                    return False
                if not all(_is_of_torch(value) for value in _assigned_to_self(body)):
                    return False
    return True


_DIFFERENTIATING = frozenset({"grad", "jacobian", "hessian", "vjp", "jvp"})
"""Functions of `torch.autograd` that return derivatives, by the name that they are called by."""
_RECORDING = frozenset({"enable_grad", "set_grad_enabled"})


def differentiates(frame: Frame, model: Instance) -> bool:
    """Whether the forward of a model asks for derivatives itself, as one does that tells forces by its energy: it needs
    autograd in evaluation too, unless it switches that on."""
    known = frame.run.differentiating.get(id(model.cls))
    if known is None:
        known = frame.run.differentiating[id(model.cls)] = _differentiates(frame, model, 0)
    return known


def _differentiates(frame: Frame, model: Instance, depth: int) -> bool:
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
    model.settle()
    parts = (option for value in model.attributes.values() for option in options(value))
    return depth < _DEEPEST_LAYER and any(
        _differentiates(frame, part, depth + 1)
        for part in parts
        if isinstance(part, Instance) and part is not model and classes.is_module_class(part.cls)
    )


def lacks_parameters(frame: Frame, model: Instance, depth: int = 0) -> bool:
    """Whether a module of the project's own has no parameters, as far as can be told: none is registered, and no layer
    that has some is assigned. What a constructor is given under a name that says nothing may be one all the same."""
    if classes.library_bases(model.cls) != {"torch.nn.Module"} or depth > _DEEPEST_LAYER:
        return False
    model.settle()
    for cls in classes.lineage(model.cls):
        for member in cls.members.values():
            if isinstance(member, Function) and isinstance(member.define, code.Define):
                frame.run.read.add((member.module.path, member.define.body))
                if not _REGISTERING.isdisjoint(member.module.facts.words(member.define.body)):
                    return False
    return not any(_has_parameters(frame, value, depth) for value in model.attributes.values())


def is_frozen_alone(frame: Frame, model: Instance) -> bool:
    """Whether all that a module of the project's own consists of is known, and its layers were made frozen."""
    if not lacks_parameters(frame, model):
        return False
    held = [option for value in model.attributes.values() for option in options(value)]
    return any(isinstance(one, Object) and one.frozen for one in held) and not any(
        isinstance(one, Unknown | Instance) for one in held
    )


def _has_parameters(frame: Frame, value: Value, depth: int) -> bool:
    """Whether what an attribute holds is a layer with parameters, or a list of such."""
    for option in options(value.item if isinstance(value, Listing) else value):
        if isinstance(option, Instance) and lacks_parameters(frame, option, depth + 1):
            continue
        if _is_layer(option):
            return True
    return False


def _assigned_to_self(body: code.Block) -> Iterator[code.Expression]:
    """What a block assigns to attributes, to several at once included."""
    for item in code.walk(body):
        if not isinstance(item, code.Assign):
            continue
        targets = [
            one for target in item.targets for one in (target.items if isinstance(target, code.Sequence) else [target])
        ]
        if any(isinstance(target, code.Attribute) for target in targets):
            yield item.value if item.value is not None else code.Constant(None, item.at)


def _is_of_torch(value: code.Expression) -> bool:
    if isinstance(value, code.Call):
        path = dotted(value.function)
        return path.startswith("torch.") and not path.startswith("torch.nn.")
    return isinstance(value, code.Constant | code.Opaque)


def _is_layer(value: Value | None) -> bool:
    """Whether a value is a submodule with parameters, as far as can be told."""
    if isinstance(value, Instance):
        return classes.is_module_class(value.cls)
    return (
        isinstance(value, Object)
        and value.type == object_types.MODEL
        and not value.frozen
        and not library.has_no_parameters(value.origin)
    )
