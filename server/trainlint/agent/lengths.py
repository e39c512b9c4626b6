"""How long a sampler or a dataset is, where asking for it does nothing that the job could notice.

`__len__` of the job's own classes may print, count or open files. It is called once more only if its code does nothing
but look at what the object holds, as in `return len(self.rows) // 2`. What libraries do is trusted, as long as nothing
that they hold asks the job in turn.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import CodeType, FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

from .attributes import attributes_of

DEEPEST = 5
"""So many samplers and datasets may hold one another."""
_LOOKS = {
    *("RESUME", "NOP", "PUSH_NULL", "PRECALL", "CALL", "CALL_FUNCTION", "RETURN_VALUE", "RETURN_CONST"),
    *("LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_CONST", "LOAD_SMALL_INT", "LOAD_ATTR", "LOAD_GLOBAL", "BINARY_OP"),
    *("BINARY_ADD", "BINARY_SUBTRACT", "BINARY_MULTIPLY", "BINARY_FLOOR_DIVIDE", "BINARY_MODULO", "BINARY_TRUE_DIVIDE"),
}
"""Operations of Python's virtual machine, of all versions, by which code looks at what an object holds."""
_FUNCTIONS = {"len", "int", "min", "max"}
_NUMBERS = (int, float, bool)
_ABSENT = object()


def length(of: object, is_own: Callable[[str], bool]) -> int | None:
    """The length of an object; None where it has none, or takes code of the job's own to tell. `is_own` says whether a
    file is the job's."""
    try:
        return len(of) if _may_be_asked(of, is_own, 0) else None  # type: ignore[arg-type]  # it has a length
    except Exception:
        return None


def _may_be_asked(of: object, is_own: Callable[[str], bool], depth: int) -> bool:
    function = _of_class(type(of), "__len__")
    if isinstance(function, (WrapperDescriptorType, MethodDescriptorType)):
        return True
    if not isinstance(function, FunctionType) or depth > DEEPEST:
        return False
    held = attributes_of(of)
    if is_own(function.__code__.co_filename):
        # A profile or trace function is told of each call.
        if sys.getprofile() is not None or sys.gettrace() is not None:
            return False
        return _only_looks(function) and all(
            _is_looked_at(type(of), held, name, is_own, depth) for name in set(_attributes(function.__code__))
        )
    return all(
        _may_be_asked(one, is_own, depth + 1)
        for one in held.values()
        if isinstance(_of_class(type(one), "__len__"), FunctionType)
    )


def _only_looks(function: FunctionType) -> bool:
    """Whether code does nothing but look at attributes and numbers."""
    code = function.__code__
    functions = set(code.co_names) - set(_attributes(code))
    return (
        {one.opname for one in dis.get_instructions(code)} <= _LOOKS
        and functions <= _FUNCTIONS
        and not functions & set(function.__globals__)
    )


def _attributes(code: CodeType) -> list[str]:
    return [one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_ATTR"]


def _is_looked_at(kind: type, held: dict[str, Any], name: str, is_own: Callable[[str], bool], depth: int) -> bool:
    """Whether an attribute is there, and nothing is called by reading it or by asking for its length."""
    if _of_class(kind, "__getattribute__") is not vars(object)["__getattribute__"]:
        return False
    of_class = _of_class(kind, name)
    value = held.get(name, _ABSENT) if of_class is _ABSENT else of_class
    return type(value) in _NUMBERS or (of_class is _ABSENT and _may_be_asked(value, is_own, depth + 1))


def _of_class(kind: type, name: str) -> object:
    return next((vars(one)[name] for one in kind.__mro__ if name in vars(one)), _ABSENT)
