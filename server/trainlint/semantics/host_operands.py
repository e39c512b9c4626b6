"""Names of a function that are host tensors by what it computes with them: together with tensors that it makes on the
host, which nothing on a GPU can be combined with."""

from __future__ import annotations

from collections.abc import Iterator

from trainlint.semantics import code
from trainlint.semantics.text import dotted

_WITH_DIMENSIONS = frozenset(
    {"arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "randperm", "zeros"}
)
"""Factories of torch whose result is no single number, which alone may be on the host beside a tensor on a GPU."""
_ELEMENTWISE = frozenset({"+", "-", "*", "/", "//", "%", "**", "@"})


def on_host(body: code.Block) -> frozenset[str]:
    """The plain names in a function's body, bound by no statement of it, that it surely combines with a tensor that it
    has just made on the host."""
    pairs = [(one, other) for one, other in _operands(body) if _may_tell(one, other)]
    if not pairs:
        # most functions, whose other statements need not be looked at
        return frozenset()
    bound: dict[str, list[code.Expression | None]] = {}
    for item in code.walk(body):
        for target, value in _bindings(item):
            bound.setdefault(target, []).append(value)
    made = {name for name, values in bound.items() if all(_is_made_on_host(value) for value in values)}
    found = {name for one, other in pairs for name in _of_host(one, other, made)}
    return frozenset(found - bound.keys())


def _bindings(item: object) -> Iterator[tuple[str, code.Expression | None]]:
    """The plain names that one node binds anew, each with the expression that alone it is bound to, if there is one."""
    if isinstance(item, code.Assign):
        for target in item.targets:
            if isinstance(target, code.Name):
                yield target.id, item.value
            elif isinstance(target, code.Sequence):
                yield from ((one.id, None) for one in target.items if isinstance(one, code.Name))
    elif isinstance(item, code.For | code.Clause | code.Walrus | code.WithItem):
        yield from ((one.id, None) for one in code.walk(item.target) if isinstance(one, code.Name))
    elif isinstance(item, code.Augment) and isinstance(item.target, code.Name):
        yield item.target.id, None


def _operands(block: code.Block) -> Iterator[tuple[code.Expression, code.Expression]]:
    """Both sides of each arithmetic operation that a block runs under no condition."""
    for statement in block:
        if isinstance(statement, code.For | code.While | code.With):
            yield from _operands(statement.body)
        elif isinstance(statement, code.Assign | code.Evaluate | code.Return):
            for item in code.walk(statement.value):
                if isinstance(item, code.Conditional | code.Boolean | code.Lambda):
                    break
                if isinstance(item, code.Binary) and item.op in _ELEMENTWISE:
                    yield item.left, item.right


def _may_tell(one: code.Expression, other: code.Expression) -> bool:
    """Whether one side of an operation is a plain name, and the other one may be made on the host."""
    return any(
        isinstance(side, code.Name) and (isinstance(beside, code.Name) or _is_made_on_host(beside))
        for side, beside in ((one, other), (other, one))
    )


def _of_host(one: code.Expression, other: code.Expression, made: set[str]) -> Iterator[str]:
    """The name on either side of an operation whose other side is made on the host."""
    for side, beside in ((one, other), (other, one)):
        if isinstance(side, code.Name) and (
            _is_made_on_host(beside) or (isinstance(beside, code.Name) and beside.id in made)
        ):
            yield side.id


def _is_made_on_host(node: code.Expression | None) -> bool:
    """Whether an expression is a call of a factory of torch that makes a tensor with dimensions where nothing says."""
    if not isinstance(node, code.Call) or not node.arguments:
        return False
    package, _, name = dotted(node.function).rpartition(".")
    sizes = node.arguments[0].value
    scalar = isinstance(sizes, code.Sequence) and not sizes.items
    tells = any(argument.star or argument.keyword in ("device", "out") for argument in node.arguments)
    return package == "torch" and name in _WITH_DIMENSIONS and not scalar and not tells
