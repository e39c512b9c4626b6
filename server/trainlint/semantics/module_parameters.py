"""What parameters a module has: those that it registers, and those of the layers that it consists of."""

from __future__ import annotations

from collections.abc import Iterator

from trainlint.semantics import classes, code, library, object_types
from trainlint.semantics.state import Frame
from trainlint.semantics.text import dotted
from trainlint.semantics.values import Function, Instance, Listing, Object, Unknown, Value, options

DEEPEST_MODULE = 8
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


def lacks_parameters(frame: Frame, model: Instance, depth: int = 0) -> bool:
    """Whether a module of the project's own has no parameters, as far as can be told: none is registered, and no layer
    that has some is assigned. What a constructor is given under a name that says nothing may be one all the same."""
    if classes.library_bases(model.cls) != {"torch.nn.Module"} or depth > DEEPEST_MODULE:
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
        if may_have_parameters(option):
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


def may_have_parameters(value: Value | None) -> bool:
    """Whether a value is a submodule with parameters, as far as can be told."""
    if isinstance(value, Instance):
        return classes.is_module_class(value.cls)
    return (
        isinstance(value, Object)
        and value.type == object_types.MODEL
        and not value.frozen
        and not library.has_no_parameters(value.origin)
    )
