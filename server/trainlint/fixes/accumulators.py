"""Numbers that are gathered step by step: kept on the device as tensors, and read as numbers where they are used.

A total or a list that held numbers holds tensors afterwards, so every use of it has to read them. The uses are looked
for in the scope that the name belongs to; where one is not understood, the fix is not offered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import libcst as cst

from trainlint.fixes.edits import CannotFix, Range, TextEdit
from trainlint.fixes.tree import EXPRESSION, SCOPES, Tree

Loop: TypeAlias = cst.For | cst.While
Scope: TypeAlias = cst.FunctionDef | cst.Module

_ARITHMETIC = (cst.Add, cst.Multiply, cst.Divide, cst.Power)
"""Operators that give for a tensor and a number what they give for two numbers."""
_MAKES_A_NEW_TENSOR = frozenset({"sum", "mean", "norm", "std", "var", "prod", "logsumexp", "sqrt"})
"""Methods whose result shares no memory with a tensor that the program may change afterwards."""
_READING_BUILTINS = frozenset(
    {"enumerate", "list", "max", "min", "print", "repr", "reversed", "sorted", "str", "sum", "tuple", "zip"}
)
"""Builtins that look at a list and neither keep nor change it."""
_READING_LIBRARIES = frozenset({"json", "math", "np", "numpy", "pd", "pandas", "plt", "statistics", "torch"})
"""Libraries whose functions do likewise, by the names under which they are imported."""
_DISPLAYS = (cst.Dict, cst.DictElement, cst.Element, cst.List, cst.Tuple)
_BINDS = (
    *(cst.AssignTarget, cst.Del, cst.AsName, cst.Param, cst.ImportAlias, cst.FunctionDef, cst.ClassDef),
    *(cst.MatchAs, cst.MatchStar, cst.MatchMapping, cst.TypeAlias, cst.TypeVar, cst.TypeVarTuple, cst.ParamSpec),
)
"""What gives a name that it holds its value, wherever in it the name stands."""


def tree_of_names(tree: Tree, whole: Range) -> Tree:
    """The tree of all statements that share the names around `whole`: of a script, all of its top-level ones."""
    read = tree.find(EXPRESSION, whole)
    in_function = any(isinstance(node, cst.FunctionDef) for node in tree.ancestors(read))
    return tree if in_function else Tree.of_file(tree.text)


def accumulate_on_device(tree: Tree, whole: Range, part: Range, floating: bool) -> list[TextEdit]:
    """Gather the tensor at `part` instead of the number read at `whole`, and read it where the gathered is used."""
    read = tree.find(EXPRESSION, whole)
    if not isinstance(read, cst.Call) or not _reads_one_number(read):
        raise CannotFix("it may read more than one number, or cut digits off")
    tensor = tree.find(EXPRESSION, part)
    gathering = _gathering(tree, read)
    return [_kept(tree, gathering, tensor), *_Uses(tree, gathering, _kind(gathering, tensor, floating)).edits()]


# -------------------------------------------------------------------------------------------------- what is gathered


@dataclass(frozen=True, slots=True)
class _Gathering:
    """`total += loss.item()` or `losses.append(loss.item())`."""

    read: cst.Call
    target: cst.Name
    is_list: bool
    scope: Scope
    loop: Loop
    """The loop that gathers: a use in it would make the host wait as often as the read does."""
    as_it_is: bool
    """Whether the number itself is gathered, rather than what is computed from it."""

    @property
    def name(self) -> str:
        return self.target.value


def _reads_one_number(read: cst.Call) -> bool:
    """`t.item()` and `float(t)`; `int(t)` may cut digits off, `t.tolist()` may give a list."""
    if isinstance(read.func, cst.Attribute):
        return read.func.attr.value == "item" and not read.args
    return isinstance(read.func, cst.Name) and read.func.value == "float" and len(read.args) == 1


def _gathering(tree: Tree, read: cst.Call) -> _Gathering:
    held: cst.CSTNode = read
    while isinstance(outer := tree.parent(held), cst.BinaryOperation) and isinstance(outer.operator, _ARITHMETIC):
        held = outer
    as_it_is = held is read
    if isinstance(argument := tree.parent(held), cst.Arg) and argument.keyword is None and not argument.star:
        held = argument
    holder = tree.parent(held)
    target = _target(holder, held)
    around = list(tree.ancestors(target))
    scope = next(node for node in around if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Module))
    loop = next((node for node in around[: around.index(scope)] if isinstance(node, cst.For | cst.While)), None)
    if isinstance(scope, cst.ClassDef) or loop is None:
        raise CannotFix("the loop that gathers it stands elsewhere")
    return _Gathering(read, target, isinstance(holder, cst.Call), scope, loop, as_it_is)


def _target(holder: cst.CSTNode | None, held: cst.CSTNode) -> cst.Name:
    """The name that a statement adds `held` to."""
    target: cst.CSTNode | None = None
    if isinstance(holder, cst.AugAssign) and isinstance(holder.operator, cst.AddAssign):
        target = holder.target
    elif isinstance(holder, cst.Call) and isinstance(holder.func, cst.Attribute) and list(holder.args) == [held]:
        target = holder.func.value if holder.func.attr.value == "append" else None
    if not isinstance(target, cst.Name):
        raise CannotFix("what gathers it is not a total or a list with a name of its own")
    return target


def _kept(tree: Tree, gathering: _Gathering, tensor: cst.BaseExpression) -> TextEdit:
    """The tensor in place of the number."""
    place, kept = tree.inner(gathering.read), tree.whole(tensor)
    if "#" in tree.text[place.start : kept.start] + tree.text[kept.end : place.end]:
        raise CannotFix("a comment would be lost")
    text = tree.source(kept)
    if not isinstance(tensor, cst.Name | cst.Attribute | cst.Call | cst.Subscript) and not tensor.lpar:
        text = f"({text})"
    # A list would otherwise hold the very memory that `loss /= n` changes; adding makes a new tensor anyway.
    copy = gathering.is_list and gathering.as_it_is and not _is_new(tensor)
    return TextEdit(*place, f"{text}.detach(){'.clone()' if copy else ''}")


def _is_new(tensor: cst.BaseExpression) -> bool:
    """Whether nothing else can hold the tensor that the expression gives."""
    if isinstance(tensor, cst.Call):
        return _method(tensor) in _MAKES_A_NEW_TENSOR
    return isinstance(tensor, cst.BinaryOperation | cst.Comparison)


def _kind(gathering: _Gathering, tensor: cst.BaseExpression, floating: bool) -> str:
    """ "float" or "int" where the numbers are known to be, else empty."""
    if floating or isinstance(gathering.read.func, cst.Name):
        return "float"
    if isinstance(tensor, cst.Call) and isinstance(tensor.func, cst.Attribute) and gathering.as_it_is:
        counts = tensor.func.attr.value == "sum" and _compares(tensor.func.value)
        return "int" if counts else ""
    return ""


def _compares(expression: cst.BaseExpression) -> bool:
    compared = isinstance(expression, cst.Call) and _method(expression) in ("eq", "ne", "gt", "ge", "lt", "le")
    return compared or isinstance(expression, cst.Comparison)


def _method(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


# ------------------------------------------------------------------------------------------------------ what uses it


class _Uses:
    """All that a scope does with a name that gathers tensors."""

    def __init__(self, tree: Tree, gathering: _Gathering, kind: str) -> None:
        self.tree = tree
        self.gathering = gathering
        names = [name for name in tree.nodes(cst.Name) if name.value == gathering.name and self._is_variable(name)]
        self._starts = [name for name in names if self._starts_anew(name)]
        if not self._starts:
            raise CannotFix(f"{gathering.name} does not start as a number or an empty list there")
        self._others = [name for name in names if name not in self._starts and name is not gathering.target]
        self._kind = kind

    def edits(self) -> Iterator[TextEdit]:
        """Read each use. Raises CannotFix where one is not understood."""
        for name in self._others:
            edit = self._read_of_list(name) if self.gathering.is_list else self._read_of_total(name)
            if edit is not None:
                self._require_rarely(name)
                yield edit

    # -------------------------------------------------------------------------------------------------------- names

    def _is_variable(self, name: cst.Name) -> bool:
        """Whether the name is the scope's variable. Raises CannotFix where another scope may use it."""
        parent = self.tree.parent(name)
        if isinstance(parent, cst.Attribute) and parent.attr is name:
            return False
        if isinstance(parent, cst.Arg) and parent.keyword is name:
            return False
        if isinstance(parent, cst.NameItem):
            raise CannotFix(f"{name.value} is a name of several functions")
        around = list(self.tree.ancestors(name))
        if self.gathering.scope not in around:
            return False
        inner = [node for node in around[: around.index(self.gathering.scope)] if isinstance(node, SCOPES)]
        if inner and not any(self._binds(node, name.value) for node in inner):
            raise CannotFix(f"{name.value} is used in a function of its own")
        return not inner

    def _binds(self, scope: cst.CSTNode, name: str) -> bool:
        """Whether a function within the scope has a variable of its own with this name."""
        for node in self.tree.nodes(cst.Name):
            if node.value != name or scope not in self.tree.ancestors(node):
                continue
            parent = self.tree.parent(node)
            if isinstance(parent, cst.Param) and parent.name is node:
                return True
            if isinstance(parent, cst.AssignTarget) and not isinstance(scope, cst.ClassDef):
                return True
        return False

    def _starts_anew(self, name: cst.Name) -> bool:
        """Whether `name = 0.0` or `name = []`, alone or as part of a tuple."""
        value = self._assigned(name)
        if self.gathering.is_list:
            return (isinstance(value, cst.List) and not value.elements) or (
                isinstance(value, cst.Call)
                and isinstance(value.func, cst.Name)
                and value.func.value == "list"
                and not value.args
            )
        return isinstance(value, cst.Integer | cst.Float)

    def _assigned(self, name: cst.Name) -> cst.BaseExpression | None:
        """What a plain assignment gives to the name."""
        parent = self.tree.parent(name)
        if isinstance(parent, cst.AssignTarget):
            assignment = self.tree.parent(parent)
            alone = isinstance(assignment, cst.Assign) and (len(assignment.targets) == 1 or not self.gathering.is_list)
            return assignment.value if isinstance(assignment, cst.Assign) and alone else None
        if not isinstance(parent, cst.Element) or not isinstance(group := self.tree.parent(parent), cst.Tuple):
            return None
        target = self.tree.parent(group)
        assignment = self.tree.parent(target) if isinstance(target, cst.AssignTarget) else None
        if not isinstance(assignment, cst.Assign) or not isinstance(assignment.value, cst.Tuple):
            return None
        given = assignment.value.elements
        if len(given) != len(group.elements) or any(isinstance(one, cst.StarredElement) for one in given):
            return None
        return given[group.elements.index(parent)].value

    # -------------------------------------------------------------------------------------------------------- totals

    def _read_of_total(self, name: cst.Name) -> TextEdit | None:
        parent = self.tree.parent(name)
        if isinstance(parent, cst.AugAssign) and parent.target is name:
            if isinstance(parent.operator, cst.AddAssign):
                return None
            return self._changed_total(parent, name)
        if isinstance(parent, cst.Arg) and self._is_read_already(parent):
            return None
        if self._assigned(name) is not None and self._reads_itself(self._assigned(name), name.value):
            return None
        if self._is_bound_or_deleted(name):
            raise CannotFix(f"{name.value} gets another value in a way that is not understood")
        return TextEdit(*self.tree.inner(name), self._number(name.value))

    def _changed_total(self, statement: cst.AugAssign, name: cst.Name) -> TextEdit:
        """`total /= n` as `total = float(total) / n`, since a tensor of whole numbers cannot be divided in place."""
        operator = self.tree.source(self.tree.inner(statement.operator)).strip().removesuffix("=")
        simple = isinstance(statement.value, cst.Name | cst.Attribute | cst.Call | cst.Subscript | cst.BaseNumber)
        if not simple and not statement.value.lpar:
            raise CannotFix(f"{name.value} is changed in a way that is not understood")
        until = self.tree.whole(statement.value).start
        return TextEdit(self.tree.inner(name).start, until, f"{name.value} = {self._number(name.value)} {operator} ")

    def _is_read_already(self, argument: cst.Arg) -> bool:
        call = self.tree.parent(argument)
        return isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value in ("float", "int")

    def _reads_itself(self, value: cst.BaseExpression | None, name: str) -> bool:
        """Whether `total = total / n`, which gives a number again."""
        return isinstance(value, cst.BinaryOperation) and any(
            isinstance(side, cst.Name) and side.value == name for side in (value.left, value.right)
        )

    def _number(self, name: str) -> str:
        """How the total is read, whether it is a tensor by then or still the number that it starts as."""
        if self._kind:
            return f"{self._kind}({name})"
        if not all(isinstance(self._assigned(start), cst.Integer) for start in self._starts):
            return f"float({name})"
        self._require_torch()
        return f"torch.as_tensor({name}).item()"

    def _require_torch(self) -> None:
        if not re.search(r"^[ \t]*import torch[ \t]*(?:#.*)?\r?$", self.tree.text, re.MULTILINE):
            raise CannotFix("the file does not import torch")

    # --------------------------------------------------------------------------------------------------------- lists

    def _read_of_list(self, name: cst.Name) -> TextEdit | None:
        read: cst.BaseExpression = name
        parent = self.tree.parent(name)
        if isinstance(parent, cst.Attribute):
            if parent.attr.value == "clear":
                return None
            raise CannotFix(f"{name.value}.{parent.attr.value} is not understood")
        if self._only_asks_for_length(name, parent):
            return None
        if isinstance(parent, cst.Subscript) and parent.value is name:
            read = parent
            if self._is_bound_or_deleted(parent):
                raise CannotFix(f"an entry of {name.value} is changed")
            if not isinstance(parent.slice[0].slice, cst.Slice):
                place = self.tree.inner(parent)
                return TextEdit(*place, self._entry(self.tree.source(place)))
        if self._is_bound_or_deleted(read) or not self._is_only_read(read):
            raise CannotFix(f"{name.value} is used in a way that is not understood")
        entry = "entry" if name.value == "value" else "value"
        place = self.tree.inner(read)
        return TextEdit(*place, f"[{self._entry(entry)} for {entry} in {self.tree.source(place)}]")

    def _entry(self, entry: str) -> str:
        """How an entry is read: as it was before it was appended."""
        return f"float({entry})" if isinstance(self.gathering.read.func, cst.Name) else f"{entry}.item()"

    def _only_asks_for_length(self, name: cst.Name, parent: cst.CSTNode | None) -> bool:
        """`len(losses)`, `if losses:`, `not losses`."""
        if isinstance(parent, cst.Arg):
            call = self.tree.parent(parent)
            return isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "len"
        if isinstance(parent, cst.UnaryOperation):
            return isinstance(parent.operator, cst.Not)
        return isinstance(parent, cst.If | cst.IfExp) and parent.test is name

    def _is_only_read(self, read: cst.BaseExpression) -> bool:
        """Whether the list goes to nothing that could keep it or change it."""
        node: cst.CSTNode = read
        parent = self.tree.parent(node)
        while isinstance(parent, _DISPLAYS):
            node, parent = parent, self.tree.parent(parent)
        if isinstance(parent, cst.For | cst.CompFor):
            return parent.iter is read
        if isinstance(parent, cst.Arg):
            call = self.tree.parent(parent)
            return isinstance(call, cst.Call) and self._reads_its_arguments(call.func)
        return isinstance(parent, cst.Return | cst.FormattedStringExpression)

    def _reads_its_arguments(self, function: cst.BaseExpression) -> bool:
        if isinstance(function, cst.Name):
            return function.value in _READING_BUILTINS
        root: cst.BaseExpression = function
        while isinstance(root, cst.Attribute):
            root = root.value
        if not isinstance(root, cst.Name) or root.value not in _READING_LIBRARIES:
            return False
        imported = rf"^[ \t]*(?:import|from)[ \t].*\b{root.value}\b"
        return re.search(imported, self.tree.text, re.MULTILINE) is not None

    # ---------------------------------------------------------------------------------------------------------- both

    def _is_bound_or_deleted(self, node: cst.BaseExpression) -> bool:
        """Whether the expression is written to rather than read."""
        held: cst.CSTNode = node
        parent = self.tree.parent(node)
        while isinstance(parent, cst.Element | cst.Tuple | cst.List):
            held, parent = parent, self.tree.parent(parent)
        if isinstance(parent, cst.For | cst.CompFor | cst.AugAssign | cst.AnnAssign | cst.NamedExpr):
            return parent.target is held
        return isinstance(parent, _BINDS)

    def _require_rarely(self, name: cst.Name) -> None:
        """Raise CannotFix where the use would make the host wait at each step, as the read does now."""
        around = list(self.tree.ancestors(name))
        if self.gathering.loop not in around:
            return
        inside = around[: around.index(self.gathering.loop)]
        if not any(isinstance(node, cst.If) and _counts(self.tree, node.test) for node in inside):
            raise CannotFix(f"{name.value} is used at each step")


def _counts(tree: Tree, test: cst.BaseExpression) -> bool:
    """Whether a condition holds every few steps: `step % 50 == 0`."""
    place = tree.whole(test)
    operators = (tree.inner(node) for node in tree.nodes(cst.Modulo))
    return any(place.start <= operator.start and operator.end <= place.end for operator in operators)
