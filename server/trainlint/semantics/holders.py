"""What exists on one rank: `writer = SummaryWriter() if rank == 0 else None`, and then `if writer is not None:`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from trainlint.semantics import classes, code, guards, sameness
from trainlint.semantics.state import Frame
from trainlint.semantics.text import dotted
from trainlint.semantics.values import UNKNOWN, Function, Instance
from trainlint.semantics.vocabulary import GuardKind

_DEEPEST = 4
"""Calls that a variable is followed through, from a parameter to what was passed for it."""

_Kinds: TypeAlias = tuple[GuardKind, ...]


class _Binding(NamedTuple):
    """What an assignment gives a variable, under which conditions: each with whether it holds."""

    value: code.Expression | None
    under: tuple[tuple[code.Expression, bool], ...]


def kinds(frame: Frame, test: code.Expression) -> tuple[_Kinds, _Kinds]:
    """The guards that a condition is, for both branches, if it asks whether something is there that one rank has."""
    if isinstance(test, code.Unary) and test.op == "not":
        return kinds(frame, test.operand)[::-1]
    if isinstance(test, code.Boolean):
        there, missing = zip(*(kinds(frame, part) for part in test.values), strict=True)
        by_any, by_all = (there, missing) if test.op == "and" else (missing, there)
        some = next((found for found in by_any if found), ())
        common = by_all[0] if all(by_all) else ()
        return (some, common) if test.op == "and" else (common, some)
    asked, absent = _asked(test)
    if asked is None or not _is_on_one_rank(frame, asked, _DEEPEST):
        return (), ()
    one, others = (GuardKind.RANK,), (GuardKind.OTHER_RANKS,)
    return (others, one) if absent else (one, others)


def _asked(test: code.Expression) -> tuple[code.Name | code.Attribute | None, bool]:
    """The variable that a condition asks whether it is there, and whether the condition holds where it is not."""
    if isinstance(test, code.Compare) and test.ops in (("is",), ("is not",)):
        other = test.comparators[0]
        about_none = isinstance(other, code.Constant) and other.value is None
        asked = test.left if about_none and isinstance(test.left, code.Name | code.Attribute) else None
        return asked, test.ops == ("is",)
    return (test if isinstance(test, code.Name | code.Attribute) else None), False


def _is_on_one_rank(frame: Frame, node: code.Expression, depth: int) -> bool:
    """Whether a variable is None on all ranks but one, by all assignments of it."""
    if depth <= 0:
        return False
    if isinstance(node, code.Attribute):
        return _is_of_one_rank(frame, node)
    function = frame.function
    if not isinstance(node, code.Name) or function is None or not isinstance(function.define, code.Define):
        return False
    name = node.id
    body = frame.run.body(function.module, function.define.body)
    found = _all_bindings(frame, body, name)
    parameter = any(one.name == name for one in function.define.parameters)
    if found is None:
        return False
    if parameter:
        passed = sameness.passed_for(frame, name, [one.name for one in function.define.parameters])
        caller = frame.caller
        return not found and passed is not None and caller is not None and _is_passed(caller, passed.value, depth)
    return _exist_on_one_rank(frame, found)


def _is_passed(caller: Frame, value: code.Expression, depth: int) -> bool:
    """Whether what a call passes is on one rank only."""
    if isinstance(value, code.Name | code.Attribute):
        return _is_on_one_rank(caller, value, depth - 1)
    return _exist_on_one_rank(caller, list(_leaves(_Binding(value, ()))))


def _is_of_one_rank(frame: Frame, node: code.Attribute) -> bool:
    """The same of an attribute of an object of the project's own, by what all methods of its class assign."""
    owner = frame.variables.get(node.value.id) if isinstance(node.value, code.Name) else None
    if not isinstance(owner, Instance):
        return False
    found: list[_Binding] = []
    for one in classes.lineage(owner.cls):
        for member in one.members.values():
            define = member.define if isinstance(member, Function) else None
            if not isinstance(member, Function) or not isinstance(define, code.Define) or not define.parameters:
                continue
            body = frame.run.body(member.module, define.body)
            inside = _all_bindings(frame, body, f"{define.parameters[0].name}.{node.name}")
            if inside is None:
                return False
            found += inside
    return _exist_on_one_rank(frame, found)


def _all_bindings(frame: Frame, body: code.Block, path: str) -> list[_Binding] | None:
    """All that a function binds a variable to; None where something else than plain assignments changes it."""
    bound = [value for value in frame.run.nodes.bindings(body).get(path, ()) if value is not None]
    if not bound:
        return []
    found = list(_assignments(body, path, ()))
    return [leaf for one in found for leaf in _leaves(one)] if len(found) == len(bound) else None


def _assignments(block: code.Block, path: str, under: tuple[tuple[code.Expression, bool], ...]) -> Iterator[_Binding]:
    for statement in block:
        if isinstance(statement, code.Assign):
            if any(dotted(target) == path for target in statement.targets):
                yield _Binding(statement.value, under)
        elif isinstance(statement, code.If):
            yield from _assignments(statement.body, path, (*under, (statement.test, True)))
            yield from _assignments(statement.orelse, path, (*under, (statement.test, False)))
        elif isinstance(statement, code.With | code.Try):
            yield from _assignments(statement.body, path, under)
            if isinstance(statement, code.Try):
                for handler in statement.handlers:
                    yield from _assignments(handler.body, path, under)


def _leaves(binding: _Binding) -> Iterator[_Binding]:
    """What `a if test else b` may be, each under its condition."""
    value = binding.value
    if isinstance(value, code.Conditional):
        for branch, holds in ((value.body, True), (value.orelse, False)):
            yield from _leaves(_Binding(branch, (*binding.under, (value.test, holds))))
    else:
        yield binding


def _exist_on_one_rank(frame: Frame, bindings: list[_Binding]) -> bool:
    """Whether all that is not None is assigned on one rank, and something is None."""
    there = [one for one in bindings if not (isinstance(one.value, code.Constant) and one.value.value is None)]
    return 0 < len(there) < len(bindings) and all(_is_ranked(frame, one) for one in there)


def _is_ranked(frame: Frame, binding: _Binding) -> bool:
    run = frame.run
    for test, holds in binding.under:
        found = guards.classify(test, lambda _: UNKNOWN, run.nodes, run.rank_names)
        if GuardKind.RANK in (found.positive if holds else found.negative):
            return True
    return False
