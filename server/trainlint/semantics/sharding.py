"""Whether a dataset is one rank's part already, as far as the code that makes it tells."""

from __future__ import annotations

from collections.abc import Iterator

from trainlint.semantics import classes, code, naming
from trainlint.semantics.state import Frame
from trainlint.semantics.values import Function, Instance, Object, Value, options

SPLITS = frozenset({"shard", "split_dataset_by_node"})
"""What hands out one rank's part: a method of Hugging Face's datasets, and a function beside it."""
DEEPEST = 4
"""Assignments that are followed, one leading to the next."""


def may_be_a_part(frame: Frame, dataset: Value, node: code.Expression | None) -> bool:
    """Whether the rank has a say in what the dataset holds: where it is made from the rank, or its class asks for it.

    `node` is the expression for it, in the function of `frame`.
    """
    return any(_class_asks(frame, one) for one in options(dataset)) or (
        node is not None and _from_rank(node, assignments(frame), DEEPEST)
    )


def _class_asks(frame: Frame, dataset: Value) -> bool:
    """Whether an instance's class, or what wraps one, reads the rank."""
    if isinstance(dataset, Object) and dataset.inner is not None:
        return any(_class_asks(frame, one) for one in options(dataset.inner))
    if not isinstance(dataset, Instance):
        return False
    named = [classes.find_member(dataset.cls, name) for name in ("__init__", "__len__", "__getitem__")]
    bodies = (
        frame.run.body(one.module, one.define.body)
        for one in (*named, *dataset.cls.members.values())
        if isinstance(one, Function) and isinstance(one.define, code.Define)
    )
    return any(_is_rank(item) for body in bodies for item in code.walk(body))


def assignments(frame: Frame) -> list[code.Assign]:
    """The assignments of the function that a frame runs, or of its module."""
    return [item for item in nodes(frame) if isinstance(item, code.Assign) and item.value is not None]


def nodes(frame: Frame) -> Iterator[object]:
    """The nodes of the function that a frame runs, or of its module."""
    function = frame.function
    if function is None:
        return code.walk(frame.module.units.statements)
    define = function.define
    return code.walk(frame.run.body(function.module, define.body) if isinstance(define, code.Define) else ())


def _from_rank(node: code.Expression, assignments: list[code.Assign], depth: int) -> bool:
    """Whether the rank is in an expression, or in what was assigned to the names in it."""
    items = list(code.walk(node))
    if any(map(_is_rank, items)):
        return True
    names = {item.id for item in items if isinstance(item, code.Name) and not naming.DEVICE.search(item.id)}
    return depth > 0 and any(
        _from_rank(one.value, assignments, depth - 1)
        for one in assignments
        if one.value is not None and any(name in names for target in one.targets for name in _bound(target))
    )


def _bound(target: code.Expression) -> Iterator[str]:
    """The plain names that an assignment binds."""
    if isinstance(target, code.Name):
        yield target.id
    elif isinstance(target, code.Sequence):
        for item in target.items:
            yield from _bound(item)


def _is_rank(item: object) -> bool:
    """Whether a node stands for the rank, or for a part by rank."""
    word = item.id if isinstance(item, code.Name) else item.name if isinstance(item, code.Attribute) else ""
    return word in SPLITS or bool(naming.RANK.search(word))
