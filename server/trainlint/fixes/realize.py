"""From recipes to text edits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from trainlint.fixes.accumulators import accumulate_on_device, tree_of_names
from trainlint.fixes.arguments import remove_argument, rewrite_call, set_argument
from trainlint.fixes.edits import CannotFix, Draft, Range, TextEdit, moved
from trainlint.fixes.expressions import replace_by_part, replace_expression
from trainlint.fixes.guards import merge_guards
from trainlint.fixes.imports import drop_import, ensure_import, side_by_side, stays_in_use
from trainlint.fixes.recipe import (
    AccumulateOnDevice,
    Applicability,
    DecorateFunction,
    DropImport,
    EnsureImport,
    Fix,
    GuardBlock,
    GuardStatement,
    InsertAtStartOfLoop,
    InsertBefore,
    Recipe,
    RemoveArgument,
    RemoveStatement,
    RemoveText,
    ReplaceByPart,
    ReplaceExpression,
    RewriteCall,
    SetArgument,
)
from trainlint.fixes.statements import (
    decorate_function,
    guard_block,
    guard_statement,
    insert_at_start_of_loop,
    insert_before,
    remove_statement,
)
from trainlint.fixes.tree import EXPRESSION, Tree, line_end, line_index, line_start
from trainlint.semantics.context import Site
from trainlint.source.lexing import Comment
from trainlint.source.positions import Span


@dataclass(frozen=True, slots=True)
class Realized:
    """What a fix does to a text. The edits of both kinds are in terms of the same original text."""

    imports: tuple[TextEdit, ...]
    """Rows of imports to insert; they come before other edits at the same place."""
    edits: tuple[TextEdit, ...]
    drops: tuple[DropImport, ...]
    """Imports to remove if nothing uses them in the end, which depends on the other fixes too."""


def realize(fix: Fix, text: str) -> tuple[TextEdit, ...]:
    """Return the edits of `text` that carry the whole fix out: in order, apart from each other, possibly none.

    The recipes are carried out one after the other, imports that they need first, imports to drop last. Raises
    CannotFix if one of them does not apply, or if the result would not parse.
    """
    realized = carry_out(fix, text)
    draft = Draft(text)
    _apply(draft, (*side_by_side(realized.imports), *realized.edits))
    draft.apply(merge_guards(draft.text, draft.edits()))
    for recipe in realized.drops:
        if not stays_in_use(text, draft.edits(), recipe):
            draft.apply(drop_import(draft.text, recipe))
    return draft.edits()


def settled(fix: Fix, text: str) -> Fix:
    """The fix as it is offered for this text: advice where it has some for recipes that do not apply."""
    if not fix.recipes or not fix.otherwise:
        return fix
    try:
        realize(fix, text)
    except CannotFix:
        return Fix(Applicability.DISPLAY, fix.otherwise)
    return fix


def carry_out(fix: Fix, text: str) -> Realized:
    """Carry out the recipes, imports apart from the rest. Raises CannotFix as `realize` does."""
    if len({site.path for recipe in fix.recipes for site in _sites(recipe)}) > 1:
        raise CannotFix("it changes more than one file")
    imports = [edit for recipe in fix.recipes if isinstance(recipe, EnsureImport) for edit in _import(text, recipe)]
    others = [recipe for recipe in fix.recipes if not isinstance(recipe, EnsureImport | DropImport)]
    drops = [recipe for recipe in fix.recipes if isinstance(recipe, DropImport)]
    return Realized(
        imports=tuple(imports),
        edits=_carried_out(others, text),
        # The imports of a package's `__init__` are there for other modules.
        drops=tuple(recipe for recipe in drops if recipe.anywhere.path.name != "__init__.py"),
    )


def _import(text: str, recipe: EnsureImport) -> list[TextEdit]:
    return ensure_import(text, _place(text, recipe.anywhere), recipe)


def _carried_out(recipes: Sequence[Recipe], text: str) -> tuple[TextEdit, ...]:
    """The edits of recipes that are carried out one after the other, each on what the ones before it leave."""
    draft = Draft(text)
    places: list[list[Range | None]] = [[_place(text, site) for site in _sites(recipe)] for recipe in recipes]
    for index, recipe in enumerate(recipes):
        known = _known(places[index])
        edits = _verified_edits(draft.text, recipe, known)
        _apply(draft, edits)
        places = [[place and moved(place, edits) for place in group] for group in places]
    return draft.edits()


def _verified_edits(text: str, recipe: Recipe, places: list[Range]) -> list[TextEdit]:
    """The edits of one recipe, which leave code that parses."""
    if isinstance(recipe, RemoveText):
        return _remove_comment(text, places[0])
    tree = Tree.around(text, places[0])
    if isinstance(recipe, AccumulateOnDevice):
        tree = tree_of_names(tree, places[0])
    edits = _edits(tree, recipe, places)
    tree.verify(edits)
    return edits


def _apply(draft: Draft, edits: Sequence[TextEdit]) -> None:
    try:
        draft.apply(edits)
    except ValueError as error:
        raise CannotFix("parts of it overlap") from error


def _sites(recipe: Recipe) -> list[Site]:
    """The places that a recipe names, in the order in which `_edits` takes them."""
    match recipe:
        case SetArgument() | RemoveArgument():
            return [recipe.call]
        case ReplaceExpression() | RemoveStatement() | GuardStatement() | InsertBefore():
            return [recipe.expression]
        case ReplaceByPart() | AccumulateOnDevice():
            return [recipe.expression, recipe.part]
        case RewriteCall():
            return [recipe.function]
        case GuardBlock():
            return [recipe.statement]
        case InsertAtStartOfLoop():
            return [recipe.loop]
        case DecorateFunction():
            return [recipe.inside]
        case EnsureImport() | DropImport():
            return [recipe.anywhere]
        case RemoveText():
            return [recipe.text]


def _place(text: str, site: Site) -> Range:
    index = line_index(text)
    if site.row < 1 or site.end_row > index.rows:
        raise CannotFix("the code that it is about is no longer there")
    return Range(*index.offsets(Span(site.row, site.column, site.end_row, site.end_column)))


def _known(places: Sequence[Range | None]) -> list[Range]:
    known = [place for place in places if place is not None]
    if len(known) < len(places):
        raise CannotFix("one part of it rewrites what another part is about")
    return known


def _edits(tree: Tree, recipe: Recipe, places: list[Range]) -> list[TextEdit]:
    place = places[0]
    match recipe:
        case SetArgument():
            return set_argument(tree, tree.find(cst.Call, place), recipe)
        case RemoveArgument():
            return remove_argument(tree, tree.find(cst.Call, place), recipe)
        case ReplaceExpression():
            return replace_expression(tree, tree.find(EXPRESSION, place), recipe.template)
        case ReplaceByPart():
            whole, part = (tree.find(EXPRESSION, named) for named in places)
            return replace_by_part(tree, whole, part)
        case AccumulateOnDevice():
            return accumulate_on_device(tree, places[0], places[1], recipe.floating)
        case RewriteCall():
            return rewrite_call(tree, tree.find(EXPRESSION, place), recipe)
        case RemoveStatement():
            return remove_statement(tree, place)
        case GuardStatement():
            return guard_statement(tree, place, recipe.condition)
        case GuardBlock():
            return guard_block(tree, place, recipe.header)
        case InsertBefore():
            return insert_before(tree, place, recipe.source)
        case InsertAtStartOfLoop():
            return insert_at_start_of_loop(tree, place, recipe.source)
        case DecorateFunction():
            return decorate_function(tree, place, recipe.decorator)
        case EnsureImport() | DropImport() | RemoveText():
            raise AssertionError("neither imports nor comments are edits of one statement")


def _remove_comment(text: str, place: Range) -> list[TextEdit]:
    """Remove a comment or a part of one; with it the whitespace, or the row, that nothing else is left on.

    What is left of the comment must be one, so that the code stays as it is: there is nothing to parse.
    """
    comments = line_index(text).lexed.comments
    found = bisect_right(comments, place.start, key=lambda comment: comment.start)
    comment = comments[found - 1] if found else None
    if comment is None or place.end > comment.end or not _leaves_a_comment(text, place, comment):
        raise CannotFix("it is no longer in a comment")
    start, end = line_start(text, place.start), line_end(text, place.end)
    before, after = text[start : place.start], text[place.end : end]
    if after.strip():
        return [TextEdit(*place, "")]
    if not before.strip():
        return [TextEdit(start, end, "")]
    return [TextEdit(start + len(before.rstrip()), place.end + len(after.rstrip("\r\n")), "")]


def _leaves_a_comment(text: str, place: Range, comment: Comment) -> bool:
    """Whether what is left of a comment is one, or nothing."""
    rest = text[place.end : comment.end].lstrip()
    return place.start > comment.start or not rest or rest.startswith("#")
