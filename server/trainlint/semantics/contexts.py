"""From the circumstances that the interpreter saw to the context that rules are told: how often, where, and why."""

from __future__ import annotations

from trainlint.semantics.context import Asked, Context, Guard
from trainlint.semantics.node_facts import NodeFacts
from trainlint.semantics.project import Entry
from trainlint.semantics.state import LoopRun, Role, Standing, Where
from trainlint.semantics.vocabulary import Confidence, Frequency, GuardKind, Region

_ROOT_FREQUENCY = {
    Role.SAMPLE: (Frequency.PER_SAMPLE, Region.DATA),
    Role.COLLATE: (Frequency.PER_STEP, Region.COLLATE),
    Role.STEP: (Frequency.PER_STEP, Region.TRAINING),
    Role.EVALUATION: (Frequency.PER_STEP, Region.EVALUATION),
}


def context_of(where: Where, entry: Entry, nodes: NodeFacts) -> Context:
    """The context of code under these circumstances, once all loops of the entry point are known."""
    step = step_index(where)
    frequency, region, loop = _frequency(where, entry, step)
    inside = step if step is not None or region is not Region.EVALUATION else _index(where, loop)
    confidence = Confidence.MEDIUM if _assumed(where) else Confidence.HIGH
    if _undecided(where, step) or where.root.doubtful:
        confidence = Confidence.LOW
    return Context(
        frequency=frequency,
        region=region,
        loop=loop.site if loop is not None else None,
        path=tuple(entered.name for entered in where.calls),
        guards=tuple(
            Guard(
                guard.kind,
                guard.test if isinstance(guard.test, str) else nodes.text(guard.test),
                in_step=(inside is not None and guard.depth > inside) or _from_root(where),
                asked=Asked() if isinstance(guard.test, str) else nodes.asked_by(guard.test),
            )
            # of samples, `for_each_item` tells what is ahead of the items
            for guard in (where.among_items() if where.root.role in (Role.SAMPLE, Role.COLLATE) else where.guards)
        ),
        grad=where.grad,
        entry=entry,
        confidence=confidence,
        for_each_item=where.root.role in (Role.SAMPLE, Role.COLLATE)
        and not where.ahead
        and (bool(where.loops) or not where.root.whole_pass),
        forked=where.root.workers,
        compiled=where.compiled,
        counter=_counter(where, step),
    )


def _index(where: Where, loop: LoopRun | None) -> int | None:
    """Index of a loop among the open ones."""
    return next((index for index, one in enumerate(where.loops) if one is loop), None)


def _from_root(where: Where) -> bool:
    return where.root.role in _ROOT_FREQUENCY or where.root.role is Role.FORWARD or where.root.is_step


def _undecided(where: Where, step: int | None) -> bool:
    """Whether how often code runs hangs on values that the step computes, or on a switch that is off."""
    depth = 0 if step is None else step + 1
    if any(guard.kind is GuardKind.OFF for guard in where.guards):
        return True
    return any(guard.kind is GuardKind.DATA and guard.depth >= depth for guard in where.guards)


def _assumed(where: Where) -> bool:
    return where.root.assumed or (where.root.is_step and step_index(where) is None)


def _counter(where: Where, step: int | None) -> str:
    """The step counter, where the expression stands in the loop's own function or reads an attribute."""
    if step is None:
        return ""
    return where.loops[step].counter


def step_index(where: Where) -> int | None:
    """Index of the innermost step loop among the open loops; None outside of any."""
    for index in range(len(where.loops) - 1, -1, -1):
        if where.loops[index].runs_step:
            return index
    return None


def _frequency(where: Where, entry: Entry, step: int | None) -> tuple[Frequency, Region, LoopRun | None]:
    role = where.root.role
    if role is Role.EPOCH and step is None:
        return Frequency.PER_EPOCH, Region.SETUP, None
    if role in (Role.SAMPLE, Role.COLLATE):
        frequency, region = _ROOT_FREQUENCY[role]
        return frequency, region, None
    if step is not None:
        return _in_step(where, where.loops[step], where.loops[step + 1 :], step + 1)
    if role in _ROOT_FREQUENCY or where.root.is_step:
        region = Region.EVALUATION if role is Role.EVALUATION else Region.TRAINING
        frequency, inner_region, loop = _in_step(where, None, where.loops, 0)
        return frequency, region if inner_region is Region.TRAINING else inner_region, loop
    if role is Role.FORWARD and not where.root.fits_something:
        return _in_step(where, None, where.loops, 0) if entry.trains else (Frequency.ONCE, Region.SETUP, None)
    return _outside_step(where)


def _in_step(
    where: Where, loop: LoopRun | None, inner: tuple[LoopRun, ...], depth: int
) -> tuple[Frequency, Region, LoopRun | None]:
    guards = [guard for guard in where.guards if guard.depth >= depth]
    region = Region.TRAINING
    if any((item.over_data or _evaluates(item, depth)) and not item.trains for item in inner) or any(
        guard.kind is GuardKind.EVALUATION for guard in guards
    ):
        region = Region.EVALUATION
    return _thinned(guards, depth - 1), region, loop


def _evaluates(loop: LoopRun, depth: int) -> bool:
    """Whether a loop evaluates what the `depth` loops around it train."""
    return loop.in_evaluation and loop.evaluates_from >= depth


def _thinned(guards: list[Standing], step: int) -> Frequency:
    """How often code under guards inside a step loop runs."""
    if any(
        guard.kind is GuardKind.EXCEPTIONAL and (guard.ends_from is None or guard.ends_from <= step) for guard in guards
    ):
        return Frequency.ONCE
    if any(guard.kind is GuardKind.FIRST for guard in guards):
        return Frequency.PER_EPOCH
    if any(guard.kind in (GuardKind.INTERVAL, GuardKind.DEBUG) for guard in guards):
        return Frequency.PER_N_STEPS
    return Frequency.PER_STEP


def _outside_step(where: Where) -> tuple[Frequency, Region, LoopRun | None]:
    for index in range(len(where.loops) - 1, -1, -1):
        loop = where.loops[index]
        if loop.over_data and not loop.holds_steps:
            guards = [guard for guard in where.guards if guard.depth > index]
            return _thinned(guards, index), Region.EVALUATION, loop
        if loop.holds_steps:
            inner = where.loops[index + 1 :]
            if inner and any(_evaluates(item, index + 1) for item in inner):
                return Frequency.PER_STEP, Region.EVALUATION, inner[-1]
            return Frequency.PER_EPOCH, Region.SETUP, loop
    if where.loops and where.loops[-1].in_evaluation:
        return Frequency.PER_STEP, Region.EVALUATION, where.loops[-1]
    return Frequency.ONCE, Region.SETUP, where.loops[-1] if where.loops else None
