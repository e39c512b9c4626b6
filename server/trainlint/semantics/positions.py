"""Places of libcst nodes, in Python's own coordinates, without libcst's metadata.

Two sources give the same answer. The cheap one is Python's `ast`, walked in step with the libcst tree. The other one,
here, lets libcst print its tree and notes how far the text has come at the start and the end of each node; it serves
files and f-strings whose `ast` cannot be had or cannot be relied on (before Python 3.12, `ast` gives wrong places
inside f-strings of several rows).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Any, TypeAlias

import libcst as cst
from libcst._nodes.internal import CodegenState

Span: TypeAlias = tuple[int, int, int, int]
"""Row, column, end row, end column: rows of the file from 1, columns in UTF-8 bytes from 0, the end exclusive."""

_NEWLINE = re.compile(r"\r\n?|\n")
_PRINTING_DEPTH = 100_000
"""Recursion limit while libcst prints: a chain of 5,000 operators nests 15,000 calls, which take no space on the C
stack since Python 3.11."""


class Unplaced:
    """Stands where an `ast` node would, for libcst nodes that are placed by printing: every child is unplaced too."""

    def __getattr__(self, name: str) -> Unplaced:
        return self

    def __getitem__(self, index: object) -> Unplaced:
        return self

    def __iter__(self) -> Iterator[Unplaced]:
        return repeat(self)


UNPLACED = Unplaced()


class Printer(CodegenState):
    """Notes the span of each node that libcst prints through it, starting at `row` and `column`.

    The span of a comma or a colon leaves out the space behind it. Those of whitespace mean nothing, since one node may
    stand for equal whitespace in several places.
    """

    def __init__(self, module: cst.Module, row: int = 1, column: int = 0) -> None:
        super().__init__(module.default_indent, module.default_newline)
        self.row = row
        self.column = column
        self.spans: dict[cst.CSTNode, Span] = {}
        self._starts: list[tuple[int, int]] = []
        self._last_start = row, column
        """Start of the node that was printed last."""
        self._behind_bracket: dict[cst.CSTNode, tuple[int, int]] = {}
        """For the first argument of each call, the place right behind the opening bracket."""

    def add_indent_tokens(self) -> None:
        for token in self.indent_tokens:
            self.add_token(token)

    def add_token(self, value: str) -> None:
        if value.isascii() and "\n" not in value and "\r" not in value:
            self.column += len(value)
            return
        first, *more = _NEWLINE.split(value)
        if more:
            self.row += len(more)
            self.column = len(more[-1].encode("utf-8", "surrogatepass"))
        else:
            self.column += len(first.encode("utf-8", "surrogatepass"))

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._starts.append((self.row, self.column))
        if node.__class__ is cst.Arg:
            self._behind_bracket[node] = self._last_start

    def after_codegen(self, node: cst.CSTNode) -> None:
        start = self._starts.pop()
        if node.__class__ in _FOLLOWED_BY_SPACE:
            self.spans[node] = (*start, *self._last_start)
        elif node not in self.spans:
            self.spans[node] = (*start, self.row, self.column)
        if node.__class__ is cst.Call:
            self._widen_generator(node)
        self._last_start = start

    def _widen_generator(self, call: cst.Call) -> None:
        """Give a generator expression that is a call's only argument, and has no brackets, those of the call."""
        value = call.args[0].value if len(call.args) == 1 else None
        if isinstance(value, cst.GeneratorExp) and not value.lpar:
            row, column = self._behind_bracket[call.args[0]]
            self.spans[value] = (row, column - 1, *self.spans[call][2:])

    @contextmanager
    def record_syntactic_position(
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> Iterator[None]:
        row, column = self.row, self.column
        if start_node is not None and start_node in self.spans:
            row, column = self.spans[start_node][:2]
        try:
            yield
        finally:
            end = self.spans[end_node][2:] if end_node is not None and end_node in self.spans else None
            self.spans[node] = (row, column, *(end or (self.row, self.column)))

    def print_string(self, node: cst.CSTNode) -> None:
        """Note the spans of what a string literal holds, its own brackets left out, since `ast` starts behind them."""
        while isinstance(node, cst.ConcatenatedString):
            self.print(node.left)
            self.print(node.whitespace_between)
            node = node.right
        if isinstance(node, cst.FormattedString):
            self.add_token(node.start)
            for part in node.parts:
                self.print(part)

    def print(self, node: cst.CSTNode) -> None:
        """Note the spans of `node` and of what it holds."""
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _PRINTING_DEPTH))
        try:
            node._codegen(self)
        finally:
            sys.setrecursionlimit(limit)


def printed_span(spans: dict[cst.CSTNode, Span], node: Any) -> Span:
    """The span that Python's `ast` gives `node`, from printed spans.

    Tuples and generator expressions differ: in `ast` the brackets right around them are theirs.
    """
    if node.__class__ in _OWN_BRACKETS and node.lpar:
        return (*spans[node.lpar[-1]][:2], *spans[node.rpar[0]][2:])
    if node.__class__ is cst.Slice and node.step is None:
        return (*spans[node][:2], *_slice_end(spans, node))
    return spans[node]


def _slice_end(spans: dict[cst.CSTNode, Span], node: cst.Slice) -> tuple[int, int]:
    """Where a slice without a step ends: at its last colon or upper bound, without the space behind a colon."""
    if isinstance(node.second_colon, cst.Colon):
        return spans[node.second_colon][2:]
    return spans[node][2:] if node.upper is not None else spans[node.first_colon][2:]


def printed_end(spans: dict[cst.CSTNode, Span], element: cst.SubscriptElement) -> tuple[int, int]:
    """Where the tuple ends whose last element this is: behind its comma, if it has one."""
    comma = element.comma
    if not isinstance(comma, cst.Comma):
        return (printed_span(spans, element.slice) if isinstance(element.slice, cst.Slice) else spans[element])[2:]
    return spans[comma][2:]


_FOLLOWED_BY_SPACE = {cst.Comma, cst.Colon}
_OWN_BRACKETS = {cst.Tuple, cst.GeneratorExp}
