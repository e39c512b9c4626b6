"""Unused parameters: whether a model's forward leaves submodules out, so that their parameters get no gradient."""

from __future__ import annotations

from typing import Any

from trainlint.semantics import classes, code, library, module_parameters, object_types
from trainlint.semantics.state import Frame
from trainlint.semantics.text import dotted
from trainlint.semantics.values import Function, Instance, Object, Value, options
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
    layers = {name for name, value in model.attributes.items() if module_parameters.may_have_parameters(value)}
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
            names |= {item.name} if module_parameters.may_have_parameters(model.attributes.get(item.name)) else set()
    return names
