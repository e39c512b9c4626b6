"""Whether a variable that may be left out, `size=None`, is there, and how a switch is set, `keep=True`: by the calls
that lead to it.

What is not understood may be either. An answer is given only where it is proved: from what the calls pass, and from
expressions that cannot be None.
"""

from __future__ import annotations

from trainlint.semantics import code, expressions, sameness
from trainlint.semantics.state import Frame
from trainlint.semantics.text import called_name
from trainlint.semantics.values import NONE, Const, Instance, Reference, Test
from trainlint.semantics.vocabulary import GuardKind

_DEEPEST = 6
"""Calls and assignments that are followed, one leading to the next."""

_NUMBERS = frozenset({"abs", "bool", "float", "int", "len", "max", "min", "range", "round", "str", "sum"})
"""Builtin functions that never return None."""
_OF_TENSORS = frozenset({"dim", "item", "ndimension", "numel", "size", "tolist"})
"""Methods of tensors, likewise."""


def ruled_out(frame: Frame, test: code.Expression) -> tuple[bool, bool]:
    """Whether the calls that lead to a condition keep its branch from being taken, and whether its other branch: by
    what it asks about None, and about parameters that are switches."""
    if isinstance(test, code.Unary) and test.op == "not":
        positive, negative = ruled_out(frame, test.operand)
        return negative, positive
    if isinstance(test, code.Boolean):
        parts = [ruled_out(frame, part) for part in test.values]
        by_one, by_all = (0, 1) if test.op == "and" else (1, 0)
        answers = {by_one: any(part[by_one] for part in parts), by_all: all(part[by_all] for part in parts)}
        return answers[0], answers[1]
    if isinstance(test, code.Name):
        switch = _switch(frame, test.id)
        return switch is False, switch is True
    if isinstance(test, code.Attribute):
        return _stays_missing(frame, test), False
    if not isinstance(test, code.Compare) or len(test.ops) != 1 or test.ops[0] not in ("is", "is not"):
        return False, False
    other = test.comparators[0]
    if not isinstance(other, code.Constant):
        return False, False
    if isinstance(other.value, bool):
        switch = _switch(frame, test.left.id) if isinstance(test.left, code.Name) else None
        holds = None if switch is None else (switch is other.value) is (test.ops[0] == "is")
        return holds is False, holds is True
    if other.value is not None:
        return False, False
    if isinstance(test.left, code.Attribute):
        there = False if _stays_missing(frame, test.left) else None
    else:
        there = _is_there(frame, test.left, test, _DEEPEST) if isinstance(test.left, code.Name) else None
    if there is None:
        return False, False
    return (there, not there) if test.ops[0] == "is" else (not there, there)


def switched_off(left_out: bool, else_left_out: bool) -> Test:
    """What a condition is by the branches of it that are ruled out."""
    return Test((GuardKind.OFF,) * left_out, (GuardKind.OFF,) * else_left_out)


def _stays_missing(frame: Frame, node: code.Attribute) -> bool:
    """Whether an attribute is None for good: the constructor was called without what it would keep there."""
    owner = frame.variables.get(node.value.id) if isinstance(node.value, code.Name) else None
    if not isinstance(owner, Instance) or owner.attributes.get(node.name) != NONE:
        return False
    return sameness.is_set_once(frame, owner.cls, node.name)


def open_parts(frame: Frame, test: code.Expression) -> code.Expression:
    """What is left of `last or step % 1000 == 0` where the calls keep `last` false, and of a conjunction likewise."""
    if not isinstance(test, code.Boolean):
        return test
    settled = 0 if test.op == "or" else 1
    parts = tuple([part for part in test.values if not ruled_out(frame, part)[settled]])
    if not parts or len(parts) == len(test.values):
        return test
    return parts[0] if len(parts) == 1 else code.Boolean(test.op, parts, test.at)


def _switch(frame: Frame, name: str) -> bool | None:
    """How a parameter is set that the function leaves as it is: True or False, as the calls say; None where it is no
    switch, or nobody knows."""
    function = frame.function
    if function is None or not isinstance(function.define, code.Define):
        return None
    value = frame.variables.get(name)
    if not isinstance(value, Const) or not isinstance(value.value, bool):
        return None
    bound = frame.run.nodes.bindings(frame.run.body(function.module, function.define.body))
    is_parameter = any(one.name == name for one in function.define.parameters)
    return value.value if is_parameter and name not in bound else None


def _is_there(frame: Frame, node: code.Expression, before: code.Expression, depth: int) -> bool | None:
    """Whether an expression, which is evaluated before another of its function, is something else than None; None
    where nobody knows."""
    if depth <= 0:
        return None
    if isinstance(node, code.Constant):
        return node.value is not None
    if isinstance(node, code.Name):
        return _variable_is_there(frame, node.id, before, depth)
    if isinstance(node, code.Binary | code.Sequence | code.Mapping | code.Comprehension | code.Format | code.Compare):
        return True
    if isinstance(node, code.Subscript):
        return True if isinstance(node.value, code.Attribute) and node.value.name == "shape" else None
    if isinstance(node, code.Call):
        return True if _gives_something(frame, node) else None
    return None


def _gives_something(frame: Frame, node: code.Call) -> bool:
    """Whether a call never returns None."""
    if isinstance(node.function, code.Name):
        return node.function.id in _NUMBERS and isinstance(
            expressions.evaluate_quietly(frame, node.function), Reference
        )
    # nothing is evaluated here: an argument may ask about the very variable that the call is bound to
    return called_name(node.function) in _OF_TENSORS


def _variable_is_there(frame: Frame, name: str, before: code.Expression, depth: int) -> bool | None:
    function = frame.function
    if function is None or not isinstance(function.define, code.Define):
        return None
    body = frame.run.body(function.module, function.define.body)
    bound = frame.run.nodes.bindings(body).get(name, ())
    # in a loop, what stands further down was bound in the turn before
    looping = bool(frame.open_loops)
    earlier = [one for one in bound if looping or one is None or _starts(one) < _starts(before)]
    parameter = next((one for one in function.define.parameters if one.name == name), None)
    if earlier:
        answers = {None if one is None else _is_there(frame, one, one, depth - 1) for one in earlier}
        if parameter is not None:
            answers.add(_parameter_is_there(frame, parameter, depth))
        return answers.pop() if len(answers) == 1 else None
    return _parameter_is_there(frame, parameter, depth) if parameter is not None else None


def _starts(node: code.Expression) -> tuple[int, int]:
    row, column, _, _ = code.unpack(node.at)
    return row, column


def _parameter_is_there(frame: Frame, parameter: code.Parameter, depth: int) -> bool | None:
    """Whether a call passes something for a parameter: where it is written in it, or left to a default."""
    call, caller, function = frame.called_by, frame.caller, frame.function
    if call is None or caller is None or function is None or parameter.kind in ("*", "**"):
        return None
    if any(argument.star for argument in call.arguments):
        return None
    passed = sameness.passed_for(frame, parameter.name, [one.name for one in function.define.parameters])
    if passed is not None:
        return _is_there(caller, passed.value, passed.value, depth - 1)
    default = parameter.default
    if isinstance(default, code.Constant) and default.value is None:
        return False if frame.variables.get(parameter.name, NONE) == NONE else None
    return None
