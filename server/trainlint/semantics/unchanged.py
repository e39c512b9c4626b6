"""Which variables and attributes stay the same while a loop turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainlint.semantics import classes, code, library
from trainlint.semantics.state import Frame, ModuleState, Role
from trainlint.semantics.text import dotted
from trainlint.semantics.values import Instance

FRAMEWORK_LOOP = -1
"""Index that stands for the loop of a framework, which calls a hook of the user's class at each step."""


def unchanged_loops(frame: Frame, node: code.Expression) -> frozenset[int]:
    """The open loops, by index, whose turns all find the same object in `node`, with the same content.

    Told of variables of the function that holds the loop, of globals that are bound once, and of attributes that only
    constructors set. What is handed to code that is not torch's may be changed there.
    """
    if isinstance(node, code.Name):
        return _loops_around_variable(frame, node.id)
    if isinstance(node, code.Attribute) and isinstance(node.value, code.Name) and frame.function is not None:
        receiver = frame.variables.get(node.value.id)
        if isinstance(receiver, Instance) and _is_receiver(frame, node.value.id):
            return _all_loops(frame) if _only_constructed(frame, receiver, node.name) else frozenset()
    return frozenset()


def _all_loops(frame: Frame) -> frozenset[int]:
    first = FRAMEWORK_LOOP if frame.where.root.role in (Role.STEP, Role.FORWARD) else 0
    return frozenset(range(first, len(frame.where.loops)))


def _loops_around_variable(frame: Frame, name: str) -> frozenset[int]:
    if name in frame.variables and name not in frame.globals:
        return frozenset(
            frame.loop_base + offset
            for offset, (before, body) in enumerate(zip(frame.before_loops, frame.loop_bodies, strict=True))
            if name in before and not changes(body, name)
        )
    if frame.function is None or frame.enclosing is not None or not _bound_once(frame, frame.module, name):
        return frozenset()
    return _all_loops(frame)


def _bound_once(frame: Frame, module: ModuleState, name: str) -> bool:
    """Whether one statement of the module binds a global, and none of the module's functions does."""
    if len(module.units.binders.get(name, ())) != 1:
        return False
    module.whole = True
    indices = range(len(module.facts.functions))
    using = [index for index in indices if name in module.facts.words(index)]
    return not any(changes(frame.run.body(module, index), name) for index in using)


def _is_receiver(frame: Frame, name: str) -> bool:
    """Whether a variable is the first parameter of the method that runs."""
    function = frame.function
    define = function.define if function is not None else None
    parameters = define.parameters if isinstance(define, code.Define) else ()
    return function is not None and function.owner is not None and bool(parameters) and parameters[0].name == name


def _only_constructed(frame: Frame, receiver: Instance, name: str) -> bool:
    """Whether no method but constructors of an object's class changes an attribute."""
    for method, define in classes.other_methods(receiver.cls):
        body = frame.run.body(method.module, define.body)
        if define.parameters and changes(body, f"{define.parameters[0].name}.{name}"):
            return False
    return True


_TORCH = ("torch.", "F.", "nn.", "functional.")


def changes(block: code.Block, path: str) -> bool:
    """Whether code may change what a dotted path holds: by binding it, by writing into it, by a method that works in
    place, or by giving it to code that may do so."""
    return any(_changes(item, path) for item in code.walk(block))


def _changes(item: Any, path: str) -> bool:
    if isinstance(item, code.Scope):
        return path in item.names
    if isinstance(item, code.Assign):
        renamed = any(_is_of(part, path) for part in _parts(item.value))
        return renamed or any(_binds(target, path) for target in item.targets)
    if isinstance(item, code.Augment | code.For | code.Walrus):
        return _binds(item.target, path)
    if isinstance(item, code.With):
        return any(one.target is not None and _binds(one.target, path) for one in item.items)
    if isinstance(item, code.Delete):
        return any(_binds(target, path) for target in item.targets)
    return isinstance(item, code.Call) and _call_changes(item, path)


def _call_changes(item: code.Call, path: str) -> bool:
    receiver = code.receiver_of(item)
    if receiver is not None and _is_of(receiver, path):
        method = item.function.name if isinstance(item.function, code.Attribute) else ""
        if (method.endswith("_") and not method.startswith("__")) or method in ("numpy", "setdefault", "update"):
            return True
    given = [argument for argument in item.arguments if any(_is_of(part, path) for part in _parts(argument.value))]
    if not given:
        return False
    reads_only = dotted(item.function).startswith(_TORCH)
    return any(argument.keyword == "out" for argument in given) or not reads_only


def _parts(node: code.Expression | None) -> Iterator[Any]:
    """What an expression hands on as it is: itself, or the items of a list."""
    if isinstance(node, code.Sequence):
        for item in node.items:
            yield from _parts(item)
    elif isinstance(node, code.Starred):
        yield node.value
    else:
        yield node


def _binds(target: Any, path: str) -> bool:
    return any(_is_of(part, path) for part in _parts(target))


def _is_of(node: Any, path: str) -> bool:
    """Whether an expression is what a path holds, an item of it, or an attribute of it."""
    while isinstance(node, code.Subscript):
        node = node.value
    written = dotted(node) if isinstance(node, code.Name | code.Attribute) else ""
    described = written.rpartition(".")[2] in _DESCRIBING
    return written == path or (written.startswith(f"{path}.") and not described)


_DESCRIBING = library.HOST_ATTRIBUTES | {"device"}
"""Attributes of a tensor that tell about it, and through which its content cannot be changed."""
