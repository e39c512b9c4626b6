"""The row of a call within a function, by the source: a trace names the function and what it called, but no row.

A function that calls `item` once can only have waited there. If it does so on several rows, a run through them in the
order of the source is recognized by their number; anything else stays with the function.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from trainlint.probe.traces.sites import Origin
from trainlint.probe.traces.trace_analysis import CodeSite

MODULE = "<module>"
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Scope = _Function | ast.Lambda | ast.ClassDef
_CONVERSION, _TEST, _SUBSCRIPT = "conversion", "test", "subscript"
_WITHOUT_CALL = {
    "aten::item": _CONVERSION,
    "aten::_local_scalar_dense": _CONVERSION,
    "aten::is_nonzero": _TEST,
    "aten::index": _SUBSCRIPT,
    "aten::index_put_": _SUBSCRIPT,
}
"""What in the source runs an operator without a call that a profile of Python sees."""
_CONVERTERS = {"float", "int", "bool", "complex", "round", "range"}


def with_rows(found: Sequence[Origin], step_starts: Sequence[float]) -> list[Origin]:
    """The origins, their sites with the row that called wherever the source tells it.

    Args:
        found: where calls come from.
        step_starts: when steps began, to count the calls of functions that run through all of them.
    """
    groups: dict[tuple[CodeSite, str], list[Origin]] = defaultdict(list)
    for origin in found:
        if origin.site is not None and origin.inner is not None:
            groups[origin.site, _sought(origin)].append(origin)
    rows: dict[int, int] = {}
    sources = _Sources()
    for (site, sought), origins in groups.items():
        rows.update(_rows_of(origins, sources.rows(site, sought), step_starts))
    return [_at(origin, rows.get(id(origin.inner))) for origin in found]


def _at(origin: Origin, row: int | None) -> Origin:
    if origin.site is None or row is None:
        return origin
    return replace(origin, site=replace(origin.site, row=row, exact=True))


def _sought(origin: Origin) -> str:
    """What to look for in the source: the name of the called function, or the construct behind an operator."""
    return origin.callee or _WITHOUT_CALL.get(origin.operation, origin.operation.removeprefix("aten::"))


def _rows_of(origins: Sequence[Origin], rows: Sequence[int], step_starts: Sequence[float]) -> Mapping[int, int]:
    """The row for each call out of one function, by the call's identity; empty where that is not certain."""
    calls = {id(origin.inner): origin for origin in origins}
    if len(rows) == 1:
        return dict.fromkeys(calls, rows[0])
    runs: dict[tuple[int, int], list[tuple[float, int]]] = defaultdict(list)
    for identity, origin in calls.items():
        if origin.inner is not None:
            start = origin.inner.start
            runs[id(origin.frame), bisect_right(step_starts, start)].append((start, identity))
    if not rows or any(len(run) != len(rows) for run in runs.values()):
        return {}
    return {identity: row for run in runs.values() for (_, identity), row in zip(sorted(run), rows, strict=True)}


class _Sources:
    """The job's files, each read and parsed once."""

    def __init__(self) -> None:
        self._trees: dict[Path, ast.Module | None] = {}

    def rows(self, site: CodeSite, sought: str) -> list[int]:
        """The rows of the function at `site` that hold what is sought, in the order of the source."""
        if site.path not in self._trees:
            self._trees[site.path] = parsed(site.path)
        tree = self._trees[site.path]
        function = None if tree is None else _function(tree, site)
        if function is None:
            return []
        return sorted({row for node in _own_nodes(function) for row in _matches(node, sought)})


def parsed(path: Path) -> ast.Module | None:
    """The source of a file; None where it cannot be read."""
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def _function(tree: ast.Module, site: CodeSite) -> ast.Module | _Function | None:
    if site.function == MODULE:
        return tree
    found: _Function | None = None
    for node in ast.walk(tree):
        if isinstance(node, _Function) and node.name == site.function:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first <= site.row <= (node.end_lineno or node.lineno) and (found is None or first >= found.lineno):
                found = node
    return found


def _own_nodes(function: ast.Module | _Function) -> Iterator[ast.AST]:
    """The nodes of a function without those of the functions and classes within it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, _Scope):
            yield node
            waiting.extend(ast.iter_child_nodes(node))


def _matches(node: ast.AST, sought: str) -> Iterator[int]:
    if sought == _CONVERSION:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CONVERTERS:
            yield node.lineno
        elif isinstance(node, ast.FormattedValue):
            yield node.value.lineno
    elif sought == _TEST:
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
            yield node.test.lineno
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node.lineno
    elif sought == _SUBSCRIPT:
        if isinstance(node, ast.Subscript):
            yield node.lineno
    elif isinstance(node, ast.Call) and called_name(node.func) == sought:
        yield node.func.end_lineno or node.lineno


def called_name(function: ast.expr) -> str:
    """The bare name that a call has; empty where it has none."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
