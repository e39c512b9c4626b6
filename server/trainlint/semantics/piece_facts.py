"""The facts of a text that is kept in pieces: what is derived from a piece serves while nothing in it changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trainlint.semantics.facts import FunctionSummary, ImportedModule, ModuleFacts
from trainlint.semantics.lowering import BACKWARD, DEEPEST_CODE, depth_of, dump_block, dump_statement
from trainlint.semantics.pieces import Block, Function, Piece, everything, scope


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


def facts_of(root: Block, units: Sequence[Unit]) -> ModuleFacts:
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
