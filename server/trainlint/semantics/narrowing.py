"""What a condition on a variable's type tells about its value in either branch: `if isinstance(loss, float)`."""

from __future__ import annotations

from trainlint.semantics import classes, code, expressions, library, object_types
from trainlint.semantics.immutable import replace
from trainlint.semantics.state import Frame
from trainlint.semantics.values import (
    ARRAY,
    NONE,
    NUMBER,
    OBJECT,
    STRING,
    UNKNOWN,
    Choice,
    Class,
    Listing,
    Object,
    Partial,
    Reference,
    Tensor,
    Value,
    join_all,
    options,
)

_TENSORS = frozenset({"torch.Tensor", "torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.FloatTensor"})
_MODELS = frozenset({"torch.nn.Module", "transformers.PreTrainedModel"})
_NUMBERS = frozenset({"int", "float", "bool", "complex", "numbers.Number", "numbers.Real", "numpy.number"})
_CONTAINERS = frozenset({"list", "tuple", "dict", "collections.abc.Mapping", "collections.abc.Sequence"})
_CONSTRUCTORS = frozenset({"functools.partial", "type"})
"""Types of what makes an object once it is called."""
_TENSOR_TESTS = frozenset({"torch.is_tensor", "torch.is_floating_point"})
_OF_A_TENSOR = frozenset({"item", "detach", "cpu", "numpy", "requires_grad"})
"""Attributes that code asks for to tell a tensor from a number: `hasattr(loss, "item")`."""


def narrowed(frame: Frame, test: code.Expression, holds: bool) -> dict[str, Value]:
    """The values that local variables have where a condition holds, or where it does not, if it asks for their type."""
    if isinstance(test, code.Unary) and test.op == "not":
        return narrowed(frame, test.operand, not holds)
    if isinstance(test, code.Boolean):
        if holds != (test.op == "and"):
            return _by_one_of(frame, test.values, holds)
        found: dict[str, Value] = {}
        for part in test.values:
            found |= narrowed(frame, part, holds)
        return found
    if not isinstance(test, code.Call) or not test.arguments:
        return {}
    tested = test.arguments[0].value
    if not isinstance(tested, code.Name) or tested.id not in frame.variables:
        return {}
    value = _of_type(frame, test, frame.variables[tested.id], holds)
    return {} if value is None else {tested.id: value}


def _by_one_of(frame: Frame, parts: tuple[code.Expression, ...], holds: bool) -> dict[str, Value]:
    """What variables are where at least one of several conditions holds, or does not, if each of them tells of the
    same variable: where `x is not None and not isinstance(x, int)` fails, `x` is None or a number."""
    told = [narrowed(frame, part, holds) or _none(part, holds) for part in parts]
    names = set(told[0]).intersection(*told[1:])
    return {name: join_all(one[name] for one in told) for name in names & frame.variables.keys()}


def _none(test: code.Expression, holds: bool) -> dict[str, Value]:
    """The variable that is None where `x is None` holds, or where `x is not None` does not."""
    if not isinstance(test, code.Compare) or len(test.ops) != 1 or not isinstance(test.left, code.Name):
        return {}
    other = test.comparators[0]
    is_none = isinstance(other, code.Constant) and other.value is None and test.ops[0] == ("is" if holds else "is not")
    return {test.left.id: NONE} if is_none else {}


def forget(
    body: dict[str, Value],
    told_in_body: dict[str, Value],
    orelse: dict[str, Value],
    told_in_else: dict[str, Value],
    before: dict[str, Value],
) -> None:
    """Give variables that neither branch assigned the value that they had before the condition told more."""
    for name in told_in_body.keys() | told_in_else.keys():
        held = before[name]
        if body.get(name) is told_in_body.get(name, held) and orelse.get(name) is told_in_else.get(name, held):
            body[name] = orelse[name] = held


def _of_type(frame: Frame, test: code.Call, value: Value, holds: bool) -> Value | None:
    """What a value is if a test of its type holds, or does not; None where the test tells nothing new."""
    asked = _types_asked(frame, test)
    if not asked:
        return None
    if asked <= _TENSORS:
        return _only_tensors(value) if holds else _no_tensor(value)
    if asked <= _CONSTRUCTORS:
        return _only_constructors(value) if holds else _no_constructor(value)
    if not holds:
        return _no_model(value) if asked <= _MODELS else None
    if asked <= _NUMBERS:
        # a copy, here and below: `forget` knows it from what a branch assigns
        return replace(NUMBER)
    if asked <= {"str", "bytes"}:
        return replace(STRING)
    if asked <= {"numpy.ndarray", *_NUMBERS}:
        return replace(ARRAY)
    if asked <= _CONTAINERS and isinstance(value, Tensor):
        # what is surely a tensor is no list: one is passed elsewhere
        single = value.proved and not value.container and value.loader is None
        return Listing(UNKNOWN) if single else replace(value, container=True)
    return None


def _types_asked(frame: Frame, test: code.Call) -> set[str]:
    """The canonical names of the types that a call asks for; empty where it is no test of a type."""
    callee = expressions.evaluate_quietly(frame, test.function)
    name = callee.name if isinstance(callee, Reference) else ""
    if name in _TENSOR_TESTS:
        return {"torch.Tensor"}
    if len(test.arguments) != 2:
        return set()
    asked = test.arguments[1].value
    if name == "hasattr":
        told = isinstance(asked, code.Constant) and asked.value in _OF_A_TENSOR
        return {"torch.Tensor"} if told else set()
    if name != "isinstance":
        return set()
    types = asked.items if isinstance(asked, code.Sequence) else (asked,)
    found = [expressions.evaluate_quietly(frame, item) for item in types]
    names = {value.name for value in found if isinstance(value, Reference)}
    return names if len(names) == len(found) else set()


def _only_tensors(value: Value) -> Value | None:
    if isinstance(value, Choice):
        tensors = [option for option in value.options if isinstance(option, Tensor)]
        return tensors[0] if len(tensors) == 1 else None
    return replace(value, container=False) if isinstance(value, Tensor) else None


def _only_constructors(value: Value) -> Value:
    """What of a value makes an object once it is called; something of which nothing is known where nothing does."""
    kept = tuple(option for option in options(value) if isinstance(option, Partial | Class | Reference))
    return join_all(kept) if kept else replace(OBJECT)


def _no_constructor(value: Value) -> Value | None:
    kept = tuple(option for option in options(value) if not isinstance(option, Partial | Class))
    return join_all(kept) if kept and len(kept) < len(options(value)) else None


def _no_model(value: Value) -> Value | None:
    """What is left of a value that is no model; what was moved to a device, and is called, may have been one too."""
    kept = tuple(option for option in options(value) if not _may_be_model(option))
    if len(kept) == len(options(value)):
        return None
    return replace(OBJECT) if not kept else kept[0] if len(kept) == 1 else Choice(kept)


def _may_be_model(value: Value) -> bool:
    model = isinstance(value, Object) and (value.type in _MODEL_TYPES or value.type in library.WRAPPERS)
    return model or classes.is_module(value) or (isinstance(value, Tensor) and value.container)


_MODEL_TYPES = frozenset({object_types.MODEL, object_types.DEEPSPEED_ENGINE})


def _no_tensor(value: Value) -> Value | None:
    if isinstance(value, Tensor):
        return replace(OBJECT) if not value.container else None
    if isinstance(value, Choice):
        others = tuple(option for option in value.options if not isinstance(option, Tensor))
        return Choice(others) if others else replace(OBJECT)
    return None
