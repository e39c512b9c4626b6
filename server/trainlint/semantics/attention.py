"""Attention written out by hand, by the form of the code: scores of two tensors, their softmax, and its product with a
third.

The body of one function is gone through from top to bottom, and for each variable is known whether it holds scores or
weights. What is done to them in between must be what `scaled_dot_product_attention` does as well: scaling, masking,
adding a bias, dropout, types and layout. Anything else that gets hold of the scores or the weights keeps them, and then
they have to be there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, NamedTuple

from trainlint.semantics import code, naming
from trainlint.semantics.text import called_name


class Stage(Enum):
    """How far towards the result a tensor is."""

    SCORES = "scores"
    WEIGHTS = "weights"
    TURNED = "turned"
    """Weights with their last two dimensions exchanged."""


class Held(NamedTuple):
    """What a variable or an expression holds."""

    stage: Stage
    product: int
    """Place of the product of queries and keys."""
    softmax: int
    """Place of the softmax; 0 before it."""


class Attention(NamedTuple):
    """An attention that is written out."""

    product: code.Place
    softmax: code.Expression
    result: code.Place


FUSED = frozenset(
    {
        *("scaled_dot_product_attention", "MultiheadAttention", "multi_head_attention_forward", "flex_attention"),
        *("memory_efficient_attention", "flash_attn_func", "flash_attn_varlen_func", "flash_attn_qkvpacked_func"),
        *("flash_attn", "xformers", "FlashAttention", "flash"),
    }
)
"""Names of fused attention: beside these, one that is written out is there for where they are not."""


def attentions(body: code.Block, is_softmax: Callable[[code.Call], bool]) -> Iterator[Attention]:
    """The attentions that the body of a function writes out, and whose scores and weights nothing else gets.

    `is_softmax` tells whether a call takes the softmax over the last dimension of its first argument, or of what its
    method is called on.
    """
    walk = _Walk(is_softmax)
    walk.block(body, {})
    for attention in walk.found.values():
        if attention.product not in walk.kept and attention.softmax.at not in walk.kept:
            yield attention


Variables = dict[str, Held | None]


class _Walk:
    """Goes through the body of one function, and notes the attentions in it and what else is done with their parts."""

    def __init__(self, is_softmax: Callable[[code.Call], bool]) -> None:
        self.is_softmax = is_softmax
        self.found: dict[int, Attention] = {}
        """By the place of the softmax."""
        self.softmaxes: dict[int, code.Expression] = {}
        self.kept: set[int] = set()
        """Places of products and softmaxes whose result is used in another way."""
        self.transposed: set[str] = set()
        """Variables that hold a tensor with its last dimensions exchanged."""

    # ---------------------------------------------------------------------------------------------------- statements

    def block(self, block: code.Block, variables: Variables) -> None:
        for statement in block:
            self.statement(statement, variables)

    def statement(self, node: code.Statement, variables: Variables) -> None:
        if isinstance(node, code.Assign):
            self.assign(node, variables)
        elif isinstance(node, code.Augment):
            held = self.binary(node.op, node.target, node.value, node.at, variables)
            self.bind(node.target, held, variables)
        elif isinstance(node, code.Evaluate):
            # what is computed and dropped, such as `scores.masked_fill_(mask, …)`, keeps nothing
            self.expression(node.value, variables)
        elif isinstance(node, code.If):
            self.expression(node.test, variables)
            other = dict(variables)
            self.block(node.body, variables)
            self.block(node.orelse, other)
            self.join(variables, other)
        elif isinstance(node, code.For | code.While):
            self.loop(node, variables)
        elif isinstance(node, code.With):
            for item in node.items:
                self.keep(item.value, variables)
            self.block(node.body, variables)
        elif isinstance(node, code.Try):
            for block in (node.body, *(handler.body for handler in node.handlers), node.orelse, node.final):
                self.block(block, variables)
        elif not isinstance(node, code.Define | code.DefineClass | code.Delete):
            # a return, an assertion: whatever it mentions gets out
            for part in _parts(node):
                self.keep(part, variables)

    def assign(self, node: code.Assign, variables: Variables) -> None:
        if node.value is None:
            return
        held = self.expression(node.value, variables)
        for target in node.targets:
            self.bind(target, held, variables)
            if isinstance(target, code.Name):
                turned = _is_transposed(node.value, self.transposed)
                (self.transposed.add if turned else self.transposed.discard)(target.id)

    def bind(self, target: code.Expression, held: Held | None, variables: Variables) -> None:
        if isinstance(target, code.Name):
            variables[target.id] = held
        elif isinstance(target, code.Subscript) and isinstance(target.value, code.Name):
            # `scores[mask] = …` masks in place
            self.keep(target.key, variables)
            self.keep_held(held)
        else:
            self.keep_held(held)
            for item in target.items if isinstance(target, code.Sequence) else ():
                self.bind(item, None, variables)

    def loop(self, node: code.For | code.While, variables: Variables) -> None:
        self.keep(node.iterable if isinstance(node, code.For) else node.test, variables)
        bound = [item for item in code.walk(node.body) if isinstance(item, code.Assign | code.Augment)]
        targets = [
            target for item in bound for target in (item.targets if isinstance(item, code.Assign) else (item.target,))
        ]
        for name in (item.id for target in targets for item in code.walk(target) if isinstance(item, code.Name)):
            # what an earlier turn left is not known
            self.keep_held(variables.get(name))
            variables[name] = None
        self.block(node.body, variables)
        self.block(node.orelse, variables)

    def join(self, variables: Variables, other: Variables) -> None:
        """What variables hold after two branches: scores that one of them masks are scores."""
        for name in {*variables, *other}:
            one, two = variables.get(name), other.get(name)
            if one != two:
                same = one is not None and two is not None and one.stage is two.stage
                if not same:
                    self.keep_held(one)
                    self.keep_held(two)
                variables[name] = one if same else None

    # --------------------------------------------------------------------------------------------------- expressions

    def expression(self, node: code.Expression, variables: Variables) -> Held | None:
        """What an expression holds; scores and weights that it does something else with are kept."""
        if isinstance(node, code.Name):
            return variables.get(node.id)
        if isinstance(node, code.Binary):
            return self.binary(node.op, node.left, node.right, node.at, variables)
        if isinstance(node, code.Call):
            return self.call(node, variables)
        if isinstance(node, code.Attribute):
            return self.attribute(node, variables)
        if isinstance(node, code.Conditional):
            return self.conditional(node, variables)
        for part in _parts(node):
            self.keep(part, variables)
        return None

    def conditional(self, node: code.Conditional, variables: Variables) -> Held | None:
        """`dropout(weights) if self.training else weights`."""
        self.keep(node.test, variables)
        one, other = self.expression(node.body, variables), self.expression(node.orelse, variables)
        if one is not None and other is not None and one.stage is other.stage:
            return one
        self.keep_held(one)
        self.keep_held(other)
        return None

    def keep(self, node: code.Expression | None, variables: Variables) -> None:
        if node is not None:
            self.keep_held(self.expression(node, variables))

    def keep_held(self, held: Held | None) -> None:
        if held is not None:
            self.kept |= {held.product, held.softmax}

    def attribute(self, node: code.Attribute, variables: Variables) -> Held | None:
        held = self.expression(node.value, variables)
        if held is not None and node.name in ("mT", "T"):
            return self.turn(held)
        if node.name not in ("shape", "dtype", "device"):
            self.keep_held(held)
        return None

    def turn(self, held: Held) -> Held | None:
        turned = {Stage.WEIGHTS: Stage.TURNED, Stage.TURNED: Stage.WEIGHTS}.get(held.stage)
        if turned is None:
            self.keep_held(held)
            return None
        return held._replace(stage=turned)

    def binary(
        self, operator: str, left: code.Expression, right: code.Expression, at: code.Place, variables: Variables
    ) -> Held | None:
        if operator == "@":
            return self.product(left, right, at, variables)
        one, other = self.expression(left, variables), self.expression(right, variables)
        held, beside = (one, right) if one is not None else (other, left)
        if held is None:
            return None
        if held.stage is Stage.SCORES and (one is None or other is None) and _is_allowed(operator, beside, one is None):
            return held
        self.keep_held(one)
        self.keep_held(other)
        return None

    def product(
        self, left: code.Expression, right: code.Expression, at: code.Place, variables: Variables
    ) -> Held | None:
        one, other = self.expression(left, variables), self.expression(right, variables)
        if one is not None and one.stage is Stage.WEIGHTS and other is None:
            self.note_result(one, at)
            return None
        if other is not None and other.stage is Stage.TURNED and one is None:
            self.note_result(other, at)
            return None
        self.keep_held(one)
        self.keep_held(other)
        if (
            one is None
            and other is None
            and (_is_transposed(right, self.transposed) or _is_transposed(left, self.transposed))
        ):
            return Held(Stage.SCORES, at, 0)
        return None

    def note_result(self, weights: Held, at: code.Place) -> None:
        if weights.softmax in self.found:
            # the same weights for several values
            self.keep_held(weights)
        self.found[weights.softmax] = Attention(weights.product, self.softmaxes[weights.softmax], at)

    def call(self, node: code.Call, variables: Variables) -> Held | None:
        name = called_name(node.function)
        receiver = node.function.value if isinstance(node.function, code.Attribute) else None
        given = [argument.value for argument in node.arguments if argument.keyword is None]
        plain = len(given) == len(node.arguments) and not any(argument.star for argument in node.arguments)
        if plain and name in _PRODUCTS and len(given) == 2:
            return self.product(given[0], given[1], node.at, variables)
        if plain and name in _PRODUCTS and len(given) == 1 and receiver is not None:
            return self.product(receiver, given[0], node.at, variables)
        if plain and name == "einsum" and len(given) == 3:
            return self.einsum(node, given, variables)
        if name == "baddbmm" and len(given) == 3:
            self.keep(given[0], variables)
            return self.product(given[1], given[2], node.at, variables)
        # a name that is called, or a layer that is made to be called at once, holds neither scores nor weights
        taken = self.expression(receiver, variables) if receiver is not None else None
        values = [self.expression(argument.value, variables) for argument in node.arguments]
        if self.is_softmax(node):
            return self.softmax(node, taken or next(iter(values), None))
        passed = self.passed_on(name, taken, node, values)
        for held in (taken if name not in _TELLING else None, *values):
            if held is not passed:
                self.keep_held(held)
        if taken is not None and name in _TURNING:
            return self.turn(taken)
        return passed

    def softmax(self, node: code.Call, held: Held | None) -> Held | None:
        if held is None or held.stage is not Stage.SCORES:
            self.keep_held(held)
            return None
        self.softmaxes[node.at] = node
        return Held(Stage.WEIGHTS, held.product, node.at)

    def passed_on(self, name: str, taken: Held | None, node: code.Call, values: list[Held | None]) -> Held | None:
        """What a call hands on of what it is called on or given, such as `dropout(weights)`."""
        given = [argument.value for argument in node.arguments]
        if taken is not None:
            is_scores = taken.stage is Stage.SCORES
            scales = name in _SCALING and len(given) == 1 and _is_allowed(_SCALING[name], given[0], exchanged=False)
            if name in _SAME or name in _TURNING or (is_scores and (name in _MASKING or scales)):
                return taken
        elif values and values[0] is not None and values[0].stage is Stage.WEIGHTS and "drop" in name.lower():
            return values[0]
        elif name == "where" and len(values) == 3 and values[0] is None and None in values[1:]:
            scores = values[1] or values[2]
            return scores if scores is not None and scores.stage is Stage.SCORES else None
        return None

    def einsum(self, node: code.Call, given: list[code.Expression], variables: Variables) -> Held | None:
        equation = given[0].value if isinstance(given[0], code.Constant) else None
        inputs, _, output = equation.replace(" ", "").partition("->") if isinstance(equation, str) else ("", "", "")
        left, _, right = inputs.partition(",")
        one, other = self.expression(given[1], variables), self.expression(given[2], variables)
        if left.isalpha() and right.isalpha() and output.isalpha():
            summed = (set(left) | set(right)) - set(output)
            if one is None and other is None:
                if (
                    len(summed) == 1
                    and summed <= set(left) & set(right)
                    and (output[-1] in left) != (output[-1] in right)
                ):
                    return Held(Stage.SCORES, node.at, 0)
                return None
            weights, axes = (one, left) if one is not None else (other, right)
            alone = one is None or other is None
            if weights is not None and weights.stage is Stage.WEIGHTS and alone and summed == {axes[-1]}:
                self.note_result(weights, node.at)
                return None
        self.keep_held(one)
        self.keep_held(other)
        return None


_PRODUCTS = frozenset({"matmul", "bmm"})
PRODUCTS = _PRODUCTS | {"baddbmm", "einsum"}
"""Functions that multiply queries and keys."""
_TURNING = frozenset({"transpose", "permute", "swapaxes"})
_SAME = frozenset(
    {
        *("float", "half", "bfloat16", "double", "to", "type", "type_as", "contiguous", "view", "reshape", "clone"),
    }
)
"""Methods that change the type or the layout of scores and weights at most."""
_TELLING = frozenset({"size", "dim", "numel"})
"""Methods that only tell a shape."""
_MASKING = frozenset({"masked_fill", "masked_fill_", "add_", "add"})
_SCALING = {"mul": "*", "mul_": "*", "div": "/", "div_": "/"}
_SCALE = naming.Idiom(r"scal|sqrt|temper|factor|(^|_)tau$|^d_?k$|dim$", re.IGNORECASE)
"""How numbers are called that scores are scaled by."""


def _is_allowed(operator: str, beside: code.Expression, exchanged: bool) -> bool:
    """Whether scores stay scores: they get a mask or a bias added, or are scaled by a number. `exchanged`: whether they
    are the right operand."""
    if operator == "+" or (operator == "-" and not exchanged):
        return True
    return (operator == "*" or (operator == "/" and not exchanged)) and _is_scale(beside)


def _is_scale(node: code.Expression) -> bool:
    """Whether an expression is a number to scale by, as far as can be told: `self.scale`, `math.sqrt(d)`."""
    if isinstance(node, code.Constant | code.Opaque):
        return True
    if isinstance(node, code.Binary):
        return node.op == "**" or (_is_scale(node.left) and _is_scale(node.right))
    if isinstance(node, code.Call):
        return bool(_SCALE.search(called_name(node.function))) or called_name(node.function) in ("float", "int", "size")
    if isinstance(node, code.Name | code.Attribute):
        return bool(_SCALE.search(node.id if isinstance(node, code.Name) else node.name))
    return False


def _is_transposed(node: code.Expression, transposed: set[str]) -> bool:
    """Whether an expression exchanges dimensions of a tensor, seen through scaling: `k.transpose(-2, -1) * scale`."""
    if isinstance(node, code.Binary):
        return _is_transposed(node.left, transposed)
    if isinstance(node, code.Attribute):
        return node.name in ("mT", "T")
    if isinstance(node, code.Call):
        name = called_name(node.function)
        if name in ("transpose", "permute", "swapaxes", "t"):
            return _exchanges_last(node)
        return (
            name in _SAME
            and isinstance(node.function, code.Attribute)
            and _is_transposed(node.function.value, transposed)
        )
    return isinstance(node, code.Name) and node.id in transposed


def _exchanges_last(node: code.Call) -> bool:
    """Whether `transpose(…)` or `permute(…)` moves the last dimension, as far as its arguments tell."""
    numbers = [_number(argument.value) for argument in node.arguments]
    if called_name(node.function) == "t":
        return True
    if called_name(node.function) == "permute":
        only = node.arguments[0].value if len(node.arguments) == 1 else None
        axes = [_number(item) for item in only.items] if isinstance(only, code.Sequence) else numbers
        return None not in axes and bool(axes) and axes[-1] not in (len(axes) - 1, -1)
    # the heads are dimension 1 or 2 of three or four: to exchange those two of four leaves the last one where it is
    return len(numbers) == 2 and (-1 in numbers or set(numbers) == {2, 3} or (set(numbers) == {1, 2} and _is_key(node)))


def _is_key(node: code.Call) -> bool:
    """Whether what is transposed is called a key: in three dimensions, `k.transpose(1, 2)` exchanges the last two."""
    receiver = node.function.value if isinstance(node.function, code.Attribute) else None
    return isinstance(receiver, code.Name) and receiver.id.lower().startswith("k")


def _number(node: code.Expression) -> int | None:
    if isinstance(node, code.Unary) and node.op == "-" and isinstance(node.operand, code.Constant):
        return -node.operand.value if isinstance(node.operand.value, int) else None
    return node.value if isinstance(node, code.Constant) and isinstance(node.value, int) else None


def _parts(node: Any) -> Iterator[Any]:
    """The expressions right below a node."""
    for part in node:
        if isinstance(part, code.NODE_TYPES):
            yield part
        elif isinstance(part, tuple):
            for item in part:
                if isinstance(item, code.Argument | code.Clause | code.WithItem):
                    yield from _parts(item)
                elif isinstance(item, code.NODE_TYPES):
                    yield item
