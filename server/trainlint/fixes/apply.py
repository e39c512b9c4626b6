"""Several fixes at once: which of them go together, and how often to start over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from trainlint.fixes.edits import CannotFix, TextEdit, apply_edits, conflict
from trainlint.fixes.guards import merge_guards
from trainlint.fixes.imports import drop_import
from trainlint.fixes.realize import Realized, carry_out
from trainlint.fixes.recipe import Fix
from trainlint.fixes.tree import parse

MOST_ROUNDS = 10
"""How often `converge` lints and fixes before it gives up; fixes that undo each other would never end."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The outcome of one pass."""

    text: str
    applied: tuple[int, ...]
    """Indices of the fixes that are in the text, ascending."""
    skipped: tuple[tuple[int, str], ...]
    """Indices of the others, ascending, each with the reason as the end of a sentence."""


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

    def clashes(self, other: _Candidate) -> bool:
        """Whether the two get in each other's way; rows of imports may stand at one place in any order."""
        return (
            any(conflict(one, two) for one in self.realized.edits for two in other.realized.edits)
            or _cut_into(self.realized.edits, other.realized.imports)
            or _cut_into(other.realized.edits, self.realized.imports)
        )


def _cut_into(edits: Sequence[TextEdit], imports: Sequence[TextEdit]) -> bool:
    return any(edit.start < added.start < edit.end for edit in edits for added in imports)


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
    return Applied(new, applied, tuple(sorted(skipped.items())))


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
    for candidate in candidates:
        if any(candidate.clashes(other) for other in taken):
            skipped[candidate.index] = "another fix changes the same code"
        else:
            taken.append(candidate)
    return taken


def _all_edits(candidates: Sequence[_Candidate]) -> list[TextEdit]:
    """The edits of all candidates, with equal imports merged; imports come first at their place."""
    imports = dict.fromkeys(edit for candidate in candidates for edit in candidate.realized.imports)
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
