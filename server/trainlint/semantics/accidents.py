"""Conditions that hold by accident: where a value is not finite, or where nothing is left to compute with."""

from __future__ import annotations

from trainlint.semantics import code
from trainlint.semantics.text import dotted, identifiers, last_word
from trainlint.semantics.values import Test
from trainlint.semantics.vocabulary import GuardKind

_BY_ACCIDENT = Test((GuardKind.DATA,))


def classify(test: code.Expression) -> Test:
    """What a condition is besides all else that it is: whether one of its branches is taken by accident alone."""
    accident = _holds_by_accident(test)
    if accident is None:
        accident = _holds_without_anything(test)
    if accident is None:
        return Test()
    return _BY_ACCIDENT if accident else _BY_ACCIDENT.negated


_REDUCTIONS = frozenset({"any", "all", "item", "bool", "sum"})


def _holds_by_accident(test: code.Expression) -> bool | None:
    """Whether a condition holds where a value is not finite, False where it holds unless one is: `torch.isnan(loss)`,
    `loss < limit and not math.isnan(loss)`. None for conditions on anything else."""
    test = reduced(test)
    if isinstance(test, code.Unary) and test.op == "not":
        inner = _holds_by_accident(test.operand)
        return None if inner is None else not inner
    if isinstance(test, code.Boolean):
        asked = [_holds_by_accident(part) for part in test.values]
        all_hold = test.op == "and"
        if all_hold in asked:
            return all_hold
        parts = list(zip(test.values, asked, strict=True))
        about = {word for part, one in parts if one is not None for word in _words(part)}
        bounds = all(isinstance(part, code.Compare) and about & _words(part) for part, one in parts if one is None)
        return not all_hold if about and bounds else None
    if isinstance(test, code.Call):
        word = last_word(test.function)
        return True if word in ("isnan", "isinf") else False if word == "isfinite" else None
    return None


def reduced(node: code.Expression) -> code.Expression:
    """What a test of all values of a tensor is about: `mask` in `mask.any()`, `torch.any(mask)`, `bool(mask)`."""
    while isinstance(node, code.Call) and last_word(node.function) in _REDUCTIONS:
        function = node.function
        holder = function.value if isinstance(function, code.Attribute) else None
        if len(node.arguments) == 1 and (holder is None or dotted(holder) in _ARRAY_MODULES):
            node = node.arguments[0].value
        elif not node.arguments and holder is not None:
            node = holder
        else:
            break
    return node


_ARRAY_MODULES = frozenset({"torch", "np", "numpy"})


def _words(node: code.Expression) -> frozenset[str]:
    return frozenset(identifiers(node)) - _ARRAY_MODULES


_COUNTS_ITEMS = frozenset({"numel", "nelement"})
_EMPTY = {("==", 0): True, ("<", 1): True, ("<=", 0): True, ("!=", 0): False, (">", 0): False, (">=", 1): False}
"""Comparisons of a number of items: whether they hold where there are none."""


def _holds_without_anything(test: code.Expression) -> bool | None:
    """Whether a condition holds where a tensor is empty, False where it holds unless it is: `mask.numel() == 0`,
    `x.shape[0] > 0`. None for any other."""
    if isinstance(test, code.Unary) and test.op == "not":
        inner = _holds_without_anything(test.operand)
        return None if inner is None else not inner
    if not isinstance(test, code.Compare) or len(test.ops) != 1 or not _counts_items(test.left):
        return None
    bound = test.comparators[0]
    if not isinstance(bound, code.Constant) or isinstance(bound.value, bool) or not isinstance(bound.value, int):
        return None
    return _EMPTY.get((test.ops[0], bound.value))


def _counts_items(node: code.Expression) -> bool:
    """Whether an expression is the number of items in a tensor: `x.numel()`, `x.size(0)`, `x.shape[0]`."""
    if isinstance(node, code.Subscript):
        return isinstance(node.value, code.Attribute) and node.value.name == "shape"
    if not isinstance(node, code.Call) or not isinstance(node.function, code.Attribute):
        return False
    return node.function.name in _COUNTS_ITEMS or (node.function.name == "size" and bool(node.arguments))
