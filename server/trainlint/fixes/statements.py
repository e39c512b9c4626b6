"""Edits of statements: removal, guards, insertion, decorators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeAlias

import libcst as cst

from trainlint.fixes.edits import CannotFix, Range, TextEdit
from trainlint.fixes.tree import (
    COMPOUND_STATEMENT,
    SimpleLine,
    Statement,
    Tree,
    line_end,
    line_start,
    newline_at,
    only_comment_follows,
    parse,
    whole_of,
)

Loop: TypeAlias = cst.For | cst.While

_COMPOUND_KEYWORD = re.compile(r"(?:async|with|if|for|while|try)\b")
_NAMED_BY_PLACE: tuple[type[cst.CSTNode], ...] = (
    cst.BaseSmallStatement,
    cst.BaseExpression,
    cst.ImportAlias,
    cst.Arg,
    cst.FormattedStringExpression,
)
_IN_EXPRESSIONS: dict[type[cst.CSTNode], str] = {
    cst.NamedExpr: "the statement that holds it gives a name its value",
    cst.Yield: "the statement that holds it changes where the code goes on",
}
_ENDS_THE_FLOW = (cst.Return, cst.Raise, cst.Break, cst.Continue, cst.Global, cst.Nonlocal)
_BINDS_NAMES = (cst.Import, cst.ImportFrom, cst.TypeAlias, cst.Del)


def remove_statement(tree: Tree, place: Range) -> list[TextEdit]:
    """Remove the statement that holds `place`, its row's comment included; and with it an `if` around it that would be
    left empty and only looks at values. Any other block left empty gets `pass`."""
    statement = _statement_at(tree, place)
    _require_replaceable(tree, statement, place)
    if isinstance(statement, cst.BaseCompoundStatement):
        return [_remove_compound(tree, statement)]
    line = tree.line_of(statement)
    if len(line.body) > 1:
        return [_remove_of_several(tree, line, line.body.index(statement))]
    here = tree.inner(statement)
    around = _left_empty(tree, line)
    if around is not None:
        return [_remove_compound(tree, around)]
    if isinstance(line, cst.SimpleStatementSuite) or _is_alone(tree, line):
        return [TextEdit(*here, "pass")]
    return [_without_rows(tree.text, here.start, here.end)]


def guard_statement(tree: Tree, place: Range, condition: str) -> list[TextEdit]:
    """Put the statement that holds `place` under `if condition:`."""
    statement = _statement_at(tree, place)
    _require_replaceable(tree, statement, place)
    header = f"if {condition}"
    if isinstance(statement, cst.BaseCompoundStatement):
        return _nest(tree, statement, header)
    line = tree.line_of(statement)
    if len(line.body) > 1:
        raise CannotFix("other statements stand on its row")
    if isinstance(line, cst.SimpleStatementSuite):
        return _nest_in_suite(tree, line, header)
    return _nest(tree, statement, header)


def guard_block(tree: Tree, place: Range, header: str) -> list[TextEdit]:
    """Put a compound statement under another header; without a keyword, it is that of a `with`."""
    statement = tree.find_block(COMPOUND_STATEMENT, place)
    header = header.rstrip().removesuffix(":")
    return _nest(tree, statement, header if _COMPOUND_KEYWORD.match(header) else f"with {header}")


def insert_before(tree: Tree, place: Range, source: str) -> list[TextEdit]:
    """Insert a statement before the one that holds `place`, where it runs exactly as often as that one starts."""
    statement = _statement_at(tree, place)
    _require_evaluated_at_start(tree, statement, place)
    if isinstance(statement, cst.BaseCompoundStatement):
        start = _first_row(tree, statement)
        return [_inserted_rows(tree, line_start(tree.text, start), tree.indentation(start), source, statement)]
    line = tree.line_of(statement)
    _require_after_prologue(tree, line)
    start = tree.inner(statement).start
    if isinstance(line, cst.SimpleStatementSuite) or line.body[0] is not statement:
        return [TextEdit(start, start, f"{_one_row(source)}; ")]
    return [_inserted_rows(tree, line_start(tree.text, start), tree.indentation(start), source, statement)]


def insert_at_start_of_loop(tree: Tree, place: Range, source: str) -> list[TextEdit]:
    """Insert a statement as the first one of the loop's body."""
    loop = _loop_at(tree, place)
    body = loop.body
    if isinstance(body, cst.SimpleStatementSuite):
        start = tree.inner(body.body[0]).start
        return [TextEdit(start, start, f"{_one_row(source)}; ")]
    if not isinstance(body, cst.IndentedBlock) or not body.body:
        raise CannotFix("the loop's body is not understood")
    first = _first_row(tree, body.body[0])
    return [_inserted_rows(tree, tree.whole(body.header).end, tree.indentation(first), source, body.body[0])]


def decorate_function(tree: Tree, place: Range, decorator: str) -> list[TextEdit]:
    """Decorate the innermost function around `place`, inside of the decorators that it has."""
    around = [node for node in tree.nodes(cst.FunctionDef) if _covers(_with_decorators(tree, node), place)]
    if not around:
        raise CannotFix("no function is around it")
    function = min(around, key=lambda node: len(tree.source(tree.inner(node))))
    decorator = decorator.strip().removeprefix("@")
    if any(tree.source(tree.whole(present.decorator)) == decorator for present in function.decorators):
        return []
    start = tree.inner(function).start
    content = f"@{decorator}{newline_at(tree.text, start)}{tree.indentation(start)}"
    return [TextEdit(start, start, content)]


# ------------------------------------------------------------------------------------------------------------ finding


def _statement_at(tree: Tree, place: Range) -> Statement:
    """The statement that `place` is, or that holds the expression at `place`."""
    found = _node_at(tree, place)
    for node in (found, *tree.ancestors(found)):
        if isinstance(node, cst.BaseSmallStatement | cst.BaseCompoundStatement):
            return node
    raise CannotFix("no statement holds it")


def _node_at(tree: Tree, place: Range) -> cst.CSTNode:
    for kind in _NAMED_BY_PLACE:
        with suppress(CannotFix):
            return tree.find(kind, place)
    return tree.find_block(COMPOUND_STATEMENT, place)


def _loop_at(tree: Tree, place: Range) -> Loop:
    statement = tree.find_block(COMPOUND_STATEMENT, place)
    if not isinstance(statement, cst.For | cst.While):
        raise CannotFix("the loop that it is about is no longer there")
    return statement


def _is_at(tree: Tree, statement: Statement, place: Range) -> bool:
    """Whether `place` is the statement itself, rather than an expression in it."""
    here = tree.inner(statement)
    if isinstance(statement, cst.BaseCompoundStatement):
        return here.start == place.start
    return here == place


def _require_replaceable(tree: Tree, statement: Statement, place: Range) -> None:
    """Refuse where the statement does more than evaluate the expression at `place`, unless it was named itself."""
    if _is_elif(tree, statement):
        raise CannotFix("it is an elif branch")
    if isinstance(statement, cst.BaseSmallStatement):
        _require_nothing_beside(tree, statement, place)
    if isinstance(statement, cst.Expr) or _is_at(tree, statement, place):
        return
    if isinstance(statement, cst.BaseCompoundStatement):
        raise CannotFix("it stands in the header of a block")
    if isinstance(statement, _ENDS_THE_FLOW):
        raise CannotFix("the statement that holds it changes where the code goes on")
    if isinstance(statement, _BINDS_NAMES) or any(True for _ in _bound_names(statement)):
        raise CannotFix("the statement that holds it gives a name its value")


def _require_nothing_beside(tree: Tree, statement: cst.BaseSmallStatement, place: Range) -> None:
    """Refuse where a small statement binds names, yields, or calls something beside what `place` is in."""
    _require_run_with(tree, statement, place)
    within = tree.inner(statement)
    for kind, why in _IN_EXPRESSIONS.items():
        if any(_covers(within, tree.inner(node)) for node in tree.nodes(kind)):
            raise CannotFix(why)
    if _is_at(tree, statement, place):
        return
    calls = [tree.inner(call) for call in tree.nodes(cst.Call) if _covers(within, tree.inner(call))]
    outermost = max(
        (call for call in calls if _covers(call, place)), key=lambda call: call.end - call.start, default=place
    )
    if not all(_covers(outermost, call) for call in calls):
        raise CannotFix("the statement that holds it calls something else as well")


def _require_run_with(tree: Tree, statement: Statement, place: Range) -> None:
    """Refuse what stands in a lambda function, which runs when that is called, not when its statement does."""
    for node in tree.nodes(cst.Lambda):
        if _covers(tree.inner(statement), tree.inner(node)) and _covers(tree.whole(node.body), place):
            raise CannotFix("it stands in a lambda function")


def _bound_names(statement: cst.BaseSmallStatement) -> Iterator[cst.CSTNode]:
    """Names that a small statement binds, but for attributes and items of objects."""
    targets: list[cst.CSTNode] = []
    if isinstance(statement, cst.Assign):
        targets = [target.target for target in statement.targets]
    elif isinstance(statement, cst.AnnAssign):
        targets = [statement.target]
    while targets:
        target = targets.pop()
        if isinstance(target, cst.Name):
            yield target
        elif isinstance(target, cst.Tuple | cst.List):
            targets += [element.value for element in target.elements]


def _require_evaluated_at_start(tree: Tree, statement: Statement, place: Range) -> None:
    if _is_elif(tree, statement):
        raise CannotFix("it stands in an elif branch")
    _require_run_with(tree, statement, place)
    if not isinstance(statement, cst.BaseCompoundStatement) or _is_at(tree, statement, place):
        return
    inside = [
        node
        for kind in (cst.ExceptHandler, cst.ExceptStarHandler, cst.MatchCase)
        for node in tree.nodes(kind)
        if _covers(tree.inner(node), place)
    ]
    if inside or isinstance(statement, cst.While):
        raise CannotFix("what is inserted before the block would not run when it does")


def _require_after_prologue(tree: Tree, line: SimpleLine) -> None:
    """Refuse to put a statement before a docstring or a `from __future__` import."""
    first = line.body[0]
    if isinstance(first, cst.ImportFrom) and isinstance(first.module, cst.Name) and first.module.value == "__future__":
        raise CannotFix("nothing may stand before a __future__ import")
    holder = tree.parent(line)
    grandparent = tree.parent(holder) if isinstance(holder, cst.IndentedBlock) else holder
    if not isinstance(holder, cst.IndentedBlock | cst.Module) or holder.body[0] is not line:
        return
    starts_body = isinstance(grandparent, cst.FunctionDef | cst.ClassDef) or (
        isinstance(holder, cst.Module) and not tree.text[: tree.part.start].strip()
    )
    if (
        starts_body
        and isinstance(first, cst.Expr)
        and isinstance(first.value, cst.SimpleString | cst.ConcatenatedString)
    ):
        raise CannotFix("nothing may stand before a docstring")


def _is_elif(tree: Tree, statement: Statement) -> bool:
    return isinstance(statement, cst.If) and isinstance(tree.parent(statement), cst.If)


def _covers(outer: Range, inner: Range) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _is_alone(tree: Tree, line: cst.SimpleStatementLine | cst.BaseCompoundStatement) -> bool:
    block = tree.parent(line)
    return isinstance(block, cst.IndentedBlock) and len(block.body) == 1


def _first_row(tree: Tree, statement: cst.CSTNode) -> int:
    """Offset at which the statement, or the first of its decorators, starts on its row."""
    decorators = getattr(statement, "decorators", ())
    if decorators:
        at = tree.whole(decorators[0].decorator).start
        return tree.text.rindex("@", 0, at)
    return tree.inner(statement).start


def _with_decorators(tree: Tree, function: cst.FunctionDef) -> Range:
    return Range(_first_row(tree, function), tree.inner(function).end)


# ------------------------------------------------------------------------------------------------------------ removal


_ONLY_LOOKS = (
    cst.Name,
    cst.Attribute,
    cst.Comparison,
    cst.BooleanOperation,
    cst.UnaryOperation,
    cst.BinaryOperation,
    cst.Integer,
    cst.Float,
    cst.SimpleString,
)
"""Expressions that are evaluated without consequence."""


def _left_empty(tree: Tree, line: SimpleLine | cst.BaseCompoundStatement) -> cst.If | None:
    """The outermost `if` that a removal leaves without anything to do, and that need not be evaluated."""
    block = line if isinstance(line, cst.SimpleStatementSuite) else tree.parent(line)
    if not isinstance(block, cst.SimpleStatementSuite | cst.IndentedBlock) or len(block.body) > 1:
        return None
    owner = tree.parent(block)
    if not isinstance(owner, cst.If) or owner.orelse is not None or _is_elif(tree, owner):
        return None
    if not all(isinstance(node, _ONLY_LOOKS) for node in _expressions(owner.test)):
        return None
    return _left_empty(tree, owner) or owner


def _expressions(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The expressions that a node is and holds."""
    if isinstance(node, cst.BaseExpression):
        yield node
    for child in node.children:
        yield from _expressions(child)


def _remove_compound(tree: Tree, statement: cst.BaseCompoundStatement) -> TextEdit:
    around = _left_empty(tree, statement)
    if around is not None:
        return _remove_compound(tree, around)
    start, end = _first_row(tree, statement), tree.inner(statement).end
    if _is_alone(tree, statement):
        return TextEdit(start, end, "pass")
    return _without_rows(tree.text, start, end)


def _without_rows(text: str, start: int, end: int) -> TextEdit:
    """Remove whole rows; of the blank rows before and after, the larger number stays, and none at the top of a file."""
    start, end = line_start(text, start), line_end(text, end)
    if start == 0:
        while end < len(text) and not text[end : line_end(text, end)].strip():
            end = line_end(text, end)
    before = 0
    at = start
    while at > 0 and not text[line_start(text, at - 1) : at].strip():
        at = line_start(text, at - 1)
        before += 1
    while before and end < len(text) and not text[end : line_end(text, end)].strip():
        end = line_end(text, end)
        before -= 1
    return TextEdit(start, end, "")


def _remove_of_several(tree: Tree, line: SimpleLine, index: int) -> TextEdit:
    here = tree.inner(line.body[index])
    if index + 1 < len(line.body):
        return TextEdit(here.start, tree.inner(line.body[index + 1]).start, "")
    return TextEdit(tree.inner(line.body[index - 1]).end, here.end, "")


# ------------------------------------------------------------------------------------------------------------ nesting


def _nest(tree: Tree, statement: Statement, header: str) -> list[TextEdit]:
    """Put a statement that stands on rows of its own under `header`, one step further in."""
    if _is_elif(tree, statement):
        raise CannotFix("it is an elif branch")
    start = _first_row(tree, statement)
    indentation, step = tree.indentation(start), tree.indentation_step(statement)
    end = tree.inner(statement).end
    if isinstance(statement, cst.BaseCompoundStatement):
        end = _end_of_block_comments(tree.text, end, indentation)
    head = TextEdit(start, start, f"{header}:{newline_at(tree.text, start)}{indentation}{step}")
    return [head, *_indented(tree, Range(start, end), indentation, step)]


def _nest_in_suite(tree: Tree, suite: cst.SimpleStatementSuite, header: str) -> list[TextEdit]:
    """Put the only statement of `if x: statement` on a row of its own, under `header`."""
    owner = tree.parent(suite)
    if owner is None:
        raise CannotFix("the block that it stands in is not understood")
    indentation = tree.indentation(tree.inner(owner).start)
    step = tree.indentation_step(owner)
    here = tree.inner(suite.body[0])
    newline = newline_at(tree.text, here.start)
    outer = indentation + step
    space = tree.whole(suite.leading_whitespace)
    head = TextEdit(*space, f"{newline}{outer}{header}:{newline}{outer}{step}")
    return [head, *_indented(tree, here, indentation, step * 2)]


def _indented(tree: Tree, place: Range, indentation: str, step: str) -> list[TextEdit]:
    """Indent the rows within `place` but for the first, blank rows, and those that start inside a string."""
    edits: list[TextEdit] = []
    for start in tree.inner_line_starts(place):
        row = tree.text[start : line_end(tree.text, start)]
        if row.strip():
            at = start + len(indentation) if row.startswith(indentation) else start
            edits.append(TextEdit(at, at, step))
    return edits


def _end_of_block_comments(text: str, end: int, indentation: str) -> int:
    """End of the comments below a block that are indented further than its header."""
    at = line_end(text, end)
    while at < len(text) and only_comment_follows(text, at):
        row = text[at : line_end(text, at)]
        if row.strip():
            if not row.startswith(indentation) or row[len(indentation)] not in " \t":
                break
            end = at + len(row.rstrip())
        at += len(row)
    return end


# ---------------------------------------------------------------------------------------------------------- insertion


def _inserted_rows(tree: Tree, at: int, indentation: str, source: str, near: cst.CSTNode) -> TextEdit:
    """Insert the rows of `source`, written with four spaces a level, in the style of the code around them."""
    step = tree.indentation_step(near)
    source = source.strip("\r\n") + "\n"
    rows = [Range(0, 0), *(Range(start, start) for start in _rows_of(source))]
    text = ""
    for here, after in zip(rows, [*rows[1:], Range(len(source), len(source))], strict=True):
        row = source[here.start : after.start].rstrip("\n")
        level, rest = divmod(len(row) - len(row.lstrip(" ")), 4)
        text += f"{indentation}{step * level}{' ' * rest}{row.lstrip(' ')}" if row.strip() else ""
        text += newline_at(tree.text, at)
    return TextEdit(at, at, text)


def _rows_of(source: str) -> list[int]:
    """Where the rows of a source start, but for the first. Raises CannotFix if a string spans several rows."""
    tree = Tree(source, whole_of(source))
    everything = Range(0, len(source) - 1)
    starts = tree.inner_line_starts(everything)
    if len(starts) != source.count("\n") - 1:
        raise CannotFix("the statement to insert holds a string of several rows")
    return starts


def _one_row(source: str) -> str:
    """A source that can share a row with another statement."""
    source = source.strip()
    body = parse(source + "\n").body
    if len(body) != 1 or not isinstance(body[0], cst.SimpleStatementLine) or "\n" in source or "#" in source:
        raise CannotFix("the statement to insert needs rows of its own")
    return source.rstrip("; ")
