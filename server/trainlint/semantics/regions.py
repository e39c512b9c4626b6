"""Where in the pieces of a text a change is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from trainlint.semantics.pieces import Block, Piece, Suite


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


Untouched: TypeAlias = list[tuple[int, Block]]
"""Suites that a change leaves alone, each with the offset in the old text where it starts."""


# ------------------------------------------------------------------------------------------------------ what changed


def changed_rows(old: str, new: str) -> Change | None:
    """The rows in which two texts differ; None where they don't."""
    if old == new:
        return None
    shorter = min(len(old), len(new))
    start = _common(shorter, lambda count: old[:count] == new[:count])
    while not (starts_row(old, start) and starts_row(new, start)):
        start -= 1
    same = _common(shorter - start, lambda count: old[len(old) - count :] == new[len(new) - count :])
    while same and not (starts_row(old, len(old) - same) and starts_row(new, len(new) - same)):
        same -= 1
    return Change(start, len(old) - same, len(new) - same)


def _common(most: int, is_common: Callable[[int], bool]) -> int:
    """The largest count up to `most` that is common, where all below it are."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if is_common(middle):
            low = middle
        else:
            high = middle - 1
    return low


def starts_row(text: str, offset: int) -> bool:
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


def regions_of(root: Block, change: Change) -> list[Region]:
    """The runs of pieces that hold a change, the smallest first."""
    regions: list[Region] = []
    region: Region | None = _region((), root, 0, change)
    while region is not None:
        regions += (_wider(region), region)
        region = _below(region, change)
    return regions[::-1]


def ends_before(region: Region) -> Iterator[Region]:
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


def untouched_twice(region: Region, change: Change) -> Iterator[Untouched]:
    """The suites that a change does not touch: with those right beside it, which it may enlarge, and without."""
    beside = list(untouched_by(region, change, 0))
    yield beside
    apart = list(untouched_by(region, change, 1))
    if apart != beside:
        yield apart


def untouched_by(region: Region, change: Change, apart: int) -> Iterator[tuple[int, Block]]:
    """The largest suites of a region that are at least so many characters away from a change."""
    return _untouched(region.block.pieces[region.first : region.end], region.start, change, apart)


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
