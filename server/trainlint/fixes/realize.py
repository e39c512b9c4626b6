"""From recipes to text edits."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from trainlint.fixes.arguments import remove_argument, rewrite_call, set_argument
from trainlint.fixes.edits import CannotFix, Draft, Range, TextEdit, moved
from trainlint.fixes.expressions import replace_by_part, replace_expression
from trainlint.fixes.imports import drop_import, ensure_import
from trainlint.fixes.recipe import (
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
from trainlint.source.positions import Span


def realize(fix: Fix, text: str) -> tuple[TextEdit, ...]:
    """Return the edits of `text` that carry the whole fix out: in order, apart from each other, possibly none.

    The recipes are carried out one after the other, imports that they need first, imports to drop last. Raises
    CannotFix if one of them does not apply, or if the result would not parse.
    """
    draft = realize_without_drops(fix, text)
    for recipe in dropped_imports(fix):
        draft.apply(drop_import(draft.text, recipe))
    return draft.edits()


def realize_without_drops(fix: Fix, text: str) -> Draft:
    """Carry out the recipes but for `DropImport`, which depends on what other fixes leave in use."""
    if len({site.path for recipe in fix.recipes for site in _sites(recipe)}) > 1:
        raise CannotFix("it changes more than one file")
    recipes = sorted(
        (recipe for recipe in fix.recipes if not isinstance(recipe, DropImport)),
        key=lambda recipe: not isinstance(recipe, EnsureImport),
    )
    draft = Draft(text)
    places: list[list[Range | None]] = [[_place(text, site) for site in _sites(recipe)] for recipe in recipes]
    for index, recipe in enumerate(recipes):
        edits = _step(draft.text, recipe, _known(places[index]))
        try:
            draft.apply(edits)
        except ValueError as error:
            raise CannotFix("parts of it overlap") from error
        places = [[place and moved(place, edits) for place in group] for group in places]
    return draft


def dropped_imports(fix: Fix) -> list[DropImport]:
    """The imports that the fix wants to drop; none in a package's `__init__`, whose imports are there for others."""
    drops = [recipe for recipe in fix.recipes if isinstance(recipe, DropImport)]
    return [recipe for recipe in drops if recipe.anywhere.path.name != "__init__.py"]


def _sites(recipe: Recipe) -> list[Site]:
    """The places that a recipe names, in the order in which `_step` takes them."""
    match recipe:
        case SetArgument() | RemoveArgument():
            return [recipe.call]
        case ReplaceExpression() | RemoveStatement() | GuardStatement() | InsertBefore():
            return [recipe.expression]
        case ReplaceByPart():
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


def _step(text: str, recipe: Recipe, places: list[Range]) -> list[TextEdit]:
    """The verified edits of one recipe."""
    if isinstance(recipe, EnsureImport):
        return ensure_import(text, places[0], recipe)
    tree = Tree.around(text, places[0])
    edits = _edits(tree, recipe, places)
    tree.verify(edits)
    return edits


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
        case RemoveText():
            return _remove_comment(tree, place)
        case EnsureImport() | DropImport():
            raise AssertionError("imports are no edits of one statement")


def _remove_comment(tree: Tree, place: Range) -> list[TextEdit]:
    """Remove a comment or a part of one; with it the whitespace, or the row, that nothing else is left on."""
    comments = [tree.whole(node) for node in tree.nodes(cst.Comment)]
    if not any(here.start <= place.start and place.end <= here.end for here in comments):
        raise CannotFix("it is no longer in a comment")
    start, end = line_start(tree.text, place.start), line_end(tree.text, place.end)
    before, after = tree.text[start : place.start], tree.text[place.end : end]
    if after.strip():
        return [TextEdit(*place, "")]
    if not before.strip():
        return [TextEdit(start, end, "")]
    return [TextEdit(start + len(before.rstrip()), place.end + len(after.rstrip("\r\n")), "")]
