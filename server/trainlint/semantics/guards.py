"""What a condition stands for: an interval, a rank, a device, or nothing that the analyzer has a word for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from trainlint.semantics import accumulation, code, naming
from trainlint.semantics.text import dotted, identifiers, last_word
from trainlint.semantics.values import UNKNOWN, Const, DeviceValue, Host, Option, Test, Value
from trainlint.semantics.vocabulary import GuardKind

if TYPE_CHECKING:
    from trainlint.semantics.node_facts import NodeFacts

Kinds: TypeAlias = tuple[GuardKind, ...]
Evaluate: TypeAlias = Callable[[code.Expression], Value]

_NOTHING = Test()
_ONE_RANK = Test((GuardKind.RANK,), (GuardKind.OTHER_RANKS,))
_DISTRIBUTED = Test((GuardKind.DISTRIBUTED,), (GuardKind.NOT_DISTRIBUTED,))
_ON_DEVICE = Test((GuardKind.DEVICE,), (GuardKind.NOT_DEVICE,))
_ELSEWHERE = Test((GuardKind.NOT_DEVICE,))
"""For another accelerator; where that is not there, CUDA may be or not."""
_THINS_OUT = Test((GuardKind.INTERVAL,))
_ONE_TURN = Test((GuardKind.FIRST,))


def classify(
    test: code.Expression, evaluate: Evaluate, nodes: NodeFacts, rank_names: frozenset[str] = frozenset()
) -> Test:
    """Return the kinds of guard that `test` is, by its own words.

    `evaluate` gives the value of an expression where a name alone does not tell; `nodes` remembers what names tell.
    """
    if isinstance(test, code.Boolean):
        return _boolean(test, evaluate, nodes, rank_names)
    if isinstance(test, code.Unary) and test.op == "not":
        return classify(test.operand, evaluate, nodes, rank_names).negated
    if isinstance(test, code.Compare):
        alone = nodes.once(_compare_alone, test)
        return _compare(test, evaluate) if alone is None else alone
    if isinstance(test, code.Binary) and test.op == "%":
        return Test((), _modulo(test))
    if isinstance(test, code.Walrus):
        return classify(test.value, evaluate, nodes, rank_names)
    if isinstance(test, code.Name | code.Attribute | code.Call | code.Subscript):
        return _named(test, evaluate, rank_names)
    return _NOTHING


def _boolean(test: code.Boolean, evaluate: Evaluate, nodes: NodeFacts, rank_names: frozenset[str]) -> Test:
    parts = [classify(value, evaluate, nodes, rank_names) for value in test.values]
    if test.op == "and":
        negative = _common([part.negative for part in parts]) or _without_device(test, parts)
        return Test(_union([part.positive for part in parts]), negative)
    positives = [part.positive for part in parts]
    # "not distributed or rank == 0" is how a rank guard is written that also holds in a single process
    if any(GuardKind.RANK in kinds for kinds in positives) and any(
        GuardKind.NOT_DISTRIBUTED in kinds for kinds in positives
    ):
        return Test((GuardKind.RANK,), _union([part.negative for part in parts]))
    return Test(_common(positives), _union([part.negative for part in parts]))


def _without_device(test: code.Boolean, parts: list[Test]) -> Kinds:
    """What the other branch of `device is not None and device.type == "cuda"` is: the first part only makes sure that
    the second can be asked."""
    if not any(GuardKind.NOT_DEVICE in part.negative for part in parts):
        return ()
    asked = [
        part.negative for value, part in zip(test.values, parts, strict=True) if not _asks_whether_there(value, test)
    ]
    without = bool(asked) and all(GuardKind.NOT_DEVICE in negative for negative in asked)
    return (GuardKind.NOT_DEVICE,) if without else ()


def _asks_whether_there(value: code.Expression, test: code.Boolean) -> bool:
    """Whether a part of a test asks whether something is None that another part asks about."""
    if not isinstance(value, code.Compare) or value.ops != ("is not",):
        return False
    path = dotted(value.left)
    others = (other for other in test.values if other is not value)
    return bool(path) and any(
        isinstance(item, code.Name | code.Attribute) and dotted(item) == path
        for other in others
        for item in code.walk(other)
    )


def _union(sets: list[Kinds]) -> Kinds:
    return tuple(dict.fromkeys(kind for kinds in sets for kind in kinds))


def _common(sets: list[Kinds]) -> Kinds:
    """Kinds that hold whichever part is true; an interval beside a first-step test is still an interval."""
    if all(set(kinds) & {GuardKind.INTERVAL, GuardKind.FIRST} for kinds in sets):
        return (GuardKind.INTERVAL,)
    return tuple(kind for kind in sets[0] if all(kind in kinds for kinds in sets[1:]))


def _modulo(test: code.Binary) -> Kinds:
    """What `left % right == 0` is for the code under it; the divisor decides what is counted."""
    left, right = identifiers(test.left), identifiers(test.right)
    if isinstance(test.left, code.Constant | code.Format):
        return ()
    if any(naming.RANK.search(word) or naming.MAIN_PROCESS.search(word) for word in left):
        return (GuardKind.RANK,)
    if any(naming.ACCUMULATION.search(word) for word in right):
        return (GuardKind.ACCUMULATION,)
    fixed = isinstance(test.right, code.Constant)
    if fixed and any(naming.ACCUMULATION.search(word) for word in left):
        return (GuardKind.ACCUMULATION,)
    if isinstance(test.right, code.Constant) and test.right.value == 1:
        return ()
    return (GuardKind.INTERVAL,)


def _compare_alone(test: code.Compare) -> Test | None:
    """What a comparison is by the words in it; None where a value has to be known."""
    asked: list[code.Expression] = []

    def note(node: code.Expression) -> Value:
        asked.append(node)
        return UNKNOWN

    kinds = _compare(test, note)
    return None if asked else kinds


def _compare(test: code.Compare, evaluate: Evaluate) -> Test:
    if len(test.ops) != 1:
        return _NOTHING
    operator, left, right = test.ops[0], test.left, test.comparators[0]
    equal, unequal = operator in ("==", "is", "in"), operator in ("!=", "is not", "not in")
    if operator == "in" and _counts(last_word(left) or _counter_in(left)):
        return _THINS_OUT
    modulo = _remainder(left) or _remainder(right)
    if modulo is not None:
        kinds = _modulo(modulo)
        return Test((), kinds) if unequal or operator == ">" else Test(kinds)
    left, right = _inside(left), _inside(right)
    for one, other in ((left, right), (right, left)):
        if naming.OTHER_ACCELERATOR.search(_said_by(one)):
            return _other_accelerator(other, operator, equal, unequal)
    if naming.ACCUMULATION.search(last_word(left)) and "micro" not in last_word(left):
        return accumulation.classify(test, operator)
    for one, other, order in ((left, right, operator), (right, left, _MIRRORED.get(operator, operator))):
        found = _compare_word(one, other, order, equal, unequal, evaluate)
        if found is not None:
            return found
    return _order(test, operator)


_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""What a comparison by order becomes where its sides change places."""


def _remainder(node: code.Expression) -> code.Binary | None:
    """`step % n` in any of its spellings: `divmod(step, n)[1]`, `math.fmod(step, n)`, `step & mask`."""
    if isinstance(node, code.Binary):
        return node if node.op in ("%", "&") else None
    call: code.Expression = node
    if isinstance(node, code.Subscript) and isinstance(node.key, code.Constant) and node.key.value in (1, -1):
        call = node.value
        names: tuple[str, ...] = ("divmod",)
    else:
        names = ("math.fmod", "operator.mod", "fmod")
    if isinstance(call, code.Call) and len(call.arguments) == 2 and dotted(call.function) in names:
        left, right = (argument.value for argument in call.arguments)
        return code.Binary("%", left, right, call.at)
    return None


def _other_accelerator(other: code.Expression, operator: str, equal: bool, unequal: bool) -> Test:
    """What it is to compare a TPU with `other`: `kind == "tpu"`, `tpu_cores > 0`, `args.tpu is not None`."""
    absent = isinstance(other, code.Constant) and not other.value
    if (equal and not absent) or ((unequal or operator == ">") and absent):
        return _ELSEWHERE
    return _ELSEWHERE.negated if equal or unequal else _NOTHING


def _said_by(node: code.Expression) -> str:
    """The text of a literal, or the identifier that an expression is called by: `XLA` in `DistributedType.XLA`."""
    constant = _literal(node)
    return constant if isinstance(constant, str) else last_word(node)


def _inside(node: code.Expression) -> code.Expression:
    """What a conversion is of: `rank` in `int(rank)`."""
    while isinstance(node, code.Call) and isinstance(node.function, code.Name) and len(node.arguments) == 1:
        if node.function.id not in ("int", "str", "bool", "float"):
            break
        node = node.arguments[0].value
    return node


class _Compared(NamedTuple):
    """What a word says that is compared with something."""

    rank: bool
    device: bool
    world_size: bool
    phase: bool
    counts: bool


@functools.cache
def _compared(word: str) -> _Compared:
    return _Compared(
        naming.RANK.search(word),
        naming.DEVICE.search(word),
        naming.WORLD_SIZE.search(word),
        naming.PHASE.search(word),
        _counts(word),
    )


def _compare_word(
    one: code.Expression, other: code.Expression, operator: str, equal: bool, unequal: bool, evaluate: Evaluate
) -> Test | None:
    word = last_word(one) or _counter_in(one)
    if not word:
        return None
    constant = _literal(other)
    known = _compared(word)
    asked = known.rank or known.device or known.world_size or word == "type"
    value = evaluate(one) if asked or isinstance(constant, int) or isinstance(other, code.Sequence) else None
    if known.rank or (isinstance(value, Host) and value.kind == "rank"):
        return _rank(constant, other, operator, equal, unequal)
    if (
        (word == "type" and isinstance(constant, str))
        or (known.device and constant in ("cuda", "cpu", "mps", "xpu"))
        or (isinstance(value, DeviceValue) and isinstance(constant, str))
    ):
        if constant in ("mps", "xpu"):
            # a branch for a GPU of another maker; whatever is not one of those may run on CUDA
            return _ELSEWHERE if equal else _ELSEWHERE.negated
        on_device = constant not in ("cpu",)
        return _ON_DEVICE if on_device == equal else _ON_DEVICE.negated
    if known.world_size:
        return _DISTRIBUTED if operator in (">", ">=", "!=") else _DISTRIBUTED.negated
    if known.phase and isinstance(constant, str | bool):
        training = constant is True or (isinstance(constant, str) and "train" in constant.lower())
        return _phase(training) if equal else _phase(training).negated
    if known.counts:
        if operator in ("==", "is") or (operator in ("<", "<=") and _one_turn(other)):
            return _ONE_TURN
        if operator in ("!=", "is not"):
            return _ONE_TURN.negated
    return None


def _phase(training: bool) -> Test:
    """`phase == "train"` leaves evaluation to its other branch; what is no evaluation may be anything."""
    return Test((GuardKind.TRAINING,), (GuardKind.EVALUATION,)) if training else Test((GuardKind.EVALUATION,))


def _literal(node: code.Expression) -> object:
    """The value of a literal, `-1` included; None for any other expression."""
    if isinstance(node, code.Unary) and node.op == "-" and isinstance(node.operand, code.Constant):
        value = node.operand.value
        return -value if isinstance(value, int | float) else None
    return node.value if isinstance(node, code.Constant) else None


def _rank(constant: object, other: code.Expression, operator: str, equal: bool, unequal: bool) -> Test | None:
    # the rank of a process that is no part of a group is -1
    if (operator in ("==", "is") and constant == -1) or (operator == "<" and constant == 0):
        return _DISTRIBUTED.negated
    if (operator in ("!=", "is not", ">") and constant == -1) or (operator == ">=" and constant == 0):
        return _DISTRIBUTED
    chosen = constant in (0, -1) or isinstance(other, code.Sequence)
    if (equal and chosen) or (operator in ("<", "<=") and constant in (0, 1)):
        return _ONE_RANK
    if (unequal and chosen) or (operator in (">", ">=") and constant in (0, 1)):
        return _ONE_RANK.negated
    if equal or unequal:
        # compared with another expression for one rank, such as `world_size - 1`
        return _ONE_RANK if equal else _ONE_RANK.negated
    return None


def _counter_in(node: code.Expression) -> str:
    """The counter in `i + 1`; empty for anything else."""
    if isinstance(node, code.Binary) and node.op in ("+", "-"):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(other, code.Constant) and _counts(last_word(one)):
                return last_word(one)
    return ""


def _counts(word: str) -> bool:
    return bool(
        naming.STEP_INDEX.search(word)
        or naming.EPOCH_INDEX.search(word)
        or "step" in word.lower()
        or "iter" in word.lower()
        or "epoch" in word.lower()
    )


def _one_turn(node: code.Expression) -> bool:
    """Whether an expression names one turn of a loop: a constant, `len(loader) - 1`, `num_batches - 1`, `last_step`."""
    if isinstance(node, code.Constant):
        return isinstance(node.value, int) and not isinstance(node.value, bool)
    if isinstance(node, code.Unary):
        return isinstance(node.operand, code.Constant)
    if isinstance(node, code.Binary) and node.op in ("-", "//"):
        return True
    if isinstance(node, code.Call) and last_word(node) == "len":
        return True
    return any(
        word.startswith(("last", "first", "start", "final", "max", "num", "total", "n_")) for word in identifiers(node)
    )


def _order(test: code.Compare, operator: str) -> Test:
    """Comparisons by order of counters and clocks: `time.time() - last > 10`, `step >= next_log`."""
    words = [_ordered(word) for word in identifiers(test)]
    if any(word.accumulates for word in words):
        return accumulation.classify(test, operator)
    left = test.left
    if operator in (">", ">=") and isinstance(left, code.Binary) and left.op == "-" and _counts(last_word(left.left)):
        return _THINS_OUT
    if _is_not_yet_due(test, operator):
        return _THINS_OUT.negated
    if operator in (">", ">=", "==", "<", "<="):
        if any(word.interval for word in words) and not isinstance(test.left, code.Constant):
            return _THINS_OUT
        if any(word.due for word in words):
            return _THINS_OUT
    return _NOTHING


def _is_not_yet_due(test: code.Compare, operator: str) -> bool:
    """Whether a comparison holds until something is due: `time.time() - last < 30`, `step < next_log`."""
    sides = {"<": (test.left, test.comparators[0]), ">": (test.comparators[0], test.left)}.get(operator[0])
    if sides is None:
        return False
    reached, bound = sides
    if any(word.startswith("next_") for word in identifiers(bound)):
        return True
    since = identifiers(reached.right) if isinstance(reached, code.Binary) and reached.op == "-" else []
    return any(word.lstrip("_").startswith(("last", "prev")) for word in since)


class _Ordered(NamedTuple):
    """What a word says in a comparison by order."""

    accumulates: bool
    interval: bool
    due: bool
    """A clock, or a mark that a counter is held against."""


@functools.cache
def _ordered(word: str) -> _Ordered:
    due = word.startswith(("next_", "last_")) or word in ("time", "perf_counter", "monotonic")
    return _Ordered(naming.ACCUMULATION.search(word) or word == "accumulate", naming.INTERVAL.search(word), due)


def _named(test: code.Expression, evaluate: Evaluate, rank_names: frozenset[str]) -> Test:
    """A condition that is one name, attribute or call."""
    word = last_word(test)
    if word in rank_names or naming.MAIN_PROCESS.search(word):
        return _ONE_RANK
    value = evaluate(test)
    if isinstance(value, Test):
        return Test(value.positive, value.negative)
    return _by_name(word, isinstance(test, code.Call), isinstance(value, Const | Option))


@functools.cache
def _by_name(word: str, called: bool, fixed: bool) -> Test:
    """What a condition is by its name alone: whether it is a call, and whether it has a fixed value."""
    if naming.SHOULD.search(word):
        return _THINS_OUT
    if naming.RANK.search(word) and not called:
        # `if rank:` is true on the others
        return Test((), (GuardKind.RANK,))
    if naming.OTHER_ACCELERATOR.search(word):
        return _ELSEWHERE
    if called and naming.TRACED.search(word):
        return Test((GuardKind.EXCEPTIONAL,))
    if word in ("is_available", "device_count", "is_cuda") or naming.CUDA.search(word):
        if word.lower().startswith(("no_", "_no_")):
            return _ON_DEVICE.negated
        return _ON_DEVICE
    if word in ("is_initialized", "is_dist_avail_and_initialized") or naming.DISTRIBUTED.search(word):
        return _DISTRIBUTED
    if naming.DEBUG.search(word):
        return Test((GuardKind.DEBUG,))
    if naming.FIRST_OVER.search(word):
        return _ONE_TURN.negated
    if naming.FIRST.search(word) and not fixed:
        return _ONE_TURN
    if naming.PHASE.search(word):
        return _phase("train" in word.lower())
    if naming.INTERVAL.search(word) and called:
        return _THINS_OUT
    return _NOTHING


def is_number(value: Value) -> bool:
    """Whether a value is a number that the program text spells out."""
    return isinstance(value, Const) and isinstance(value.value, int | float) and not isinstance(value.value, bool)


def truth(value: Value) -> bool | None:
    """Whether a value is surely true or false; only literals are."""
    if isinstance(value, Const):
        return bool(value.value)
    return None
