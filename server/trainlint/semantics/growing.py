"""What a loop's body tells of a variable that grows by being joined with what is new."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainlint.semantics import code


def joined_to(node: code.Assign) -> code.Call | None:
    """The call of `rows = join([rows, new])`, which is given a list or tuple that holds its target once; None for any
    other assignment."""
    call, target = node.value, node.targets[0]
    if not isinstance(call, code.Call) or not isinstance(target, code.Name) or not call.arguments:
        return None
    listed = call.arguments[0]
    if listed.keyword not in (None, "tensors") or listed.star or not isinstance(listed.value, code.Sequence):
        return None
    whole = [item for item in listed.value.items if isinstance(item, code.Name) and item.id == target.id]
    return call if len(whole) == 1 and _count(call, target.id) == 1 else None


def only_collects(body: code.Block, node: code.Assign) -> bool:
    """Whether the body of a loop uses the target of `node`, a growing variable, only to add to it.

    The conditions that `node` stands under may ask whether there is anything in it yet, and their other branches may
    give it its first value.
    """
    target = node.targets[0]
    assert isinstance(target, code.Name)
    expected = 2
    for branch in _branches_to(body, node):
        asked = _count(branch.test, target.id)
        if asked and not _asks_whether_empty(branch.test):
            return False
        first = [
            item
            for item in (*branch.body, *branch.orelse)
            if isinstance(item, code.Assign) and item is not node and _binds(item, target.id)
        ]
        expected += asked + len(first)
    return _count(body, target.id) == expected


def _branches_to(block: code.Block, node: code.Assign) -> Iterator[code.If]:
    """The `if` statements of a block that `node` stands in."""
    for item in code.walk(block):
        if isinstance(item, code.If) and any(inner is node for inner in code.walk((*item.body, *item.orelse))):
            yield item


def _binds(item: code.Assign, name: str) -> bool:
    """Whether an assignment gives a variable a value that it does not go into."""
    targets = [target for target in item.targets if isinstance(target, code.Name) and target.id == name]
    return len(targets) == 1 and _count(item.value, name) == 0


def _asks_whether_empty(test: code.Expression) -> bool:
    """`rows is None`, `len(rows) == 0`, `not len(rows)`: no question of how much there is."""
    compared = [item for item in code.walk(test) if isinstance(item, code.Compare)]
    return all(
        operator in ("is", "is not") or (operator in ("==", "!=", ">") and _is_zero(other))
        for item in compared
        for operator, other in zip(item.ops, item.comparators, strict=True)
    )


def _is_zero(node: code.Expression) -> bool:
    return isinstance(node, code.Constant) and node.value == 0


def _count(node: Any, name: str) -> int:
    return sum(isinstance(item, code.Name) and item.id == name for item in code.walk(node))
