"""Stacks that were read while the job went on, put right by its source.

py-spy reads a stack from the innermost call outwards and does not stop the process for it. A call that is over before
its caller is read leaves a stack that never was: `interpolate` within the row that came next, which calls something
else. Short calls would lose most of their time to the rows after them, so such a caller is set back to the row that
made the call. A row is taken for wrong only where the source or the other stacks show what it calls instead.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from trainlint.probe.evidence import Line
from trainlint.probe.recording import Frame
from trainlint.probe.traces.call_rows import called_name, parsed
from trainlint.probe.traces.sites import JobCode

NEXT = "__next__"
CONSUMERS = {
    *("all", "any", "deque", "dict", "enumerate", "extend", "filter", "frozenset", "fromkeys", "join", "list", "map"),
    *("max", "min", "next", "reduce", "set", "sorted", "sum", "tuple", "update", "zip"),
}
"""Calls that go through what they are given."""
_HOLDERS = (ast.excepthandler, ast.match_case)
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Loop = ast.For | ast.AsyncFor
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def put_right(stacks: Mapping[int, Sequence[Frame]], code: JobCode) -> dict[int, Sequence[Frame]]:
    """The stacks, each with the rows that made its calls.

    Args:
        stacks: by number, the innermost call first.
        code: what the job's own code is; other calls stay as they are.
    """
    calls = _Calls(code)
    seen = [pair for stack in stacks.values() for pair in calls.pairs(stack)]
    for site, _, callee in seen:
        if callee in site.calls:
            site.explained.add(callee)
    elsewhere: dict[tuple[_Scope, str], set[int]] = defaultdict(set)
    for site, frame, callee in seen:
        if site.may_call(callee):
            elsewhere[site.scope, callee].add(frame.row)
    return {
        number: tuple(
            frame if site is None else _right(frame, site, callee, elsewhere[site.scope, callee])
            for frame, site, callee in calls.each(stack)
        )
        for number, stack in stacks.items()
    }


def _right(frame: Frame, site: _Site, callee: str, elsewhere: Set[int]) -> Frame:
    rows = sorted(site.scope.rows.get(callee, elsewhere))
    if site.may_call(callee) or not rows or frame.row in rows:
        return frame
    # The job went on, so the call was made on the nearest row before; a loop comes from its end to its beginning.
    return frame.model_copy(update={"row": rows[bisect_left(rows, frame.row) - 1]})


@dataclass(eq=False, slots=True)
class _Scope:
    """A function, or the top level of a file."""

    rows: dict[str, list[int]] = field(default_factory=dict)
    """On which each name is called."""
    assigned: dict[str, set[str]] = field(default_factory=dict)
    """The variables that hold what a call of each name gave: a generator runs where it is gone through."""


@dataclass(frozen=True, eq=False, slots=True)
class _Site:
    """A statement, or the head of one that holds others."""

    scope: _Scope
    calls: frozenset[str]
    """The names that it calls."""
    names: frozenset[str]
    """All names and attributes in it: a property runs without a call."""
    is_open: bool
    """Whether it runs code that it does not name."""
    explained: set[str] = field(default_factory=set)
    """The calls that were seen to run a function of that name, and hence none of another name."""

    def may_call(self, callee: str) -> bool:
        """Whether a function of this bare name can have been called here."""
        if callee in self.calls or callee in self.names or callee.startswith("<"):
            return True
        if callee in self.scope.rows:
            goes_through = self.is_open or NEXT in self.calls
            return goes_through and not self.names.isdisjoint(self.scope.assigned.get(callee, ()))
        is_operator = callee.startswith("__") and callee != "__call__"
        return self.is_open or is_operator or not self.calls <= self.explained


class _Calls:
    """The calls in stacks that the job's own code made."""

    def __init__(self, code: JobCode) -> None:
        self._code = code
        self._files: dict[str, Path | None] = {}
        self._sites: dict[Path, dict[int, _Site]] = {}

    def pairs(self, stack: Sequence[Frame]) -> Iterator[tuple[_Site, Frame, str]]:
        return ((site, frame, callee) for frame, site, callee in self.each(stack) if site is not None)

    def each(self, stack: Sequence[Frame]) -> Iterator[tuple[Frame, _Site | None, str]]:
        """Each call with the statement of the job's own code that it is at, and the bare name of what it called; with
        None where it is not the job's own or the source does not tell."""
        callee = ""
        for frame in stack:
            line = self._line(frame) if callee else None
            yield frame, None if line is None else self._at(line), callee
            callee = frame.function.rpartition(".")[2]

    def _line(self, frame: Frame) -> Line | None:
        if frame.path not in self._files:
            self._files[frame.path] = self._code.file(frame.path)
        path = self._files[frame.path]
        return Line(path, frame.row) if path is not None else None

    def _at(self, line: Line) -> _Site | None:
        if line.path not in self._sites:
            tree = parsed(line.path)
            self._sites[line.path] = {} if tree is None else dict(_sites(tree))
        return self._sites[line.path].get(line.row)


def _sites(tree: ast.Module) -> Iterator[tuple[int, _Site]]:
    """What stands on each row of a file; an inner statement comes after the one around it."""
    top = _Scope()
    waiting: list[tuple[ast.stmt, _Scope]] = [(statement, top) for statement in reversed(tree.body)]
    while waiting:
        statement, scope = waiting.pop()
        blocks = list(_blocks(statement))
        parts = [part for part in ast.iter_child_nodes(statement) if not isinstance(part, (ast.stmt, *_HOLDERS))]
        site = _site(statement, parts, scope)
        first = min((one.lineno for block in blocks for one in block), default=None)
        last = statement.end_lineno or statement.lineno
        for row in range(statement.lineno, last + 1 if first is None else max(first, statement.lineno + 1)):
            yield row, site
        # A comprehension and a lambda are within the function for what is called there.
        inner = _Scope() if isinstance(statement, _Function | ast.ClassDef) else scope
        waiting.extend((one, inner) for block in reversed(blocks) for one in reversed(block))


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for holder in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        for name in ("body", "orelse", "finalbody"):
            if block := getattr(holder, name, None):
                yield block


def _site(statement: ast.stmt, parts: Iterable[ast.AST], scope: _Scope) -> _Site:
    calls, names = set[str](), set[str]()
    is_open = isinstance(statement, _Loop | ast.With | ast.AsyncWith | ast.ClassDef | _Function)
    if isinstance(statement, _Loop):
        calls.add(NEXT)
        scope.rows.setdefault(NEXT, []).append(statement.lineno)
    for node in (node for part in parts for node in ast.walk(part)):
        if isinstance(node, ast.Call):
            name, row = called_name(node.func), node.func.end_lineno or node.lineno
            for one in [name, NEXT] if name in CONSUMERS else [name]:
                calls.add(one)
                scope.rows.setdefault(one, []).append(row)
        elif isinstance(node, _Comprehension | ast.Starred | ast.YieldFrom):
            calls.add(NEXT)
            scope.rows.setdefault(NEXT, []).append(node.lineno)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Name):
            names.add(node.id)
        is_open = is_open or isinstance(node, ast.Await | ast.Yield | ast.YieldFrom | ast.Lambda)
    for call in calls:
        scope.assigned.setdefault(call, set()).update(_targets(statement))
    return _Site(scope, frozenset(calls), frozenset(names), is_open)


def _targets(statement: ast.stmt) -> Iterator[str]:
    """The names and attributes that an assignment binds."""
    targets: Sequence[ast.expr] = ()
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = (statement.target,)
    for target in targets:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                yield node.id
            elif isinstance(node, ast.Attribute):
                yield node.attr
