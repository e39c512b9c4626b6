"""How values get from name to name in a block, and from which of them backward passes start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainlint.semantics import code
from trainlint.semantics.text import called_name, dotted

_NO_GRAPH = frozenset({"item", "detach", "tolist", "numpy", "float", "int", "len", "range"})
"""What is computed by these has no graph."""
_KEEPING = frozenset({"append", "extend", "insert", "add", "update", "setdefault"})
"""Methods by which an object puts away what they are given."""


@dataclass(frozen=True, slots=True)
class Handed:
    """A call, and the names that each of its arguments is computed from."""

    call: code.Call
    names: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class Paths:
    """How values get from name to name in a block, and where backward passes start."""

    edges: tuple[tuple[str, frozenset[str]], ...]
    starts: frozenset[str]
    handed: tuple[Handed, ...]
    inner: tuple[int, ...]
    """The bodies of functions that the block defines, by index."""
    bound: frozenset[str]
    shared: frozenset[str]
    """Names that are declared global or nonlocal."""


def paths(block: code.Block) -> Paths:
    """How values get from name to name in a block, without the functions that it defines."""
    edges: list[tuple[str, frozenset[str]]] = []
    starts: set[str] = set()
    handed: list[Handed] = []
    inner: list[int] = []
    bound: set[str] = set()
    shared: set[str] = set()
    for node in code.walk(block):
        if isinstance(node, code.Define):
            inner.append(node.body)
        elif isinstance(node, code.Scope):
            shared.update(node.names)
        elif isinstance(node, code.Call):
            if _differentiates(node):
                starts |= _names(node)
            elif node.arguments:
                handed.append(Handed(node, tuple(_names(argument.value) for argument in node.arguments)))
            if isinstance(node.function, code.Attribute) and node.function.name in _KEEPING:
                edges.append((_path(node.function.value), _names(node.arguments)))
        else:
            for target, value in _assignments(node):
                for part in _parts(target):
                    edges.append((_path(part), _names(value)))
                    if isinstance(part, code.Name):
                        bound.add(part.id)
    edges = [(target, sources) for target, sources in edges if target and sources]
    return Paths(tuple(edges), frozenset(starts), tuple(handed), tuple(inner), frozenset(bound), frozenset(shared))


def _assignments(node: object) -> Iterator[tuple[code.Expression, object]]:
    if isinstance(node, code.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, code.Augment | code.Walrus):
        yield node.target, node.value
    elif isinstance(node, code.For | code.Clause):
        yield node.target, node.iterable
    elif isinstance(node, code.WithItem) and node.target is not None:
        yield node.target, node.value


def _parts(target: code.Expression) -> Iterator[code.Expression]:
    if isinstance(target, code.Sequence):
        for item in target.items:
            yield from _parts(item)
    elif isinstance(target, code.Starred):
        yield from _parts(target.value)
    else:
        yield target


def _path(node: code.Expression) -> str:
    """The dotted name of what a target is, or is a part of."""
    while isinstance(node, code.Subscript):
        node = node.value
    return dotted(node)


def _differentiates(call: code.Call) -> bool:
    return "backward" in called_name(call.function) or dotted(call.function).rpartition("autograd.")[2] == "grad"


def _names(node: object) -> frozenset[str]:
    """The dotted names that a value is computed from, without those of which no graph goes into it."""
    found: set[str] = set()
    stack: list[object] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, code.Name | code.Attribute):
            path = dotted(item)
            if path:
                found.add(path)
            if isinstance(item, code.Attribute):
                # `losses.total` is a part of `losses`
                stack.append(item.value)
        elif isinstance(item, code.Call):
            if called_name(item.function) in _NO_GRAPH:
                continue
            if isinstance(item.function, code.Attribute):
                stack.append(item.function.value)
            stack += [argument.value for argument in item.arguments]
        elif isinstance(item, code.Compare | code.Constant | code.Lambda):
            continue
        elif isinstance(item, tuple):
            stack.extend(part for part in item if isinstance(part, tuple))
    return frozenset(found)
