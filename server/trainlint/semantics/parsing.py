"""libcst's parser, spared what only nodes made by hand need, which is about a quarter of the time that a parse takes.

The native parser makes each node by a call of its class. Three costs of that call are avoidable while it runs:

- A node checks that it makes up valid code, which what comes from a parser does.
- Nodes are frozen, so the initialisers that `dataclasses` writes look up `object.__setattr__` for each field. Those of
  the frequent classes give way to ones that store through the descriptors of the slots.
- Two fifths of all nodes are plain whitespace. Equal whitespace of one text gets one node.

The classes stay the same objects, and get back what libcst gave them, so that threads may overlap: a node that another
thread makes meanwhile is the same, only unchecked.
"""

from __future__ import annotations

import dataclasses
from abc import ABCMeta
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FunctionType, MemberDescriptorType
from typing import Any, TypeAlias

import libcst as cst

Initialiser: TypeAlias = Callable[..., None]

_FREQUENT = """
    SimpleWhitespace Name Newline Arg TrailingWhitespace Attribute Dot Comma SimpleStatementLine Call Assign
    AssignTarget Param IndentedBlock Integer AssignEqual EmptyLine SimpleString Element BinaryOperation
    SubscriptElement LeftSquareBracket RightSquareBracket Expr Subscript Index Tuple Comparison ComparisonTarget
    Parameters FunctionDef FormattedStringText FormattedStringExpression Return Colon If LeftParen RightParen
    UnaryOperation Slice Add Subtract Multiply Comment ParenthesizedWhitespace DictElement
    """.split()  # noqa: SIM905
"""The classes of nineteen in twenty nodes. An exchange takes time too, so the others are left as they are."""

_CHECK = cst.CSTNode.__post_init__


def parse_module(text: str) -> cst.Module:
    """Parse as `libcst.parse_module` does, to the same tree but for whitespace nodes that are in several places of it.

    Raises:
        libcst.ParserSyntaxError: the text does not parse.
        Exception: the native parser failed in another way.
    """
    with _quick_nodes():
        return cst.parse_module(text)


@contextmanager
def _quick_nodes() -> Iterator[None]:
    exchanged = _initialisers()
    cst.CSTNode.__post_init__ = _no_check  # type: ignore[method-assign]
    for node_type, quick, _ in exchanged:
        node_type.__init__ = quick
    if _SHARES_WHITESPACE:
        cst.SimpleWhitespace.__class__ = _Shared  # type: ignore[assignment]
    try:
        yield
    finally:
        if _SHARES_WHITESPACE:
            cst.SimpleWhitespace.__class__ = ABCMeta  # type: ignore[assignment]
            _WHITESPACE.clear()
        for node_type, _, own in exchanged:
            node_type.__init__ = own
        cst.CSTNode.__post_init__ = _CHECK  # type: ignore[method-assign]


class _Shared(ABCMeta):
    """What makes `SimpleWhitespace` hand out one node for equal whitespace; all else about the class is as before."""

    def __call__(cls, value: str) -> Any:
        node = _WHITESPACE.get(value)
        if node is None:
            # Not by `super()`, which fails where another thread has given the class its own type back by now.
            node = _WHITESPACE[value] = type.__call__(cls, value)
        return node


_WHITESPACE: dict[str, cst.SimpleWhitespace] = {}
_SHARES_WHITESPACE = type(cst.SimpleWhitespace) is ABCMeta


def _no_check(self: cst.CSTNode) -> None:
    pass


@cache
def _initialisers() -> list[tuple[Any, Initialiser, Initialiser]]:
    """The frequent classes, each with an initialiser that is quick, and with its own."""
    sources: list[str] = []
    scope: dict[str, Any] = {"MISSING": dataclasses.MISSING}
    written = []
    for name in _FREQUENT:
        node_type = getattr(cst, name, None)
        if node_type is not None and _is_plain(node_type):
            written.append((node_type, node_type.__init__))
            sources.append(_write_initialiser(node_type, scope))
    exec("\n".join(sources), scope)  # As `dataclasses` does: only written-out code is quick.
    return [(node_type, scope[node_type.__name__], own) for node_type, own in written]


def _is_plain(node_type: type[cst.CSTNode]) -> bool:
    """Whether all that an initialiser does is to store its arguments in slots and to have the node checked."""
    own = vars(node_type).get("__init__")
    names = [field.name for field in dataclasses.fields(node_type)]
    return (
        isinstance(own, FunctionType)
        and own.__code__.co_varnames[: own.__code__.co_argcount] == ("self", *names)
        and not own.__code__.co_kwonlyargcount
        and node_type.__post_init__ is _CHECK
        and all(isinstance(getattr(node_type, name, None), MemberDescriptorType) for name in names)
    )


def _write_initialiser(node_type: type[cst.CSTNode], scope: dict[str, Any]) -> str:
    """Write the initialiser of a class, and put into `scope` what it refers to."""
    name = node_type.__name__
    parameters, stores = ["self"], []
    for field in dataclasses.fields(node_type):
        value = field.name
        default, store = f"{name}_{field.name}_default", f"{name}_{field.name}_store"
        scope[store] = getattr(node_type, field.name).__set__
        if field.default_factory is not dataclasses.MISSING:
            scope[default] = field.default_factory
            parameters.append(f"{field.name}=MISSING")
            value = f"{default}() if {field.name} is MISSING else {field.name}"
        elif field.default is not dataclasses.MISSING:
            scope[default] = field.default
            parameters.append(f"{field.name}={default}")
        else:
            parameters.append(field.name)
        stores.append(f"    {store}(self, {value})\n")
    return f"def {name}({', '.join(parameters)}):\n{''.join(stores)}"
