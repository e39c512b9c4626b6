"""What conditions ask about, whatever they stand for: names, settings, the mode of a module, ranks."""

from __future__ import annotations

import re

from trainlint.semantics import code, naming
from trainlint.semantics.context import Asked, Interval
from trainlint.semantics.text import dotted, last_word

_SETTINGS = re.compile(r"args|opts?|cfg|config|conf|hparams|params|flags", re.IGNORECASE)
"""How the settings of a job are called."""
_OWN_SETTINGS = re.compile(r"args|config", re.IGNORECASE)
"""Likewise, as attributes of `self`."""
_RANK_OF_A_PART = re.compile(
    r"(\b|_)(node|dp|tp|pp|mp|cp|ep|sp|data|tensor|pipe|pipeline|model|expert|context|sequence|stage|group|shard)_?\w*rank",
    re.IGNORECASE,
)
"""A rank among some of the processes, such as those that share a model: it may be 0 on all of them."""


def asked_by(test: code.Expression) -> Asked:
    """What a condition asks about."""
    words = frozenset(_words(test))
    return Asked(
        words=words,
        module_mode=any(isinstance(item, code.Attribute) and item.name == "training" for item in code.walk(test)),
        settings=_begins_with_setting(test),
        ranks_of_all=_tells_all_ranks_apart(test, words),
        interval=_interval(test),
    )


def _words(test: code.Expression | code.Argument) -> list[str]:
    """The identifiers in a condition, or in an argument, and the texts that it holds them against."""
    words: list[str] = []
    for item in code.walk(test):
        if isinstance(item, code.Name):
            words.append(item.id)
        elif isinstance(item, code.Attribute):
            words.append(item.name)
        elif isinstance(item, code.Argument) and item.keyword:
            words.append(item.keyword)
        elif isinstance(item, code.Constant) and isinstance(item.value, str):
            words.append(item.value)
    return words


def _begins_with_setting(test: code.Expression) -> bool:
    """Whether the first thing that a condition asks is a setting: `args.save`, `not cfg.train.log and …`."""
    path: list[str] = []
    item: code.Expression | None = test
    while item is not None:
        if isinstance(item, code.Attribute):
            path.append(item.name)
        item = _first_in(item)
        if isinstance(item, code.Name):
            path.append(item.id)
            break
    path.reverse()
    if len(path) > 2 and path[0] == "self":
        return _OWN_SETTINGS.fullmatch(path[1]) is not None
    return len(path) > 1 and _SETTINGS.fullmatch(path[0]) is not None


def _first_in(node: code.Expression) -> code.Expression | None:
    """The part of an expression that it begins with; None where it begins by itself."""
    match node:
        case code.Unary():
            return node.operand if node.op == "not" else None
        case code.Boolean():
            return node.values[0]
        case code.Compare() | code.Binary():
            return node.left
        case code.Call():
            return node.function
        case code.Attribute() | code.Subscript():
            return node.value
    return None


def _tells_all_ranks_apart(test: code.Expression, words: frozenset[str]) -> bool:
    """Whether a condition on the rank surely holds on some processes of the job and not on others.

    `rank == turn` in a loop over all ranks lets each of them pass once, and a switch such as `rank_zero_only` says
    which rank shall do something, not which rank this is.
    """
    if any(_RANK_OF_A_PART.search(word) for word in words):
        return False
    return not _holds_switch(test) and not any(
        _takes_turns(item) or _asks_rank_of_group(item) for item in code.walk(test)
    )


def _takes_turns(node: object) -> bool:
    """Whether something is held against a variable: `rank == turn`."""
    if not isinstance(node, code.Compare) or not any(operator in ("==", "!=") for operator in node.ops):
        return False
    return not any(_is_literal(side) for side in (node.left, *node.comparators))


def _is_literal(node: code.Expression) -> bool:
    if isinstance(node, code.Unary):
        return _is_literal(node.operand)
    return isinstance(node, code.Constant | code.Sequence)


def _asks_rank_of_group(node: object) -> bool:
    """Whether a call asks for the rank in a group of processes: `dist.get_rank(group)`."""
    if not isinstance(node, code.Call) or last_word(node.function) != "get_rank":
        return False
    return any("group" in word.lower() for argument in node.arguments for word in _words(argument))


def _holds_switch(test: code.Expression) -> bool:
    """Whether a condition, or a part of it, is a switch that says which rank shall do something."""
    if isinstance(test, code.Unary):
        return _holds_switch(test.operand)
    if isinstance(test, code.Boolean):
        return any(map(_holds_switch, test.values))
    word = last_word(test)
    return word.endswith("_only") and naming.MAIN_PROCESS.search(word)


def _interval(test: code.Expression) -> Interval | None:
    """The interval in `step % every == 0`, where a name says how often."""
    if not isinstance(test, code.Compare) or test.ops != ("==",) or not _is_number(test.comparators[0], 0):
        return None
    remainder = test.left
    if not isinstance(remainder, code.Binary) or remainder.op != "%":
        return None
    counted, every = remainder.left, dotted(remainder.right)
    from_one = isinstance(counted, code.Binary) and counted.op == "+" and _is_number(counted.right, 1)
    counter = dotted(counted.left if isinstance(counted, code.Binary) and from_one else counted)
    return Interval(counter, from_one, every) if counter and every else None


def _is_number(node: code.Expression, number: int) -> bool:
    return isinstance(node, code.Constant) and node.value.__class__ is int and node.value == number
