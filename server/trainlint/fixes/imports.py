"""Imports that a fix needs, and imports that it leaves unused."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import libcst as cst
from libcst.helpers import get_full_name_for_node

from trainlint.fixes.commas import CommaList, Item
from trainlint.fixes.edits import CannotFix, Draft, Range, TextEdit, in_order
from trainlint.fixes.recipe import DropImport, EnsureImport
from trainlint.fixes.statements import remove_statement
from trainlint.fixes.tree import SCOPES, Tree, line_end, newline_at, parse, whole_of

_KEPT_UNUSED = re.compile(r"#.*\b(?:noqa(?!:)|noqa:.*\bF401)\b", re.IGNORECASE)
_BLANK_ROW_AT_END = re.compile(r"(\r\n|\r|\n)\1\Z")
_NOT_LOOKED_INTO = (cst.FunctionDef, cst.ClassDef, cst.Lambda, cst.Import, cst.ImportFrom)
_BINDS: tuple[type[cst.CSTNode], ...] = (
    *(cst.Import, cst.ImportFrom, cst.FunctionDef, cst.ClassDef),
    *(cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.NamedExpr, cst.AsName, cst.Param),
    *(cst.MatchAs, cst.MatchStar, cst.MatchMapping, cst.TypeAlias, cst.TypeVar, cst.TypeVarTuple, cst.ParamSpec),
    cst.Del,
)
"""What gives names their values."""


@dataclass(frozen=True, slots=True)
class _Binding:
    """A place that gives a name its value."""

    node: cst.CSTNode
    imports: tuple[str, str] | None = None
    """Module, and name within it (empty for the module itself), where it is an import."""


# ------------------------------------------------------------------------------------------------------------- adding


def ensure_import(text: str, place: Range, recipe: EnsureImport) -> list[TextEdit]:
    """Import what `recipe` asks for at the top, unless that is done already.

    Raises CannotFix where the name means something else in the module or around `place`.
    """
    bound = recipe.name or recipe.module.partition(".")[0]
    wanted = (recipe.module, recipe.name or "")
    tree = Tree.of_file(text)
    if re.search(rf"\b{re.escape(bound)}\b", text) and _is_available(tree, place, bound, wanted):
        return []
    statement = f"from {recipe.module} import {recipe.name}" if recipe.name else f"import {recipe.module}"
    parse(statement + "\n")
    inserted = _among_standard_library(tree, place, recipe, statement) if _is_standard(recipe.module) else None
    return [inserted or _insertion(tree, place, statement)]


def _is_available(tree: Tree, place: Range, bound: str, wanted: tuple[str, str]) -> bool:
    scopes = _scopes_around(tree, place)
    for scope in scopes:
        local = _own_bindings(tree, scope, bound)
        if not local:
            continue
        if all(_provides(binding, wanted) and tree.inner(binding.node).end <= place.start for binding in local):
            return True
        raise CannotFix(f"the name {bound} stands for something else in the code around it")
    found = [*_own_bindings(tree, tree.module, bound), *_declared_global(tree, bound)]
    others = [binding for binding in found if not _same_package(binding, wanted)]
    if others:
        raise CannotFix(f"the name {bound} stands for something else in the file")
    runs_later = any(isinstance(scope, cst.FunctionDef | cst.Lambda) for scope in scopes)
    return any(
        _provides(binding, wanted)
        and _always_runs(tree, binding.node)
        and (runs_later or tree.inner(binding.node).end <= place.start)
        for binding in found
    )


def _scopes_around(tree: Tree, place: Range) -> list[cst.CSTNode]:
    """The functions around `place` from the inside out, and the class, if that is the innermost."""
    around = [node for kind in SCOPES for node in tree.nodes(kind) if _contains(tree.inner(node), place)]
    around.sort(key=lambda node: -tree.inner(node).start)
    return [scope for scope in around if not isinstance(scope, cst.ClassDef) or scope is around[0]]


@lru_cache(maxsize=2)
def _bindings(tree: Tree) -> dict[str, list[_Binding]]:
    """Each name of a file with the places that bind it; kept for the last ones, since many fixes import the same."""
    bindings: dict[str, list[_Binding]] = {}
    for kind in _BINDS:
        for node in tree.nodes(kind):
            for name, binding in _bound_by(node):
                bindings.setdefault(name, []).append(binding)
    return bindings


def _own_bindings(tree: Tree, scope: cst.CSTNode, name: str) -> list[_Binding]:
    """The places in a scope, not in those inside it, that bind a name."""
    return [binding for binding in _bindings(tree).get(name, ()) if _scope_of(tree, binding.node) is scope]


def _scope_of(tree: Tree, node: cst.CSTNode) -> cst.CSTNode | None:
    """The function, class or module that a node belongs to; what stands in an import belongs to that alone."""
    inside = (outer for outer in tree.ancestors(node) if isinstance(outer, _NOT_LOOKED_INTO))
    return next(inside, tree.module)


def _declared_global(tree: Tree, name: str) -> Iterator[_Binding]:
    """The bindings of `name` in functions that declare it global."""
    for declaration in tree.nodes(cst.Global):
        if any(item.name.value == name for item in declaration.names):
            for node in tree.ancestors(declaration):
                if isinstance(node, cst.FunctionDef):
                    yield from _own_bindings(tree, node, name)
                    break


def _bound_by(node: cst.CSTNode) -> Iterator[tuple[str, _Binding]]:
    """The names to which `node` itself, not what it holds, gives a value."""
    if isinstance(node, cst.Import):
        for alias in node.names:
            full, own = _alias_names(alias)
            yield own or full.partition(".")[0], _Binding(node, ("", "") if own and own != full else (full, ""))
    elif isinstance(node, cst.ImportFrom):
        for alias in () if isinstance(node.names, cst.ImportStar) else node.names:
            full, own = _alias_names(alias)
            yield own or full, _Binding(node, (_module_of(node), full))
    elif isinstance(node, cst.FunctionDef | cst.ClassDef):
        yield node.name.value, _Binding(node)
    else:
        for name in {name for target in _targets(node) for name in _names_in(target)}:
            yield name, _Binding(node)


def _targets(node: cst.CSTNode) -> Sequence[cst.CSTNode | None]:
    if isinstance(node, cst.AssignTarget | cst.AnnAssign | cst.AugAssign | cst.For | cst.CompFor | cst.NamedExpr):
        return [node.target]
    if isinstance(node, cst.AsName | cst.Param | cst.MatchAs | cst.MatchStar):
        return [node.name if not isinstance(node.name, str) else None]
    if isinstance(node, cst.TypeAlias | cst.TypeVar | cst.TypeVarTuple | cst.ParamSpec):
        return [node.name]
    if isinstance(node, cst.Del):
        return [node.target]
    if isinstance(node, cst.MatchMapping):
        return [node.rest]
    return []


def _names_in(target: cst.CSTNode | None) -> Iterator[str]:
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from _names_in(element.value)


def _alias_names(alias: cst.ImportAlias) -> tuple[str, str]:
    """The dotted name that is imported, and the name after `as`, or an empty text."""
    own = alias.asname.name if alias.asname is not None else None
    return get_full_name_for_node(alias.name) or "", own.value if isinstance(own, cst.Name) else ""


def _module_of(node: cst.ImportFrom) -> str:
    name = get_full_name_for_node(node.module) if node.module is not None else ""
    return "." * len(node.relative) + (name or "")


def _provides(binding: _Binding, wanted: tuple[str, str]) -> bool:
    """Whether an import makes what is wanted usable; importing a submodule imports its package too."""
    if binding.imports is None:
        return False
    return binding.imports == wanted or (
        not wanted[1] and binding.imports[0].startswith(f"{wanted[0]}.") and not binding.imports[1]
    )


def _same_package(binding: _Binding, wanted: tuple[str, str]) -> bool:
    """Whether an import binds the name to what the wanted import would bind it to."""
    if binding.imports is None:
        return False
    if wanted[1]:
        return binding.imports == wanted
    return not binding.imports[1] and binding.imports[0].partition(".")[0] == wanted[0].partition(".")[0]


def _always_runs(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether an import stands at the top level, be it in the body of a `try` or a `with`."""
    inner: cst.CSTNode = node
    for outer in tree.ancestors(node):
        if isinstance(outer, cst.If | cst.For | cst.While | cst.ExceptHandler | cst.Else | cst.Match | cst.FunctionDef):
            return False
        if isinstance(outer, cst.Try) and inner is not outer.body:
            return False
        inner = outer
    return True


def _contains(outer: Range, inner: Range) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _insertion(tree: Tree, place: Range, statement: str) -> TextEdit:
    """Insert below the last import that precedes the code, or else above the first statement of the module."""
    last = _last_import(tree, place)
    if last is not None:
        end = tree.inner(last).end
        at = line_end(tree.text, end)
        newline = newline_at(tree.text, end)
        if at == len(tree.text) and not tree.text.endswith(("\n", "\r")):
            return TextEdit(at, at, newline + statement)
        return TextEdit(at, at, statement + newline)
    first = _first_after_prologue(tree)
    if first is None or tree.inner(first).start > place.start:
        raise CannotFix("the file has no statement to put an import before")
    at = _above_attached_comments(tree, first)
    return TextEdit(at, at, statement + newline_at(tree.text, at) * 2)


def _is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def _among_standard_library(tree: Tree, place: Range, recipe: EnsureImport, statement: str) -> TextEdit | None:
    """Insert an import of the standard library in order among the others, or else, as a group of its own, above all
    imports but those from `__future__`; None where there is no import to stand by."""
    imports = [(line, _sort_key(line.body[0])) for line in _imports(tree, place)]
    standard = [(line, key) for line, key in imports if _is_standard(key[1]) and key[1] != "__future__"]
    wanted = (recipe.name is not None, recipe.module)
    before = [line for line, key in standard if key <= wanted]
    if before:
        end = tree.inner(before[-1]).end
        at = line_end(tree.text, end)
        return TextEdit(at, at, statement + newline_at(tree.text, end)) if at < len(tree.text) else None
    first = _first_after_prologue(tree)
    others = [line for line, _ in imports if first and tree.inner(line).start >= tree.inner(first).start]
    if not others:
        return None
    at = _above_attached_comments(tree, others[0])
    newline = newline_at(tree.text, at)
    return TextEdit(at, at, statement + (newline if others[0] in [line for line, _ in standard] else newline * 2))


def _sort_key(statement: cst.BaseSmallStatement) -> tuple[bool, str]:
    """`import a` goes before `from a import b`; within each, by module."""
    if isinstance(statement, cst.ImportFrom):
        return True, _module_of(statement)
    return False, _alias_names(statement.names[0])[0] if isinstance(statement, cst.Import) else ""


def _last_import(tree: Tree, place: Range) -> cst.SimpleStatementLine | None:
    """The last import at the top level before the first definition or loop, and before `place`."""
    return next(reversed(list(_imports(tree, place))), None)


def _imports(tree: Tree, place: Range) -> Iterator[cst.SimpleStatementLine]:
    """The imports at the top level before the first definition or loop, and before `place`."""
    for statement in tree.module.body:
        passed_over = isinstance(statement, cst.SimpleStatementLine | cst.If | cst.Try)
        if tree.inner(statement).end > place.start or not passed_over:
            break
        if isinstance(statement, cst.SimpleStatementLine) and any(
            isinstance(small, cst.Import | cst.ImportFrom) for small in statement.body
        ):
            yield statement


def _first_after_prologue(tree: Tree) -> cst.SimpleStatementLine | cst.BaseCompoundStatement | None:
    """The first statement below the docstring and the imports from `__future__`, before which nothing may stand."""
    body = tree.module.body
    skipped = 1 if tree.module.get_docstring(clean=False) is not None else 0
    for index, statement in enumerate(body):
        if isinstance(statement, cst.SimpleStatementLine) and any(_is_from_future(small) for small in statement.body):
            skipped = index + 1
    return body[skipped] if skipped < len(body) else None


def _is_from_future(statement: cst.BaseSmallStatement) -> bool:
    return isinstance(statement, cst.ImportFrom) and _module_of(statement) == "__future__"


def _above_attached_comments(tree: Tree, statement: cst.CSTNode) -> int:
    """Start of the row of `statement`, or of the comments right above it unless they open the file."""
    start = tree.whole(statement).start
    inner = tree.inner(statement).start
    decorators = getattr(statement, "decorators", ())
    if decorators:
        inner = tree.whole(decorators[0]).start
    at = tree.line_start(inner)
    attached = at
    while attached > start:
        above = tree.line_start(attached - 1)
        if not tree.text[above:attached].lstrip().startswith("#"):
            break
        attached = above
    return attached if tree.text[:attached].strip() else at


def side_by_side(imports: Iterable[TextEdit]) -> list[TextEdit]:
    """The edits of imports without repetition; those that open a group at one place become one group there, in order.

    Each comes with the blank row below it that it needs when it is alone.
    """
    found = list(dict.fromkeys(imports))
    opening = [edit for edit in found if _opens_a_group(edit)]
    if len(opening) < 2:
        return found
    merged = [edit for edit in found if not _opens_a_group(edit)]
    for at, edits in groupby(in_order(opening), key=lambda edit: edit.start):
        rows = sorted((edit.content for edit in edits), key=_place_in_group)
        content = ""
        for row, below in zip(rows, [*rows[1:], ""], strict=True):
            joined = below and _place_in_group(row)[0] == _place_in_group(below)[0]
            content += _BLANK_ROW_AT_END.sub(r"\1", row) if joined else row
        merged.append(TextEdit(at, at, content))
    return in_order(merged)


def _opens_a_group(edit: TextEdit) -> bool:
    return _BLANK_ROW_AT_END.search(edit.content) is not None


def _place_in_group(row: str) -> tuple[bool, bool, str]:
    """The order of import rows: the standard library's first, and of each group `import a` before `from a import b`."""
    word, module = row.split()[:2]
    return not _is_standard(module), word == "from", module


# ----------------------------------------------------------------------------------------------------------- dropping


def drop_import(text: str, recipe: DropImport) -> tuple[TextEdit, ...]:
    """Remove an import from a text that is otherwise finished, if nothing uses it.

    Imports in a `try` stay, since the other branch binds the name too; so do those marked as meant to be unused.
    """
    draft = Draft(text)
    if (recipe.name or recipe.module).rpartition(".")[2] not in text:
        return ()
    while (edit := _next_drop(draft.text, recipe)) is not None:
        draft.apply([edit])
    return draft.edits()


def stays_in_use(text: str, edits: Sequence[TextEdit], recipe: DropImport) -> bool:
    """Whether `edits` of the text leave nothing to drop, as far as the text before them tells: each import that the
    recipe is about is used somewhere that they do not touch.

    All fixes of a file can ask the same tree, where the text that a fix leaves has to be parsed for it alone.
    """
    tree = Tree.of_file(text)
    used = {
        bound: any(
            node.value == bound and _is_a_use(tree, node) and not _touched(tree.inner(node), edits)
            for node in tree.nodes(cst.Name)
        )
        for bound in {bound for _, _, _, bound in _droppable(tree, recipe)}
    }
    return all(used.values())


def _touched(place: Range, edits: Sequence[TextEdit]) -> bool:
    return any(edit.start <= place.end and place.start <= edit.end for edit in edits)


def _next_drop(text: str, recipe: DropImport) -> TextEdit | None:
    tree = Tree.of_file(text)
    for node, aliases, index, bound in _droppable(tree, recipe):
        if not _is_used(tree, bound):
            return _removal(tree, node, aliases, index)
    return None


def _droppable(
    tree: Tree, recipe: DropImport
) -> Iterator[tuple[cst.Import | cst.ImportFrom, tuple[cst.ImportAlias, ...], int, str]]:
    """The imports that the recipe is about and that may go: their statements, what these import, which of it is to go,
    and the name that it binds."""
    statements: list[cst.Import | cst.ImportFrom] = [*tree.nodes(cst.ImportFrom), *tree.nodes(cst.Import)]
    for node in statements:
        aliases = () if isinstance(node.names, cst.ImportStar) else tuple(node.names)
        for index, alias in enumerate(aliases):
            bound = _dropped_name(node, alias, recipe)
            if bound and _may_go(tree, node, alias):
                yield node, aliases, index, bound


def _dropped_name(node: cst.Import | cst.ImportFrom, alias: cst.ImportAlias, recipe: DropImport) -> str:
    """The name that an import binds, if it is the one to drop; else empty."""
    full, own = _alias_names(alias)
    if isinstance(node, cst.ImportFrom):
        return (own or full) if recipe.name and (_module_of(node), full) == (recipe.module, recipe.name) else ""
    if recipe.name in ("", recipe.module) and full == recipe.module:
        return own or full.partition(".")[0]
    return own if recipe.name and full == f"{recipe.module}.{recipe.name}" else ""


def _may_go(tree: Tree, node: cst.CSTNode, alias: cst.ImportAlias) -> bool:
    full, own = _alias_names(alias)
    here = tree.inner(node)
    row = tree.text[tree.line_start(here.start) : tree.line_end(here.end)]
    in_try = any(isinstance(outer, cst.Try | cst.TryStar) for outer in tree.ancestors(node))
    return not in_try and own != full and not _KEPT_UNUSED.search(row)


def _is_used(tree: Tree, name: str) -> bool:
    """Whether `name` is mentioned outside of imports; attributes and keywords of other things do not count."""
    if len(re.findall(rf"\b{re.escape(name)}\b", tree.text)) == 1:
        return False
    if any(node.value == name and _is_a_use(tree, node) for node in tree.nodes(cst.Name)):
        return True
    return any(_mentions(node, name) for node in tree.nodes(cst.SimpleString))


def _is_a_use(tree: Tree, node: cst.Name) -> bool:
    parent = tree.parent(node)
    if isinstance(parent, cst.Attribute):
        return parent.value is node and not any(isinstance(outer, cst.ImportAlias) for outer in tree.ancestors(node))
    if isinstance(parent, cst.Arg):
        return parent.keyword is not node
    return not any(isinstance(outer, cst.Import | cst.ImportFrom) for outer in tree.ancestors(node))


def _mentions(string: cst.SimpleString, name: str) -> bool:
    """Whether a string reads as an expression that uses `name`, as annotations and `__all__` do."""
    value = string.evaluated_value
    if not isinstance(value, str) or name not in value or len(value) > 200:
        return False
    bracketed = f"({value}\n)\n"
    try:
        tree = Tree(bracketed, whole_of(bracketed))
    except CannotFix:
        return False
    return any(node.value == name and _is_a_use(tree, node) for node in tree.nodes(cst.Name))


def _removal(
    tree: Tree, node: cst.Import | cst.ImportFrom, aliases: tuple[cst.ImportAlias, ...], index: int
) -> TextEdit:
    if len(aliases) == 1:
        [edit] = remove_statement(tree, tree.inner(node))
        return edit
    items = [_item(tree, alias) for alias in aliases]
    brackets = (node.lpar, node.rpar) if isinstance(node, cst.ImportFrom) else (None, None)
    if brackets[0] is None or brackets[1] is None:
        return CommaList(tree.text, items[0].start, items[-1].stop, items, bracketed=False).remove(index)
    start = tree.whole(brackets[0]).start + 1
    end = tree.whole(brackets[1]).end - 1
    return CommaList(tree.text, start, end, items).remove(index)


def _item(tree: Tree, alias: cst.ImportAlias) -> Item:
    last = alias.asname or alias.name
    comma_end = None
    if isinstance(alias.comma, cst.Comma):
        comma_end = tree.whole(alias.comma.whitespace_before).end + 1
    return Item(tree.whole(alias).start, tree.whole(last).end, comma_end)
