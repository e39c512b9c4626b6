"""Edits of a call's arguments."""

from __future__ import annotations

import re

import libcst as cst

from trainlint.fixes.commas import CommaList, Item
from trainlint.fixes.edits import CannotFix, Range, TextEdit
from trainlint.fixes.recipe import RemoveArgument, RewriteCall, SetArgument
from trainlint.fixes.tree import Tree, bracketed_expression, parse

SHORTEST_LIMIT = 88
"""Characters of a row, the default of the formatters black and ruff."""


def set_argument(tree: Tree, call: cst.Call, recipe: SetArgument) -> list[TextEdit]:
    """Replace the argument's value, or add the argument: after the others, but before the first `**`."""
    value = _argument_text(recipe.value)
    index = _find_argument(call, recipe.keyword, recipe.position)
    if index is not None:
        place = tree.whole(call.args[index].value)
        return [] if tree.source(place) == value else [TextEdit(*place, value)]
    content = f"{recipe.keyword}={value}"
    arguments = argument_list(tree, call)
    mappings = [i for i, argument in enumerate(call.args) if argument.star == "**"]
    if any(_holds_key(call.args[i].value, recipe.keyword) for i in mappings):
        raise CannotFix("a mapping passes the argument")
    if mappings:
        return arguments.insert_before(mappings[0], [content])
    edits = [*_bracket_generator(tree, call), *arguments.append([content])]
    return _in_rows(tree, call, content) if _grows_too_long(tree, call, edits) else edits


def remove_argument(tree: Tree, call: cst.Call, recipe: RemoveArgument) -> list[TextEdit]:
    """Remove the argument if it is there. Raises CannotFix if others would change their position."""
    index = _find_argument(call, recipe.keyword, recipe.position)
    if index is None:
        return []
    if call.args[index].keyword is None and any(_is_positional(later) for later in call.args[index + 1 :]):
        raise CannotFix("positional arguments follow the one to remove")
    return [argument_list(tree, call).remove(index)]


def rewrite_call(tree: Tree, function: cst.BaseExpression, recipe: RewriteCall) -> list[TextEdit]:
    """Call something else, with the present arguments passed by keyword between new ones."""
    call = tree.parent(function)
    if not isinstance(call, cst.Call) or call.func is not function:
        raise CannotFix("the name that it is about is no longer called there")
    if any(argument.star == "*" for argument in call.args):
        raise CannotFix("starred arguments cannot be passed by keyword")
    if recipe.trailing and any(argument.star for argument in call.args):
        raise CannotFix("a mapping may pass an argument that would be added")
    edits = [TextEdit(*tree.whole(function), recipe.replacement), *_name_positional(tree, call, recipe.parameters)]
    present = {argument.keyword.value for argument in call.args if argument.keyword is not None}
    trailing = [f"{keyword}={_argument_text(value)}" for keyword, value in recipe.trailing]
    if present & {keyword for keyword, _ in recipe.trailing}:
        raise CannotFix("the call passes an argument already that would be added")
    arguments = argument_list(tree, call)
    if not call.args:
        return [*edits, *arguments.append([*recipe.leading, *trailing])]
    return [*arguments.insert_before(0, recipe.leading), *edits, *arguments.append(trailing)]


def _grows_too_long(tree: Tree, call: cst.Call, edits: list[TextEdit]) -> bool:
    """Whether a call that is the whole value of a statement of one row would pass the length of all other rows, and the
    shortest limit that formatters are set to."""
    here = tree.inner(call)
    row = Range(tree.line_start(here.start), tree.line_end(here.start))
    value_of = isinstance(tree.parent(call), cst.Assign | cst.AnnAssign | cst.Expr | cst.Return)
    bare = isinstance(call.args[0].value, cst.GeneratorExp) if call.args else True
    if not value_of or bare or here.end > row.end or tree.source(Range(here.end, row.end)).strip():
        return False
    longest = max(map(len, tree.text.splitlines()))
    grown = len(tree.source(row).rstrip()) + sum(len(edit.content) - (edit.end - edit.start) for edit in edits)
    return grown > max(longest, SHORTEST_LIMIT)


def _in_rows(tree: Tree, call: cst.Call, content: str) -> list[TextEdit]:
    """Add an argument, and put each on a row of its own."""
    arguments = argument_list(tree, call)
    outer = re.match(r"[ \t]*", tree.text[tree.line_start(arguments.start) :])
    indentation = outer[0] if outer else ""
    break_ = tree.newline(arguments.start) + indentation
    row = break_ + tree.indentation_step(call)
    items = arguments.items
    starts = [arguments.start, *(item.stop for item in items[:-1])]
    edits = [TextEdit(start, item.start, row) for start, item in zip(starts, items, strict=True)]
    comma = "" if items[-1].comma_end else ","
    return [*edits, TextEdit(items[-1].stop, arguments.end, f"{comma}{row}{content},{break_}")]


def argument_list(tree: Tree, call: cst.Call) -> CommaList:
    """The arguments of a call, as text."""
    start = tree.whole(call.whitespace_before_args).start
    items = [_item(tree, argument) for argument in call.args]
    return CommaList(tree.text, start, tree.inner(call).end - 1, items)


def _item(tree: Tree, argument: cst.Arg) -> Item:
    comma_end = None
    if isinstance(argument.comma, cst.Comma):
        comma_end = tree.whole(argument.comma.whitespace_before).end + 1
    return Item(tree.whole(argument).start, tree.whole(argument.value).end, comma_end)


def _find_argument(call: cst.Call, keyword: str, position: int | None) -> int | None:
    """Index of the argument passed by `keyword`, or else at `position` among the positional ones."""
    for index, argument in enumerate(call.args):
        if argument.keyword is not None and argument.keyword.value == keyword:
            return index
    if position is None:
        return None
    positional = [index for index, argument in enumerate(call.args) if _is_positional(argument)]
    if any(call.args[index].star for index in positional[: position + 1]):
        raise CannotFix("a starred argument may stand for the one that it changes")
    return positional[position] if position < len(positional) else None


def _holds_key(mapping: cst.BaseExpression, key: str) -> bool:
    """Whether a mapping is written out and holds the key: `{"shuffle": True}`, `dict(shuffle=True)`."""
    if isinstance(mapping, cst.Call):
        return any(argument.keyword is not None and argument.keyword.value == key for argument in mapping.args)
    elements = mapping.elements if isinstance(mapping, cst.Dict) else ()
    keys = (element.key for element in elements if isinstance(element, cst.DictElement))
    return any(isinstance(one, cst.SimpleString) and one.evaluated_value == key for one in keys)


def _is_positional(argument: cst.Arg) -> bool:
    return argument.keyword is None and argument.star != "**"


def _name_positional(tree: Tree, call: cst.Call, parameters: tuple[str, ...]) -> list[TextEdit]:
    positional = [argument for argument in call.args if _is_positional(argument)]
    if len(positional) > len(parameters):
        raise CannotFix("the call passes more positional arguments than can be named")
    taken = {argument.keyword.value for argument in call.args if argument.keyword is not None}
    if taken & set(parameters[: len(positional)]):
        raise CannotFix("the call passes one argument twice")
    edits: list[TextEdit] = []
    for name, argument in zip(parameters, positional, strict=False):
        place = tree.whole(argument.value)
        bare = isinstance(argument.value, cst.NamedExpr | cst.GeneratorExp) and not argument.value.lpar
        edits.append(TextEdit(place.start, place.start, f"{name}=(" if bare else f"{name}="))
        if bare:
            edits.append(TextEdit(place.end, place.end, ")"))
    return edits


def _bracket_generator(tree: Tree, call: cst.Call) -> list[TextEdit]:
    """A generator without parentheses must be the only argument: give it some."""
    if len(call.args) != 1:
        return []
    value = call.args[0].value
    if not isinstance(value, cst.GeneratorExp) or value.lpar:
        return []
    place = tree.whole(value)
    return [TextEdit(place.start, place.start, "("), TextEdit(place.end, place.end, ")")]


def _argument_text(value: str) -> str:
    """The value as it can stand after `keyword=`: in parentheses where it would read as something else."""
    expression = bracketed_expression(parse(f"({value}\n)\n"))
    kinds = (cst.Tuple, cst.NamedExpr, cst.GeneratorExp, cst.Yield)
    if isinstance(expression, kinds) and len(expression.lpar) == 1:
        return f"({value})"
    return value
