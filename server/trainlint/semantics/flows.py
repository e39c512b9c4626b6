"""What a function's body tells of how values flow through its names, by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainlint.semantics import code
from trainlint.semantics.text import dotted


def flows(body: code.Block) -> tuple[frozenset[str], frozenset[str]]:
    """Return the dotted names that a backward pass starts from, directly or through assignments, and the dotted
    attributes that are assigned outright."""
    assigned: set[str] = set()
    edges: list[tuple[str, set[str]]] = []
    starts: set[str] = set()
    for node in code.walk(body):
        if isinstance(node, code.Assign):
            targets = {dotted(target) for target in node.targets} - {""}
            assigned |= {target for target in targets if "." in target}
            edges += [(target, _names(node.value)) for target in targets]
        elif isinstance(node, code.Augment):
            edges.append((dotted(node.target), _names(node.value)))
        elif (
            isinstance(node, code.Call)
            and isinstance(node.function, code.Attribute)
            and "backward" in node.function.name
        ):
            starts |= _losses(node)
        elif (
            isinstance(node, code.Call)
            and isinstance(node.function, code.Name)
            and "scaler" in node.function.id.lower()
            and not node.function.id[:1].isupper()
        ):
            # a `loss_scaler(loss, optimizer)`; one in capitals makes a scaler
            first = [argument for argument in node.arguments[:1] if argument.keyword in (None, "loss")]
            starts |= {dotted(argument.value) for argument in first} - {""}
    if not starts:
        return frozenset(), frozenset(assigned)
    for _ in range(3):
        for target, sources in edges:
            if target in starts:
                starts |= sources
    return frozenset(starts), frozenset(assigned)


def _losses(node: code.Call) -> set[str]:
    """The names that a call of a backward method differentiates."""
    found: set[str] = set()
    receiver = node.function.value if isinstance(node.function, code.Attribute) else None
    if node.arguments and not node.arguments[0].star and node.arguments[0].keyword in (None, "loss"):
        found.add(dotted(node.arguments[0].value))
    if receiver is not None:
        found.add(dotted(receiver))
        if isinstance(receiver, code.Call):
            found |= {dotted(argument.value) for argument in receiver.arguments[:1]}
        if isinstance(receiver, code.Binary):
            found |= _names(receiver)
    return found - {
        "",
        "accelerator",
        "self",
        "fabric",
        "torch.autograd",
        "engine",
        "model_engine",
        "self.accelerator",
        "self.fabric",
        "model",
        "self.model",
    }


def _names(node: object) -> set[str]:
    """Dotted names that a value is computed from; what a call is given counts only for arithmetic and containers."""
    found: set[str] = set()
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, code.Name | code.Attribute):
            found.add(dotted(item))
        elif isinstance(item, code.Call):
            if isinstance(item.function, code.Attribute):
                stack.append(item.function.value)
            if item.arguments and isinstance(item.function, code.Attribute | code.Name) and _combines(item.function):
                stack.append(item.arguments[0].value)
        elif isinstance(item, code.Binary) and item.op in _BY_NUMBERS:
            stack.append(item.left)
        elif isinstance(item, tuple):
            stack.extend(item)
    return found - {""}


_BY_NUMBERS = frozenset({"/", "//", "%", "**"})
"""Operators whose right side tells nothing of the left: a loss is divided by a count more often than by a loss."""


def _combines(function: code.Attribute | code.Name) -> bool:
    name = function.name if isinstance(function, code.Attribute) else function.id
    return name in ("sum", "mean", "stack", "cat", "add", "scale")


def resets(body: code.Block) -> frozenset[str]:
    """Dotted names that one loop adds to and sets back to a constant, both in its own body."""
    found: set[str] = set()
    for loop in code.walk(body):
        if isinstance(loop, code.For | code.While):
            own = list(_own_statements(loop.body))
            added = {dotted(item.target) for item in own if isinstance(item, code.Augment)}
            constant = [item for item in own if isinstance(item, code.Assign) and isinstance(item.value, code.Constant)]
            found |= added & {dotted(target) for item in constant for target in item.targets}
    return frozenset(found - {""})


def _own_statements(block: code.Block) -> Iterator[Any]:
    """The statements of a loop's body, those of loops inside it left out."""
    stack: list[Any] = list(block)
    while stack:
        item = stack.pop()
        if isinstance(item, code.For | code.While):
            continue
        yield item
        for part in item:
            if part.__class__ is tuple:
                stack.extend(one for one in part if isinstance(one, tuple) and one.__class__ is not tuple)
