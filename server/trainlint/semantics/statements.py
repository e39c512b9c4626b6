"""Interpretation of statements: what is bound, which loops and conditions surround what runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Any

from trainlint.semantics import (
    calls,
    classes,
    code,
    expressions,
    guards,
    library,
    naming,
    narrowing,
    records,
    tensors,
)
from trainlint.semantics.facts import ModuleFacts
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import Loader, Site
from trainlint.semantics.state import NOWHERE, Frame, LoopRun, ModuleState, Role, Run, Standing, Units, Where
from trainlint.semantics.text import dotted
from trainlint.semantics.values import (
    NONE,
    NUMBER,
    OBJECT,
    STRING,
    UNKNOWN,
    Bound,
    Class,
    Const,
    Function,
    Host,
    Instance,
    Listing,
    ModuleValue,
    Object,
    Option,
    Reference,
    Tensor,
    Test,
    Tuple,
    Unknown,
    Value,
    is_reference,
    join,
)
from trainlint.semantics.vocabulary import GradMode, GuardKind


class Leaves(Enum):
    """How a block ends: by its end, or before."""

    END = "end"
    TURN = "turn"
    """`continue`."""
    LOOP = "loop"
    """`break`."""
    FUNCTION = "function"
    """`return`."""
    PROGRAM = "program"
    """`raise`, `sys.exit()`."""


def run_block(frame: Frame, block: code.Block) -> Leaves:
    """Interpret statements in order; guards from early exits hold to the end of the block."""
    outer = frame.where
    try:
        for statement in block:
            if not calls.count_statement(frame):
                return Leaves.END
            handler = _STATEMENTS[statement.tag]
            leaves = handler(frame, statement)
            if leaves is not Leaves.END:
                return leaves
        return Leaves.END
    finally:
        frame.where = outer


# ---------------------------------------------------------------------------------------------- simple statements


def _evaluate(frame: Frame, node: code.Evaluate) -> Leaves:
    value = node.value
    if isinstance(value, code.Call):
        frame.standing_alone = value.at
        frame.accumulating = isinstance(value.function, code.Attribute) and value.function.name in (
            "append",
            "update",
            "add",
            "extend",
        )
        expressions.evaluate(frame, value)
        frame.standing_alone = -1
        frame.accumulating = False
        return Leaves.PROGRAM if _is_exit(value) else Leaves.END
    expressions.evaluate(frame, value)
    return Leaves.END


def _is_exit(node: code.Call) -> bool:
    """Whether a call ends the program: `sys.exit()`."""
    return dotted(node.function) in library.EXITS


def _assign(frame: Frame, node: code.Assign) -> Leaves:
    if node.value is None:
        return Leaves.END
    frame.rebinding = _bound_paths(node.targets)
    value = expressions.evaluate(frame, node.value)
    frame.rebinding = _NO_PATHS
    for target in node.targets:
        if isinstance(value, Tensor):
            _note_growth(frame, node, target, value)
        calls.assign(frame, target, value)
        if isinstance(value, Object):
            _name_fact(target, value)
        elif isinstance(value, Tensor) and value.created and isinstance(target, code.Name):
            made = frame.made_by(node.value)
            if made is not None:
                frame.factory_names[target.id] = (*made, len(frame.where.loops))
        if isinstance(target, code.Attribute):
            _note_switch(frame, target.name, node.value)
    return Leaves.END


def _note_switch(frame: Frame, name: str, value: code.Expression) -> None:
    """Attributes that switch something for the whole program by being set."""
    if name in ("require_backward_grad_sync", "require_backward_sync"):
        frame.run.entry.disables_sync = True
    elif name == "disabled":
        # `logger.disabled = rank != 0` keeps the other ranks quiet
        kinds = guards.classify(value, lambda item: expressions.evaluate_quietly(frame, item), frame.run.rank_names)
        if GuardKind.RANK in kinds[0] + kinds[1]:
            frame.run.entry.silent_loggers = True


_NO_PATHS: frozenset[str] = frozenset()


def _bound_paths(targets: tuple[code.Expression, ...]) -> frozenset[str]:
    if len(targets) == 1 and isinstance(targets[0], code.Name):
        return frozenset((targets[0].id,))
    paths: set[str] = set()
    for target in targets:
        items = target.items if isinstance(target, code.Sequence) else (target,)
        paths.update(map(dotted, items))
    return frozenset(paths - {""})


def _name_fact(target: code.Expression, value: Object) -> None:
    """A loader is known by the first name that it is bound to."""
    fact = value.fact
    if isinstance(fact, Loader) and not fact.name:
        fact.name = dotted(target)


def _note_growth(frame: Frame, node: code.Assign, target: code.Expression, value: Tensor) -> None:
    """`total = total + loss` is `total += loss`."""
    written = node.value
    if not isinstance(written, code.Binary) or written.op != "+":
        return
    path = dotted(target)
    if path:
        for mine, other in ((written.left, written.right), (written.right, written.left)):
            if dotted(mine) == path:
                added = expressions.evaluate_quietly(frame, other)
                graph = added if isinstance(added, Tensor) else value
                records.note_kept_graph(frame, target, target, other, graph)


def _augment(frame: Frame, node: code.Augment) -> Leaves:
    frame.accumulating = node.op in ("+", "-")
    added = expressions.evaluate(frame, node.value)
    frame.accumulating = False
    old = expressions.evaluate(frame, node.target)
    if isinstance(node.target, code.Attribute) and node.target.name == "grad" and node.op == "+":
        frame.run.entry.reads_zero_gradients = True
    if isinstance(added, Tensor):
        if node.op == "+":
            whole = code.Binary("+=", node.target, node.value, node.at)
            records.note_kept_graph(frame, whole, node.target, node.value, added)
        value: Value = tensors.combine(added, old)
    elif isinstance(old, Tensor):
        value = tensors.combine(old, added)
    elif isinstance(old, Listing):
        value = Listing(join(old.item, calls.item_of(frame, added)), growing=True)
    elif isinstance(old, Unknown):
        value = UNKNOWN
    else:
        value = Host("string") if isinstance(old, Const) and isinstance(old.value, str) else NUMBER
    _count_turn(frame, node)
    calls.assign(frame, node.target, value)
    return Leaves.END


def _count_turn(frame: Frame, node: code.Augment) -> None:
    """`step += 1` in a loop's own body names the loop's counter, if it has no better one."""
    if node.op == "+" and frame.where.loops and isinstance(node.value, code.Constant) and node.value.value == 1:
        loop = frame.where.loops[-1]
        if (
            not loop.counter
            and len(frame.where.loops) > frame.loop_base
            and not _guarded_in(frame, len(frame.where.loops))
        ):
            loop.counter = dotted(node.target)


def _guarded_in(frame: Frame, depth: int) -> bool:
    return any(guard.depth >= depth for guard in frame.where.guards)


def _return(frame: Frame, node: code.Return) -> Leaves:
    frame.returned.append(expressions.evaluate_optional(frame, node.value))
    return Leaves.FUNCTION


def _raise(frame: Frame, node: code.Raise) -> Leaves:
    if node.value is not None:
        outer = frame.where
        depth = len(outer.loops)
        frame.where = outer.guarded(Standing(GuardKind.EXCEPTIONAL, "raise", depth))
        expressions.evaluate(frame, node.value)
        frame.where = outer
    return Leaves.PROGRAM


def _assert(frame: Frame, node: code.Assert) -> Leaves:
    value = expressions.evaluate(frame, node.test)
    tensors.branch_sync(frame, node.test, value)
    return Leaves.END


def _delete(frame: Frame, node: code.Delete) -> Leaves:
    for target in node.targets:
        if isinstance(target, code.Name):
            frame.variables.pop(target.id, None)
    return Leaves.END


def _leave(frame: Frame, node: code.Leave) -> Leaves:
    return Leaves.TURN if node.what == "continue" else Leaves.LOOP


def _scope(frame: Frame, node: code.Scope) -> Leaves:
    (frame.globals if node.what == "global" else frame.nonlocals).update(node.names)
    return Leaves.END


# --------------------------------------------------------------------------------------------------- conditionals


def _if(frame: Frame, node: code.If) -> Leaves:
    test = expressions.evaluate(frame, node.test)
    tensors.branch_sync(frame, node.test, test)
    known = _known_test(frame, node.test, test)
    if known is not None:
        return run_block(frame, node.body if known else node.orelse)
    positive, negative = _kinds_of(frame, node.test, test)
    if not positive and _latches(frame, node):
        positive = (GuardKind.FIRST,)
    elif not positive:
        positive = _undecided(frame, node.test)
        if not positive and _skips_turn(node.body):
            positive = (GuardKind.DATA,)
    if GuardKind.INTERVAL in positive and _only_updates(node.body):
        positive = tuple(GuardKind.ACCUMULATION if kind is GuardKind.INTERVAL else kind for kind in positive)
    held = frame.variables
    before = dict(held)
    if_true, if_false = (narrowing.narrowed(frame, node.test, holds) for holds in (True, False))
    frame.variables.update(if_true)
    first = _branch(frame, node.body, positive, node.test)
    after_body = dict(frame.variables)
    _hold(frame, held, before)
    frame.variables.update(if_false)
    second = _branch(frame, node.orelse, negative, node.test)
    if first is Leaves.END and second is Leaves.END:
        narrowing.forget(after_body, if_true, before)
        narrowing.forget(frame.variables, if_false, before)
    _join_branches(frame, first, after_body, second)
    _hold(frame, held, frame.variables)
    if first is Leaves.END and second is Leaves.END:
        return Leaves.END
    if first is not Leaves.END and second is not Leaves.END:
        return first if first is not Leaves.PROGRAM else second
    _guard_rest(frame, node, first, positive, negative)
    return Leaves.END


def _kinds_of(frame: Frame, test: code.Expression, value: Value) -> tuple[tuple[GuardKind, ...], tuple[GuardKind, ...]]:
    """The kinds of guard that a condition is, for both branches; a comparison has told with its value."""
    if isinstance(value, Test) and isinstance(test, code.Compare):
        return value.positive, value.negative
    return guards.classify(test, lambda item: expressions.evaluate_quietly(frame, item), frame.run.rank_names)


def _latches(frame: Frame, node: code.If) -> bool:
    """Whether a branch turns off its own condition, so that it is taken once: `if not warned: warned = True`."""
    tested = _lasting_names(frame, node.test)
    if not tested:
        return False
    assigned = frame.run.nodes.assigned(node.body)
    return not tested.isdisjoint(assigned) or not tested.isdisjoint(_assigned_by_calls(frame, node.body))


def _assigned_by_calls(frame: Frame, body: code.Block) -> set[str]:
    """The globals and the attributes of `self` that functions of the project assign which a block calls."""
    found: set[str] = set()
    for item in frame.run.nodes.named_calls(body):
        callee = expressions.evaluate(frame, item.function)
        function = callee.function if isinstance(callee, Bound) else callee
        if isinstance(function, Function) and isinstance(function.define, code.Define):
            inside = frame.run.body(function.module, function.define.body)
            own = {name for one in inside if isinstance(one, code.Scope) and one.what == "global" for name in one.names}
            found |= {path for path in frame.run.nodes.assigned(inside) if path in own or path.startswith("self.")}
    return found


def _lasting_names(frame: Frame, test: code.Expression) -> set[str]:
    """The variables that a condition asks and that keep their value from one step to the next: attributes, globals,
    what was bound before the loop."""
    if isinstance(test, code.Unary):
        return _lasting_names(frame, test.operand)
    if isinstance(test, code.Boolean):
        return set().union(*(_lasting_names(frame, part) for part in test.values))
    if isinstance(test, code.Compare):
        return set().union(*(_lasting_names(frame, part) for part in (test.left, *test.comparators)))
    if isinstance(test, code.Attribute):
        return {dotted(test)} - {""}
    if isinstance(test, code.Call) and dotted(test.function) in ("getattr", "hasattr") and len(test.arguments) > 1:
        holder, name = dotted(test.arguments[0].value), test.arguments[1].value
        return {f"{holder}.{name.value}"} if holder and isinstance(name, code.Constant) else set()
    if isinstance(test, code.Name):
        bound_before = bool(frame.before_loops) and test.id in frame.before_loops[-1]
        of_module = frame.function is not None and test.id not in frame.variables
        return {test.id} if bound_before or of_module or test.id in frame.nonlocals else set()
    return set()


def _skips_turn(body: code.Block) -> bool:
    """Whether a branch gives up on this turn of the loop: `if output is None: print("skipped"); continue`."""
    last = body[-1] if body else None
    if not (isinstance(last, code.Leave) and last.what == "continue"):
        return False
    return not any(isinstance(item, code.Attribute) and "backward" in item.name for item in code.walk(body))


def _only_updates(body: code.Block) -> bool:
    """Whether a block runs an optimizer step and no backward pass: whatever its condition is called, it accumulates."""
    updates = False
    for item in code.walk(body):
        if isinstance(item, code.Call) and isinstance(item.function, code.Attribute):
            name = item.function.name
            word = guards.last_word(item.function.value)
            if "backward" in name:
                return False
            updates = updates or (name == "step" and (naming.OPTIMIZER.search(word) or naming.SCALER.search(word)))
    return updates


def _undecided(frame: Frame, test: code.Expression) -> tuple[GuardKind, ...]:
    """What a condition is that no name tells: one on values that the step computes, or a switch that is off."""
    if isinstance(test, code.Name | code.Attribute):
        value = expressions.evaluate(frame, test)
        return (GuardKind.OFF,) if value == Const(False) and _is_setting(frame, test) else ()
    if isinstance(test, code.Compare) and (frame.where.loops or frame.where.root.role is not Role.PROGRAM):
        if any(operator in ("is", "is not") for operator in test.ops):
            return ()
        for item in code.walk(test):
            if isinstance(item, code.Name) and _computed_here(frame, item):
                return (GuardKind.DATA,)
    return ()


def _is_setting(frame: Frame, test: code.Name | code.Attribute) -> bool:
    """Whether a name is a parameter or an attribute: set elsewhere, not by the code around the test."""
    if isinstance(test, code.Attribute):
        return True
    define = frame.function.define if frame.function is not None else None
    return isinstance(define, code.Define) and any(parameter.name == test.id for parameter in define.parameters)


def _computed_here(frame: Frame, node: code.Name) -> bool:
    """Whether a variable holds what the current step computes, rather than a setting or a counter."""
    if naming.STEP_INDEX.search(node.id) or naming.EPOCH_INDEX.search(node.id) or naming.RANK.search(node.id):
        return False
    value = frame.variables.get(node.id)
    if value is None:
        return False
    if isinstance(value, Tensor):
        return True
    inside = len(frame.where.loops) - frame.loop_base
    if inside and frame.before_loops:
        return node.id not in frame.before_loops[-1] and not isinstance(value, Const | Option | Test)
    return isinstance(value, Host) and value.kind in ("number", "array") and frame.where.loops != ()


def _hold(frame: Frame, held: dict[str, Value], variables: dict[str, Value]) -> None:
    """Give the frame these variables in the dictionary it had: other frames read a module's by identity."""
    if variables is not held:
        held.clear()
        held.update(variables)
    frame.variables = held


def _known_test(frame: Frame, test: code.Expression, value: Value) -> bool | None:
    """Whether a condition is decided by the program text: `if False:`, `if __name__ == "__main__":`."""
    if isinstance(test, code.Constant):
        return bool(test.value)
    if isinstance(test, code.Compare) and isinstance(value, Const):
        return bool(value.value)
    if isinstance(test, code.Compare) and len(test.ops) == 1 and test.ops[0] == "==":
        sides = (test.left, test.comparators[0])
        if any(isinstance(side, code.Name) and side.id == "__name__" for side in sides):
            return frame.module.is_main
    if isinstance(test, code.Name | code.Attribute) and dotted(test).rpartition(".")[2] == "TYPE_CHECKING":
        return True
    return None


def _branch(frame: Frame, block: code.Block, kinds: tuple[GuardKind, ...], test: code.Expression) -> Leaves:
    if not block:
        return Leaves.END
    exceptional, ends_from = _ends_loops(frame, block)
    return calls.under_guards(frame, kinds, test, lambda: run_block(frame, block), ends_from, exceptional)


def _ends_loops(frame: Frame, block: code.Block) -> tuple[bool, int | None]:
    """Whether a branch leaves the loops around it for good, and from which one on."""
    last = block[-1]
    inside = len(frame.where.loops) - frame.loop_base
    if isinstance(last, code.Raise) or (
        isinstance(last, code.Evaluate) and isinstance(last.value, code.Call) and _is_exit(last.value)
    ):
        return True, 0
    if isinstance(last, code.Leave) and last.what == "break" and inside:
        return True, len(frame.where.loops) - 1
    if isinstance(last, code.Return) and inside:
        return True, frame.loop_base
    return False, None


def _join_branches(frame: Frame, first: Leaves, body: dict[str, Value], second: Leaves) -> None:
    if first is not Leaves.END:
        return
    if second is not Leaves.END:
        frame.variables = body
        return
    orelse = frame.variables
    for name, value in body.items():
        if name in orelse:
            if orelse[name] is not value:
                orelse[name] = join(value, orelse[name])
        else:
            orelse[name] = value


def _guard_rest(
    frame: Frame, node: code.If, first: Leaves, positive: tuple[GuardKind, ...], negative: tuple[GuardKind, ...]
) -> None:
    """After `if …: continue`, the rest of the block runs under the other condition."""
    kinds = negative if first is not Leaves.END else positive
    depth = len(frame.where.loops)
    standing = tuple(Standing(kind, node.test, depth) for kind in kinds)
    frame.where = frame.where.guarded(*standing)


def _try(frame: Frame, node: code.Try) -> Leaves:
    held = frame.variables
    before = dict(held)
    leaves = run_block(frame, node.body)
    after = dict(frame.variables)
    joined = dict(after)
    for handler in node.handlers:
        _hold(frame, held, {**before, **after})
        if handler.name:
            frame.variables[handler.name] = OBJECT
        _exceptionally(frame, handler.body)
        for name, value in frame.variables.items():
            known = joined.get(name)
            own = isinstance(value, Function | Class | ModuleValue) and isinstance(known, Reference)
            if known is None or own or isinstance(known, Unknown):
                joined[name] = value
    _hold(frame, held, joined)
    if leaves is Leaves.END and node.orelse:
        leaves = run_block(frame, node.orelse)
    if node.final:
        run_block(frame, node.final)
    if leaves in (Leaves.FUNCTION, Leaves.TURN, Leaves.LOOP) and node.handlers:
        # what follows runs only where an exception kept the block from leaving
        frame.where = frame.where.guarded(Standing(GuardKind.EXCEPTIONAL, "except", len(frame.where.loops)))
    return leaves if leaves is Leaves.FUNCTION and not node.handlers else Leaves.END


def _exceptionally(frame: Frame, block: code.Block) -> None:
    outer = frame.where
    depth = len(outer.loops)
    frame.where = outer.guarded(Standing(GuardKind.EXCEPTIONAL, "except", depth))
    run_block(frame, block)
    frame.where = outer


def _match(frame: Frame, node: code.Match) -> Leaves:
    expressions.evaluate(frame, node.subject)
    held = frame.variables
    before = dict(held)
    joined = dict(before)
    for case in node.cases:
        _hold(frame, held, dict(before))
        for name in case.names:
            frame.variables[name] = UNKNOWN
        if case.guard is not None:
            expressions.evaluate(frame, case.guard)
        run_block(frame, case.body)
        for name, value in frame.variables.items():
            joined[name] = join(joined[name], value) if name in joined and name in before else value
    _hold(frame, held, joined)
    return Leaves.END


# ----------------------------------------------------------------------------------------------------------- loops


def _for(frame: Frame, node: code.For) -> Leaves:
    iterated = expressions.evaluate(frame, node.iterable)
    site = frame.site(node.at)
    generated, wrap = calls.generated_in(frame, iterated)
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
        calls.run_generated(frame, generated, consume)
    else:
        item = STRING if _goes_over_keys(node) else calls.item_of(frame, iterated)
        _loop(frame, node, site, iterated, item)
    run_block(frame, node.orelse)
    return Leaves.END


def _goes_over_keys(node: code.For) -> bool:
    """Whether a loop goes over the keys of a mapping, since its body asks for `mapping[key]`."""
    path = dotted(node.iterable)
    if not path or not isinstance(node.target, code.Name):
        return False
    return any(
        isinstance(item, code.Subscript) and dotted(item.value) == path and dotted(item.key) == node.target.id
        for item in code.walk(node.body)
    )


def _loop(frame: Frame, node: code.For, site: Site, iterated: Value, item: Value) -> None:
    repeats = _is_handful(node.iterable) and any(loop.over_data for loop in frame.where.loops)
    loop = _open(frame, site, iterated, repeats or _is_small(node.iterable, iterated), _counter_of(node))
    loader = calls.loader_in(iterated)
    if loader is not None and not frame.run.advancing:
        records.note_loop(frame, loop, loader, _loader_text(node.iterable))
    outer = frame.where
    frame.before_loops.append(frozenset(frame.variables))
    frame.where = replace(outer, loops=(*outer.loops, loop))
    try:
        _turn(frame, node, item)
    finally:
        frame.where = outer
        frame.before_loops.pop()


def _turn(frame: Frame, node: code.For, item: Value) -> None:
    """Two turns of a loop at most: the second sees what the first left behind."""
    entered = dict(frame.variables)
    calls.assign(frame, node.target, item)
    run_block(frame, node.body)
    if _join_turns(frame, entered) and _is_innermost(frame, node.body):
        calls.assign(frame, node.target, item)
        run_block(frame, node.body)
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


def _while(frame: Frame, node: code.While) -> Leaves:
    site = frame.site(node.at)
    # a `while` loop seldom goes over data: it tries again, generates, or waits
    evaluating, frame.evaluating = frame.evaluating, False
    loop = _open(frame, site, UNKNOWN, False, "")
    frame.evaluating = evaluating
    outer = frame.where
    frame.before_loops.append(frozenset(frame.variables))
    frame.where = replace(outer, loops=(*outer.loops, loop))
    try:
        for _ in range(2):
            entered = dict(frame.variables)
            test = expressions.evaluate(frame, node.test)
            tensors.branch_sync(frame, node.test, test)
            run_block(frame, node.body)
            if not _join_turns(frame, entered) or not _is_innermost(frame, node.body):
                break
    finally:
        frame.where = outer
        frame.before_loops.pop()
    run_block(frame, node.orelse)
    return Leaves.END


def _open(frame: Frame, site: Site, iterated: Value, small: bool, counter: str) -> LoopRun:
    where = frame.where
    key = (site, where.calls, tuple(id(loop) for loop in where.loops))
    loop = frame.run.loops.get(key)
    if loop is None:
        found = calls.loader_in(iterated)
        fact = found.fact if found is not None and isinstance(found.fact, Loader) else None
        loop = LoopRun(site, fact, small, where.loops[-1] if where.loops else None)
        loop.over_data = found is not None
        loop.in_evaluation = _evaluates(frame, found) or (frame.evaluating and found is None)
        loop.where = where
        if frame.run.advancing:
            loop.small, loop.over_data, loop.loader, loop.in_evaluation = True, False, None, False
        frame.run.loops[key] = loop
    loop.counter = counter or loop.counter
    return loop


def _evaluates(frame: Frame, loader: Object | None) -> bool:
    """Whether a loop's function or loader is named for evaluation."""
    name = frame.symbol.rpartition(".")[2]
    if naming.EVALUATION.search(name) and not naming.TRAINING.search(name):
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
            isinstance(iterated, Object) and iterated.type == "torch.utils.data.DataLoader"
        ):
            return True
        if name == "range":
            words = guards.identifiers(node)
            if any(naming.ACCUMULATION.search(word) for word in words):
                return True
        if name in ("zip", "enumerate"):
            return all(_is_small(argument.value, UNKNOWN) for argument in node.arguments) if node.arguments else False
    if (
        isinstance(iterated, Tuple)
        and iterated.items
        and all(isinstance(item, Object | Instance) for item in iterated.items)
    ):
        return not any(
            isinstance(item, Object) and item.type == "torch.utils.data.DataLoader" for item in iterated.items
        )
    return (
        isinstance(iterated, Listing)
        and isinstance(iterated.item, Object)
        and iterated.item.type in ("torch.optim.Optimizer", "torch.nn.Module")
    )


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


# ------------------------------------------------------------------------------------------------------------ with


def _with(frame: Frame, node: code.With) -> Leaves:
    outer = frame.where
    try:
        for item in node.items:
            value = expressions.evaluate(frame, item.value)
            frame.where = _entered(frame, item.value, value)
            if isinstance(value, Instance):
                value = _enter_instance(frame, value)
            if item.target is not None:
                calls.assign(frame, item.target, value)
        leaves = run_block(frame, node.body)
    finally:
        frame.where = outer
    return leaves


def _enter_instance(frame: Frame, value: Instance) -> Value:
    """Run `__enter__` and `__exit__` of a context manager of the project; both happen once a block."""
    result: Value = value
    for name in ("__enter__", "__exit__"):
        member = classes.find_member(value.cls, name)
        if isinstance(member, Function):
            found = calls.call_function(frame, member, calls.Given([value], complete=False), None)
            if name == "__enter__" and found != NONE:
                result = found
    return result


def _entered(frame: Frame, node: code.Expression, value: Value) -> Where:
    """The circumstances inside a `with` block."""
    where = frame.where
    if isinstance(value, Reference) and value.name in library.NO_GRADS:
        return replace(where, grad=GradMode.DISABLED)
    if not isinstance(value, Object):
        if (
            isinstance(node, code.Call)
            and isinstance(node.function, code.Attribute)
            and "main_process_first" not in node.function.name
            and naming.MAIN_PROCESS.search(node.function.name)
            and "first" not in node.function.name
        ):
            return replace(where, guards=(*where.guards, Standing(GuardKind.RANK, node, len(where.loops))))
        return where
    if value.type == "no_grad":
        return replace(where, grad=GradMode.DISABLED)
    if value.type == "enable_grad":
        # asked for in so many words: whoever writes that wants the gradients
        return replace(where, grad=GradMode.ENABLED, gradients_asked=True)
    if value.type == "maybe_grad":
        return replace(where, grad=GradMode.UNKNOWN)
    if value.type in ("no_sync", "accumulate"):
        return replace(where, no_sync=True)
    if value.type == "autocast":
        return replace(where, autocast=value.origin)
    return where


# ----------------------------------------------------------------------------------------------------- definitions


def _define(frame: Frame, node: code.Define) -> Leaves:
    qualname = f"{frame.symbol}.{node.name}" if frame.symbol else node.name
    decorators = tuple(expressions.evaluate(frame, decorator) for decorator in node.decorators)
    closure = None if frame.function is None and frame.enclosing is None else frame
    function = Function(frame.module, node, qualname, frame.row, closure, None, decorators)
    frame.module.defined[node.body] = function
    frame.bind(node.name, _wrapped(frame, function))
    return Leaves.END


def _wrapped(frame: Frame, function: Function) -> Function:
    """A function after the project's own decorators: what they return, if that is a function."""
    result = function
    for decorator in reversed(function.decorators):
        if isinstance(decorator, Function):
            made = calls.call(frame, decorator, calls.Given([result]), None)
            result = made if isinstance(made, Function) else result
    return result


def _define_class(frame: Frame, node: code.DefineClass) -> Leaves:
    qualname = f"{frame.symbol}.{node.name}" if frame.symbol else node.name
    bases = tuple(expressions.evaluate(frame, base.value) for base in node.bases if base.keyword is None)
    decorators = [expressions.evaluate(frame, decorator) for decorator in node.decorators]
    settings = any(is_reference(decorator, "dataclasses.dataclass") for decorator in decorators) or any(
        isinstance(decorator, code.Call) and dotted(decorator.function).endswith("dataclass")
        for decorator in node.decorators
    )
    cls = Class(frame.module, node, qualname, bases, row=frame.row)
    frame.module.classes[qualname] = cls
    body = Frame(
        frame.run,
        frame.module,
        frame.where,
        frame.row,
        qualname,
        cls.members,
        frame if frame.function is not None else None,
    )
    for member in node.members:
        body.row = frame.row + member.row
        statement = member.statement
        if isinstance(statement, code.Define):
            wrapped = tuple(expressions.evaluate(body, decorator) for decorator in statement.decorators)
            function = Function(
                frame.module,
                statement,
                f"{qualname}.{statement.name}",
                body.row,
                frame if frame.function is not None else None,
                cls,
                wrapped,
            )
            frame.module.defined[statement.body] = function
            if not any(
                isinstance(decorator, code.Attribute) and decorator.name == "setter"
                for decorator in statement.decorators
            ):
                cls.members[statement.name] = function
        else:
            run_block(body, (statement,))
            if settings and isinstance(statement, code.Assign) and isinstance(statement.targets[0], code.Name):
                _make_setting(cls, statement.targets[0].id)
    frame.bind(node.name, cls)
    return Leaves.END


def _make_setting(cls: Class, name: str) -> None:
    """A field of a dataclass has a default that whoever makes the object may change."""
    value = cls.members.get(name)
    if isinstance(value, Const):
        cls.members[name] = Option(name, value.value, True)


# --------------------------------------------------------------------------------------------------------- imports


def _is_library(name: str) -> bool:
    """Whether a module is a library that the analyzer knows; inside that library's own project it still is."""
    return name.partition(".")[0] in library.KNOWN_PACKAGES


def _import(frame: Frame, node: code.Import) -> Leaves:
    for alias in node.names:
        name = alias.name
        path = frame.run.map.locate(frame.module.path, name) if not _is_library(name) else None
        if path is not None and path in frame.run.facts:
            module = frame.run.module(path)
            touch(frame, module)
            if alias.bound is not None or "." not in name:
                frame.bind(alias.bound or name, ModuleValue(module))
            else:
                _bind_package(frame, name)
        elif not _is_library(name) and frame.run.map.resolve(frame.module.path, name, 0, ()):
            _bind_package(frame, name)
        else:
            bound = alias.bound or name.partition(".")[0]
            frame.bind(bound, Reference(library.canonical(name) if alias.bound else name.partition(".")[0]))
    return Leaves.END


def _bind_package(frame: Frame, name: str) -> None:
    """`import package.module` binds the package, from which the module is reached by attribute."""
    first = name.partition(".")[0]
    path = frame.run.map.locate(frame.module.path, first)
    if path is not None and path in frame.run.facts:
        package = frame.run.module(path)
        touch(frame, package)
        frame.bind(first, ModuleValue(package))
        _attach(frame, package, name)
        return
    namespace = _namespace(frame, first)
    frame.bind(first, ModuleValue(namespace))
    _attach(frame, namespace, name)


def _namespace(frame: Frame, name: str) -> ModuleState:
    """A folder without `__init__.py`, as a module with nothing of its own."""
    return ModuleState(frame.module.path, name, frame.module.facts, Units((), {}, (), ()), started=True, is_main=True)


def _attach(frame: Frame, package: ModuleState, name: str) -> None:
    """Make each module on the way of a dotted import an attribute of the one before."""
    parts = name.split(".")
    holder = package
    for end in range(2, len(parts) + 1):
        path = frame.run.map.locate(frame.module.path, ".".join(parts[:end]))
        if path is None or path not in frame.run.facts:
            following = _namespace(frame, parts[end - 1])
        else:
            following = frame.run.module(path)
            touch(frame, following)
        holder.variables.setdefault(parts[end - 1], ModuleValue(following))
        holder = following


def _import_from(frame: Frame, node: code.ImportFrom) -> Leaves:
    known = not node.level and _is_library(node.module)
    path = frame.run.map.locate(frame.module.path, node.module, node.level) if not known else None
    module = frame.run.module(path) if path is not None and path in frame.run.facts else None
    if module is not None:
        touch(frame, module)
    for alias in node.names:
        if alias.name == "*":
            _import_all(frame, module)
            continue
        frame.bind(alias.bound or alias.name, _imported(frame, node, module, alias.name))
    return Leaves.END


def _import_all(frame: Frame, module: ModuleState | None) -> None:
    """`from module import *`: names of an imported module are found as they are asked for, a main module's now."""
    if module is None or not frame.module.is_main:
        return
    for name in module.units.binders:
        if not name.startswith("_") and name not in frame.module.variables:
            value = frame.run.find_global(module, name)
            if value is not None:
                frame.bind(name, value)
    for star in module.units.stars:
        path = frame.run.map.locate(module.path, star.module, star.level)
        source = frame.run.module(path) if path is not None and path in frame.run.facts else None
        if source is not None and source is not module and (source.path, "*") not in frame.run.searching:
            frame.run.searching.add((source.path, "*"))
            _import_all(frame, source)


def _imported(frame: Frame, node: code.ImportFrom, module: ModuleState | None, name: str) -> Value:
    if module is not None:
        found = frame.run.find_global(module, name)
        if found is not None:
            return found
    whole = f"{node.module}.{name}" if node.module else name
    known = not node.level and _is_library(whole)
    path = frame.run.map.locate(frame.module.path, whole, node.level) if not known else None
    if path is not None and path in frame.run.facts:
        submodule = frame.run.module(path)
        touch(frame, submodule)
        return ModuleValue(submodule)
    if module is not None:
        return UNKNOWN
    if node.level:
        return UNKNOWN
    full = library.canonical(whole)
    return tensors.constant_reference(full) or Reference(full)


def touch(frame: Frame, module: ModuleState) -> None:
    """Import a module: what it does beyond binding its own names happens now, the rest as it is asked for."""
    if module.started:
        return
    module.started = True
    for index in module.units.effects:
        _run_unit(frame.run, module, index)


def run_units(run: Run, module: ModuleState, name: str) -> Value | None:
    """Run the statements of an imported module that bind `name`; None if nothing binds it."""
    for index in module.units.binders.get(name, ()):
        _run_unit(run, module, index)
    found = module.variables.get(name)
    if found is not None:
        return found
    for star in module.units.stars:
        path = run.map.locate(module.path, star.module, star.level)
        source = run.module(path) if path is not None and path in run.facts else None
        if source is not None and source is not module and (source.path, name) not in run.searching:
            run.searching.add((source.path, name))
            found = run.find_global(source, name)
            run.searching.discard((source.path, name))
            if found is not None:
                module.variables[name] = found
                return found
    return None


def run_module(run: Run, module: ModuleState) -> None:
    """Run the statements of a module from top to bottom, those left out that were run already."""
    for index in range(len(module.units.statements)):
        _run_unit(run, module, index)


def _run_unit(run: Run, module: ModuleState, index: int) -> None:
    if index in module.ran:
        return
    module.ran.add(index)
    where = Where(run.root(Role.PROGRAM), calls=((module.name, NOWHERE),), grad=module.grad)
    frame = Frame(run, module, where, module.facts.unit_rows[index], "", module.variables)
    frame.evaluating, frame.training = module.evaluating, module.training
    run_block(frame, (module.units.statements[index],))
    module.evaluating = frame.evaluating
    statement = module.units.statements[index]
    if isinstance(statement, code.Evaluate) and isinstance(statement.value, code.Call):
        module.grad = frame.last_grad or module.grad


def decode_units(facts: ModuleFacts) -> Units:
    """Decode the top-level statements of a file and index what they bind."""
    decoded = tuple([facts.unit(index) for index in range(len(facts.unit_rows))])
    binders: dict[str, list[int]] = {}
    stars: list[code.ImportFrom] = []
    effects: list[int] = []
    for index, statement in enumerate(decoded):
        for name in _names_bound(statement, stars):
            binders.setdefault(name, []).append(index)
        if not isinstance(
            statement, code.Define | code.DefineClass | code.Import | code.ImportFrom
        ) and _EFFECTS.search(facts.lines[index]):
            effects.append(index)
    return Units(decoded, {name: tuple(found) for name, found in binders.items()}, tuple(stars), tuple(effects))


_EFFECTS = re.compile(r'"(environ|putenv|set_detect_anomaly|basicConfig|setLevel|builtins|set_grad_enabled)"')


def _names_bound(node: Any, stars: list[code.ImportFrom]) -> set[str]:
    """The names that a top-level statement binds in its module."""
    found: set[str] = set()
    stack: list[Any] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, code.Define | code.DefineClass):
            found.add(item.name)
        elif isinstance(item, code.Import):
            found |= {alias.bound or alias.name.partition(".")[0] for alias in item.names}
        elif isinstance(item, code.ImportFrom):
            found |= {alias.bound or alias.name for alias in item.names}
            if any(alias.name == "*" for alias in item.names):
                stars.append(item)
        elif isinstance(item, code.Assign):
            for target in item.targets:
                found |= _target_names(target)
        elif isinstance(item, code.Augment | code.For):
            found |= _target_names(item.target)
            stack += [*item.body, *item.orelse] if isinstance(item, code.For) else []
        elif isinstance(item, code.WithItem):
            found |= _target_names(item.target) if item.target is not None else set()
        elif isinstance(item, code.Evaluate):
            found |= _mutated(item.value)
        elif isinstance(item, tuple) and not isinstance(item, code.Call | code.Name | code.Attribute | code.Constant):
            stack.extend(part for part in item if isinstance(part, tuple))
    return found


def _mutated(node: code.Expression) -> set[str]:
    """The name that a statement such as `parser.add_argument(…)` changes in place."""
    if isinstance(node, code.Call) and isinstance(node.function, code.Attribute):
        path = dotted(node.function.value)
        return {path} if path and "." not in path else set()
    return set()


def _target_names(target: code.Expression) -> set[str]:
    if isinstance(target, code.Name):
        return {target.id}
    if isinstance(target, code.Sequence):
        return set().union(*(_target_names(item) for item in target.items))
    if isinstance(target, code.Subscript | code.Attribute | code.Starred):
        return _target_names(target.value)
    return set()


_Handler = Callable[[Frame, Any], Leaves]
_STATEMENTS: list[_Handler] = [lambda frame, node: Leaves.END] * len(code.NODE_TYPES)
for _node_type, _handler in (
    (code.Evaluate, _evaluate),
    (code.Assign, _assign),
    (code.Augment, _augment),
    (code.Return, _return),
    (code.If, _if),
    (code.For, _for),
    (code.While, _while),
    (code.With, _with),
    (code.Try, _try),
    (code.Raise, _raise),
    (code.Assert, _assert),
    (code.Delete, _delete),
    (code.Leave, _leave),
    (code.Scope, _scope),
    (code.Import, _import),
    (code.ImportFrom, _import_from),
    (code.Define, _define),
    (code.DefineClass, _define_class),
    (code.Match, _match),
):
    _STATEMENTS[code.NODE_TYPES.index(_node_type)] = _handler
