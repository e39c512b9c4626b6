"""Replacement of expressions, with parentheses where precedence asks for them.

No table of precedences: an expression stands right without parentheses if, in the finished text, it is still one node
of the syntax tree, held by the same kind of node.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from trainlint.fixes.edits import CannotFix, Range, TextEdit
from trainlint.fixes.tree import EXPRESSION, Tree, bracketed_expression, whole_of


@dataclass(frozen=True, slots=True)
class _Hole:
    """A place of a template to be filled: with which text, and whether that is one expression."""

    text: str
    is_expression: bool = True
    own: bool = False
    """Whether it is the replaced expression itself, `{0}`."""


def replace_expression(tree: Tree, expression: cst.BaseExpression, template: str) -> list[TextEdit]:
    """Replace an expression by a template.

    `{0}` stands for its text; of a call, `{name}` for the argument passed by that keyword, `{arg0}`, `{arg1}` … for the
    positional ones, `{arguments}` for all of them; `{function}` for what is called and `{receiver}` for what the called
    method, or the attribute, belongs to. Braces are doubled as in `str.format`.
    """
    parts = [part if isinstance(part, str) else _hole(tree, expression, part[0]) for part in _parsed(template)]
    parts = _without_stray_comma(parts)
    filled, wrapped = _fill(parts)
    inner, whole = tree.inner(expression), tree.whole(expression)
    place = inner
    own_is_wrapped = any(isinstance(part, _Hole) and part.own and part in wrapped for part in parts)
    if own_is_wrapped and tree.source(whole) == f"({tree.source(inner)})":
        place = whole
    for before, after in (("", ""), ("(", ")")):
        edits = _edits_around(place, inner, [before, *filled, after], tree)
        if _stands(tree, expression, place, edits):
            return edits
    raise CannotFix("the replacement does not fit into the expression around it")


def replace_by_part(tree: Tree, expression: cst.BaseExpression, part: cst.BaseExpression) -> list[TextEdit]:
    """Replace an expression by a part of itself, which stays untouched."""
    outer = tree.whole(expression) if len(expression.lpar) == 1 and not _has_comment(tree, expression) else None
    kept = tree.whole(part)
    inner = tree.inner(expression)
    if not (inner.start <= kept.start and kept.end <= inner.end):
        raise CannotFix("the part to keep is not within the expression")
    if "#" in tree.text[inner.start : kept.start] + tree.text[kept.end : inner.end]:
        raise CannotFix("a comment would be lost")
    for place in (inner, outer):
        if place is None:
            continue
        for before, after in (("", ""), ("(", ")")):
            edits = _nonempty(
                [TextEdit(place.start, kept.start, before), TextEdit(kept.end, place.end, after)], tree.text
            )
            if _stands(tree, expression, place, edits):
                return edits
    raise CannotFix("the part to keep does not fit into the expression around it")


# ---------------------------------------------------------------------------------------------------------- templates


def _parsed(template: str) -> Iterator[str | tuple[str]]:
    """The literal texts of a template, and the names of its fields as tuples."""
    try:
        fields = list(string.Formatter().parse(template))
    except ValueError as error:
        raise CannotFix("its template is malformed") from error
    for literal, name, specification, conversion in fields:
        if literal:
            yield literal
        if name is None:
            continue
        if specification or conversion:
            raise CannotFix("its template is malformed")
        yield (name,)


def _hole(tree: Tree, expression: cst.BaseExpression, name: str) -> _Hole:
    if name == "0":
        return _Hole(tree.source(tree.inner(expression)), own=True)
    call = expression if isinstance(expression, cst.Call) else None
    target = expression if call is None else call.func
    if name == "receiver" and isinstance(target, cst.Attribute):
        return _Hole(tree.source(tree.whole(target.value)))
    if call is None:
        raise CannotFix("the expression is not of the kind that it was")
    if name == "function":
        return _Hole(tree.source(tree.whole(call.func)))
    if name == "arguments":
        return _Hole(_all_arguments(tree, call), is_expression=False)
    return _Hole(tree.source(tree.whole(_argument(call, name).value)))


def _argument(call: cst.Call, name: str) -> cst.Arg:
    for argument in call.args:
        if argument.keyword is not None and argument.keyword.value == name:
            return argument
    positional = [argument for argument in call.args if argument.keyword is None and argument.star != "**"]
    index = name.removeprefix("arg")
    if name.startswith("arg") and index.isdecimal() and int(index) < len(positional):
        if any(argument.star for argument in positional[: int(index) + 1]):
            raise CannotFix("a starred argument may stand for the one that it needs")
        return positional[int(index)]
    raise CannotFix(f"the call passes no argument {name}")


def _all_arguments(tree: Tree, call: cst.Call) -> str:
    if not call.args:
        return ""
    return tree.text[tree.whole(call.args[0]).start : tree.whole(call.args[-1].value).end]


def _without_stray_comma(parts: list[str | _Hole]) -> list[str | _Hole]:
    """Drop the comma before `{arguments}` where there are none."""
    kept: list[str | _Hole] = []
    for part in parts:
        if isinstance(part, _Hole) and not part.text and kept and isinstance(kept[-1], str):
            kept[-1] = kept[-1].rstrip().removesuffix(",")
        kept.append(part)
    return kept


def _fill(parts: list[str | _Hole]) -> tuple[list[str | _Hole], list[_Hole]]:
    """Put parentheses around the fields that need them; return the parts again and those that got some."""
    wrapped: list[_Hole] = []
    for _ in range(2):
        filled: list[str | _Hole] = []
        for part in parts:
            filled += ["(", part, ")"] if isinstance(part, _Hole) and part in wrapped else [part]
        misread = _misread(filled)
        if not misread:
            return filled, wrapped
        wrapped += [hole for hole in misread if hole not in wrapped]
    raise CannotFix("its parts do not fit into its template")


def _misread(parts: list[str | _Hole]) -> list[_Hole]:
    """The fields that are not one expression each, once their text stands in the template."""
    text = "("
    places: list[tuple[_Hole, Range]] = []
    for part in parts:
        if isinstance(part, _Hole):
            places.append((part, Range(len(text), len(text) + len(part.text))))
        text += _text(part)
    text += "\n)\n"
    holes = [(hole, place) for hole, place in places if hole.is_expression]
    try:
        tree = Tree(text, whole_of(text))
    except CannotFix:
        if not holes:
            raise
        return [hole for hole, _ in holes]
    bracketed_expression(tree.module)
    expressions = {tree.whole(node) for node in tree.nodes(EXPRESSION)}
    expressions |= {tree.inner(node) for node in tree.nodes(EXPRESSION)}
    return [hole for hole, place in holes if place not in expressions]


def _text(part: str | _Hole) -> str:
    return part if isinstance(part, str) else part.text


# ------------------------------------------------------------------------------------------------------------- edits


def _edits_around(place: Range, inner: Range, parts: list[str | _Hole], tree: Tree) -> list[TextEdit]:
    """Edits that turn `place` into the parts, and leave the expression's own text untouched where it is kept once."""
    own = [index for index, part in enumerate(parts) if isinstance(part, _Hole) and part.own]
    if len(own) != 1:
        return _nonempty([TextEdit(*place, "".join(map(_text, parts)))], tree.text)
    before = "".join(map(_text, parts[: own[0]]))
    after = "".join(map(_text, parts[own[0] + 1 :]))
    return _nonempty([TextEdit(place.start, inner.start, before), TextEdit(inner.end, place.end, after)], tree.text)


def _nonempty(edits: list[TextEdit], text: str) -> list[TextEdit]:
    return [edit for edit in edits if text[edit.start : edit.end] != edit.content]


def _stands(tree: Tree, old: cst.BaseExpression, place: Range, edits: Iterable[TextEdit]) -> bool:
    """Whether, once the edits within `place` are made, one expression stands there, held as `old` is."""
    try:
        new, after = tree.changed(list(edits), place)
        node = new.find(EXPRESSION, after)
    except CannotFix:
        return False
    return type(new.parent(node)) is type(tree.parent(old))


def _has_comment(tree: Tree, expression: cst.BaseExpression) -> bool:
    whole, inner = tree.whole(expression), tree.inner(expression)
    return "#" in tree.text[whole.start : inner.start] + tree.text[inner.end : whole.end]
