"""What a lowered node tells by itself, worked out once however often the node is interpreted."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from trainlint.semantics import asked, code, host_operands, library
from trainlint.semantics.context import Asked
from trainlint.semantics.flows import flows, resets
from trainlint.semantics.name_paths import Paths, paths
from trainlint.semantics.text import called_name, describe, dotted

_T = TypeVar("_T")


class NodeFacts:
    """Answers about nodes, by the question and the identity of the node; each node is kept with its answer, so that no
    other takes its place."""

    def __init__(self) -> None:
        self._known: dict[tuple[Callable[[Any], Any], int], tuple[object, Any]] = {}

    def assigned(self, block: code.Block) -> frozenset[str]:
        """The dotted names that a block assigns, anywhere in it."""
        return self.once(_assigned, block)

    def bindings(self, block: code.Block | code.For | code.While) -> dict[str, tuple[code.Expression | None, ...]]:
        """The dotted names that a block or a loop binds or changes, each with the expressions that it is bound to; None
        among them for what a loop, a context manager, an item or a call does to it."""
        return self.once(_bindings, block)

    def named_calls(self, block: code.Block) -> tuple[code.Call, ...]:
        """The calls in a block whose callee is written as a name or an attribute."""
        return self.once(_named_calls, block)

    def holds_loop(self, block: code.Block) -> bool:
        """Whether there is a loop anywhere in a block."""
        return self.once(_holds_loop, block)

    def tensors(self, body: code.Block) -> frozenset[str]:
        """The dotted names in a function's body of which it asks something that only a tensor has."""
        return self.once(_tensors, body)

    def text(self, node: Any) -> str:
        """The expression as a person would write it on one line, cut short."""
        return self.once(describe, node)

    def asked_by(self, test: Any) -> Asked:
        """What a condition asks about."""
        return self.once(asked.asked_by, test)

    def flows(self, body: code.Block) -> tuple[frozenset[str], frozenset[str]]:
        """Dotted names in a function's body that a backward pass starts from, or that flow into such; then the dotted
        attributes that it assigns outright."""
        return self.once(flows, body)

    def on_host(self, body: code.Block) -> frozenset[str]:
        """Names that a function's body combines with tensors that it makes on the host, and never binds."""
        return self.once(host_operands.on_host, body)

    def paths(self, block: code.Block) -> Paths:
        """How values get from name to name in a block, and where backward passes start."""
        return self.once(paths, block)

    def resets(self, body: code.Block) -> frozenset[str]:
        """Names that a loop of a function's body both adds to and sets back to a constant."""
        return self.once(resets, body)

    def once(self, question: Callable[[Any], _T], node: object) -> _T:
        """The answer to a question that a node decides alone, asked no more than once."""
        key = (question, id(node))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = node, question(node)
        answer: _T = known[1]
        return answer


def _assigned(block: code.Block) -> frozenset[str]:
    assignments = (item for item in code.walk(block) if isinstance(item, code.Assign))
    return frozenset(dotted(target) for item in assignments for target in item.targets)


def _tensors(body: code.Block) -> frozenset[str]:
    asked = (item for item in code.walk(body) if isinstance(item, code.Attribute) and item.name in library.ONLY_TENSORS)
    return frozenset(dotted(item.value) for item in asked) - {""}


def _bindings(block: code.Block | code.For | code.While) -> dict[str, tuple[code.Expression | None, ...]]:
    found: dict[str, list[code.Expression | None]] = {}
    for item in code.walk(block):
        for target, value in _bound_by(item):
            for name in _names_in(target):
                found.setdefault(name, []).append(value if name == dotted(target) else None)
    return {name: tuple(values) for name, values in found.items()}


def _bound_by(item: Any) -> list[tuple[code.Expression, code.Expression | None]]:
    """What one node binds or changes, and to which expression; None where no expression tells."""
    if isinstance(item, code.Assign) and item.value is not None:
        return [(target, item.value) for target in item.targets]
    if isinstance(item, code.Walrus):
        return [(item.target, item.value)]
    if isinstance(item, code.Augment | code.For | code.Clause):
        return [(item.target, None)]
    if isinstance(item, code.WithItem) and item.target is not None:
        return [(item.target, None)]
    if isinstance(item, code.Delete):
        return [(target, None) for target in item.targets]
    if isinstance(item, code.Evaluate) and isinstance(item.value, code.Call):
        # a method that is called for what it does, `names.append(name)`, and what `random.shuffle(names)` is given
        call = item.value
        receiver = code.receiver_of(call)
        given = [argument.value for argument in call.arguments] if _FILLING.search(called_name(call.function)) else []
        return [(changed, None) for changed in (receiver, *given) if changed is not None]
    return []


_FILLING = re.compile(
    r"shuffle|sample|append|extend|update|add|push|store|fill|collect|gather|generate|rollout|play|refresh|relabel|write|save|dump"
    r"|prepare|preprocess|build|make|download|mine",
    re.IGNORECASE,
)
"""How functions are called that change what they are given, or what a path that they are given leads to."""


def _names_in(target: code.Expression) -> list[str]:
    """The dotted names that an assignment to `target` binds or changes."""
    if isinstance(target, code.Sequence):
        return [name for item in target.items for name in _names_in(item)]
    if isinstance(target, code.Starred):
        return _names_in(target.value)
    if isinstance(target, code.Subscript):
        return _names_in(target.value)
    name = dotted(target)
    return [name] if name else []


def _named_calls(block: code.Block) -> tuple[code.Call, ...]:
    calls = (item for item in code.walk(block) if isinstance(item, code.Call))
    return tuple(item for item in calls if isinstance(item.function, code.Name | code.Attribute))


def _holds_loop(block: code.Block) -> bool:
    return any(isinstance(item, code.For | code.While) for item in code.walk(block))
