"""A file in pieces: what is remembered of it between edits, so that only the pieces that an edit touches are parsed.

A piece is one logical line of a block with all that belongs to it: a simple statement, or a compound one with its
suites, which are blocks of further pieces. Each keeps its extent in the text and its lowered code. Lowered blocks,
`Define`s and `Member`s are lists here, which JSON does not tell from tuples, so that they are changed in place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from trainlint.semantics import code
from trainlint.semantics.facts import ImportedModule

Lowered: TypeAlias = Any
"""Lowered code as lists and tuples."""

MEMBER = code.NODE_TYPES.index(code.Member)
_DEFINE = code.NODE_TYPES.index(code.Define)
_PLACED = frozenset(tag for tag, node_type in enumerate(code.NODE_TYPES) if "at" in node_type._fields)
BODY = code.NODE_TYPES[_DEFINE]._fields.index("body")
"""Where a `Define` has the number of its function, and behind it whether that yields."""


class Extent(NamedTuple):
    """How much of a text: characters, and the line ends among them."""

    characters: int
    rows: int


NOTHING = Extent(0, 0)


def extent(text: str) -> Extent:
    """How much a text is."""
    return Extent(len(text), text.count("\n") + text.count("\r") - text.count("\r\n"))


@dataclass(slots=True)
class Function:
    """A `def`, and the line of code that its body becomes."""

    names: tuple[str, ...]
    """Those of the classes and functions around it, and its own."""
    offset: int
    """Row that its places count from, from the row that those of the piece around it count from."""
    define: list[Any] = field(default_factory=list)
    body: Lowered = ()
    items: list[Item] = field(default_factory=list)
    """What stands in the body, in order."""
    mentions: frozenset[str] = frozenset()
    """Those outside of the blocks among `items`."""
    yields: bool = False
    """Likewise, whether something yields."""
    line: str | None = None
    """The body as JSON; None where it is out of date."""
    all_mentions: frozenset[str] = frozenset()
    """Those of the whole body, while `line` is up to date."""
    generates: bool = False
    """Likewise, whether anything in the body yields."""

    nests: bool = False
    """Whether there are functions in it."""

    def number(self, index: int) -> bool:
        """Write into the `def` which function of the file it is, and whether it yields; return whether that is new."""
        new = [index, self.generates]
        if self.define[BODY : BODY + 2] == new:
            return False
        self.define[BODY : BODY + 2] = new
        return True


@dataclass(slots=True)
class Piece:
    """One logical line of a block, with the suites below it."""

    lead: Extent
    """Blank rows and comments before it."""
    size: Extent
    """The rest of it."""
    lowered: list[Lowered]
    """One for each statement that means something, "pass" does not; a `Member` each in a class."""
    offsets: list[int]
    """Rows at which these statements start, from that of the piece."""
    suites: list[Suite]
    items: list[Item]
    """What stands in it, in order."""
    mentions: frozenset[str]
    """Names worth knowing that it mentions outside of its suites and functions."""
    yields: bool


@dataclass(slots=True)
class Block:
    """A suite of indented rows, or the whole file."""

    indentation: str
    """White space before each of its pieces, all of it."""
    names: tuple[str, ...]
    """Names of the classes and functions around it."""
    of_class: bool
    row: int
    """First row, counted as its places are; 0 for the file."""
    depth: int = 0
    """Blocks around it."""
    size: Extent = NOTHING
    pieces: list[Piece] = field(default_factory=list)
    lowered: list[Lowered] = field(default_factory=list)
    """Its statements. This very list is in the lowered code around it."""

    @property
    def of_units(self) -> bool:
        """Whether the places of each statement count from its own first row, as those of a file and a class do."""
        return self.of_class or not self.depth

    def rename(self, names: tuple[str, ...]) -> None:
        """Let the classes and functions around the block have other names."""
        if names != self.names:
            for piece in self.pieces:
                _rename(piece.items, len(self.names), names)
            self.names = names

    def refresh(self) -> None:
        """Let `lowered` say what the pieces say."""
        self.lowered[:] = [statement for piece in self.pieces for statement in piece.lowered]


@dataclass(slots=True)
class Suite:
    """A block below a piece."""

    start: Extent
    """Where it starts, from the start of the piece without its lead."""
    block: Block
    function: Function | None
    """Whose body it is."""


Item: TypeAlias = "ImportedModule | Function | Block"


def _rename(items: Iterable[Item], count: int, names: tuple[str, ...]) -> None:
    """Let `names` be the first of those around `items`, in place of so many."""
    for item in items:
        if item.__class__ is Block:
            item.rename((*names, *item.names[count:]))
        elif item.__class__ is Function:
            item.names = (*names, *item.names[count:])
            _rename(item.items, count, names)


# ------------------------------------------------------------------------------------------------ asking about pieces


def everything(
    items: Iterable[Item], base: int, functions: list[tuple[Function, int]], imports: list[ImportedModule]
) -> None:
    """Collect all functions below `items`, each with the row that its places count from, and all imports, in order."""
    for item in items:
        if item.__class__ is Block:
            for piece in item.pieces:
                if piece.items:
                    start = base + piece.lowered[0][0] if item.of_class and piece.lowered else base
                    everything(piece.items, start, functions, imports)
        elif item.__class__ is Function:
            functions.append((item, base + item.offset))
            count = len(functions)
            everything(item.items, base, functions, imports)
            item.nests = len(functions) > count
        else:
            imports.append(item)  # type: ignore[arg-type]


def scope(items: Iterable[Item], mentions: set[str]) -> bool:
    """Collect what the blocks among `items` mention, other functions left out; return whether they yield."""
    yields = False
    for item in items:
        if item.__class__ is Block:
            for piece in item.pieces:
                mentions |= piece.mentions
                yields |= piece.yields
                if piece.items:
                    yields |= scope(piece.items, mentions)
    return yields


# ------------------------------------------------------------------------------------------------------ moving pieces


def move_block(block: Block, rows: int) -> None:
    """Let a block start so many rows further down."""
    block.row += rows
    move_pieces(block, block.pieces, rows)


def move_pieces(block: Block, pieces: Iterable[Piece], rows: int) -> None:
    """Move pieces of a block."""
    for piece in pieces:
        if block.of_class:
            for member in piece.lowered:
                member[0] += rows
            continue
        piece.lowered = [moved(statement, rows, 0) for statement in piece.lowered]
        move_items(piece.items, rows)
    block.refresh()


def move_items(items: Iterable[Item], rows: int) -> None:
    """Move what stands in a piece that moves."""
    for item in items:
        if item.__class__ is Block:
            move_block(item, rows)
        elif item.__class__ is Function:
            if item.offset:  # In a class that is not in pieces; its places count from a row that moves.
                item.offset += rows
            else:
                item.line = None
                item.body = moved(item.body, rows, 0)
            move_items(item.items, rows)


def moved(node: Lowered, rows: int, first: int) -> Lowered:
    """Lowered code with the places from row `first` on so many rows further down, blocks in pieces left out."""
    if not node:
        return node
    kind = node.__class__
    if kind is str:
        return node
    tag = node[-1]
    if tag.__class__ is not int:
        if kind is list:
            return node
        return tuple([moved(item, rows, first) if item.__class__ not in _ATOMS else item for item in node])
    if tag == MEMBER:
        return (node[0] + rows if node[0] >= first else node[0], *node[1:])
    fields = [moved(item, rows, first) if item.__class__ not in _ATOMS else item for item in node]
    if tag in _PLACED and code.row_of(fields[-2]) >= first:
        fields[-2] = code.moved(fields[-2], rows)
    if kind is list:
        node[:] = fields
        return node
    return tuple(fields)


_ATOMS = frozenset({str, int, float, bool, type(None)})
