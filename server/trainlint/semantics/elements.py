"""Loops of Python over the items of a tensor, whose turns depend on nothing but their own items.

Whatever is not understood tells against it: a turn that may depend on the one before, items of different sizes, a call
whose effect is not known. What is left could be computed for all items at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from trainlint.semantics import code, expressions, object_types
from trainlint.semantics.project import ElementLoop
from trainlint.semantics.state import Frame, LoopRun, Work
from trainlint.semantics.text import dotted
from trainlint.semantics.values import Bound, Class, Function, Instance, Object, Tensor, Tuple, Value
from trainlint.semantics.vocabulary import Place

_FEW = 8
"""Turns up to which a loop goes over a handful of things rather than over data."""


def note_loop(
    frame: Frame, node: code.For, iterated: Value, loop: LoopRun, before: frozenset[str], works: list[Work]
) -> None:
    """Record a `for` loop that computes with one item of a tensor at each turn, where nothing in it may have waited for
    the device. `before` are the names that were bound before it, `works` what its turns gave the device to compute."""
    few = loop.turns is not None and loop.turns <= _FEW
    if few or loop.over_data or loop.trains or loop.runs_step or loop.holds_steps:
        return
    inside = [work for work in works if work.where.loops == (*frame.where.loops, loop)]
    if inside and _runs_alike(node) and not _depends_on_last_turn(node.body, before):
        _note(frame, node.target, node.iterable, iterated, node.body, inside)


def note_comprehension(frame: Frame, node: code.Comprehension, iterated: Value, works: list[Work]) -> None:
    """Likewise a comprehension."""
    if len(node.clauses) != 1 or node.clauses[0].conditions or node.value is not None:
        return
    inside = [work for work in works if work.where.loops == frame.where.loops]
    clause = node.clauses[0]
    if inside and not any(isinstance(item, code.Conditional | code.Boolean) for item in code.walk(node.element)):
        _note(frame, clause.target, clause.iterable, iterated, node.element, inside)


def _note(
    frame: Frame,
    target: code.Expression,
    iterable: code.Expression,
    iterated: Value,
    body: Any,
    works: Iterable[Work],
) -> None:
    names = {item.id for item in code.walk(target) if isinstance(item, code.Name)}
    tensor = _gone_over(frame, iterable, iterated) or _indexed(frame, target, iterated, body)
    if not tensor or not _only_known_calls(frame, body):
        return
    names |= _made_of(body, names)
    if any(isinstance(item, code.Slice) and _mentions(item, names) for item in code.walk(body)):
        # parts of different sizes, for all that is known
        return
    own = [work for work in works if work.where.calls == frame.where.calls and _mentions(work.node, names)]
    if own:
        frame.run.record(
            ElementLoop,
            frame,
            "elements",
            site=frame.site(iterable.at),
            text=iterable,
            operand=own[0].node,
            tensor=tensor,
            work_site=own[0].site,
        )


# ------------------------------------------------------------------------------------------------ what is gone over


def _gone_over(frame: Frame, iterable: code.Expression, iterated: Value) -> str:
    """The tensor on the device whose items a loop gets, as it is written; empty if there is none."""
    if isinstance(iterated, Tensor):
        alike = _is_data(iterated) and _is_one(frame, iterable, iterated)
        return frame.run.nodes.text(iterable) if alike else ""
    if not isinstance(iterable, code.Call) or not isinstance(iterated, Object) or not iterable.arguments:
        return ""
    if iterated.type == object_types.ENUMERATE and iterated.inner is not None:
        return _gone_over(frame, iterable.arguments[0].value, iterated.inner)
    if iterated.type == object_types.ZIP and isinstance(iterated.inner, Tuple):
        parts = [
            _gone_over(frame, argument.value, part)
            for argument, part in zip(iterable.arguments, iterated.inner.items, strict=False)
        ]
        return parts[0] if parts and all(parts) else ""
    return ""


def _indexed(frame: Frame, target: code.Expression, iterated: Value, body: Any) -> str:
    """The tensor on the device of which each turn takes the item of its number: `x[i]` for `i` of a `range`."""
    if not (isinstance(iterated, Object) and iterated.type == object_types.RANGE and isinstance(target, code.Name)):
        return ""
    found = ""
    written = {id(one) for item in code.walk(body) for one in _targets(item)}
    taken = [item for item in code.walk(body) if isinstance(item, code.Subscript) and _is_key(item.key, target.id)]
    for item in sorted(taken, key=lambda one: one.at):
        value = expressions.evaluate_quietly(frame, item.value)
        # no list takes several indices at once
        several = isinstance(item.key, code.Sequence)
        if not isinstance(value, Tensor) or not (several or _is_one(frame, item.value, value)):
            # one of several layers, sizes or lists: they need not be alike
            return ""
        if not found and id(item) not in written and _is_data(value):
            found = dotted(item.value)
    return found


def _is_key(key: code.Expression, name: str) -> bool:
    keys = key.items if isinstance(key, code.Sequence) else (key,)
    return any(isinstance(one, code.Name) and one.id == name for one in keys)


def _is_data(value: Tensor) -> bool:
    """Whether a tensor surely lives on the device, and is no parameter."""
    return value.place is Place.DEVICE and value.proved and not value.registered


def _is_one(frame: Frame, node: code.Expression, value: Tensor) -> bool:
    """Whether an expression is one tensor, rather than perhaps a list of them."""
    made = not value.container and (value.created or value.registered)
    return value.single or made or _used_as_tensor(frame, dotted(node))


def _used_as_tensor(frame: Frame, path: str) -> bool:
    """Whether the function asks something of a name that only a tensor has."""
    define = frame.function.define if frame.function is not None else None
    if not path or not isinstance(define, code.Define):
        return False
    return path in frame.run.nodes.tensors(frame.run.body(frame.module, define.body))


# ------------------------------------------------------------------------------------------- what a turn depends on


_BRANCHES = (code.While, code.Try, code.Leave, code.Return, code.Match, code.For, code.With, code.Raise)
_OTHERWISE = (code.Conditional, code.Boolean, code.Yield, code.Await, code.Comprehension, code.Lambda, code.Walrus)


def _runs_alike(node: code.For) -> bool:
    """Whether each turn runs the same statements: conditions in it ask for nothing that a turn changes."""
    changing = {item.id for item in code.walk(node.target) if isinstance(item, code.Name)} | _written(node.body).keys()
    for item in code.walk(node.body):
        if isinstance(item, _BRANCHES + _OTHERWISE):
            return False
        if isinstance(item, code.If) and not _asks_for_settings(item.test, changing):
            return False
    return True


def _asks_for_settings(test: code.Expression, changing: set[str]) -> bool:
    """Whether a condition is the same at each turn, and about no tensor: names and attributes alone."""
    if isinstance(test, code.Unary):
        return test.op == "not" and _asks_for_settings(test.operand, changing)
    path = dotted(test) if isinstance(test, code.Name | code.Attribute) else ""
    return bool(path) and path not in changing and path.partition(".")[0] not in changing


def _depends_on_last_turn(body: code.Block, before: frozenset[str]) -> bool:
    """Whether a turn may read what an earlier one left: it binds, adds to or writes into what was there before the
    loop, and reads it elsewhere."""
    return any((path in before or "." in path) and _count(body, path) > count for path, count in _written(body).items())


def _written(body: code.Block) -> dict[str, int]:
    """What a turn writes to, by dotted path, with how often it is named for that."""
    found: dict[str, int] = {}
    for item in code.walk(body):
        for target in _targets(item):
            while isinstance(target, code.Subscript | code.Starred):
                target = target.value
            path = dotted(target)
            if path:
                found[path] = found.get(path, 0) + 1
    return found


def _targets(item: Any) -> Iterator[code.Expression]:
    if isinstance(item, code.Assign):
        for target in item.targets:
            yield from target.items if isinstance(target, code.Sequence) else (target,)
    elif isinstance(item, code.Augment):
        yield item.target
    elif isinstance(item, code.Evaluate) and isinstance(item.value, code.Call):
        receiver = code.receiver_of(item.value)
        if receiver is not None:
            yield receiver


def _count(body: code.Block, path: str) -> int:
    """How often a path, or a part of what it holds, is named."""
    parts = (dotted(item) for item in code.walk(body) if isinstance(item, code.Name | code.Attribute))
    return sum(part == path for part in parts)


def _only_known_calls(frame: Frame, body: Any) -> bool:
    """Whether nothing that a turn calls keeps a state from one call to the next, as far as that is known."""
    return all(_keeps_nothing(frame, item) for item in code.walk(body) if isinstance(item, code.Call))


def _keeps_nothing(frame: Frame, call: code.Call) -> bool:
    if isinstance(call.function, code.Attribute) and not isinstance(call.function.value, code.Name | code.Attribute):
        # a method of what another call or an item of something returned; what is not a tensor's would have been noted
        return True
    if not isinstance(call.function, code.Name | code.Attribute):
        return False
    callee = expressions.evaluate(frame, call.function)
    if isinstance(callee, Function | Bound):
        function = callee.function if isinstance(callee, Bound) else callee
        return _writes_nothing(frame, function)
    if isinstance(callee, Object):
        return callee.type == object_types.MODEL and (
            callee.origin.startswith(_STATELESS) or callee.origin.endswith("Loss")
        )
    return not isinstance(callee, Instance | Class)


_STATELESS = ("torch.nn.Linear", "torch.nn.Conv", "torch.nn.LayerNorm", "torch.nn.Embedding", "criterion")
"""Layers that compute the same of an item whatever they were given before, and whatever stands beside it."""


def _writes_nothing(frame: Frame, function: Function) -> bool:
    if not isinstance(function.define, code.Define):
        return True
    body = frame.run.body(function.module, function.define.body)
    kept = any("." in path for path in frame.run.nodes.assigned(body))
    return not kept and not any(isinstance(item, code.Scope | code.Yield) for item in code.walk(body))


def _made_of(body: Any, names: set[str]) -> set[str]:
    """The names that a body binds to something made of other names, directly or not."""
    found = set(names)
    for _ in range(3):
        for item in code.walk(body):
            if isinstance(item, code.Assign) and item.value is not None and _mentions(item.value, found):
                found |= {one.id for target in item.targets for one in code.walk(target) if isinstance(one, code.Name)}
    return found - names


def _mentions(node: Any, names: set[str]) -> bool:
    return any(isinstance(item, code.Name) and item.id in names for item in code.walk(node))
