"""Fixes made up for places in real code, whose effect is known: once it is undone in the syntax tree, the tree is the
one of the code before.

Real code offers few fixes of each kind. Here each recipe is tried at many places, alone with the file's other ones, on
whatever stands around it: strings over several rows, decorators, comments between arguments, code after semicolons.
"""

from __future__ import annotations

import ast
import io
import random
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.soundness.tally import Kind, Tally
from tests.soundness.trees import Copy, compiles, parses

from trainlint.fixes.apply import apply_fixes
from trainlint.fixes.recipe import (
    Applicability,
    DecorateFunction,
    EnsureImport,
    Fix,
    GuardBlock,
    GuardStatement,
    InsertAtStartOfLoop,
    InsertBefore,
    Recipe,
    ReplaceExpression,
    SetArgument,
)
from trainlint.semantics.context import Site
from trainlint.source.documents import Document, Unreadable, decode

NAME = "planted_by_the_sweep"
"""Stands for whatever fixes bring in; no real code has it."""
FILES = 40
"""Files of a tree that are tried."""
SITES = 2
"""Places in a file at which each recipe is tried."""

_EXPRESSIONS = (ast.Call, ast.Attribute, ast.Subscript, ast.BinOp, ast.Compare, ast.IfExp, ast.Await, ast.Yield)
_BLOCKS = (ast.For, ast.While, ast.With, ast.If, ast.Try, ast.AsyncFor, ast.AsyncWith)


@dataclass(frozen=True)
class _Plant:
    """A kind of fix: at which nodes it is tried, and what it does there."""

    at: tuple[type[ast.AST], ...]
    recipe: Callable[[Site], Recipe]


PLANTS = (
    _Plant((ast.Call,), lambda site: SetArgument(site, NAME, "1")),
    _Plant(_EXPRESSIONS, lambda site: ReplaceExpression(site, f"{NAME}({{0}})")),
    _Plant((ast.Call,), lambda site: GuardStatement(site, f"{NAME} % 2 == 0")),
    _Plant((ast.Call,), lambda site: InsertBefore(site, f"{NAME}()")),
    _Plant((ast.For, ast.While, ast.AsyncFor), lambda site: InsertAtStartOfLoop(site, f"{NAME}()")),
    _Plant(_BLOCKS, lambda site: GuardBlock(site, f"with {NAME}()")),
    _Plant((ast.Return, ast.FunctionDef), lambda site: DecorateFunction(site, f"{NAME}()")),
    _Plant((ast.Call,), lambda site: EnsureImport(site, NAME)),
    _Plant((ast.Call,), lambda site: EnsureImport(site, NAME, f"{NAME}_too")),
)


def plant_fixes(copy: Copy, tally: Tally) -> None:
    """Try made-up fixes on files of a tree, always the same ones; nothing is written."""
    chosen = random.Random(copy.root.name)
    for path in chosen.sample(sorted(copy.files), min(FILES, len(copy.files))):
        data = copy.files[path]
        if compiles(path, data) and parses(path, data) and NAME.encode() not in data:
            _plant(decode(path, data), copy.name(path), random.Random(path.name), tally)


def _plant(document: Document, name: str, chosen: random.Random, tally: Tally) -> None:
    fixes = list(_fixes(document, chosen))
    applied = apply_fixes(document.text, fixes)
    tally.planted += len(applied.applied)
    tally.refused += len(applied.skipped)
    problems = _problems(document, applied.text)
    if not problems:
        return
    blamed = False
    for fix in (fixes[index] for index in applied.applied):
        for kind, what in _problems(document, apply_fixes(document.text, [fix]).text):
            blamed = True
            tally.fail(kind, f"{name}:{_row(fix)}", f"{what} with {type(fix.recipes[0]).__name__}")
    if not blamed:
        for kind, what in problems:
            tally.fail(kind, name, f"{what} with all fixes together")


def _row(fix: Fix) -> int:
    return next(value.row for value in _values(fix.recipes[0]) if isinstance(value, Site))


def _values(recipe: Recipe) -> Iterator[object]:
    """The values of a recipe's fields."""
    return (getattr(recipe, name) for name in recipe.__slots__)


def _fixes(document: Document, chosen: random.Random) -> Iterator[Fix]:
    nodes = list(_nodes(_syntax(document.text)))
    for plant in PLANTS:
        fitting = [node for node in nodes if isinstance(node, plant.at)]
        for node in chosen.sample(fitting, min(SITES, len(fitting))):
            end_row, end_column = node.end_lineno or 0, node.end_col_offset or 0
            site = Site(document.path, node.lineno, node.col_offset, end_row, end_column, "")
            yield Fix(Applicability.UNSAFE, "planted", (plant.recipe(site),))


def _nodes(tree: ast.Module) -> Iterator[ast.expr | ast.stmt]:
    """The nodes that are read rather than bound, but for those in f-strings, which ast misplaces before Python 3.12."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.expr | ast.stmt) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            yield node
        if not isinstance(node, ast.JoinedStr | ast.pattern):
            waiting += ast.iter_child_nodes(node)


def _problems(document: Document, after: str) -> list[tuple[Kind, str]]:
    """What is wrong with the text that fixes made of a document."""
    try:
        data = document.encode(after)
    except Unreadable:
        return [(Kind.BROKEN, "it can no longer be stored")]
    path = document.path
    if not compiles(path, data):
        # A yield or a return may not stand everywhere; the parser does not know, and the fix was made up.
        return [] if _only_misplaced(data) else [(Kind.BROKEN, "it no longer compiles")]
    if not parses(path, data):
        return [(Kind.BROKEN, "libcst no longer parses it")]
    problems = []
    if _without_plants(after) != _without_plants(document.text):
        problems.append((Kind.MEANING, "more changes than what was planted"))
    if _comments(after) != _comments(document.text):
        problems.append((Kind.COMMENT, "the comments are not the same"))
    return problems


def _only_misplaced(data: bytes) -> bool:
    try:
        ast.parse(data)
    except SyntaxError:
        return False
    return True


def _syntax(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def _without_plants(text: str) -> str:
    return ast.dump(_Undo().visit(_syntax(text)))


def _comments(text: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text, newline="").readline)
    return Counter(token.string.rstrip() for token in tokens if token.type == tokenize.COMMENT)


def _is_planted(node: ast.AST | None) -> bool:
    """Whether an expression is the planted name, a call of it or a comparison with it."""
    return any(isinstance(part, ast.Name) and part.id == NAME for part in ast.walk(node)) if node is not None else False


class _Undo(ast.NodeTransformer):
    """Takes out what was planted."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == NAME and node.args:
            return node.args[0]
        node.keywords = [keyword for keyword in node.keywords if keyword.arg != NAME]
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if ast.unparse(node) == f"{NAME}()":
            return None
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        planted = isinstance(node.test, ast.Compare) and _is_planted(node.test.left) and not node.orelse
        return node.body if planted and ast.unparse(node.test) == f"{NAME} % 2 == 0" else node

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.body if ast.unparse(node.items[0]) == f"{NAME}()" else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._undecorated(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._undecorated(node)

    def _undecorated(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        node.decorator_list = [one for one in node.decorator_list if ast.unparse(one) != f"{NAME}()"]
        return self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> ast.AST | None:
        return None if node.names[0].name == NAME else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if node.module == NAME else node
