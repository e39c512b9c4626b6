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

import libcst as cst

from trainlint.semantics.brokenness import Reading, read, stands_alone
from trainlint.semantics.extract import SourceError, collector_off, extract, lower, parse_ast, python_error
from trainlint.semantics.facts import ModuleFacts
from trainlint.semantics.limits import MOST_CHARACTERS
from trainlint.semantics.nesting import too_deep
from trainlint.semantics.parsing import parse_module
from trainlint.semantics.piece_facts import TooDeepError, Unit, facts_of
from trainlint.semantics.pieces import (
    Block,
    Extent,
    Piece,
    extent,
    move_block,
    move_items,
    move_pieces,
    moved,
)
from trainlint.semantics.piecewise import BLANK, IndivisibleError, Move, PiecewiseLowering, StandIn
from trainlint.semantics.regions import (
    Change,
    Region,
    Step,
    Untouched,
    changed_rows,
    ends_before,
    regions_of,
    starts_row,
    untouched_by,
    untouched_twice,
)


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
                        return facts_of(self._root, self._units)
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
                facts = facts_of(root, units)
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
        regions = regions_of(self._root, change)
        if self._append(regions[0], change, text):
            return self._splice(text)
        for region in regions:
            for untouched in untouched_twice(region, change):
                if self._replace(region, change, text, untouched):
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
        untouched = list(untouched_by(region, change, 1))
        shortened, _ = _shortened(region, change, text, untouched)
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
        """Take in no more than the rows that a change adds to a block which ends right before `region`; return False
        where it adds none."""
        new = text[region.start : region.stop + change.new_end - change.end]
        body = new[: _code_end(new)]
        if not region.first or region.first != region.end or not body:
            return False
        added = Change(region.start, region.start, region.start + len(body))
        text = self._text[: region.start] + body + self._text[region.start :]
        if not starts_row(text, added.new_end):
            return False
        for end in ends_before(region):
            if _is_indented(body, end.block.indentation):
                return self._replace(end, added, text, [])
        return False

    def _replace(self, region: Region, change: Change, text: str, untouched: Untouched) -> bool:
        """Take in the new text of a region; return False, and leave everything as it is, where it is none of pieces."""
        try:
            spliced = self._parsed(region, change, text, untouched)
        except IndivisibleError:
            return False
        self._put(region, change, text, *spliced)
        self._text = text
        return True

    def _parsed(
        self, region: Region, change: Change, text: str, untouched: Untouched
    ) -> tuple[list[Piece], Extent, list[Move]]:
        """The pieces of the new text of a region, the blank rows behind them, and what becomes of suites kept."""
        block = region.block
        real = text[region.start : region.stop + change.new_end - change.end]
        if _is_blank(real):
            if block.depth and region.end - region.first == len(block.pieces):
                raise IndivisibleError
            return [], extent(real), []
        opening = _opening(region)
        shortened, stand_ins = _shortened(region, change, text, untouched)
        mirror = parse_ast(opening + shortened)
        if mirror is None:
            raise IndivisibleError
        self.parsed += len(shortened)
        try:
            module = parse_module(opening + shortened)
        except Exception:
            raise IndivisibleError from None
        lowering = PiecewiseLowering(module, opening + shortened, opening + real, stand_ins)
        pieces, tail = lowering.part(block, region.row, mirror.body)
        moves = lowering.moves
        lowering.__dict__.clear()
        return pieces, tail, moves

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


def _shortened(region: Region, change: Change, text: str, untouched: Untouched) -> tuple[str, dict[int, StandIn]]:
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
