"""Facts of a text that is being edited: what an edit does not touch is not parsed again.

A text is kept as a tree of pieces (see `pieces`). An edit is taken by whole rows, and looked for is the smallest run of
neighbouring pieces of one block that holds it. Their new text is parsed alone, below as many `if`s as the block is
deep, indented as what encloses it; suites below these pieces that the edit leaves alone are stood for by a `pass`.

That is enough, since statements and suites are what the grammar repeats: if the rows before, the changed ones and the
rows behind are each a row of whole statements of one indentation, so are all of them together, and they mean the same.
Whatever does not fit is extracted as a whole; that decides about texts that do not parse, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import libcst as cst

from trainlint.semantics.brokenness import Reading, read, stands_alone
from trainlint.semantics.extract import SourceError, collector_off, extract, lower, parse_ast, python_error
from trainlint.semantics.facts import FunctionSummary, ImportedModule, ModuleFacts
from trainlint.semantics.limits import MOST_CHARACTERS
from trainlint.semantics.lowering import BACKWARD, DEEPEST_CODE, depth_of, dump_block, dump_statement
from trainlint.semantics.nesting import too_deep
from trainlint.semantics.parsing import parse_module
from trainlint.semantics.pieces import (
    Block,
    Extent,
    Function,
    Piece,
    Suite,
    everything,
    extent,
    move_block,
    move_items,
    move_pieces,
    moved,
    scope,
)
from trainlint.semantics.piecewise import BLANK, IndivisibleError, Move, PiecewiseLowering, StandIn


class Change(NamedTuple):
    """An edit of whole rows: offsets where it starts, and where it ends in the old and in the new text."""

    start: int
    end: int
    new_end: int


class Step(NamedTuple):
    """From a block down to one below it."""

    block: Block
    number: int
    """Which of the block's pieces, from 0."""
    row: int
    """First row of that piece, as its places count."""
    suite: Suite


class Region(NamedTuple):
    """A run of pieces of a block, from `first` to before `end`; the lead of the next piece is part of it."""

    path: tuple[Step, ...]
    block: Block
    first: int
    end: int
    start: int
    stop: int
    """Offsets in the old text."""
    row: int
    """First row, as places of the block count."""
    block_end: int
    """Offset in the old text."""


class TooDeepError(Exception):
    """Lowered code nests too deep to be kept."""


@dataclass(slots=True)
class Unit:
    """What is derived from one piece of the file, while nothing in it changes."""

    lines: list[str] = field(default_factory=list)
    functions: list[tuple[Function, int]] = field(default_factory=list)
    """With the row that its places count from, from that of the piece."""
    imports: list[ImportedModule] = field(default_factory=list)
    mentions: frozenset[str] = frozenset()
    starts: bool = False
    is_known: bool = False
    summaries: list[FunctionSummary] = field(default_factory=list)
    row: int = 0
    """Row that the summaries are for."""


class LiveModule:
    """A file whose text changes, and its facts."""

    def __init__(self) -> None:
        self._text = ""
        self._root: Block | None = None
        """The text in pieces; None where there is none, or it is not to be had in pieces."""
        self._units: list[Unit] = []
        self.parsed = 0
        """Characters that the last update let libcst parse."""

    def update(self, text: str) -> ModuleFacts:
        """Return what `extract` returns for a text, sooner if it is much like the last one that could be parsed.

        Raises:
            LimitError: the text is too large, or nests too deep.
            SourceError: it does not parse.
        """
        text = text.removeprefix("\ufeff")
        self.parsed = 0
        if self._root is not None and _is_within_limits(text):
            with collector_off():
                try:
                    if self._splice(text):
                        return _facts(self._root, self._units)
                except (TooDeepError, RecursionError):
                    self._root = None
        return self._extract(text)

    # ---------------------------------------------------------------------------------------------- the whole text

    def _extract(self, text: str) -> ModuleFacts:
        kept = self._root, self._units
        self._root = None
        self.parsed += len(text)
        try:
            facts = extract(text, self._lower)
        except SourceError:
            self._root, self._units = kept
            raise
        if facts.left_out:
            self._root = None
        self._text = text
        return facts

    def _lower(self, module: cst.Module, text: str, mirror: ast.Module | None) -> ModuleFacts:
        """Lower a tree and keep it in pieces, if it can be had so."""
        if mirror is not None:
            try:
                root = PiecewiseLowering(module, text).file(mirror.body)
                units = [Unit() for _ in root.pieces]
                facts = _facts(root, units)
            except (IndivisibleError, TooDeepError, RecursionError):
                pass
            else:
                self._root, self._units = root, units
                return facts
        return lower(module, text, mirror)

    # -------------------------------------------------------------------------------------------------------- edits

    def _splice(self, text: str) -> bool:
        """Take a new text in; return False, and leave everything as it is, where its change is not one of pieces."""
        assert self._root is not None
        change = changed_rows(self._text, text)
        if change is None:
            return True
        regions = _regions(self._root, change)
        if self._append(regions[0], change, text):
            return True
        for region in regions:
            for untouched in _untouched_twice(region, change):
                try:
                    spliced = self._parsed(region, change, text, untouched)
                except IndivisibleError:
                    continue
                self._put(region, change, text, *spliced)
                self._text = text
                return True
            self._refuse_broken(region, change, text)
        return False

    def _refuse_broken(self, region: Region, change: Change, text: str) -> None:
        """Spare the parser a whole text that it cannot take for what is in a region.

        Raises:
            SourceError: neither libcst nor Python takes the text.
        """
        if self._is_broken(region, change, text):
            error = python_error(text)
            if error is not None:
                raise error

    def _is_broken(self, region: Region, change: Change, text: str) -> bool:
        """Whether the new text of a region makes the whole of it one that libcst does not take; False if unsure.

        Where its strings and brackets end, and no row of it joins what is around it, it is whole statements or broken.
        """
        shift = change.new_end - change.end
        new = text[region.start : region.stop + shift]
        reading = read(new, change.new_end - region.start)
        if reading is not Reading.WHOLE:
            return reading is Reading.BROKEN
        old = self._text[region.start : region.stop]
        indentation = region.block.indentation
        untouched = list(_untouched(region.block.pieces[region.first : region.end], region.start, change, 1))
        shortened, _ = self._shortened(region, change, text, untouched)
        if (
            read(old, change.end - region.start) is not Reading.WHOLE
            or not stands_alone(text[change.start : change.new_end], indentation)
            or ("@" in shortened and not _ends_deeper(text[change.new_end : region.stop + shift], indentation))
            or _is_blank(new)
            or not _is_indented(new, indentation)
        ):
            return False
        opening = _opening(region)
        if parse_ast(opening + shortened) is not None:
            return False
        self.parsed += len(shortened)
        try:
            parse_module(opening + shortened)
        except cst.ParserSyntaxError:
            return True
        except Exception:
            return False
        return False

    def _append(self, region: Region, change: Change, text: str) -> bool:
        """Take in a change that adds rows to a block which ends right before `region`; False where it is none."""
        new = text[region.start : region.stop + change.new_end - change.end]
        body = new[: _code_end(new)]
        if not region.first or region.first != region.end or not body or body[-1] not in "\r\n":
            return False
        added = Change(region.start, region.start, region.start + len(body))
        between = self._text[: region.start] + body + self._text[region.start :]
        if not _starts_row(between, added.new_end):
            return False
        for ending in _ending(region):
            if _is_indented(body, ending.block.indentation):
                try:
                    spliced = self._parsed(ending, added, between, [])
                except IndivisibleError:
                    return False
                self._put(ending, added, between, *spliced)
                self._text = between
                return self._splice(text)
        return False

    def _parsed(
        self, region: Region, change: Change, text: str, untouched: list[tuple[int, Block]]
    ) -> tuple[list[Piece], Extent, list[Move]]:
        """The pieces of the new text of a region, the blank rows behind them, and what becomes of suites kept."""
        block = region.block
        real = text[region.start : region.stop + change.new_end - change.end]
        if _is_blank(real):
            if block.depth and region.end - region.first == len(block.pieces):
                raise IndivisibleError
            return [], extent(real), []
        opening = _opening(region)
        shortened, stand_ins = self._shortened(region, change, text, untouched)
        try:
            mirror = parse_ast(opening + shortened)
            if mirror is None:
                raise IndivisibleError
            self.parsed += len(shortened)
            module = parse_module(opening + shortened)
        except IndivisibleError:
            raise
        except Exception:
            raise IndivisibleError from None
        lowering = PiecewiseLowering(module, opening + shortened, opening + real, stand_ins)
        pieces, tail = lowering.part(block, region.row, mirror.body)
        moves = lowering.moves
        lowering.__dict__.clear()
        return pieces, tail, moves

    def _shortened(
        self, region: Region, change: Change, text: str, untouched: list[tuple[int, Block]]
    ) -> tuple[str, dict[int, StandIn]]:
        """The new text of a region with a `pass` for each suite that the change leaves alone; and these suites, by the
        rows where they start below the opening."""
        kept: list[str] = []
        stand_ins: dict[int, StandIn] = {}
        shift = change.new_end - change.end
        position, row = region.start, region.block.depth + 1
        for start, block in untouched:
            start += shift if start >= change.end else 0
            kept.append(text[position:start])
            row += extent(kept[-1]).rows
            position = start + block.size.characters
            end = row + block.size.rows
            stand_ins[row] = StandIn(block, end if text[position - 1] in "\r\n" else end + 1)
            kept.append(f"{block.indentation}pass" + "\n" * block.size.rows)
            row = end
        kept.append(text[position : region.stop + shift])
        return "".join(kept), stand_ins

    def _put(
        self,
        region: Region,
        change: Change,
        text: str,
        pieces: list[Piece],
        tail: Extent,
        moves: list[Move],
    ) -> None:
        """Put new pieces in the place of those of a region."""
        block = region.block
        for moving in moves:
            moving.block.rename(moving.names)
            if moving.rows:
                move_block(moving.block, moving.rows)
        characters = change.new_end - change.end
        rows = extent(text[change.start : change.new_end]).rows - extent(self._text[change.start : change.end]).rows
        by = Extent(characters, rows)
        block.pieces[region.first : region.end] = pieces
        following = block.pieces[region.first + len(pieces) :]
        if following:
            following[0].lead = tail
        if not block.depth:
            self._units[region.first : region.end] = [Unit() for _ in pieces]
        block.size = _grown(block.size, by)
        if block.depth:
            if rows:
                move_pieces(block, following, rows)
            block.refresh()
        for step in reversed(region.path):
            _grow(step, by)
        if region.path:
            self._units[region.path[0].number].is_known = False


# ------------------------------------------------------------------------------------------------------------- facts


def _facts(root: Block, units: Sequence[Unit]) -> ModuleFacts:
    """The facts that the pieces of a file come to; `units` holds what is derived from each.

    Raises:
        TooDeepError: their code nests too deep.
    """
    number, row = 0, 1
    rows: list[int] = []
    for piece, unit in zip(root.pieces, units, strict=True):
        row += piece.lead.rows
        _refresh(unit, piece, row, number)
        number += len(unit.functions)
        rows += [row + offset for offset in piece.offsets]
        row += piece.size.rows
    lines = [line for unit in units for line in unit.lines]
    lines += [function.line for unit in units for function, _ in unit.functions]  # type: ignore[misc]
    return ModuleFacts(
        tuple([summary for unit in units for summary in unit.summaries]),
        tuple(rows),
        tuple([imported for unit in units for imported in unit.imports]),
        frozenset().union(*(unit.mentions for unit in units)),
        any(unit.starts for unit in units),
        tuple(lines),
    )


def _refresh(unit: Unit, piece: Piece, row: int, number: int) -> None:
    """Derive anew what has changed, where the piece starts at `row` and its first function is the file's `number`th."""
    is_known = unit.is_known
    if not is_known:
        _learn(unit, piece)
    renumbered = False
    for index, (function, _) in enumerate(unit.functions, number):
        renumbered |= function.number(index)
    if renumbered or not is_known:
        _write(unit, piece, renumbered)
    if unit.row != row or not is_known or renumbered:
        unit.row = row
        unit.summaries = [
            FunctionSummary(".".join(function.names), row + base, function.all_mentions)
            for function, base in unit.functions
        ]


def _learn(unit: Unit, piece: Piece) -> None:
    """Collect what is in a piece of the file."""
    unit.functions, unit.imports = [], []
    everything(piece.items, 0, unit.functions, unit.imports)
    mentions = set(piece.mentions)
    scope(piece.items, mentions)
    unit.mentions = frozenset(mentions)
    for function, _ in unit.functions:
        if function.line is None:
            inside = set(function.mentions)
            function.generates = scope(function.items, inside) or function.yields
            function.all_mentions = frozenset(inside)
    unit.is_known = True


def _write(unit: Unit, piece: Piece, renumbered: bool) -> None:
    """Write the lines of a piece of the file and its functions that are out of date."""
    unit.lines = [_checked(dump_statement(statement)) for statement in piece.lowered]
    if any(BACKWARD in line for line in unit.lines):
        unit.mentions |= {BACKWARD}
    unit.starts = any('"__name__"' in line and '"__main__"' in line for line in unit.lines)
    for function, _ in unit.functions:
        if function.line is None or (renumbered and function.nests):
            function.line = _checked(dump_block(function.body))
            if BACKWARD in function.line:
                function.all_mentions |= {BACKWARD}


def _checked(line: str) -> str:
    if depth_of(line) > DEEPEST_CODE:
        raise TooDeepError
    return line


def _is_within_limits(text: str) -> bool:
    return "\0" not in text and len(text) <= MOST_CHARACTERS and _is_encodable(text) and too_deep(text) is None


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_blank(text: str) -> bool:
    return BLANK.fullmatch(text) is not None


def _opening(region: Region) -> str:
    """Headers of compound statements, each indented as the block it stands in is."""
    return "".join(f"{step.block.indentation}if 1:\n" for step in region.path)


def _code_end(text: str) -> int:
    """Where the last row that holds code ends."""
    rows = text.splitlines(keepends=True)
    end = len(text)
    while rows and BLANK.fullmatch(rows[-1]):
        end -= len(rows.pop())
    return end


def _ends_deeper(text: str, indentation: str) -> bool:
    """Whether the last row that holds code is indented deeper: with more than decorators, which say what follows."""
    rows = text[: _code_end(text)].splitlines()
    return bool(rows) and rows[-1].startswith((f"{indentation} ", f"{indentation}\t"))


def _is_indented(text: str, indentation: str) -> bool:
    """Whether the first row that holds code is indented so."""
    start = BLANK.match(text).end()  # type: ignore[union-attr]
    return text.startswith(indentation, start) and text[start + len(indentation)] not in " \t\f"


# ------------------------------------------------------------------------------------------------------ what changed


def changed_rows(old: str, new: str) -> Change | None:
    """The rows in which two texts differ; None where they don't."""
    if old == new:
        return None
    shorter = min(len(old), len(new))
    start = _common(shorter, lambda count: old[:count] == new[:count])
    while not (_starts_row(old, start) and _starts_row(new, start)):
        start -= 1
    same = _common(shorter - start, lambda count: old[len(old) - count :] == new[len(new) - count :])
    while same and not (_starts_row(old, len(old) - same) and _starts_row(new, len(new) - same)):
        same -= 1
    return Change(start, len(old) - same, len(new) - same)


def _common(most: int, is_common: Any) -> int:
    """The largest count up to `most` that is common, where all below it are."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if is_common(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _starts_row(text: str, offset: int) -> bool:
    if not offset:
        return True
    before = text[offset - 1]
    return before == "\n" or (before == "\r" and text[offset : offset + 1] != "\n")


# ---------------------------------------------------------------------------------------------- looking for pieces


def _region(path: tuple[Step, ...], block: Block, offset: int, change: Change) -> Region:
    """The pieces of a block, which starts at `offset`, that hold a change."""
    pieces = block.pieces
    block_end = offset + block.size.characters
    row = block.row
    first = 0
    for piece in pieces:
        length = piece.lead.characters + piece.size.characters
        if offset + length > change.start:
            break
        offset += length
        row += piece.lead.rows + piece.size.rows
        first += 1
    stop, end = offset, first
    while end < len(pieces) and stop + pieces[end].lead.characters < change.end:
        stop += pieces[end].lead.characters + pieces[end].size.characters
        end += 1
    stop = stop + pieces[end].lead.characters if end < len(pieces) else block_end
    return Region(path, block, first, end, offset, stop, row, block_end)


def _regions(root: Block, change: Change) -> list[Region]:
    """The runs of pieces that hold a change, the smallest first."""
    regions: list[Region] = []
    region: Region | None = _region((), root, 0, change)
    while region is not None:
        regions += (_wider(region), region)
        region = _below(region, change)
    return regions[::-1]


def _ending(region: Region) -> Iterator[Region]:
    """The ends of the blocks that end right before a region and are below its own block."""
    last = Change(region.start - 1, region.start, region.start)
    end = Change(region.start, region.start, region.start)
    inner: Region | None = _region(region.path, region.block, _start(region), last)
    while inner is not None:
        inner = _below(inner, last)
        if inner is not None:
            yield _region(inner.path, inner.block, _start(inner), end)


def _start(region: Region) -> int:
    """Where the block of a region starts."""
    return region.block_end - region.block.size.characters


def _wider(region: Region) -> Region:
    """A region and the pieces before and after it."""
    block = region.block
    first, start, row = region.first, region.start, region.row
    if first:
        first -= 1
        start -= block.pieces[first].lead.characters + block.pieces[first].size.characters
        row -= block.pieces[first].lead.rows + block.pieces[first].size.rows
    end, stop = region.end, region.stop
    if end < len(block.pieces):
        stop += block.pieces[end].size.characters
        end += 1
        stop = stop + block.pieces[end].lead.characters if end < len(block.pieces) else region.block_end
    return Region(region.path, block, first, end, start, stop, row, region.block_end)


def _below(region: Region, change: Change) -> Region | None:
    """The pieces that hold a change in the suite that it is inside of, if there is one."""
    if region.end != region.first + 1:
        return None
    block = region.block
    piece = block.pieces[region.first]
    start = region.start + piece.lead.characters
    for suite in piece.suites:
        offset = start + suite.start.characters
        if offset <= change.start and change.end <= offset + suite.block.size.characters:
            step = Step(block, region.first, 0 if block.of_units else region.row + piece.lead.rows, suite)
            return _region((*region.path, step), suite.block, offset, change)
    return None


def _untouched_twice(region: Region, change: Change) -> Iterator[list[tuple[int, Block]]]:
    """The suites that a change does not touch: with those right beside it, which it may enlarge, and without."""
    pieces = region.block.pieces[region.first : region.end]
    beside = list(_untouched(pieces, region.start, change, 0))
    yield beside
    apart = list(_untouched(pieces, region.start, change, 1))
    if len(apart) != len(beside) or apart != beside:
        yield apart


def _untouched(pieces: Sequence[Piece], offset: int, change: Change, apart: int) -> Iterator[tuple[int, Block]]:
    """The largest suites below some pieces at least so many characters away from a change, and where they start."""
    for piece in pieces:
        start = offset + piece.lead.characters
        for suite in piece.suites:
            first = start + suite.start.characters
            if first + suite.block.size.characters + apart <= change.start or first >= change.end + apart:
                yield first, suite.block
            else:
                yield from _untouched(suite.block.pieces, first, change, apart)
        offset = start + piece.size.characters


# ---------------------------------------------------------------------------------------------------- around a change


def _grow(step: Step, by: Extent) -> None:
    """Let a piece know that one of its suites has become larger."""
    block, suite = step.block, step.suite
    piece = block.pieces[step.number]
    piece.size = _grown(piece.size, by)
    block.size = _grown(block.size, by)
    if suite.function is not None:
        suite.function.line = None
    index = piece.suites.index(suite)
    for later in piece.suites[index + 1 :]:
        later.start = _grown(later.start, by)
    if not by.rows:
        return
    _move_rest(step, piece, by.rows)
    if block.depth:
        move_pieces(block, block.pieces[step.number + 1 :], by.rows)
        block.refresh()


def _move_rest(step: Step, piece: Piece, rows: int) -> None:
    """Move what comes behind a suite that has grown, in the same piece."""
    suite = step.suite
    first = step.row + suite.start.rows + suite.block.size.rows - rows
    if step.block.of_class:
        piece.lowered = [[row, moved(statement, rows, first), tag] for row, statement, tag in piece.lowered]
    else:
        piece.lowered = [moved(statement, rows, first) for statement in piece.lowered]
    holder = suite.block if suite.function is None else suite.function
    index = next(index for index, item in enumerate(piece.items) if item is holder)
    move_items(piece.items[index + 1 :], rows)


def _grown(size: Extent, by: Extent) -> Extent:
    return Extent(size.characters + by.characters, size.rows + by.rows)
