"""What a lowered node tells by itself, worked out once however often the node is interpreted."""

from __future__ import annotations

from typing import Any

from trainlint.semantics import code
from trainlint.semantics.text import describe, dotted


class NodeFacts:
    """Answers about nodes, by the identity of the node; each node is kept with its answer, so that no other takes its
    place."""

    def __init__(self) -> None:
        self._assigned: dict[int, tuple[object, frozenset[str]]] = {}
        self._calls: dict[int, tuple[object, tuple[code.Call, ...]]] = {}
        self._loops: dict[int, tuple[object, bool]] = {}
        self._texts: dict[int, tuple[object, str]] = {}

    def assigned(self, block: code.Block) -> frozenset[str]:
        """The dotted names that a block assigns, anywhere in it."""
        known = self._assigned.get(id(block))
        if known is None:
            names = {
                dotted(target) for item in code.walk(block) if isinstance(item, code.Assign) for target in item.targets
            }
            known = self._assigned[id(block)] = block, frozenset(names)
        return known[1]

    def named_calls(self, block: code.Block) -> tuple[code.Call, ...]:
        """The calls in a block whose callee is written as a name or an attribute."""
        known = self._calls.get(id(block))
        if known is None:
            found = [
                item
                for item in code.walk(block)
                if isinstance(item, code.Call) and isinstance(item.function, code.Name | code.Attribute)
            ]
            known = self._calls[id(block)] = block, tuple(found)
        return known[1]

    def holds_loop(self, block: code.Block) -> bool:
        """Whether there is a loop anywhere in a block."""
        known = self._loops.get(id(block))
        if known is None:
            found = any(isinstance(item, code.For | code.While) for item in code.walk(block))
            known = self._loops[id(block)] = block, found
        return known[1]

    def text(self, node: Any) -> str:
        """The expression as a person would write it on one line, cut short."""
        known = self._texts.get(id(node))
        if known is None:
            known = self._texts[id(node)] = node, describe(node)
        return known[1]
