"""From a libcst tree to lowered code: one walk, in step with the `ast` tree of the same text, which has the places."""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import libcst as cst

from trainlint.semantics import code
from trainlint.semantics.facts import FunctionSummary, ImportedModule, ModuleFacts
from trainlint.semantics.positions import UNPLACED, Printer, Span, printed_end, printed_span

Mirror: TypeAlias = Any
"""The `ast` node that corresponds to a libcst node, or `UNPLACED`. Untyped, since which of the many `ast` classes it is
follows from the libcst node's class; a wrong one raises AttributeError, and the statement is placed by printing."""

Lowered: TypeAlias = Any
"""A node of lowered code, or a plain tuple of the fields of one."""

LONGEST_LITERAL = 1_000
"""Displays with more constants than this are kept as `Opaque`: tables of data say nothing about training."""
LONGEST_CHAIN = 64
"""Of a longer chain of operators, or of attributes, calls and subscripts, only the last so many are kept."""
LONGEST_ELIF = 32
"""After so many `elif`s the others stand side by side in the last `else`, so that lowered code does not nest deeper."""
DEEPEST_CODE = 200
"""Nesting of the arrays of one statement beyond which it is left out; decoding takes three calls for each."""
_LONGEST_STRING = 200
BACKWARD = "backward"
"""In the name of whatever runs a backward pass: `loss.backward()`, `self.model_backward_and_update(loss)`."""
_LARGEST_INT = 2**53
_ROW_SHIFT = 56
_COLUMN_SHIFT = 20
_LAST_COLUMN = (1 << _COLUMN_SHIFT) - 1

_HEADER_END = re.compile(rb"(?:[^:#]+|#[^\r\n]*)*:")
_NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]")))

_BINARY = {
    cst.Add: "+",
    cst.Subtract: "-",
    cst.Multiply: "*",
    cst.Divide: "/",
    cst.FloorDivide: "//",
    cst.Modulo: "%",
    cst.Power: "**",
    cst.MatrixMultiply: "@",
    cst.LeftShift: "<<",
    cst.RightShift: ">>",
    cst.BitAnd: "&",
    cst.BitOr: "|",
    cst.BitXor: "^",
}
_AUGMENTED = {
    cst.AddAssign: "+",
    cst.SubtractAssign: "-",
    cst.MultiplyAssign: "*",
    cst.DivideAssign: "/",
    cst.FloorDivideAssign: "//",
    cst.ModuloAssign: "%",
    cst.PowerAssign: "**",
    cst.MatrixMultiplyAssign: "@",
    cst.LeftShiftAssign: "<<",
    cst.RightShiftAssign: ">>",
    cst.BitAndAssign: "&",
    cst.BitOrAssign: "|",
    cst.BitXorAssign: "^",
}
_BOOLEAN = {cst.And: "and", cst.Or: "or"}
_UNARY = {cst.Not: "not", cst.Minus: "-", cst.Plus: "+", cst.BitInvert: "~"}
_COMPARE = {
    cst.Equal: "==",
    cst.NotEqual: "!=",
    cst.LessThan: "<",
    cst.LessThanEqual: "<=",
    cst.GreaterThan: ">",
    cst.GreaterThanEqual: ">=",
    cst.Is: "is",
    cst.IsNot: "is not",
    cst.In: "in",
    cst.NotIn: "not in",
}
_NAME, _CONSTANT, _ATTRIBUTE, _ARGUMENT, _CALL = map(
    code.NODE_TYPES.index, (code.Name, code.Constant, code.Attribute, code.Argument, code.Call)
)
"""Tags of the most frequent nodes, which are made as plain tuples: a tenth of the cost, and their JSON is the same."""
_SINGLETONS = {"None": None, "True": True, "False": False}
_DECORATED = {cst.FunctionDef, cst.ClassDef}
_TRAILERS = {cst.Attribute, cst.Call, cst.Subscript}
_CONSTANTS = {cst.Integer, cst.Float, cst.Imaginary, cst.SimpleString, cst.Ellipsis, cst.ConcatenatedString}


class ShapesDisagreeError(Exception):
    """The `ast` tree does not mirror the libcst tree here."""


DISAGREEMENTS = (ShapesDisagreeError, AttributeError, IndexError, TypeError, KeyError)


class _Table(dict[type[cst.CSTNode], Callable[[Any, Any], Any]]):
    """Dispatch by class; classes that libcst has learned since go to `unknown`."""

    unknown: Callable[[Any, Any], Any]

    def __missing__(self, key: type[cst.CSTNode]) -> Callable[[Any, Any], Any]:
        return self.unknown


class Lowering:
    """Lowers one module; used once."""

    def __init__(self, module: cst.Module, source: bytes, watched: frozenset[str]) -> None:
        self._module = module
        self._source = source
        self._watched = watched
        self._base = 1
        """Row that places count from."""
        self._indents: list[str] = []
        """Indentation of the enclosing blocks, which libcst prints inside multi-line brackets again."""
        self._names: list[str] = []
        """Names of the enclosing classes and functions."""
        self._mentions: set[str] = set()
        self._yields = False
        self._functions: list[FunctionSummary] = []
        self._bodies: list[str] = []
        self._imports: list[ImportedModule] = []
        self._row_starts: list[int] | None = None
        self._spans: dict[cst.CSTNode, Span] | None = None
        """Printed spans, where they are in use; else places come from `ast`."""
        self._module_spans: dict[cst.CSTNode, Span] | None = None
        self._expression = self._expression_table()
        self._statement = self._statement_table()

    # ------------------------------------------------------------------------------------------------------ units

    def lower(self, mirror: ast.Module | None) -> ModuleFacts:
        """Lower the module; `mirror` is None where `ast` cannot parse it."""
        statements = flatten(self._module.body)
        mirrors: Iterable[Mirror] = UNPLACED
        if mirror is not None and len(mirror.body) == len(statements):
            mirrors = mirror.body
        rows: list[int] = []
        lines: list[str] = []
        for statement, its_mirror in zip(statements, mirrors, strict=False):
            row, lowered = self._unit(statement, its_mirror)
            if lowered is not None:
                rows.append(row)
                lines.append(dump_statement(lowered))
        if any(BACKWARD in line for line in lines):
            self._mentions.add(BACKWARD)
        facts = ModuleFacts(
            tuple(self._functions),
            tuple(rows),
            tuple(self._imports),
            frozenset(self._mentions),
            any('"__name__"' in line and '"__main__"' in line for line in lines),
            (*lines, *self._bodies),
        )
        # The tables hold methods of this object: a cycle that would keep the tree while the collector is off.
        self.__dict__.clear()
        return facts

    def _unit(self, node: cst.CSTNode, mirror: Mirror) -> tuple[int, code.Statement | None]:
        if mirror is not UNPLACED:
            before = len(self._functions), len(self._imports), set(self._mentions)
            try:
                return self._placed_unit(node, mirror)
            except DISAGREEMENTS:
                functions, imports, self._mentions = before
                del self._functions[functions:], self._bodies[functions:], self._imports[imports:]
        self._spans = self._printed()
        try:
            return self._placed_unit(node, UNPLACED)
        finally:
            self._spans = None

    def _placed_unit(self, node: cst.CSTNode, mirror: Mirror) -> tuple[int, code.Statement | None]:
        self._names = []
        self._indents = []
        self._base = self._first_row(node, mirror)
        return self._base, self._lower_statement(node, mirror)

    def _printed(self) -> dict[cst.CSTNode, Span]:
        if self._module_spans is None:
            printer = Printer(self._module)
            printer.print(self._module)
            self._module_spans = printer.spans
        return self._module_spans

    def _first_row(self, node: Any, mirror: Mirror) -> int:
        if node.__class__ in _DECORATED and node.decorators:
            first = node.decorators[0].decorator
            row, column = self._span(first, mirror.decorator_list[0])[:2]
            return self._row_of(self._source.rfind(b"@", 0, self._offset(row, column)))
        return self._span(node, mirror)[0]

    # ----------------------------------------------------------------------------------------------------- places

    def _at(self, node: cst.CSTNode, mirror: Mirror) -> code.Place:
        if self._spans is not None:
            row, column, end_row, end_column = printed_span(self._spans, node)
            return code.pack(row - self._base, column, end_row - self._base, end_column)
        row = mirror.lineno
        end_column = mirror.end_col_offset
        if mirror.end_lineno == row and end_column <= _LAST_COLUMN:  # What `pack` does, without the call.
            return (row - self._base) << _ROW_SHIFT | mirror.col_offset << _COLUMN_SHIFT | end_column  # type: ignore[no-any-return]
        return code.pack(row - self._base, mirror.col_offset, mirror.end_lineno - self._base, end_column)

    def _span(self, node: cst.CSTNode, mirror: Mirror) -> Span:
        if self._spans is not None:
            return printed_span(self._spans, node)
        return mirror.lineno, mirror.col_offset, mirror.end_lineno, mirror.end_col_offset

    def _offset(self, row: int, column: int) -> int:
        """Byte offset in the source of a row of the file and a column."""
        return self._starts()[row - 1] + column

    def _row_of(self, offset: int) -> int:
        return bisect_right(self._starts(), offset)

    def _starts(self) -> list[int]:
        if self._row_starts is None:
            self._row_starts = [0, *accumulate(map(len, self._source.splitlines(keepends=True)))]
        return self._row_starts

    def _header(self, node: cst.CSTNode, mirror: Mirror, last: tuple[cst.CSTNode, Mirror] | None) -> code.Place:
        """Place of a compound statement's header: from its keyword to its colon, the colon included.

        `last` is the last node of the header that has a place; the colon is the first after it that stands in no
        comment.
        """
        row, column, _, _ = self._span(node, mirror)
        _, _, last_row, last_column = (row, column, row, column) if last is None else self._span(*last)
        starts = self._starts()
        found = _HEADER_END.match(self._source, starts[last_row - 1] + last_column)
        if found is None:
            raise ShapesDisagreeError
        end = found.end()
        end_row = bisect_right(starts, end - 1, last_row)
        return code.pack(row - self._base, column, end_row - self._base, end - starts[end_row - 1])

    # ------------------------------------------------------------------------------------------------- statements

    def _lower_statement(self, node: cst.CSTNode, mirror: Mirror) -> code.Statement | None:
        """Lower one statement; None for `pass`."""
        try:
            statement: code.Statement | None = self._statement[node.__class__](node, mirror)
        except RecursionError:
            return code.Evaluate(code.Opaque("too deep", 0), 0)
        return statement

    def _block(self, node: Any, mirrors: Mirror) -> code.Block:
        """Lower the suite of a compound statement, or a class's or function's."""
        lowered = []
        for statement, mirror in self._pairs(node, mirrors):
            one = self._lower_statement(statement, mirror)
            if one is not None:
                lowered.append(one)
        return tuple(lowered)

    def _pairs(self, suite: Any, mirrors: Mirror) -> Iterator[tuple[cst.CSTNode, Mirror]]:
        """The statements of a suite with their mirrors, while the suite's indentation is noted."""
        statements = flatten(suite.body)
        if mirrors is not UNPLACED and len(mirrors) != len(statements):
            raise ShapesDisagreeError
        indented = suite.__class__ is cst.IndentedBlock
        if indented:
            self._indents.append(self._module.default_indent if suite.indent is None else suite.indent)
        yield from zip(statements, mirrors, strict=False)
        if indented:
            self._indents.pop()

    def _statement_table(self) -> _Table:
        table = _Table(
            {
                cst.Expr: self._evaluate,
                cst.Assign: self._assign,
                cst.AnnAssign: self._annotated,
                cst.AugAssign: self._augment,
                cst.Return: self._return,
                cst.If: self._if,
                cst.For: self._for,
                cst.While: self._while,
                cst.With: self._with,
                cst.Try: self._try,
                cst.TryStar: self._try,
                cst.Raise: self._raise,
                cst.Assert: self._assert,
                cst.Del: self._delete,
                cst.Pass: self._pass,
                cst.Break: lambda node, mirror: code.Leave("break", self._at(node, mirror)),
                cst.Continue: lambda node, mirror: code.Leave("continue", self._at(node, mirror)),
                cst.Global: self._global,
                cst.Nonlocal: self._nonlocal,
                cst.Import: self._import,
                cst.ImportFrom: self._import_from,
                cst.FunctionDef: self._define,
                cst.ClassDef: self._define_class,
                cst.Match: self._match,
                cst.TypeAlias: self._type_alias,
            }
        )
        table.unknown = lambda node, mirror: code.Evaluate(self._unknown(node, mirror), self._at(node, mirror))
        return table

    def _evaluate(self, node: cst.Expr, mirror: Mirror) -> code.Evaluate:
        value = node.value
        return code.Evaluate(self._expression[value.__class__](value, mirror.value), self._at(node, mirror))

    def _assign(self, node: cst.Assign, mirror: Mirror) -> code.Assign:
        lower = self._expression
        targets = tuple(
            [
                lower[target.target.__class__](target.target, its_mirror)
                for target, its_mirror in zip(node.targets, mirror.targets, strict=False)
            ]
        )
        value = node.value
        return code.Assign(targets, lower[value.__class__](value, mirror.value), None, self._at(node, mirror))

    def _annotated(self, node: cst.AnnAssign, mirror: Mirror) -> code.Assign:
        target = self._lower(node.target, mirror.target)
        annotation = self._lower(node.annotation.annotation, mirror.annotation)
        value = self._optional(node.value, mirror.value)
        return code.Assign((target,), value, annotation, self._at(node, mirror))

    def _augment(self, node: cst.AugAssign, mirror: Mirror) -> code.Augment:
        target = self._lower(node.target, mirror.target)
        value = self._lower(node.value, mirror.value)
        return code.Augment(target, _AUGMENTED[node.operator.__class__], value, self._at(node, mirror))

    def _return(self, node: cst.Return, mirror: Mirror) -> code.Return:
        return code.Return(self._optional(node.value, mirror.value), self._at(node, mirror))

    def _raise(self, node: cst.Raise, mirror: Mirror) -> code.Raise:
        return code.Raise(self._optional(node.exc, mirror.exc), self._at(node, mirror))

    def _assert(self, node: cst.Assert, mirror: Mirror) -> code.Assert:
        test = self._lower(node.test, mirror.test)
        return code.Assert(test, self._optional(node.msg, mirror.msg), self._at(node, mirror))

    def _delete(self, node: cst.Del, mirror: Mirror) -> code.Delete:
        target = node.target
        targets: Sequence[cst.CSTNode] = (target,)
        if isinstance(target, cst.Tuple) and not target.lpar:
            targets = [element.value for element in target.elements]
        return code.Delete(self._all(targets, mirror.targets), self._at(node, mirror))

    def _pass(self, node: cst.Pass, mirror: Mirror) -> None:
        return None

    def _global(self, node: cst.Global, mirror: Mirror) -> code.Scope:
        return code.Scope("global", tuple([item.name.value for item in node.names]), self._at(node, mirror))

    def _nonlocal(self, node: cst.Nonlocal, mirror: Mirror) -> code.Scope:
        return code.Scope("nonlocal", tuple([item.name.value for item in node.names]), self._at(node, mirror))

    def _type_alias(self, node: cst.TypeAlias, mirror: Mirror) -> code.Assign:
        target = self._lower(node.name, mirror.name)
        return code.Assign((target,), self._lower(node.value, mirror.value), None, self._at(node, mirror))

    def _if(self, node: cst.If, mirror: Mirror) -> code.If:
        """Lower an `if` with its `elif`s, without recursion: there may be thousands."""
        branches: list[tuple[code.Expression, code.Block, code.Place]] = []
        following: Any
        while True:
            test = self._lower(node.test, mirror.test)
            at = self._header(node, mirror, (node.test, mirror.test))
            branches.append((test, self._block(node.body, mirror.body), at))
            following = node.orelse
            if following.__class__ is not cst.If:
                break
            node, mirror = following, mirror.orelse[0]
        orelse = self._block(following.body, mirror.orelse) if following is not None else ()
        return _nest(branches, orelse)

    def _for(self, node: cst.For, mirror: Mirror) -> code.For:
        target = self._lower(node.target, mirror.target)
        iterable = self._lower(node.iter, mirror.iter)
        at = self._header(node, mirror, (node.iter, mirror.iter))
        body = self._block(node.body, mirror.body)
        return code.For(target, iterable, body, self._else(node.orelse, mirror.orelse), at)

    def _while(self, node: cst.While, mirror: Mirror) -> code.While:
        test = self._lower(node.test, mirror.test)
        at = self._header(node, mirror, (node.test, mirror.test))
        body = self._block(node.body, mirror.body)
        return code.While(test, body, self._else(node.orelse, mirror.orelse), at)

    def _else(self, node: cst.Else | cst.Finally | None, mirrors: Mirror) -> code.Block:
        return self._block(node.body, mirrors) if node is not None else ()

    def _with(self, node: cst.With, mirror: Mirror) -> code.With:
        items = []
        last: tuple[cst.CSTNode, Mirror] | None = None
        for item, its_mirror in zip(node.items, mirror.items, strict=False):
            value = self._lower(item.item, its_mirror.context_expr)
            last = item.item, its_mirror.context_expr
            target = None
            if item.asname is not None:
                target = self._lower(item.asname.name, its_mirror.optional_vars)
                last = item.asname.name, its_mirror.optional_vars
            items.append(code.WithItem(value, target))
        at = self._header(node, mirror, last)
        return code.With(tuple(items), self._block(node.body, mirror.body), at)

    def _try(self, node: cst.Try | cst.TryStar, mirror: Mirror) -> code.Try:
        at = self._header(node, mirror, None)
        body = self._block(node.body, mirror.body)
        handlers = []
        handler: Any
        for handler, its_mirror in zip(node.handlers, mirror.handlers, strict=False):
            kind = self._optional(handler.type, its_mirror.type)
            name = handler.name.name.value if handler.name is not None else None
            handlers.append(code.Handler(kind, name, self._block(handler.body, its_mirror.body)))
        orelse = self._else(node.orelse, mirror.orelse)
        return code.Try(body, tuple(handlers), orelse, self._else(node.finalbody, mirror.finalbody), at)

    def _match(self, node: cst.Match, mirror: Mirror) -> code.Match:
        subject = self._lower(node.subject, mirror.subject)
        at = self._header(node, mirror, (node.subject, mirror.subject))
        cases = []
        for case, its_mirror in zip(node.cases, mirror.cases, strict=False):
            guard = self._optional(case.guard, its_mirror.guard)
            cases.append(code.Case(_bound_names(case.pattern), guard, self._block(case.body, its_mirror.body)))
        return code.Match(subject, tuple(cases), at)

    def _import(self, node: cst.Import, mirror: Mirror) -> code.Import:
        aliases = self._aliases(node.names, mirror.names)
        self._imports += [ImportedModule(alias.name, 0, ()) for alias in aliases]
        return code.Import(aliases, self._at(node, mirror))

    def _import_from(self, node: cst.ImportFrom, mirror: Mirror) -> code.ImportFrom:
        module = _dotted(node.module) if node.module is not None else ""
        level = len(node.relative)
        if isinstance(node.names, cst.ImportStar):
            aliases: tuple[code.Alias, ...] = (code.Alias("*", None, self._at(node.names, mirror.names[0])),)
        else:
            aliases = self._aliases(node.names, mirror.names)
        self._imports.append(ImportedModule(module, level, tuple([alias.name for alias in aliases])))
        return code.ImportFrom(module, level, aliases, self._at(node, mirror))

    def _aliases(self, nodes: Iterable[cst.ImportAlias], mirrors: Mirror) -> tuple[code.Alias, ...]:
        aliases = []
        node: Any
        for node, mirror in zip(nodes, mirrors, strict=False):
            bound = node.asname.name.value if node.asname is not None else None
            aliases.append(code.Alias(_dotted(node.name), bound, self._at(node, mirror)))
        return tuple(aliases)

    # -------------------------------------------------------------------------------------- functions and classes

    def _define(self, node: cst.FunctionDef, mirror: Mirror) -> code.Define:
        name = node.name.value
        decorators = self._all([one.decorator for one in node.decorators], mirror.decorator_list)
        parameters, last = self._parameters(node.params, mirror.args)
        returns = None
        if node.returns is not None:
            returns = self._lower(node.returns.annotation, mirror.returns)
            last = node.returns.annotation, mirror.returns
        if last is None and node.type_parameters is not None:
            last = node.type_parameters.params[-1], mirror.type_params[-1]
        at = self._header(node, mirror, last)
        index, is_generator = self._body(node, mirror)
        return code.Define(name, decorators, parameters, returns, index, is_generator, at)

    def _body(self, node: cst.FunctionDef, mirror: Mirror) -> tuple[int, bool]:
        """Lower a function's body to a line of its own; return its index and whether it yields."""
        index = len(self._functions)
        mentions, yields = self._mentions, self._yields
        self._mentions, self._yields = set(), False
        self._names.append(node.name.value)
        summary = FunctionSummary(".".join(self._names), self._base, frozenset())
        self._functions.append(summary)
        self._bodies.append("[]")
        try:
            block = self._block(node.body, mirror.body)
            self._bodies[index] = dump_block(block)
            if BACKWARD in self._bodies[index]:
                self._mentions.add(BACKWARD)
            self._functions[index] = FunctionSummary(summary.qualname, summary.row, frozenset(self._mentions))
            return index, self._yields
        finally:
            self._names.pop()
            self._mentions, self._yields = mentions, yields

    def _parameters(
        self, node: cst.Parameters, mirror: Mirror
    ) -> tuple[tuple[code.Parameter, ...], tuple[cst.CSTNode, Mirror] | None]:
        """Lower parameters; return also the last node among them that has a place."""
        parameters: list[code.Parameter] = []
        last: tuple[cst.CSTNode, Mirror] | None = None
        for kind, parameter, its_mirror, default in _paired_parameters(node, mirror):
            last = parameter.name, its_mirror
            annotation = None
            if parameter.annotation is not None:
                annotated = parameter.annotation.annotation
                annotation = self._lower(annotated, its_mirror.annotation)
                last = annotated, its_mirror.annotation
            value = None
            if parameter.default is not None:
                value = self._lower(parameter.default, default)
                last = parameter.default, default
            parameters.append(code.Parameter(parameter.name.value, kind, value, annotation))
        return tuple(parameters), last

    def _define_class(self, node: cst.ClassDef, mirror: Mirror) -> code.DefineClass:
        decorators = self._all([one.decorator for one in node.decorators], mirror.decorator_list)
        bases, last = self._arguments([*node.bases, *node.keywords], mirror.bases, mirror.keywords)
        if last is None and node.type_parameters is not None:
            last = node.type_parameters.params[-1], mirror.type_params[-1]
        at = self._header(node, mirror, last)
        self._names.append(node.name.value)
        try:
            members = self._members(node, mirror)
        finally:
            self._names.pop()
        return code.DefineClass(node.name.value, decorators, bases, members, at)

    def _members(self, node: cst.ClassDef, mirror: Mirror) -> tuple[code.Member, ...]:
        members = []
        base = self._base
        try:
            for statement, its_mirror in self._pairs(node.body, mirror.body):
                self._base = row = self._first_row(statement, its_mirror)
                lowered = self._lower_statement(statement, its_mirror)
                if lowered is not None:
                    members.append(code.Member(row - base, lowered))
        finally:
            self._base = base
        return tuple(members)

    # ------------------------------------------------------------------------------------------------ expressions

    def _expression_table(self) -> _Table:
        table = _Table(
            {
                cst.Name: self._name,
                cst.Integer: self._integer,
                cst.Float: self._float,
                cst.Imaginary: lambda node, mirror: code.Opaque("complex", self._at(node, mirror)),
                cst.Ellipsis: lambda node, mirror: code.Opaque("ellipsis", self._at(node, mirror)),
                cst.SimpleString: self._string,
                cst.ConcatenatedString: self._concatenated,
                cst.FormattedString: self._formatted,
                cst.TemplatedString: lambda node, mirror: code.Opaque("template", self._at(node, mirror)),
                cst.Attribute: self._trailers,
                cst.Subscript: self._trailers,
                cst.Call: self._trailers,
                cst.BinaryOperation: self._binary,
                cst.BooleanOperation: self._boolean,
                cst.UnaryOperation: self._unary,
                cst.Comparison: self._compare,
                cst.IfExp: self._conditional,
                cst.Tuple: self._tuple,
                cst.List: self._list,
                cst.Set: self._set,
                cst.Dict: self._dict,
                cst.ListComp: self._list_comprehension,
                cst.SetComp: self._set_comprehension,
                cst.GeneratorExp: self._generator,
                cst.DictComp: self._dict_comprehension,
                cst.Lambda: self._lambda,
                cst.Yield: self._yield,
                cst.Await: self._await,
                cst.NamedExpr: self._walrus,
                cst.Element: lambda node, mirror: self._lower(node.value, mirror),
                cst.StarredElement: self._starred,
            }
        )
        table.unknown = self._unknown
        return table

    def _lower(self, node: cst.CSTNode, mirror: Mirror) -> Any:
        return self._expression[node.__class__](node, mirror)

    def _optional(self, node: cst.CSTNode | None, mirror: Mirror) -> Any:
        return self._expression[node.__class__](node, mirror) if node is not None else None

    def _all(self, nodes: Iterable[cst.CSTNode], mirrors: Mirror) -> tuple[Any, ...]:
        lower = self._expression
        return tuple([lower[node.__class__](node, mirror) for node, mirror in zip(nodes, mirrors, strict=False)])

    def _unknown(self, node: cst.CSTNode, mirror: Mirror) -> code.Opaque:
        return code.Opaque(node.__class__.__name__.lower(), self._at(node, mirror))

    def _name(self, node: cst.Name, mirror: Mirror) -> Lowered:
        value = node.value
        if value in _SINGLETONS:
            return _SINGLETONS[value], self._at(node, mirror), _CONSTANT
        if self._spans is None and mirror.id != value:
            raise ShapesDisagreeError
        if value in self._watched:
            self._mentions.add(value)
        return value, self._at(node, mirror), _NAME

    def _integer(self, node: cst.Integer, mirror: Mirror) -> Lowered:
        text = node.value
        at = self._at(node, mirror)
        value = int(text, 0) if len(text) < 80 else _LARGEST_INT
        return (value, at, _CONSTANT) if value < _LARGEST_INT else code.Opaque("int", at)

    def _float(self, node: cst.Float, mirror: Mirror) -> code.Constant:
        return code.Constant(float(node.value), self._at(node, mirror))

    def _string(self, node: cst.SimpleString, mirror: Mirror) -> Lowered:
        at = self._at(node, mirror)
        value = ast.literal_eval(node.value) if self._spans is not None else mirror.value
        return (value[:_LONGEST_STRING], at, _CONSTANT) if value.__class__ is str else code.Opaque("bytes", at)

    def _concatenated(self, node: cst.ConcatenatedString, mirror: Mirror) -> code.Expression:
        pieces = _pieces(node)
        at = self._at(node, mirror)
        kinds = {piece.__class__ for piece in pieces}
        if cst.TemplatedString in kinds:
            return code.Opaque("template", at)
        if cst.FormattedString in kinds:
            return self._format(node, pieces, mirror, at)
        values = [ast.literal_eval(piece.value) for piece in pieces]
        if values[0].__class__ is not str:
            return code.Opaque("bytes", at)
        return code.Constant("".join(values)[:_LONGEST_STRING], at)

    def _formatted(self, node: cst.FormattedString, mirror: Mirror) -> code.Format:
        return self._format(node, [node], mirror, self._at(node, mirror))

    def _format(self, node: cst.CSTNode, pieces: Sequence[cst.CSTNode], mirror: Mirror, at: code.Place) -> code.Format:
        expressions = _interpolated(pieces)
        if self._spans is not None:
            return code.Format(self._all(expressions, UNPLACED), at)
        if mirror.lineno == mirror.end_lineno and not any(map(_needs_brackets, expressions)):
            mirrors = _mirrors_interpolated(mirror)
            if len(mirrors) != len(expressions):
                raise ShapesDisagreeError
            return code.Format(self._all(expressions, mirrors), at)
        printer = Printer(self._module, *self._span(node, mirror)[:2])
        printer.indent_tokens += self._indents
        printer.print_string(node)
        self._spans = printer.spans
        try:
            return code.Format(self._all(expressions, UNPLACED), at)
        finally:
            self._spans = None

    def _trailers(self, node: Any, mirror: Mirror) -> Lowered:
        """Lower a chain of attributes, subscripts and calls from its innermost value outwards, without recursion."""
        chain: list[tuple[Any, Mirror]] = []
        while True:
            kind = node.__class__
            if kind not in _TRAILERS:
                break
            chain.append((node, mirror))
            if kind is cst.Call:
                node, mirror = node.func, mirror.func
            else:
                node, mirror = node.value, mirror.value
        if len(chain) > LONGEST_CHAIN:
            node, mirror = chain[LONGEST_CHAIN]
            del chain[LONGEST_CHAIN:]
            value: Lowered = code.Opaque("long chain", self._at(node, mirror))
        else:
            value = self._expression[node.__class__](node, mirror)
        for link, its_mirror in reversed(chain):
            kind = link.__class__
            if kind is cst.Attribute:
                name = link.attr.value
                if name in self._watched:
                    self._mentions.add(name)
                value = (value, name, self._at(link, its_mirror), _ATTRIBUTE)
            elif kind is cst.Call:
                arguments, _ = self._arguments(link.args, its_mirror.args, its_mirror.keywords)
                value = (value, arguments, self._at(link, its_mirror), _CALL)
            else:
                key = self._key(link, its_mirror.slice)
                value = code.Subscript(value, key, self._at(link, its_mirror))
        return value

    def _arguments(
        self, nodes: Sequence[cst.Arg], positional: Mirror, named: Mirror
    ) -> tuple[tuple[Lowered, ...], tuple[cst.CSTNode, Mirror] | None]:
        """Lower the arguments of a call or class; return also the value of the last one."""
        if not nodes:
            return (), None
        lower = self._expression
        arguments: list[Lowered] = []
        positional, named = iter(positional), iter(named)
        mirror: Mirror = None
        for node in nodes:
            value = node.value
            keyword = node.keyword
            star = node.star
            if keyword is not None:
                name = keyword.value
                if name in self._watched:
                    self._mentions.add(name)
                mirror = next(named).value
                arguments.append((name, lower[value.__class__](value, mirror), "", _ARGUMENT))
                continue
            if star == "":
                mirror = next(positional)
            elif star == "*":
                mirror = next(positional).value
            else:
                mirror = next(named).value
            arguments.append((None, lower[value.__class__](value, mirror), star, _ARGUMENT))
        return tuple(arguments), (nodes[-1].value, mirror)

    def _key(self, node: cst.Subscript, mirror: Mirror) -> Any:
        elements = node.slice
        first = elements[0]
        single = len(elements) == 1 and first.comma.__class__ is not cst.Comma
        key: Any = first.slice
        if single and not (key.__class__ is cst.Index and key.star):
            return self._index(first, mirror)
        items = tuple([self._index(element, one) for element, one in zip(elements, mirror.elts, strict=False)])
        if self._spans is None:
            return code.Sequence("tuple", items, self._at(node, mirror))
        row, column = self._spans[first][:2]
        end_row, end_column = printed_end(self._spans, elements[-1])
        return code.Sequence("tuple", items, code.pack(row - self._base, column, end_row - self._base, end_column))

    def _index(self, element: cst.SubscriptElement, mirror: Mirror) -> Any:
        key: Any = element.slice
        if key.__class__ is cst.Index:
            if not key.star:
                return self._lower(key.value, mirror)
            return code.Starred(self._lower(key.value, mirror.value), self._at(key, mirror))
        lower = self._optional(key.lower, mirror.lower)
        upper = self._optional(key.upper, mirror.upper)
        return code.Slice(lower, upper, self._optional(key.step, mirror.step), self._at(key, mirror))

    def _binary(self, node: cst.BinaryOperation, mirror: Mirror) -> code.Expression:
        """Lower a chain of operators that nests to the left, without recursion."""
        chain = [(node, mirror)]
        first: Any = node.left
        mirror = mirror.left
        while first.__class__ is cst.BinaryOperation:
            chain.append((first, mirror))
            first, mirror = first.left, mirror.left
        if len(chain) > LONGEST_CHAIN:
            value: code.Expression = code.Opaque("long chain", self._at(*chain[LONGEST_CHAIN]))
            del chain[LONGEST_CHAIN:]
        else:
            value = self._lower(first, mirror)
        for link, its_mirror in reversed(chain):
            right = self._lower(link.right, its_mirror.right)
            value = code.Binary(_BINARY[link.operator.__class__], value, right, self._at(link, its_mirror))
        return value

    def _boolean(self, node: cst.BooleanOperation, mirror: Mirror) -> code.Boolean:
        operator = node.operator.__class__
        operands: list[cst.CSTNode] = [node.right]
        left: Any = node.left
        while left.__class__ is cst.BooleanOperation and left.operator.__class__ is operator and not left.lpar:
            operands.append(left.right)
            left = left.left
        operands.append(left)
        operands.reverse()
        return code.Boolean(_BOOLEAN[operator], self._all(operands, mirror.values), self._at(node, mirror))

    def _unary(self, node: cst.UnaryOperation, mirror: Mirror) -> code.Unary:
        operand = self._lower(node.expression, mirror.operand)
        return code.Unary(_UNARY[node.operator.__class__], operand, self._at(node, mirror))

    def _compare(self, node: cst.Comparison, mirror: Mirror) -> code.Compare:
        left = self._lower(node.left, mirror.left)
        ops = tuple([_COMPARE[target.operator.__class__] for target in node.comparisons])
        comparators = self._all([target.comparator for target in node.comparisons], mirror.comparators)
        return code.Compare(left, ops, comparators, self._at(node, mirror))

    def _conditional(self, node: cst.IfExp, mirror: Mirror) -> code.Conditional:
        return code.Conditional(
            self._lower(node.test, mirror.test),
            self._lower(node.body, mirror.body),
            self._lower(node.orelse, mirror.orelse),
            self._at(node, mirror),
        )

    def _tuple(self, node: cst.Tuple, mirror: Mirror) -> code.Expression:
        return self._display("tuple", node, mirror)

    def _list(self, node: cst.List, mirror: Mirror) -> code.Expression:
        return self._display("list", node, mirror)

    def _set(self, node: cst.Set, mirror: Mirror) -> code.Expression:
        return self._display("set", node, mirror)

    def _display(self, kind: str, node: cst.Tuple | cst.List | cst.Set, mirror: Mirror) -> code.Expression:
        elements = node.elements
        if len(elements) > LONGEST_LITERAL and all(_is_constant(element.value) for element in elements):
            return code.Opaque(kind, self._at(node, mirror))
        return code.Sequence(kind, self._all(elements, mirror.elts), self._at(node, mirror))

    def _starred(self, node: cst.StarredElement, mirror: Mirror) -> code.Starred:
        return code.Starred(self._lower(node.value, mirror.value), self._at(node, mirror))

    def _dict(self, node: cst.Dict, mirror: Mirror) -> code.Expression:
        elements = node.elements
        if len(elements) > LONGEST_LITERAL and all(_is_constant(element.value) for element in elements):
            return code.Opaque("dict", self._at(node, mirror))
        keys = tuple(
            [
                self._lower(element.key, key) if isinstance(element, cst.DictElement) else None
                for element, key in zip(elements, mirror.keys, strict=False)
            ]
        )
        values = self._all([element.value for element in elements], mirror.values)
        return code.Mapping(keys, values, self._at(node, mirror))

    def _list_comprehension(self, node: cst.ListComp, mirror: Mirror) -> code.Comprehension:
        return self._comprehension("list", node, mirror)

    def _set_comprehension(self, node: cst.SetComp, mirror: Mirror) -> code.Comprehension:
        return self._comprehension("set", node, mirror)

    def _generator(self, node: cst.GeneratorExp, mirror: Mirror) -> code.Comprehension:
        return self._comprehension("generator", node, mirror)

    def _comprehension(self, kind: str, node: cst.BaseSimpleComp, mirror: Mirror) -> code.Comprehension:
        element = self._lower(node.elt, mirror.elt)
        clauses = self._clauses(node.for_in, mirror.generators)
        return code.Comprehension(kind, element, None, clauses, self._at(node, mirror))

    def _dict_comprehension(self, node: cst.DictComp, mirror: Mirror) -> code.Comprehension:
        key = self._lower(node.key, mirror.key)
        value = self._lower(node.value, mirror.value)
        clauses = self._clauses(node.for_in, mirror.generators)
        return code.Comprehension("dict", key, value, clauses, self._at(node, mirror))

    def _clauses(self, node: cst.CompFor | None, mirrors: Mirror) -> tuple[code.Clause, ...]:
        clauses = []
        mirrors = iter(mirrors)
        while node is not None:
            mirror = next(mirrors)
            target = self._lower(node.target, mirror.target)
            iterable = self._lower(node.iter, mirror.iter)
            clauses.append(code.Clause(target, iterable, self._all([one.test for one in node.ifs], mirror.ifs)))
            node = node.inner_for_in
        return tuple(clauses)

    def _lambda(self, node: cst.Lambda, mirror: Mirror) -> code.Lambda:
        parameters, _ = self._parameters(node.params, mirror.args)
        yields = self._yields
        body = self._lower(node.body, mirror.body)
        self._yields = yields
        return code.Lambda(parameters, body, self._at(node, mirror))

    def _yield(self, node: cst.Yield, mirror: Mirror) -> code.Yield:
        self._yields = True
        at = self._at(node, mirror)
        if isinstance(node.value, cst.From):
            return code.Yield(self._lower(node.value.item, mirror.value), True, at)
        return code.Yield(self._optional(node.value, mirror.value), False, at)

    def _await(self, node: cst.Await, mirror: Mirror) -> code.Await:
        return code.Await(self._lower(node.expression, mirror.value), self._at(node, mirror))

    def _walrus(self, node: cst.NamedExpr, mirror: Mirror) -> code.Walrus:
        target = self._lower(node.target, mirror.target)
        return code.Walrus(target, self._lower(node.value, mirror.value), self._at(node, mirror))


def flatten(body: Iterable[cst.CSTNode]) -> list[cst.CSTNode]:
    """The statements of a body, those that share a line one by one."""
    statements: list[cst.CSTNode] = []
    node: Any
    for node in body:
        if node.__class__ is cst.SimpleStatementLine:
            statements += node.body
        else:
            statements.append(node)
    return statements


def _nest(branches: list[tuple[code.Expression, code.Block, code.Place]], orelse: code.Block) -> code.If:
    """One `If` of a chain's branches; those beyond `LONGEST_ELIF` stand side by side."""
    beyond = branches[LONGEST_ELIF:]
    if beyond:
        orelse = (*(code.If(test, body, (), at) for test, body, at in beyond), *orelse)
    for test, body, at in reversed(branches[1:LONGEST_ELIF]):
        orelse = (code.If(test, body, orelse, at),)
    test, body, at = branches[0]
    return code.If(test, body, orelse, at)


def _paired_parameters(node: cst.Parameters, mirror: Mirror) -> Iterable[tuple[str, cst.Param, Mirror, Mirror]]:
    """Each parameter with its kind, its mirror, and the mirror of its default."""
    plain = [*node.posonly_params, *node.params]
    if mirror is UNPLACED:
        mirrors = defaults = named_defaults = named = UNPLACED
    else:
        mirrors = [*mirror.posonlyargs, *mirror.args]
        defaults = [None] * (len(plain) - len(mirror.defaults)) + mirror.defaults
        named, named_defaults = mirror.kwonlyargs, mirror.kw_defaults
    for parameter, its_mirror, default in zip(plain, mirrors, defaults, strict=False):
        yield "positional", parameter, its_mirror, default
    star: Any = node.star_arg
    if star.__class__ is cst.Param:
        yield "*", star, mirror.vararg, None
    for parameter, its_mirror, default in zip(node.kwonly_params, named, named_defaults, strict=False):
        yield "keyword", parameter, its_mirror, default
    if node.star_kwarg is not None:
        yield "**", node.star_kwarg, mirror.kwarg, None


def _pieces(node: cst.CSTNode) -> list[Any]:
    pieces = []
    while isinstance(node, cst.ConcatenatedString):
        pieces.append(node.left)
        node = node.right
    return [*pieces, node]


def _interpolated(pieces: Iterable[cst.CSTNode]) -> list[cst.BaseExpression]:
    """The expressions in the pieces of an f-string, each followed by those in its format."""
    found: list[cst.BaseExpression] = []
    for piece in pieces:
        if isinstance(piece, cst.FormattedString):
            _collect_interpolated(piece.parts, found)
    return found


def _collect_interpolated(contents: Iterable[cst.BaseFormattedStringContent], found: list[cst.BaseExpression]) -> None:
    for content in contents:
        if isinstance(content, cst.FormattedStringExpression):
            found.append(content.expression)
            _collect_interpolated(content.format_spec or (), found)


def _mirrors_interpolated(mirror: Mirror) -> list[Mirror]:
    """The mirrors of the expressions in an f-string, in the same order."""
    found = []
    for value in mirror.values:
        if value.__class__ is ast.FormattedValue:
            found.append(value.value)
            if value.format_spec is not None:
                found += _mirrors_interpolated(value.format_spec)
    return found


def _needs_brackets(node: cst.BaseExpression) -> bool:
    """Whether an expression in an f-string is one to which Python before 3.12 gives the brackets around it."""
    return node.__class__ in (cst.Tuple, cst.GeneratorExp) and not node.lpar


def _is_constant(node: Any) -> bool:
    if node.__class__ is cst.UnaryOperation:
        node = node.expression
    if node.__class__ in _CONSTANTS:
        return True
    return node.__class__ is cst.Name and node.value in _SINGLETONS


def _dotted(node: Any) -> str:
    names = []
    while node.__class__ is cst.Attribute:
        names.append(node.attr.value)
        node = node.value
    names.append(node.value)
    return ".".join(reversed(names))


def _bound_names(pattern: cst.CSTNode) -> tuple[str, ...]:
    """The names that a pattern of a match statement binds, in source order."""
    names = []
    pending = [pattern]
    while pending:
        node = pending.pop()
        if isinstance(node, cst.MatchAs | cst.MatchStar) and node.name is not None:
            names.append(node.name.value)
        elif isinstance(node, cst.MatchMapping) and node.rest is not None:
            names.append(node.rest.value)
        pending += reversed(node.children)
    return tuple(names)


_TOO_DEEP = code.Evaluate(code.Opaque("too deep", 0), 0)
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def dump_statement(node: code.Statement) -> str:
    """One line of JSON for a statement, or for a placeholder where it nests too deep to be read back."""
    try:
        line = _encode(node)
    except RecursionError:
        return _encode(_TOO_DEEP)
    return line if depth_of(line) <= DEEPEST_CODE else _encode(_TOO_DEEP)


def dump_block(block: code.Block) -> str:
    try:
        line = _encode(block)
    except RecursionError:
        line = ""
    if line and depth_of(line) <= DEEPEST_CODE:
        return line
    return f"[{','.join(map(dump_statement, block))}]"


def depth_of(line: str) -> int:
    """How deep the arrays of a line of JSON nest, or an upper bound that is not too deep; brackets inside strings may
    blur it a little."""
    opened = line.count("[")
    if opened <= DEEPEST_CODE:
        return opened
    brackets = line.encode().translate(None, _NOT_BRACKETS)
    depth = 0
    while (inner := brackets.replace(b"[]", b"")) != brackets:
        brackets = inner
        depth += 1
    return depth
