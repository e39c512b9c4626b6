"""Lowered code: what is kept of a file once its libcst tree is dropped.

`extract` writes it, the interpreter in `link` reads it, and nothing else looks at it; rules see the linked project.
Nodes are named tuples whose last field is their tag, so that `json.dumps` writes them as they are and `decode` finds
the type of each array at its end. That makes a function's body one line of JSON: cheap to send between processes,
safe to read back from disk, and decoded only if the linker ever reaches the function.

A node's `at` packs its place into one integer (see `pack`): rows are counted from the first row of the unit that the
node belongs to (a top-level statement, or a member of a class), columns in UTF-8 bytes, as Python's parser counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, dataclass_transform

if TYPE_CHECKING:

    @dataclass_transform(frozen_default=True)
    class Node:
        """What a type checker takes a node for: a frozen class. Named tuples it compares by their fields, all the way
        down, and with types as recursive as these mypy does not come to an end."""

        def __iter__(self) -> Iterator[Any]: ...

else:
    Node = NamedTuple

Place: TypeAlias = int
"""A packed span; see `pack`."""

_COLUMN_BITS = 20
_ROWS_BITS = 16
_COLUMN_MASK = (1 << _COLUMN_BITS) - 1
_ROWS_MASK = (1 << _ROWS_BITS) - 1


def pack(row: int, column: int, end_row: int, end_column: int) -> Place:
    """Pack a span: `row` from 0 within the unit, columns from 0 in bytes; the end is exclusive."""
    rows = min(end_row - row, _ROWS_MASK)
    column = min(column, _COLUMN_MASK)
    end_column = min(end_column, _COLUMN_MASK)
    return ((row << _ROWS_BITS | rows) << _COLUMN_BITS | column) << _COLUMN_BITS | end_column


def unpack(place: Place) -> tuple[int, int, int, int]:
    """Return (row, column, end_row, end_column) as `pack` took them."""
    end_column = place & _COLUMN_MASK
    place >>= _COLUMN_BITS
    column = place & _COLUMN_MASK
    place >>= _COLUMN_BITS
    row = place >> _ROWS_BITS
    return row, column, row + (place & _ROWS_MASK), end_column


def row_of(place: Place) -> int:
    """The first row of a place."""
    return place >> _ROWS_BITS + 2 * _COLUMN_BITS


def moved(place: Place, rows: int) -> Place:
    """The place so many rows further down."""
    return place + (rows << _ROWS_BITS + 2 * _COLUMN_BITS)


# ---------------------------------------------------------------------------------------------------- expressions


class Name(Node):
    id: str
    at: Place
    tag: int = 0


class Constant(Node):
    """None, a bool, an int below 2**53, a float or a string (cut after 200 characters); see also `Opaque`."""

    value: bool | int | float | str | None
    at: Place
    tag: int = 1


class Opaque(Node):
    """A value the analyzer needs no more of than its kind: "bytes", "complex", "ellipsis", "int", "template"."""

    what: str
    at: Place
    tag: int = 2


class Attribute(Node):
    value: Expression
    name: str
    at: Place
    tag: int = 3


class Subscript(Node):
    """`value[key]`; several indices make `key` a tuple `Sequence`."""

    value: Expression
    key: Expression
    at: Place
    tag: int = 4


class Slice(Node):
    lower: Expression | None
    upper: Expression | None
    step: Expression | None
    at: Place
    tag: int = 5


class Argument(Node):
    """An argument of a call: `keyword` is its name, `star` is "", "*" or "**"."""

    keyword: str | None
    value: Expression
    star: str = ""
    tag: int = 6


class Call(Node):
    function: Expression
    arguments: tuple[Argument, ...]
    at: Place
    tag: int = 7


class Binary(Node):
    """`op` is the operator's text: "+", "%", "@", …"""

    op: str
    left: Expression
    right: Expression
    at: Place
    tag: int = 8


class Boolean(Node):
    """`op` is "and" or "or"; a chain of one operator is one node with all its operands, in order."""

    op: str
    values: tuple[Expression, ...]
    at: Place
    tag: int = 9


class Unary(Node):
    """`op` is "not", "-", "+" or "~"."""

    op: str
    operand: Expression
    at: Place
    tag: int = 10


class Compare(Node):
    """`ops` are texts: "==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in"."""

    left: Expression
    ops: tuple[str, ...]
    comparators: tuple[Expression, ...]
    at: Place
    tag: int = 11


class Conditional(Node):
    test: Expression
    body: Expression
    orelse: Expression
    at: Place
    tag: int = 12


class Sequence(Node):
    """`kind` is "tuple", "list" or "set"; items may be `Starred`."""

    kind: str
    items: tuple[Expression, ...]
    at: Place
    tag: int = 13


class Mapping(Node):
    """A dict display; a key of None stands for `**value`."""

    keys: tuple[Expression | None, ...]
    values: tuple[Expression, ...]
    at: Place
    tag: int = 14


class Format(Node):
    """An f-string: its interpolated expressions in order, those of nested format specifications included."""

    parts: tuple[Expression, ...]
    at: Place
    tag: int = 15


class Clause(Node):
    """One `for target in iterable if …` of a comprehension."""

    target: Expression
    iterable: Expression
    conditions: tuple[Expression, ...]
    tag: int = 16


class Comprehension(Node):
    """`kind` is "list", "set", "dict" or "generator"; `value` is set for a dict only."""

    kind: str
    element: Expression
    value: Expression | None
    clauses: tuple[Clause, ...]
    at: Place
    tag: int = 17


class Lambda(Node):
    parameters: tuple[Parameter, ...]
    body: Expression
    at: Place
    tag: int = 18


class Yield(Node):
    """`yield value`, or `yield from value` where `delegates`."""

    value: Expression | None
    delegates: bool
    at: Place
    tag: int = 19


class Await(Node):
    value: Expression
    at: Place
    tag: int = 20


class Starred(Node):
    value: Expression
    at: Place
    tag: int = 21


class Walrus(Node):
    target: Expression
    value: Expression
    at: Place
    tag: int = 22


# ----------------------------------------------------------------------------------------------------- statements


class Parameter(Node):
    """`kind` is "positional", "keyword", "*" or "**"."""

    name: str
    kind: str
    default: Expression | None
    annotation: Expression | None
    tag: int = 23


class Evaluate(Node):
    value: Expression
    at: Place
    tag: int = 24


class Assign(Node):
    """`a = b = value`; an annotated assignment has one target and may lack the value."""

    targets: tuple[Expression, ...]
    value: Expression | None
    annotation: Expression | None
    at: Place
    tag: int = 25


class Augment(Node):
    """`target op= value`; `op` without the equals sign."""

    target: Expression
    op: str
    value: Expression
    at: Place
    tag: int = 26


class Return(Node):
    value: Expression | None
    at: Place
    tag: int = 27


class If(Node):
    """`elif` is an `If` alone in `orelse`."""

    test: Expression
    body: Block
    orelse: Block
    at: Place
    tag: int = 28


class For(Node):
    target: Expression
    iterable: Expression
    body: Block
    orelse: Block
    at: Place
    tag: int = 29


class While(Node):
    test: Expression
    body: Block
    orelse: Block
    at: Place
    tag: int = 30


class WithItem(Node):
    value: Expression
    target: Expression | None
    tag: int = 31


class With(Node):
    items: tuple[WithItem, ...]
    body: Block
    at: Place
    tag: int = 32


class Handler(Node):
    type: Expression | None
    name: str | None
    body: Block
    tag: int = 33


class Try(Node):
    body: Block
    handlers: tuple[Handler, ...]
    orelse: Block
    final: Block
    at: Place
    tag: int = 34


class Raise(Node):
    value: Expression | None
    at: Place
    tag: int = 35


class Assert(Node):
    test: Expression
    message: Expression | None
    at: Place
    tag: int = 36


class Delete(Node):
    targets: tuple[Expression, ...]
    at: Place
    tag: int = 37


class Leave(Node):
    """`break` or `continue`."""

    what: str
    at: Place
    tag: int = 38


class Scope(Node):
    """`global` or `nonlocal` names."""

    what: str
    names: tuple[str, ...]
    at: Place
    tag: int = 39


class Alias(Node):
    name: str
    bound: str | None
    """The name after `as`; None where there is none."""
    at: Place
    tag: int = 40


class Import(Node):
    """`import a.b as c`."""

    names: tuple[Alias, ...]
    at: Place
    tag: int = 41


class ImportFrom(Node):
    """`from ..module import name as bound`; a star import has one alias named "*"."""

    module: str
    level: int
    names: tuple[Alias, ...]
    at: Place
    tag: int = 42


class Define(Node):
    """A `def`: `body` is the index of its body in `ModuleFacts`; `at` spans the header, decorators excluded."""

    name: str
    decorators: tuple[Expression, ...]
    parameters: tuple[Parameter, ...]
    returns: Expression | None
    body: int
    is_generator: bool
    at: Place
    tag: int = 43


class DefineClass(Node):
    """A `class`: methods are `Define`s of its block, whose places count from the member's own first row."""

    name: str
    decorators: tuple[Expression, ...]
    bases: tuple[Argument, ...]
    members: tuple[Member, ...]
    at: Place
    tag: int = 44


class Member(Node):
    """One statement of a class body, a unit of its own: `row` is its first row, counted as the class's places are."""

    row: int
    statement: Statement
    tag: int = 45


class Case(Node):
    """One case of a match: the names that its pattern binds, its guard and its block."""

    names: tuple[str, ...]
    guard: Expression | None
    body: Block
    tag: int = 46


class Match(Node):
    subject: Expression
    cases: tuple[Case, ...]
    at: Place
    tag: int = 47


Expression: TypeAlias = (
    Name
    | Constant
    | Opaque
    | Attribute
    | Subscript
    | Slice
    | Call
    | Binary
    | Boolean
    | Unary
    | Compare
    | Conditional
    | Sequence
    | Mapping
    | Format
    | Comprehension
    | Lambda
    | Yield
    | Await
    | Starred
    | Walrus
)
Statement: TypeAlias = (
    Evaluate
    | Assign
    | Augment
    | Return
    | If
    | For
    | While
    | With
    | Try
    | Raise
    | Assert
    | Delete
    | Leave
    | Scope
    | Import
    | ImportFrom
    | Define
    | DefineClass
    | Match
)
Block: TypeAlias = tuple[Statement, ...]

NODE_TYPES: tuple[type[Any], ...] = (
    Name,
    Constant,
    Opaque,
    Attribute,
    Subscript,
    Slice,
    Argument,
    Call,
    Binary,
    Boolean,
    Unary,
    Compare,
    Conditional,
    Sequence,
    Mapping,
    Format,
    Clause,
    Comprehension,
    Lambda,
    Yield,
    Await,
    Starred,
    Walrus,
    Parameter,
    Evaluate,
    Assign,
    Augment,
    Return,
    If,
    For,
    While,
    WithItem,
    With,
    Handler,
    Try,
    Raise,
    Assert,
    Delete,
    Leave,
    Scope,
    Alias,
    Import,
    ImportFrom,
    Define,
    DefineClass,
    Member,
    Case,
    Match,
)
"""The node type of each tag, in order."""


def _decoder(make: Callable[[list[Any]], Any], flat: bool) -> Callable[[list[Any]], Any]:
    if flat:
        return make
    return lambda array: make([_decode_field(field) if field.__class__ is list else field for field in array])


_FLAT = {Name, Constant, Opaque, Leave, Alias}
_DECODERS = [_decoder(node_type._make, node_type in _FLAT) for node_type in NODE_TYPES]


def _decode_field(array: list[Any]) -> Any:
    """Decode one JSON array: a node, whose last item is its tag, or a plain sequence, whose last item is a sequence."""
    if array and array[-1].__class__ is int:
        return _DECODERS[array[-1]](array)
    return tuple([_decode_field(item) if item.__class__ is list else item for item in array])


def decode_block(array: list[Any]) -> Block:
    """Turn what `json.loads` returned for a block back into its statements."""
    return tuple([_decode_field(item) for item in array])


def walk(node: object) -> Iterator[Any]:
    """Yield every node below and including `node`, a node or a block, in no particular order."""
    stack = [node]
    while stack:
        item = stack.pop()
        kind = item.__class__
        if kind is tuple:
            stack.extend(item)  # type: ignore[arg-type]
        elif kind in _KINDS:
            yield item
            stack.extend(item)  # type: ignore[arg-type]


_KINDS = frozenset(NODE_TYPES)


def receiver_of(call: Call | None) -> Expression | None:
    """The expression whose method is called; None where no method is."""
    return call.function.value if call is not None and isinstance(call.function, Attribute) else None
