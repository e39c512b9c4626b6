"""Lowering that remembers in which pieces it found a text: to the same lowered code as `Lowering`, in lists.

What it cannot part into pieces for sure, such as a suite whose rows are continued in unusual ways, it lowers whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import libcst as cst

from trainlint.semantics.extract import WATCHED
from trainlint.semantics.lowering import DISAGREEMENTS, Lowering, Mirror, flatten
from trainlint.semantics.pieces import BODY, MEMBER, Block, Extent, Function, Item, Lowered, Piece, Suite, extent
from trainlint.semantics.positions import UNPLACED

ROW_END = re.compile(r"\r\n?|\n")
BLANK = re.compile(r"(?:[ \t\f]*(?:#[^\r\n]*)?(?:\r\n?|\n|\Z))*")
"""Rows that hold no code."""

_INDENTATION = re.compile(r"[ \t]*")


class IndivisibleError(Exception):
    """The text cannot be taken in pieces."""


class Rows:
    """Where the rows of a text start, in characters; rows count from 1."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(end.end() for end in ROW_END.finditer(text))]
        if self.starts[-1] != len(text):
            self.starts.append(len(text))
        self.last = len(self.starts) - 1

    def start(self, row: int) -> int:
        """Where a row starts, or the text ends."""
        return self.starts[min(row, len(self.starts)) - 1]

    def between(self, first: int, end: int) -> Extent:
        """How much there is from row `first` up to row `end`."""
        start, stop = self.start(first), self.start(end)
        rows = end - first
        if stop == len(self.text) and end >= len(self.starts):
            rows = len(ROW_END.findall(self.text, start))
        return Extent(stop - start, rows)


class Line(NamedTuple):
    """One logical line of a block with what belongs to it, and the rows that it takes; `end` is the row after it."""

    statements: list[tuple[Any, Mirror]]
    lead: int
    first: int
    end: int


class StandIn(NamedTuple):
    """The block that a `pass` stands for, and the row behind it, where the rows of its text are left empty."""

    block: Block
    end: int


class Move(NamedTuple):
    """By how many rows a block is further down now, and the names of what is around it."""

    block: Block
    rows: int
    names: tuple[str, ...]


class PiecewiseLowering(Lowering):
    """Lowers a text into pieces; used once."""

    def __init__(
        self, module: cst.Module, text: str, real: str | None = None, stand_ins: Mapping[int, StandIn] | None = None
    ) -> None:
        """In `text`, the suite at each row of `stand_ins` stands for a block that has the same number of rows in
        `real`."""
        super().__init__(module, text.encode("utf-8"), WATCHED)
        self.moves: list[Move] = []
        """What becomes of the blocks that were stood for."""
        self._rows = Rows(text)
        self._real_rows = self._rows if real is None else Rows(real)
        self._stand_ins = dict(stand_ins or {})
        self._ends = {row + 1: one.end for row, one in self._stand_ins.items()}
        """For the row behind each `pass` that stands for a block, the row behind that block."""
        self._is_part = stand_ins is not None
        self._depth = 0
        """Suites around what is lowered now."""
        self._piece_base = 1
        """Row that places of the piece around what is lowered now count from."""
        self._items: list[Item] = []
        self._suites: list[Suite] = []
        self._function: Function | None = None
        self._whole = False
        """Whether what is lowered now is not taken in pieces."""

    def file(self, mirrors: Mirror) -> Block:
        """Take the module in pieces.

        Raises:
            IndivisibleError: it cannot be done.
        """
        root = Block("", (), False, 0)
        root.pieces, _ = self._region(root, self._module, mirrors, 1)
        root.size = extent(self._real_rows.text)
        self.__dict__.clear()
        return root

    def part(self, block: Block, row: int, mirrors: Mirror) -> tuple[list[Piece], Extent]:
        """The pieces of a part of `block`, which stands in a chain of as many `if`s as the block is deep, and how much
        white space follows them; `row` is its first row, counted as places of the block are.

        Raises:
            IndivisibleError: they are no pieces, or some block that is stood for is not where it should be.
        """
        self._names = list(block.names)
        self._base = block.depth + 1 - row
        try:
            with ExitStack() as around:
                suite: Any = self._module
                for _ in range(block.depth):
                    suite, mirrors = self._inside(suite, mirrors)
                    around.enter_context(self._indented(suite))
                pieces = self._region(block, suite, mirrors, block.depth + 1)
        except DISAGREEMENTS:
            raise IndivisibleError from None
        if self._stand_ins:
            raise IndivisibleError
        return pieces

    @staticmethod
    def _inside(suite: Any, mirrors: Mirror) -> tuple[Any, Mirror]:
        node = suite.body[0]
        if len(suite.body) != 1 or node.__class__ is not cst.If or node.orelse is not None:
            raise IndivisibleError
        if node.body.__class__ is not cst.IndentedBlock:
            raise IndivisibleError
        return node.body, mirrors[0].body

    def _region(self, block: Block, suite: Any, mirrors: Mirror, first: int) -> tuple[list[Piece], Extent]:
        """The pieces of a libcst suite from row `first` to the end of the text."""
        if len(flatten(suite.body)) != len(mirrors):
            raise IndivisibleError
        lines = self._lines(suite, mirrors, block.indentation, first)
        if lines is None:
            raise IndivisibleError
        pieces = self._pieces_of(lines, block)
        last = lines[-1].end if lines else first
        end = self._rows.last + 1
        if not self._is_blank(last, end):
            raise IndivisibleError
        return pieces, self._real_rows.between(last, end)

    # -------------------------------------------------------------------------------------------------- lines, pieces

    def _lines(self, suite: Any, mirrors: Mirror, indentation: str, first: int | None) -> list[Line] | None:
        """The logical lines of a suite; None where their rows are not theirs alone. `first` is the first row of the
        suite; without it, blank rows before the first line count."""
        lines: list[Line] = []
        index = 0
        text = self._rows.text
        for node in suite.body:
            count = len(node.body) if node.__class__ is cst.SimpleStatementLine else 1
            statements = list(zip(flatten([node]), mirrors[index : index + count], strict=True))
            index += count
            start = self._first_row(*statements[0])
            end = statements[-1][1].end_lineno + 1
            end = self._ends.get(end, end)
            if first is None:
                first = self._lead(start)
            offset = self._rows.start(start)
            if (
                start < first
                or not text.startswith(indentation, offset)
                or text[offset + len(indentation)] in " \t\f\\#\r\n"
                or not self._is_blank(first, start)
                or text[self._rows.start(end - 1) : self._rows.start(end)].rstrip("\r\n").endswith("\\")
            ):
                return None
            lines.append(Line(statements, first, start, end))
            first = end
        return lines

    def _lead(self, row: int) -> int:
        """The first of the blank rows and comments right before a row."""
        while row > 1 and self._is_blank(row - 1, row):
            row -= 1
        return row

    def _is_blank(self, first: int, end: int) -> bool:
        if first == end:
            return True
        found = BLANK.match(self._rows.text, self._rows.start(first), self._rows.start(end))
        return found is not None and found.end() == self._rows.start(end)

    def _pieces_of(self, lines: Sequence[Line], block: Block) -> list[Piece]:
        base = self._base
        kept = self._mentions, self._yields, self._items, self._imports, self._suites, self._function, self._piece_base
        pieces = []
        try:
            for line in lines:
                self._base = base
                pieces.append(self._piece(line, block))
        finally:
            self._mentions, self._yields, self._items, self._imports, self._suites, self._function = kept[:-1]
            self._piece_base = kept[-1]
            self._base = base
        return pieces

    def _piece(self, line: Line, block: Block) -> Piece:
        self._mentions, self._yields = set(), False
        self._items = self._imports = []  # type: ignore[assignment]
        self._suites = []
        self._function = None
        base = self._base
        self._piece_base = line.first if block.of_units else base
        lowered: list[Lowered] = []
        offsets: list[int] = []
        for node, mirror in line.statements:
            row, statement = self._unit(node, mirror) if block.of_units else (base, self._lower_statement(node, mirror))
            if statement is not None:
                lowered.append([row - base, statement, MEMBER] if block.of_class else statement)
                offsets.append(row - line.first)
        lead, size = self._real_rows.between(line.lead, line.first), self._real_rows.between(line.first, line.end)
        start = self._real_rows.start(line.first)
        suites = [
            Suite(Extent(suite.start.characters - start, suite.start.rows - line.first), suite.block, suite.function)
            for suite in self._suites
        ]
        return Piece(lead, size, lowered, offsets, suites, self._items, frozenset(self._mentions), self._yields)

    def _recorded(self, suite: Any, mirrors: Mirror, of_class: bool) -> list[Lowered] | None:
        """Take an indented suite in pieces; None where that is not possible."""
        if suite.__class__ is not cst.IndentedBlock or self._spans is not None or self._whole or not mirrors:
            return None
        statements = flatten(suite.body)
        if len(statements) != len(mirrors):
            return None
        start = self._first_row(statements[0], mirrors[0])
        offset = self._rows.start(start)
        indentation = _INDENTATION.match(self._rows.text, offset)[0]  # type: ignore[index]
        lines = self._lines(suite, mirrors, indentation, None)
        if lines is None:
            return None
        first = lines[0].lead
        block = self._stand_in(lines, indentation, of_class)
        if block is None:
            block = Block(indentation, tuple(self._names), of_class, first - self._base, self._depth + 1)
            block.size = self._real_rows.between(first, lines[-1].end)
            with self._indented(suite):
                block.pieces = self._pieces_of(lines, block)
            block.refresh()
        self._items.append(block)
        self._suites.append(Suite(Extent(self._real_rows.start(first), first), block, self._function))
        return block.lowered

    def _stand_in(self, lines: Sequence[Line], indentation: str, of_class: bool) -> Block | None:
        """The block that is to stand for a suite of one line."""
        found = self._stand_ins.get(lines[0].first) if len(lines) == 1 else None
        if found is None:
            return None
        block = found.block
        place = indentation, of_class, self._depth + 1
        if place != (block.indentation, block.of_class, block.depth) or lines[0].lead != lines[0].first:
            raise IndivisibleError
        del self._stand_ins[lines[0].first]
        self.moves.append(Move(block, lines[0].first - self._base - block.row, tuple(self._names)))
        return block

    def _unit(self, node: cst.CSTNode, mirror: Mirror) -> tuple[int, Any]:
        """Lower a statement of the file or of a class, whose places count from its own first row."""
        if self._names or self._spans is not None:
            self._base = self._first_row(node, mirror)
            return self._base, self._lower_statement(node, mirror)
        before = set(self._mentions), len(self._items), len(self._suites)
        try:
            return self._placed_unit(node, mirror)
        except DISAGREEMENTS:
            if self._is_part:
                raise IndivisibleError from None
        self._mentions, items, suites = before
        del self._items[items:], self._suites[suites:]
        self._spans = self._printed()
        try:
            return self._placed_unit(node, UNPLACED)
        finally:
            self._spans = None

    @contextmanager
    def _indented(self, suite: Any) -> Iterator[None]:
        self._indents.append(self._module.default_indent if suite.indent is None else suite.indent)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self._indents.pop()

    # ------------------------------------------------------------------------------------------- what is overridden

    def _lower_statement(self, node: cst.CSTNode, mirror: Mirror) -> Any:
        return self._statement[node.__class__](node, mirror)

    def _block(self, node: Any, mirrors: Mirror) -> Any:
        recorded = self._recorded(node, mirrors, of_class=False)
        if recorded is not None:
            return recorded
        with self._undivided():
            return super()._block(node, mirrors)

    def _members(self, node: cst.ClassDef, mirror: Mirror) -> Any:
        recorded = self._recorded(node.body, mirror.body, of_class=True)
        if recorded is not None:
            return recorded
        with self._undivided():
            return super()._members(node, mirror)

    @contextmanager
    def _undivided(self) -> Iterator[None]:
        whole, self._whole = self._whole, True
        try:
            yield
        finally:
            self._whole = whole

    def _define(self, node: cst.FunctionDef, mirror: Mirror) -> Any:
        define: list[Any] = list(super()._define(node, mirror))
        function = define[BODY]
        function.define = define
        define[BODY] = -1
        return define

    def _body(self, node: cst.FunctionDef, mirror: Mirror) -> tuple[Any, bool]:
        kept = self._mentions, self._yields, self._items, self._imports, self._function
        self._names.append(node.name.value)
        function = Function(tuple(self._names), self._base - self._piece_base)
        self._items.append(function)
        self._mentions, self._yields = set(), False
        self._items = self._imports = function.items  # type: ignore[assignment]
        self._function = function
        try:
            function.body = self._block(node.body, mirror.body)
            function.mentions, function.yields = frozenset(self._mentions), self._yields
            return function, False
        finally:
            self._names.pop()
            self._mentions, self._yields, self._items, self._imports, self._function = kept
