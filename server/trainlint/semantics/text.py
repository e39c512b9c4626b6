"""Text of lowered expressions: as messages quote it, and the names in it."""

from __future__ import annotations

from typing import Any

from trainlint.semantics import code

_LONGEST = 60
_OPERATORS = {"or": 1, "and": 2, "|": 6, "^": 7, "&": 8, "<<": 9, ">>": 9, "+": 10, "-": 10, "**": 13}
"""How tightly operators of two operands bind, after the table at the end of Python's reference of expressions."""
_NOT, _COMPARISON, _PRODUCT, _SIGN, _POWER, _AWAIT, _PRIMARY = 3, 4, 11, 12, 13, 14, 15


def describe(node: code.Expression | None) -> str:
    """The expression as a person would write it on one line, cut after 60 characters."""
    text = _render(node, 0)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def dotted(node: code.Expression) -> str:
    """`a.b.c` for a chain of names; empty for anything else."""
    if node.__class__ is code.Name:
        return node.id
    if node.__class__ is not code.Attribute:
        return ""
    words: list[str] = []
    item: Any = node
    while item.__class__ is code.Attribute:
        words.append(item.name)
        item = item.value
    if item.__class__ is not code.Name:
        return ""
    words.append(item.id)
    words.reverse()
    return ".".join(words)


def identifiers(node: code.Expression) -> list[str]:
    """The identifiers in an expression, in no particular order."""
    found: list[str] = []
    stack: list[Any] = [node]
    while stack:
        item = stack.pop()
        kind = item.__class__
        if kind is code.Name:
            found.append(item.id)
        elif kind is code.Attribute:
            found.append(item.name)
            stack.append(item.value)
        elif kind is not code.Constant and isinstance(item, tuple):
            stack.extend(item)
    return found


def last_word(node: code.Expression) -> str:
    """The identifier that an expression is called by: `rank` in `self.rank`, `get_rank()`, `args["rank"]`."""
    if isinstance(node, code.Name):
        return node.id
    if isinstance(node, code.Attribute):
        return node.name
    if isinstance(node, code.Call):
        return last_word(node.function)
    if isinstance(node, code.Subscript):
        if isinstance(node.key, code.Constant) and isinstance(node.key.value, str):
            return node.key.value
        return last_word(node.value)
    return ""


def _render(node: object, depth: int) -> str:
    if depth > 12:
        return "…"
    deeper = depth + 1
    match node:
        case code.Name():
            return node.id
        case code.Constant():
            return repr(node.value).replace("'", '"') if isinstance(node.value, str) else repr(node.value)
        case code.Attribute():
            return f"{_operand(node.value, _PRIMARY, deeper)}.{node.name}"
        case code.Call():
            called = _operand(node.function, _PRIMARY, deeper)
            return f"{called}({', '.join(_argument(a, deeper) for a in node.arguments)})"
        case code.Subscript():
            keys = node.key.items if isinstance(node.key, code.Sequence) and node.key.kind == "tuple" else (node.key,)
            value = _operand(node.value, _PRIMARY, deeper)
            return f"{value}[{', '.join(_render(key, deeper) for key in keys)}]"
        case code.Slice():
            parts = [_render(part, deeper) if part is not None else "" for part in (node.lower, node.upper)]
            return ":".join(parts)
        case code.Binary():
            binding = _binding(node)
            left, right = (_AWAIT, _SIGN) if binding == _POWER else (binding, binding + 1)
            return f"{_operand(node.left, left, deeper)} {node.op} {_operand(node.right, right, deeper)}"
        case code.Boolean():
            binding = _binding(node)
            return f" {node.op} ".join(_operand(value, binding + 1, deeper) for value in node.values)
        case code.Unary():
            return f"{node.op}{' ' if node.op == 'not' else ''}{_operand(node.operand, _binding(node), deeper)}"
        case code.Compare():
            parts = [_operand(node.left, _COMPARISON + 1, deeper)]
            for operator, operand in zip(node.ops, node.comparators, strict=False):
                parts += [operator, _operand(operand, _COMPARISON + 1, deeper)]
            return " ".join(parts)
        case code.Sequence():
            inner = ", ".join(_render(item, deeper) for item in node.items)
            opening, closing = {"tuple": ("(", ")"), "list": ("[", "]"), "set": ("{", "}")}[node.kind]
            return f"{opening}{inner}{closing}"
        case code.Format():
            # the literal parts are not kept; an ellipsis stands for each
            return (
                'f"…"'
                if not node.parts
                else 'f"' + "".join(f"…{{{_render(part, deeper)}}}" for part in node.parts) + '"'
            )
        case code.Starred():
            return f"*{_render(node.value, deeper)}"
        case code.Await():
            return f"await {_operand(node.value, _PRIMARY, deeper)}"
        case _:
            return "…"


def _operand(node: object, least: int, depth: int) -> str:
    """An operand, in parentheses where it binds less tightly than it must to be one."""
    text = _render(node, depth)
    return f"({text})" if _binding(node) < least else text


def _binding(node: object) -> int:
    """How tightly an expression holds together."""
    match node:
        case code.Binary() | code.Boolean():
            return _OPERATORS.get(node.op, _PRODUCT)
        case code.Unary():
            return _NOT if node.op == "not" else _SIGN
        case code.Compare():
            return _COMPARISON
        case code.Await():
            return _AWAIT
        case code.Conditional():
            return 0
    return _PRIMARY


def _argument(argument: code.Argument, depth: int) -> str:
    text = _render(argument.value, depth)
    return f"{argument.keyword}={text}" if argument.keyword else f"{argument.star}{text}"


def called_name(function: code.Expression) -> str:
    """The name that a call uses for what it calls; empty where it calls the result of another expression."""
    if isinstance(function, code.Attribute):
        return function.name
    return function.id if isinstance(function, code.Name) else ""
