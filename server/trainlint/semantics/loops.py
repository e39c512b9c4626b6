"""Loops: what they go over, which of them are open, and what one turn leaves to the next."""

from __future__ import annotations

from typing import Any

from trainlint.semantics import (
    assignment,
    code,
    elements,
    expressions,
    functions,
    iteration,
    naming,
    object_types,
    records,
    statements,
)
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import Loader, Site
from trainlint.semantics.state import Frame, Leaves, LoopRun, Standing, Where
from trainlint.semantics.text import dotted, identifiers
from trainlint.semantics.values import (
    STRING,
    UNKNOWN,
    Const,
    Host,
    Instance,
    Listing,
    Object,
    Option,
    Reference,
    Test,
    Tuple,
    Unknown,
    Value,
    join,
)


def run_for(frame: Frame, node: code.For) -> Leaves:
    """Run a loop over a generator of the project inside that generator, and any other over what its iterable holds."""
    iterated = expressions.evaluate(frame, node.iterable)
    frame.open_loops.append(node)
    try:
        _run_turns(frame, node, iterated)
    finally:
        frame.open_loops.pop()
    statements.run_block(frame, node.orelse)
    return Leaves.END


def _run_turns(frame: Frame, node: code.For, iterated: Value) -> None:
    site = frame.site(node.at)
    generated, wrap = iteration.generated_in(frame, iterated)
    if generated is not None:

        def consume(value: Value) -> None:
            where = frame.where
            if where.loops and len(where.loops) > depth:
                where.loops[-1].site = site
                where.loops[-1].counter = _counter_of(node) or where.loops[-1].counter
                _turn(frame, node, wrap(value))
            else:
                _loop(frame, node, site, iterated, wrap(value))

        depth = len(frame.where.loops)
        functions.run_generated(frame, generated, consume)
    else:
        item = STRING if frame.run.nodes.once(_goes_over_keys, node) else iteration.item_of(frame, iterated)
        _loop(frame, node, site, iterated, item)


def _goes_over_keys(node: code.For) -> bool:
    """Whether a loop goes over the keys of a mapping: over `mapping_keys`, or its body asks for `mapping[key]`."""
    path = dotted(node.iterable)
    if not path or not isinstance(node.target, code.Name):
        return False
    if path.rpartition(".")[2].endswith(("keys", "names")):
        return True
    return any(
        isinstance(item, code.Subscript) and dotted(item.value) == path and dotted(item.key) == node.target.id
        for item in code.walk(node.body)
    )


def _loop(frame: Frame, node: code.For, site: Site, iterated: Value, item: Value) -> None:
    repeats = _is_handful(node.iterable) and any(loop.over_data for loop in frame.where.loops)
    loop = _open(frame, site, iterated, repeats or _is_small(node.iterable, iterated), _counter_of(node))
    nodes = frame.run.nodes
    loop.listed = loop.listed or nodes.once(_is_listed, node.iterable)
    loop.starts_anew = nodes.once(_starts_anew, node.target)
    loop.turns = _turns_of(frame, node.iterable)
    if nodes.once(_ends_at_once, node.body):
        loop.small, loop.over_data, loop.in_evaluation = True, False, False
    loop.ends_early = loop.ends_early or nodes.once(_takes_a_slice, node.iterable)
    loader = iteration.loader_in(iterated)
    if loader is not None or isinstance(iterated, Unknown | Reference):
        # whatever makes the items may wait for the device
        frame.run.note_possible_wait()
    if loader is not None and not frame.run.advancing:
        records.note_loop(frame, loop, loader, _loader_text(node.iterable))
    outer, run = frame.where, frame.run
    works, waits, before = len(run.works), run.waits, frozenset(frame.variables)
    frame.before_loops.append(before)
    frame.loop_bodies.append(node.body)
    frame.where = replace(outer, loops=(*outer.loops, loop), guards=_guards_inside(outer, node.body))
    try:
        _turn(frame, node, item)
    finally:
        frame.where = outer
        frame.before_loops.pop()
        frame.loop_bodies.pop()
    if len(run.works) > works and run.waits == waits:
        elements.note_loop(frame, node, iterated, loop, before, run.works[works:])


def _takes_a_slice(node: code.Expression) -> bool:
    return "islice" in identifiers(node)


def _ends_at_once(body: code.Block) -> bool:
    """Whether the first turn of a loop is the last: `for batch in loader: …; break`."""
    leaves = {
        item.what
        for item in code.walk(body[:-1])
        if isinstance(item, code.Leave)  # those of loops inside it too, which is rare here
    }
    last = body[-1] if body else None
    return isinstance(last, code.Return | code.Raise) or (
        isinstance(last, code.Leave) and last.what == "break" and "continue" not in leaves
    )


def _guards_inside(outer: Where, body: code.Block) -> tuple[Standing, ...]:
    """The guards of a loop's body: a generator that is advanced by hand turns the loop that yields for each item."""
    return outer.among_items() if outer.ahead and _yields(body) else outer.guards


def _yields(body: code.Block) -> bool:
    """Whether a loop's own statements yield, those of loops inside of it left out. What `yield from` goes over is a
    loop of its own."""
    stack: list[Any] = list(body)
    while stack:
        item = stack.pop()
        if isinstance(item, code.Yield) and not item.delegates:
            return True
        if isinstance(item, tuple) and not isinstance(item, code.For | code.While | code.Define | code.Lambda):
            stack.extend(item)
    return False


def _turn(frame: Frame, node: code.For, item: Value) -> None:
    """Two turns of a loop at most: the second sees what the first left behind."""
    entered = dict(frame.variables)
    assignment.assign(frame, node.target, item)
    statements.run_block(frame, node.body)
    if _join_turns(frame, entered) and _is_innermost(frame, node.body):
        assignment.assign(frame, node.target, item)
        statements.run_block(frame, node.body)
        _join_turns(frame, entered)


def _join_turns(frame: Frame, entered: dict[str, Value]) -> bool:
    """Merge what variables held before the loop into what they hold now; whether any of them changed."""
    changed = False
    for name, value in entered.items():
        now = frame.variables.get(name)
        if now is not None and now is not value and now != value:
            joined = frame.variables[name] = join(value, now)
            changed = changed or (joined != value and not isinstance(joined, _PLAIN))
    return changed


def _is_innermost(frame: Frame, body: code.Block) -> bool:
    """Whether a loop's body holds no loop: what one turn hands to the next matters there, and costs least."""
    return not frame.run.nodes.holds_loop(body)


_PLAIN = (Const, Host, Option, Test, Unknown)
"""Values of the host, on whose exact value nothing depends: a second turn for them would tell nothing new."""


def run_while(frame: Frame, node: code.While) -> Leaves:
    """Run a loop whose turns no iterable counts; its condition is asked at each turn."""
    site = frame.site(node.at)
    # a `while` loop seldom goes over data: it tries again, generates, or waits
    evaluating, frame.evaluating = frame.evaluating, False
    loop = _open(frame, site, UNKNOWN, False, "")
    frame.evaluating = evaluating
    outer = frame.where
    frame.before_loops.append(frozenset(frame.variables))
    frame.loop_bodies.append(node.body)
    frame.where = replace(outer, loops=(*outer.loops, loop), guards=_guards_inside(outer, node.body))
    frame.open_loops.append(node)
    try:
        for _ in range(2):
            entered = dict(frame.variables)
            expressions.decide(frame, node.test)
            statements.run_block(frame, node.body)
            if not _join_turns(frame, entered) or not _is_innermost(frame, node.body):
                break
    finally:
        frame.where = outer
        frame.before_loops.pop()
        frame.loop_bodies.pop()
    statements.run_block(frame, node.orelse)
    return Leaves.END


def _open(frame: Frame, site: Site, iterated: Value, small: bool, counter: str) -> LoopRun:
    where = frame.where
    key = (site, where.calls, tuple(id(loop) for loop in where.loops))
    loop = frame.run.loops.get(key)
    if loop is None:
        found = iteration.loader_in(iterated)
        fact = found.fact if found is not None and isinstance(found.fact, Loader) else None
        loop = LoopRun(site, fact, small, where.loops[-1] if where.loops else None)
        loop.over_data = found is not None
        named = _evaluates(frame, found)
        loop.in_evaluation = named or (frame.evaluating and found is None)
        loop.named_for_evaluation = named
        loop.evaluates_from = len(where.loops) if named else frame.evaluating_from
        loop.where = where
        if frame.run.advancing:
            loop.small, loop.over_data, loop.loader, loop.in_evaluation = True, False, None, False
        frame.run.loops[key] = loop
    loop.counter = counter or loop.counter
    return loop


def _evaluates(frame: Frame, loader: Object | None) -> bool:
    """Whether a loop's function or loader is named for evaluation."""
    owner, _, name = frame.symbol.rpartition(".")
    if naming.evaluates(name) and not naming.HOLDS_DATA.search(naming.snake_case(owner.rpartition(".")[2])):
        return True
    fact = loader.fact if loader is not None else None
    return (
        isinstance(fact, Loader)
        and bool(naming.EVALUATION.search(fact.name.rpartition(".")[2]))
        and "train" not in fact.name
    )


_HANDFUL = 8
"""Turns of a `range` up to which a loop inside a step repeats a part of it: critic updates, restarts."""


def _is_handful(node: code.Expression) -> bool:
    """`range(5)`: inside a loop over data, a part of the step that is repeated."""
    if not (isinstance(node, code.Call) and dotted(node.function) == "range" and len(node.arguments) == 1):
        return False
    count = node.arguments[0].value
    return isinstance(count, code.Constant) and isinstance(count.value, int) and count.value <= _HANDFUL


def _turns_of(frame: Frame, node: code.Expression) -> int | None:
    """How often `for … in range(20)` turns; None where the program text does not say."""
    if not (isinstance(node, code.Call) and dotted(node.function) == "range" and len(node.arguments) == 1):
        return None
    written = node.arguments[0].value
    count = Const(written.value) if isinstance(written, code.Constant) else expressions.evaluate_quietly(frame, written)
    return count.value if isinstance(count, Const) and type(count.value) is int else None


def _is_small(node: code.Expression, iterated: Value) -> bool:
    """Whether a loop goes over a handful of things that are no data."""
    if isinstance(node, code.Sequence):
        return True
    if isinstance(node, code.Call):
        name = dotted(node.function).rpartition(".")[2]
        if isinstance(node.function, code.Attribute):
            name = node.function.name
        if name in ("parameters", "named_parameters", "modules", "children", "named_modules"):
            return True
        if name in ("items", "values", "keys") and not (
            isinstance(iterated, Object) and iterated.type == object_types.LOADER
        ):
            return True
        if name == "range":
            words = identifiers(node)
            if any(naming.ACCUMULATION.search(word) for word in words):
                return True
        if name in ("zip", "enumerate", "product"):
            return all(_is_small(argument.value, UNKNOWN) for argument in node.arguments) if node.arguments else False
    if (
        isinstance(iterated, Tuple)
        and iterated.items
        and all(isinstance(item, Object | Instance) for item in iterated.items)
    ):
        return not any(isinstance(item, Object) and item.type == object_types.LOADER for item in iterated.items)
    return (
        isinstance(iterated, Listing)
        and isinstance(iterated.item, Object)
        and iterated.item.type in (object_types.OPTIMIZER, object_types.MODEL)
    )


def _is_listed(node: code.Expression) -> bool:
    """Whether a loop goes over what the program text spells out, or over combinations of that."""
    if isinstance(node, code.Sequence):
        return True
    if not (isinstance(node, code.Call) and node.arguments):
        return False
    name = dotted(node.function).rpartition(".")[2]
    return name in ("zip", "enumerate", "product") and all(_is_listed(one.value) for one in node.arguments)


def _starts_anew(target: code.Expression) -> bool:
    """Whether each turn of a loop is a run of its own, by the name of what it counts: `for attempt in range(3)`."""
    first = target.items[0] if isinstance(target, code.Sequence) and target.items else target
    return isinstance(first, code.Name) and naming.ATTEMPT.search(first.id)


def _counter_of(node: code.For) -> str:
    """The variable that counts turns: of `enumerate`, of `range`."""
    target, iterable = node.target, node.iterable
    while (
        isinstance(iterable, code.Call)
        and dotted(iterable.function).rpartition(".")[2] in ("tqdm", "track", "list")
        and iterable.arguments
    ):
        iterable = iterable.arguments[0].value
    if not isinstance(iterable, code.Call):
        return ""
    name = dotted(iterable.function).rpartition(".")[2]
    if name == "enumerate" and isinstance(target, code.Sequence) and isinstance(target.items[0], code.Name):
        return target.items[0].id
    if name in ("range", "trange", "count") and isinstance(target, code.Name):
        return target.id
    return ""


def _loader_text(node: code.Expression) -> str:
    """The expression of the loader itself, seen through `enumerate`, progress bars and kin."""
    while isinstance(node, code.Call) and node.arguments:
        node = node.arguments[0].value
    return dotted(node)
