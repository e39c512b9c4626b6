"""Autograd graphs across the turns of a loop: whether one turn may need the graph of another."""

from __future__ import annotations

from trainlint.semantics import classes, code, expressions, object_types
from trainlint.semantics.state import Frame
from trainlint.semantics.text import dotted
from trainlint.semantics.values import (
    Bound,
    Choice,
    Class,
    Const,
    DeviceValue,
    Function,
    Host,
    Instance,
    Listing,
    Method,
    ModuleValue,
    Object,
    Option,
    Reference,
    Table,
    Tensor,
    Test,
    Tuple,
    Value,
)

_WITHOUT_GRAPH = frozenset(
    {
        object_types.OPTIMIZER,
        object_types.SCHEDULER,
        object_types.SCALER,
        object_types.LOADER,
        object_types.SAMPLER,
        object_types.ITERATOR,
        object_types.ENUMERATE,
        object_types.PROGRESS,
        object_types.RANGE,
        object_types.LOGGER,
        object_types.TRACKER,
        object_types.AUTOCAST,
    }
)
_KEEPING = frozenset({"append", "extend", "insert", "add", "update", "setdefault", "register_buffer"})
"""Methods by which an object puts something away."""
_DEEPEST = 4


def end_with_step(frame: Frame) -> bool:
    """Whether no graph is carried from one turn of the innermost loop to the next, or into that loop, for certain.

    The loop has to stand in the function that runs. What its body uses of the time before it, and what one turn leaves
    to the next, must be known and hold no graph; and nobody that is not known may be given a part of the graph.
    """
    if not frame.loop_bodies or len(frame.where.loops) != frame.loop_base + len(frame.loop_bodies):
        return False
    body, before = frame.loop_bodies[-1], frame.before_loops[-1]
    binds_first = _first_mentions(body)
    carried = [name for name, binds in binds_first.items() if name in before or not binds]
    known = [value for name in carried if (value := frame.lookup(name)) is not None]
    if not all(_holds_none(frame, value, 0) for value in known):
        return False
    with_graph, _ = frame.run.nodes.flows(body)
    calls = (item for item in code.walk(body) if isinstance(item, code.Call))
    return not any(_gives_away(frame, call, with_graph) for call in calls)


def _first_mentions(body: code.Block) -> dict[str, bool]:
    """For each variable that a block mentions, whether the first mention in its text is one that binds it."""
    binding: set[int] = set()
    for item in code.walk(body):
        targets: tuple[code.Expression, ...] = ()
        if isinstance(item, code.Assign):
            targets = item.targets
        elif isinstance(item, code.For | code.Walrus):
            targets = (item.target,)
        elif isinstance(item, code.With):
            targets = tuple(one.target for one in item.items if one.target is not None)
        binding.update(id(part) for target in targets for part in _parts(target) if isinstance(part, code.Name))
    first: dict[str, tuple[tuple[int, int], bool]] = {}
    for item in code.walk(body):
        if isinstance(item, code.Name):
            row, column, _, _ = code.unpack(item.at)
            if item.id not in first or (row, column) < first[item.id][0]:
                first[item.id] = (row, column), id(item) in binding
    return {name: binds for name, (_, binds) in first.items()}


def _parts(target: code.Expression) -> tuple[code.Expression, ...]:
    return target.items if isinstance(target, code.Sequence) else (target,)


def _holds_none(frame: Frame, value: Value, depth: int) -> bool:
    """Whether a value is known, no graph hangs on it, and none is kept in it from one step to the next."""
    if depth > _DEEPEST:
        return False
    deeper = depth + 1
    if isinstance(value, Const | Host | Option | Test | Reference | DeviceValue | Function | Class | ModuleValue):
        return True
    if isinstance(value, Tensor):
        return not value.keeps_graph and (value.registered or value.created or value.loader is not None)
    if isinstance(value, Object):
        if value.type in _WITHOUT_GRAPH:
            return True
        of_torch = value.type == object_types.MODEL and value.origin.startswith(("torch.nn.", "torchvision."))
        return of_torch and value.proved and (value.inner is None or _holds_none(frame, value.inner, deeper))
    if isinstance(value, Instance):
        return _keeps_no_state(frame, value, deeper)
    if isinstance(value, Listing):
        return _holds_none(frame, value.item, deeper)
    if isinstance(value, Tuple):
        return all(_holds_none(frame, item, deeper) for item in value.items)
    if isinstance(value, Table):
        items = [item for _, item in value.items] + ([value.rest] if value.rest is not None else [])
        return all(_holds_none(frame, item, deeper) for item in items)
    if isinstance(value, Choice):
        return all(_holds_none(frame, item, deeper) for item in value.options)
    return isinstance(value, Bound | Method) and _holds_none(frame, value.receiver, deeper)


def _keeps_no_state(frame: Frame, value: Instance, depth: int) -> bool:
    """Whether an object is a model of the project whose methods, but for constructors, put nothing away in it."""
    if not classes.is_module(value):
        return False
    for cls in classes.lineage(value.cls):
        for member in cls.members.values():
            if not isinstance(member, Function) or not isinstance(member.define, code.Define):
                continue
            body = frame.run.body(member.module, member.define.body)
            if member.define.name != "__init__" and any(_puts_away(item) for item in code.walk(body)):
                return False
    return all(_holds_none(frame, attribute, depth) for attribute in value.attributes.values())


def _puts_away(item: object) -> bool:
    """`self.state = …`, `self.states.append(…)`, `self.states[key] = …`."""
    if isinstance(item, code.Assign):
        parts = [part for target in item.targets for part in _parts(target)]
        return any(isinstance(part, code.Attribute | code.Subscript) for part in parts)
    if isinstance(item, code.Augment):
        return isinstance(item.target, code.Attribute | code.Subscript)
    if isinstance(item, code.Call) and isinstance(item.function, code.Attribute):
        return item.function.name in _KEEPING
    return isinstance(item, code.Scope)


def _gives_away(frame: Frame, call: code.Call, with_graph: frozenset[str]) -> bool:
    """Whether a call hands something that the loss is computed from to code that is not known."""
    if not {dotted(argument.value) for argument in call.arguments} & with_graph:
        return False
    callee = expressions.evaluate_quietly(frame, call.function)
    if isinstance(callee, Reference):
        return not callee.name.startswith("torch.") and "." in callee.name
    if isinstance(callee, Function | Instance | Bound):
        return False
    if isinstance(callee, Object) and callee.type == object_types.MODEL and callee.proved:
        return False
    receiver = code.receiver_of(call)
    known = expressions.evaluate_quietly(frame, receiver) if receiver is not None else None
    return not (
        isinstance(known, Tensor | Listing)
        or (isinstance(known, Object) and known.type in _WITHOUT_GRAPH)
        or (isinstance(known, Reference) and known.name.startswith("torch"))
    )
