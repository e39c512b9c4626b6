"""Several fixes at once: which of them go together, and how often to start over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from trainlint.fixes.edits import CannotFix, TextEdit, apply_edits, conflict
from trainlint.fixes.imports import drop_import, is_import_insertion
from trainlint.fixes.realize import dropped_imports, realize_without_drops
from trainlint.fixes.recipe import DropImport, Fix
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
    edits: tuple[TextEdit, ...]
    drops: tuple[DropImport, ...]

    @property
    def order(self) -> tuple[int, int]:
        """By the place of the first change, imports that are added left aside."""
        starts = [edit.start for edit in self.edits if not is_import_insertion(edit)]
        return (min(starts, default=0), self.index)


def apply_fixes(text: str, fixes: Sequence[Fix]) -> Applied:
    """Apply all fixes that do not get in each other's way; of two that do, the one that comes first in the text.

    A fix is applied whole or not at all. Imports are dropped at the end, where no fix left them in use.
    """
    skipped: dict[int, str] = {}
    candidates = _candidates(text, fixes, skipped)
    taken, edits = _compatible(text, candidates, skipped)
    new = apply_edits(text, edits)
    if not _parses(new):
        taken, new = _one_by_one(text, taken, skipped)
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
            edits = realize_without_drops(fix, text).edits()
        except CannotFix as reason:
            skipped[index] = str(reason)
            continue
        candidate = _Candidate(index, edits, tuple(dropped_imports(fix)))
        if candidate.edits or candidate.drops:
            found.append(candidate)
        else:
            skipped[index] = "it changes nothing" if fix.recipes else "it is advice without edits"
    return sorted(found, key=lambda candidate: candidate.order)


def _compatible(
    text: str, candidates: Sequence[_Candidate], skipped: dict[int, str]
) -> tuple[list[_Candidate], list[TextEdit]]:
    """The candidates that can be applied together, and their edits with equal imports merged."""
    taken: list[_Candidate] = []
    edits: list[TextEdit] = []
    for candidate in candidates:
        additional = [edit for edit in candidate.edits if edit not in edits or not is_import_insertion(edit)]
        if any(_clash(edit, other) for edit in additional for other in edits):
            skipped[candidate.index] = "another fix changes the same code"
            continue
        taken.append(candidate)
        edits += additional
    return taken, edits


def _clash(one: TextEdit, other: TextEdit) -> bool:
    """Whether two edits conflict; rows of imports may be inserted at one place in any order."""
    return conflict(one, other) and not (is_import_insertion(one) and is_import_insertion(other))


def _one_by_one(text: str, candidates: Sequence[_Candidate], skipped: dict[int, str]) -> tuple[list[_Candidate], str]:
    """Take the candidates that leave code that parses together with those before them."""
    taken: list[_Candidate] = []
    new = text
    for candidate in candidates:
        _, edits = _compatible(text, [*taken, candidate], {})
        attempt = apply_edits(text, edits)
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
        for recipe in candidate.drops:
            with suppress(CannotFix):
                edits = drop_import(text, recipe)
                if edits:
                    text = apply_edits(text, edits)
                    dropped.add((recipe.module, recipe.name))
        if not candidate.edits and not any((recipe.module, recipe.name) in dropped for recipe in candidate.drops):
            idle.append(candidate)
    return text, idle


def _parses(text: str) -> bool:
    try:
        parse(text)
    except CannotFix:
        return False
    return True
