"""Several fixes at once: which of them go together, and how often to start over."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from trainlint.fixes.edits import CannotFix, TextEdit, apply_edits, conflict
from trainlint.fixes.guards import merge_guards
from trainlint.fixes.imports import drop_import, side_by_side
from trainlint.fixes.realize import Realized, carry_out
from trainlint.fixes.recipe import Fix
from trainlint.fixes.tree import parse

MOST_ROUNDS = 10
"""How often `converge` lints and fixes before it gives up; fixes that undo each other would never end."""


class Skipped(NamedTuple):
    """A fix that was not applied."""

    number: int
    """Its index."""
    reason: str
    """As the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The outcome of one pass."""

    text: str
    applied: tuple[int, ...]
    """Indices of the fixes that are in the text, ascending."""
    skipped: tuple[Skipped, ...]
    """The others, by ascending number."""


@dataclass(frozen=True, slots=True)
class Converged:
    """The outcome of linting and fixing until nothing changes."""

    text: str
    rounds: int
    """Passes that changed something."""
    applied_count: int
    converged: bool
    """Whether the last state leaves nothing that could be applied."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A fix that can be carried out by itself."""

    index: int
    realized: Realized

    @property
    def order(self) -> tuple[int, int]:
        """By the place of the first change, imports left aside."""
        return (min((edit.start for edit in self.realized.edits), default=0), self.index)


class _Taken:
    """The edits of the candidates that were taken: in order, and apart from each other."""

    def __init__(self) -> None:
        self._edits: list[TextEdit] = []
        self._imports: list[int] = []
        """Where rows of imports are inserted, in order."""

    def clashes(self, candidate: _Candidate) -> bool:
        """Whether the candidate gets in the way of one that was taken; rows of imports may stand at one place in any
        order, but in no code that is replaced."""
        realized = candidate.realized
        return any(self._meets(edit) or self._replaces_an_import(edit) for edit in realized.edits) or any(
            edit.start < added.start < edit.end for added in realized.imports for edit in self._near(added)
        )

    def add(self, candidate: _Candidate) -> None:
        for edit in candidate.realized.edits:
            insort(self._edits, edit)
        for added in candidate.realized.imports:
            insort(self._imports, added.start)

    def _meets(self, edit: TextEdit) -> bool:
        return any(conflict(edit, other) for other in self._near(edit))

    def _near(self, edit: TextEdit) -> Iterator[TextEdit]:
        """The edits that overlap or touch this one."""
        after = bisect_right(self._edits, edit.end, key=lambda other: other.start)
        for index in range(after - 1, -1, -1):
            if self._edits[index].end < edit.start:
                break
            yield self._edits[index]

    def _replaces_an_import(self, edit: TextEdit) -> bool:
        index = bisect_right(self._imports, edit.start)
        return index < len(self._imports) and self._imports[index] < edit.end


def apply_fixes(text: str, fixes: Sequence[Fix]) -> Applied:
    """Apply all fixes that do not get in each other's way; of two that do, the one that comes first in the text.

    A fix is applied whole or not at all. Imports are dropped at the end, where no fix left them in use.
    """
    skipped: dict[int, str] = {}
    candidates = _candidates(text, fixes, skipped)
    taken = _compatible(candidates, skipped)
    new = apply_edits(text, _all_edits(taken))
    if not _parses(new):
        taken, new = _one_by_one(text, taken, skipped)
    new = apply_edits(new, merge_guards(new, sorted(_all_edits(taken), key=lambda edit: edit.start)))
    new, idle = _drop_imports(new, taken)
    for candidate in idle:
        skipped[candidate.index] = "the import that it removes is still in use"
    applied = tuple(sorted(candidate.index for candidate in taken if candidate not in idle))
    return Applied(new, applied, tuple(Skipped(*one) for one in sorted(skipped.items())))


def converge(text: str, lint: Callable[[str], Sequence[Fix]], rounds: int = MOST_ROUNDS) -> Converged:
    """Lint, apply, and start over until no fix applies any more, for at most `rounds` passes."""
    count = 0
    seen = {text}
    for done in range(rounds):
        outcome = apply_fixes(text, lint(text))
        if outcome.text == text:
            return Converged(text, done, count, converged=True)
        count += len(outcome.applied)
        text = outcome.text
        if text in seen:
            return Converged(text, done + 1, count, converged=False)
        seen.add(text)
    return Converged(text, rounds, count, converged=apply_fixes(text, lint(text)).text == text)


def _candidates(text: str, fixes: Sequence[Fix], skipped: dict[int, str]) -> list[_Candidate]:
    """The fixes that apply when alone, by place; the reasons of the others go to `skipped`."""
    found: list[_Candidate] = []
    for index, fix in enumerate(fixes):
        try:
            realized = carry_out(fix, text)
        except CannotFix as reason:
            skipped[index] = str(reason)
            continue
        if realized.imports or realized.edits or realized.drops:
            found.append(_Candidate(index, realized))
        else:
            skipped[index] = "it changes nothing" if fix.recipes else "it is advice without edits"
    return sorted(found, key=lambda candidate: candidate.order)


def _compatible(candidates: Sequence[_Candidate], skipped: dict[int, str]) -> list[_Candidate]:
    """The candidates that can be applied together."""
    taken: list[_Candidate] = []
    edits = _Taken()
    for candidate in candidates:
        if edits.clashes(candidate):
            skipped[candidate.index] = "another fix changes the same code"
        else:
            taken.append(candidate)
            edits.add(candidate)
    return taken


def _all_edits(candidates: Sequence[_Candidate]) -> list[TextEdit]:
    """The edits of all candidates, with equal imports merged; imports come first at their place."""
    imports = side_by_side(edit for candidate in candidates for edit in candidate.realized.imports)
    return [*imports, *(edit for candidate in candidates for edit in candidate.realized.edits)]


def _one_by_one(text: str, candidates: Sequence[_Candidate], skipped: dict[int, str]) -> tuple[list[_Candidate], str]:
    """Take the candidates that leave code that parses together with those before them."""
    taken: list[_Candidate] = []
    new = text
    for candidate in candidates:
        attempt = apply_edits(text, _all_edits([*taken, candidate]))
        if _parses(attempt):
            taken.append(candidate)
            new = attempt
        else:
            skipped[candidate.index] = "together with other fixes, the code would not parse"
    return taken, new


def _drop_imports(text: str, taken: Sequence[_Candidate]) -> tuple[str, list[_Candidate]]:
    """Drop what the candidates want dropped; return the text, and the candidates that thereby changed nothing."""
    idle: list[_Candidate] = []
    dropped: set[tuple[str, str]] = set()
    for candidate in taken:
        for recipe in candidate.realized.drops:
            with suppress(CannotFix):
                edits = drop_import(text, recipe)
                if edits:
                    text = apply_edits(text, edits)
                    dropped.add((recipe.module, recipe.name))
        changes = candidate.realized.imports or candidate.realized.edits
        if not changes and not any((recipe.module, recipe.name) in dropped for recipe in candidate.realized.drops):
            idle.append(candidate)
    return text, idle


def _parses(text: str) -> bool:
    try:
        parse(text)
    except CannotFix:
        return False
    return True
