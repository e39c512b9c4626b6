"""Conditions: `if`, `try` and `match`, and the guards that hold in their branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from trainlint.semantics import (
    accidents,
    accumulation,
    classification,
    code,
    expressions,
    flags,
    guards,
    library,
    naming,
    narrowing,
    presence,
    statements,
)
from trainlint.semantics.immutable import replace
from trainlint.semantics.state import Frame, Leaves, Role, Standing
from trainlint.semantics.text import called_name, dotted, identifiers, last_word
from trainlint.semantics.values import (
    OBJECT,
    UNKNOWN,
    Bound,
    Class,
    Const,
    Function,
    Host,
    ModuleValue,
    Option,
    Reference,
    Tensor,
    Test,
    Unknown,
    Value,
    join,
)
from trainlint.semantics.vocabulary import GuardKind

T = TypeVar("T")


def run_if(frame: Frame, node: code.If) -> Leaves:
    """Take the branch that the program text decides, or both, each under its guards, and join what they leave."""
    test = expressions.decide(frame, node.test)
    known = _known_test(frame, node.test, test)
    if known is not None:
        return statements.run_block(frame, node.body if known else node.orelse)
    left_out, else_left_out = presence.ruled_out(frame, node.test)
    kinds = _classify_if(frame, node, test, presence.switched_off(left_out, else_left_out))
    held = frame.variables
    before = dict(held)
    if_true, if_false = (narrowing.narrowed(frame, node.test, holds) for holds in (True, False))
    frame.variables.update(if_true)
    first = _branch(frame, node.body, kinds.positive, node.test)
    after_body = dict(frame.variables)
    _hold(frame, held, before)
    frame.variables.update(if_false)
    second = _branch(frame, node.orelse, kinds.negative, node.test)
    if first is Leaves.END and second is Leaves.END:
        if left_out != else_left_out and isinstance(node.test, code.Compare):
            # a default is filled in only where the call passed nothing: `if size is None: size = self.size`
            after_body = dict(frame.variables) if left_out else after_body
            _hold(frame, held, after_body)
        narrowing.forget(after_body, if_true, frame.variables, if_false, before)
    _release_graphs(node, after_body, frame.variables)
    _join_branches(frame, first, after_body, second, kinds)
    _hold(frame, held, frame.variables)
    if first is Leaves.END and second is Leaves.END:
        return Leaves.END
    if first is not Leaves.END and second is not Leaves.END:
        return first if first is not Leaves.PROGRAM else second
    _guard_rest(frame, node, kinds.negative if first is not Leaves.END else kinds.positive)
    return Leaves.END


def _classify_if(frame: Frame, node: code.If, value: Value, closed: Test) -> Test:
    """What the condition of an `if` is: by what it says, by what its branch does, and by which branches are `closed`
    in this call."""
    test = classification.classify_evaluated(frame, node.test, value)
    remembers = _remembers(frame, node)
    positive = (GuardKind.FIRST,) if remembers else test.positive or _told_by_branch(frame, node, value)
    test = Test(positive, test.negative).also(frame.run.nodes.once(accidents.classify, node.test))
    test = Test(_settled_by_updates(node, test.positive), test.negative).also(closed)
    if GuardKind.OFF not in closed.positive and _predicts_otherwise(frame, node):
        test = test.also(Test((), (GuardKind.EVALUATION,)))
    pauses = GuardKind.INTERVAL in test.positive and _pauses(node)
    return test.also(Test((GuardKind.PAUSE,))) if pauses else test


def _told_by_branch(frame: Frame, node: code.If, value: Value) -> tuple[GuardKind, ...]:
    """What a condition is whose words say nothing, by what its branch does and by what is known of its variables."""
    if _latches(frame, node):
        return (GuardKind.FIRST,)
    if flags.tells_interval(frame, node.test):
        return (GuardKind.INTERVAL,)
    kinds = _undecided(frame, node.test)
    if kinds:
        return kinds
    gives_up = frame.run.nodes.once(_skips_turn, node.body) or (
        _gives_up(node.body) and _asks_tensor(frame, node.test, value)
    )
    return (GuardKind.DATA,) if gives_up else ()


def _settled_by_updates(node: code.If, kinds: tuple[GuardKind, ...]) -> tuple[GuardKind, ...]:
    """The kinds of a condition, where its branch tells whether it accumulates: by what that updates."""
    if GuardKind.INTERVAL in kinds and accumulation.only_updates(node.body):
        return tuple(GuardKind.ACCUMULATION if kind is GuardKind.INTERVAL else kind for kind in kinds)
    if GuardKind.ACCUMULATION in kinds and accumulation.updates_something_else(node):
        return tuple(GuardKind.INTERVAL if kind is GuardKind.ACCUMULATION else kind for kind in kinds)
    return kinds


def _latches(frame: Frame, node: code.If) -> bool:
    """Whether a branch turns off its own condition, so that it is taken once: `if not warned: warned = True`."""
    tested = _lasting_names(frame, node.test)
    if not tested:
        return False
    assigned = frame.run.nodes.assigned(node.body)
    return not tested.isdisjoint(assigned) or not tested.isdisjoint(_assigned_by_calls(frame, node.body))


def _remembers(frame: Frame, node: code.If) -> bool:
    """Whether a branch enters what it found missing in a collection that lasts: `if key not in seen: seen[key] = …`, or
    `if made is None: …` where `made` is `seen.get(key)`."""
    looked_up = _looked_up(frame, node.test)
    if looked_up is None:
        return False
    collection, key = looked_up
    holder = collection
    while isinstance(holder, code.Subscript):
        holder = holder.value
    if not _lasting_names(frame, holder):
        return False
    nodes = frame.run.nodes
    missing = (nodes.text(collection), nodes.text(key))
    targets = (target for item in node.body if isinstance(item, code.Assign) for target in item.targets)
    entered = [target for target in targets if isinstance(target, code.Subscript)]
    if any((nodes.text(target.value), nodes.text(target.key)) == missing for target in entered):
        return True
    path = dotted(collection)
    return path.startswith("self.") and path in _entered_by_calls(frame, node.body)


def _looked_up(frame: Frame, test: code.Expression) -> tuple[code.Expression, code.Expression] | None:
    """The collection that a condition finds something missing in, and what; None for other conditions."""
    if isinstance(test, code.Compare) and test.ops == ("not in",):
        return test.comparators[0], test.left
    if isinstance(test, code.Boolean) and test.op == "or":
        # `made is None or made.device != device`: the rest asks what was found whether it still serves
        first, *others = test.values
        once = frame.run.nodes.once
        kept = once(_paths, first) - {"self"}
        still = all(isinstance(other, code.Compare) and not kept.isdisjoint(once(_paths, other)) for other in others)
        return _looked_up(frame, first) if still else None
    if isinstance(test, code.Unary) and test.op == "not":
        asked = test.operand
    elif isinstance(test, code.Compare) and test.ops == ("is",):
        asked = test.left
    else:
        return None
    function = frame.function
    if not isinstance(asked, code.Name) or function is None or not isinstance(function.define, code.Define):
        return None
    bound = frame.run.nodes.bindings(frame.run.body(function.module, function.define.body)).get(asked.id, ())
    for value in bound:
        if isinstance(value, code.Call) and called_name(value.function) == "get" and len(value.arguments) == 1:
            collection = code.receiver_of(value)
            return (collection, value.arguments[0].value) if collection is not None else None
    return None


def _paths(node: code.Expression) -> set[str]:
    """The dotted names in an expression, and what they start with."""
    return {dotted(item) for item in code.walk(node) if isinstance(item, code.Name | code.Attribute)}


def guard_renewal(frame: Frame, node: code.If, block: code.Block) -> None:
    """Where a block returns while what it keeps still serves, the rest of it, which makes that anew, seldom runs:
    `if self.mask is not None: return self.mask`, then `self.mask = …`; `if self.ready: return`, then
    `self.ready = True`."""
    rest = block[block.index(node) + 1 :]
    kept = _still_kept(node.test)
    made = bool(kept) and not kept.isdisjoint(frame.run.nodes.assigned(block))
    renewed = made and any(not kept.isdisjoint(_made_anew(statement)) for statement in rest)
    if renewed or _raises_flag(frame, node, rest):
        first = Standing(GuardKind.FIRST, node.test, len(frame.where.loops))
        frame.where = frame.where.guarded(first)


def _raises_flag(frame: Frame, node: code.If, rest: code.Block) -> bool:
    """Whether a block that gives up while a flag is up puts it up then, and does not take it down. Flags are
    attributes, globals and variables of the function around."""
    lasting = frame.globals | frame.nonlocals
    parts = node.test.values if isinstance(node.test, code.Boolean) and node.test.op == "or" else (node.test,)
    flags = {dotted(part) for part in parts if isinstance(part, code.Attribute)} - {""}
    flags |= {part.id for part in parts if isinstance(part, code.Name) and part.id in lasting}
    if not flags or not _gives_up(node.body):
        return False
    raised = False
    for statement in rest:
        if isinstance(statement, code.Assign) and not flags.isdisjoint(map(dotted, statement.targets)):
            raised = isinstance(statement.value, code.Constant) and statement.value.value is True
            if not raised:
                return False
        elif isinstance(statement, code.Evaluate) and isinstance(statement.value, code.Call):
            raised = raised or _written_in_place(statement.value) in flags
    return raised


def _written_in_place(node: code.Call) -> str:
    """The attribute that a call fills in place: `self.ready` in `self.ready.data.copy_(…)`; empty for other calls."""
    if not isinstance(node.function, code.Attribute) or node.function.name not in ("copy_", "fill_"):
        return ""
    holder = node.function.value
    data = isinstance(holder, code.Attribute) and holder.name == "data"
    return dotted(holder.value if isinstance(holder, code.Attribute) and data else holder)


def _still_kept(test: code.Expression) -> set[str]:
    """The attributes that a condition finds filled, or as they were made for what is asked for now."""
    if isinstance(test, code.Boolean):
        return set().union(*map(_still_kept, test.values)) if test.op == "and" else set()
    if isinstance(test, code.Compare) and len(test.ops) == 1:
        sides = (test.left, test.comparators[0])
        constant = any(isinstance(side, code.Constant) for side in sides)
        if (test.ops[0] == "is not" and constant) or (test.ops[0] == "==" and not constant):
            return {dotted(side) for side in sides if isinstance(side, code.Attribute)} - {""}
    return set()


def _made_anew(statement: code.Statement) -> set[str]:
    """What a statement assigns without asking for what it was before."""
    if not isinstance(statement, code.Assign) or statement.value is None:
        return set()
    before = {dotted(item) for item in code.walk(statement.value) if isinstance(item, code.Attribute)}
    return {dotted(target) for target in statement.targets} - before


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


def _entered_by_calls(frame: Frame, body: code.Block) -> set[str]:
    """The attributes of `self` of which methods that a block calls set an item."""
    found: set[str] = set()
    for item in frame.run.nodes.named_calls(body):
        if not dotted(item.function).startswith("self."):
            continue
        callee = expressions.evaluate(frame, item.function)
        define = callee.function.define if isinstance(callee, Bound) else None
        if isinstance(callee, Bound) and isinstance(define, code.Define):
            inside = code.walk(frame.run.body(callee.function.module, define.body))
            targets = (target for one in inside if isinstance(one, code.Assign) for target in one.targets)
            found |= {dotted(target.value) for target in targets if isinstance(target, code.Subscript)}
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


def _asks_tensor(frame: Frame, test: code.Expression, value: Value) -> bool:
    """Whether a condition, with its value, is decided by the values of a tensor."""
    if isinstance(test, code.Unary) and test.op == "not" and isinstance(test.operand, code.Call | code.Compare):
        test = test.operand
        value = expressions.evaluate(frame, test)
    if isinstance(test, code.Call) and isinstance(test.function, code.Attribute) and test.function.name in _TRUTHS:
        return True
    decides = isinstance(test, code.Call | code.Compare)
    return decides and isinstance(value, Tensor) and not value.container


_TRUTHS = frozenset({"any", "all", "isnan", "isinf", "isfinite", "equal", "allclose"})
"""Functions and methods that tell something of values, whatever holds these."""


def _gives_up(body: code.Block) -> bool:
    """Whether a branch returns before the function has done its work: `if not mask.any(): return zero`."""
    return bool(body) and isinstance(body[-1], code.Return)


def _skips_turn(body: code.Block) -> bool:
    """Whether a branch gives up on this turn of the loop: `if output is None: print("skipped"); continue`."""
    last = body[-1] if body else None
    if not (isinstance(last, code.Leave) and last.what == "continue"):
        return False
    return not any(isinstance(item, code.Attribute) and "backward" in item.name for item in code.walk(body))


def _predicts_otherwise(frame: Frame, node: code.If) -> bool:
    """Whether a forward asks for labels that it may be called without, and computes a loss where they are there: its
    other branch predicts, `if labels is not None: loss = … else: scores = scores.cpu()`."""
    define = frame.function.define if frame.function is not None else None
    test = node.test
    if not isinstance(define, code.Define) or define.name != "forward" or not node.orelse:
        return False
    if not isinstance(test, code.Compare) or test.ops != ("is not",) or not isinstance(test.left, code.Name):
        return False
    name = test.left.id
    other = test.comparators[0]
    may_be_left_out = any(
        one.name == name and isinstance(one.default, code.Constant) and one.default.value is None
        for one in define.parameters
    )
    return (
        may_be_left_out
        and isinstance(other, code.Constant)
        and other.value is None
        and naming.LABELS.search(name)
        and _computes_loss(frame, node.body)
        and not _computes_loss(frame, node.orelse)
    )


def _computes_loss(frame: Frame, block: code.Block) -> bool:
    return any(naming.LOSS.search(path.rpartition(".")[2]) for path in frame.run.nodes.assigned(block))


def _pauses(node: code.If) -> bool:
    """Whether a branch that is taken every so many steps evaluates the model or saves it, by what it asks and calls."""
    asked = identifiers(node.test)
    calls = (item for item in code.walk(node.body) if isinstance(item, code.Call))
    called = [last_word(item.function) for item in calls]
    return any(naming.EVALUATION.search(word) or naming.SAVES.search(word) for word in asked + called)


def _undecided(frame: Frame, test: code.Expression) -> tuple[GuardKind, ...]:
    """What a condition is that no name tells: one on values that the step computes, or a switch that is off."""
    if isinstance(test, code.Name | code.Attribute):
        value = expressions.evaluate(frame, test)
        if isinstance(test, code.Name) and _is_drained(frame, test):
            return (GuardKind.DATA,)
        return (GuardKind.OFF,) if value == Const(False) and _is_setting(frame, test) else ()
    if _asks_for_text(frame, test):
        return (GuardKind.DATA,)
    test = accidents.reduced(test)
    if isinstance(test, code.Compare) and (frame.where.loops or frame.where.root.role is not Role.PROGRAM):
        if any(operator in ("is", "is not") for operator in test.ops):
            return ()
        for item in code.walk(test):
            if isinstance(item, code.Name) and _computed_here(frame, item):
                return (GuardKind.DATA,)
    return ()


def _asks_for_text(frame: Frame, test: code.Expression) -> bool:
    """Whether a forward whose calls are not seen asks if it was given a text: training gives it tokens as well."""
    if not isinstance(test, code.Call) or dotted(test.function) != "isinstance" or len(test.arguments) != 2:
        return False
    tested, types = (argument.value for argument in test.arguments)
    unseen = frame.where.root.role is Role.FORWARD and isinstance(tested, code.Name | code.Subscript)
    return unseen and "str" in identifiers(types) and isinstance(expressions.evaluate(frame, tested), Unknown)


def _is_drained(frame: Frame, node: code.Name) -> bool:
    """Whether a variable holds what each turn of a loop fetches from somewhere that is often empty."""
    if not frame.open_loops:
        return False
    bound = frame.run.nodes.bindings(frame.open_loops[-1].body).get(node.id, ())
    return any(isinstance(one, code.Call) and naming.DRAINS.search(last_word(one.function)) for one in bound)


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


_PARAMETERS_OF_TEST = 4
"""As many as a helper such as `step_check(step, interval, run_at_zero=False)` takes."""


def _may_return_otherwise(body: code.Block) -> bool:
    """Whether a branch of a function may return anything but False."""
    branches = (statement for statement in body if not isinstance(statement, code.Return))
    returns = (item for branch in branches for item in code.walk(branch) if isinstance(item, code.Return))
    return not all(isinstance(item.value, code.Constant) and item.value.value is False for item in returns)


def guard_function(frame: Frame, function: Function) -> Value:
    """What a function of the project that returns a condition stands for, by what it returns: `is_main_process()`."""
    define = function.define
    if isinstance(define, code.Define) and len(function.define.parameters) <= _PARAMETERS_OF_TEST:
        if naming.MAIN_PROCESS.search(define.name):
            return Test((GuardKind.RANK,), text=define.name)
        body = frame.run.body(function.module, define.body)
        returns = [item for item in body if isinstance(item, code.Return)]
        if len(define.parameters) > 2 and frame.run.nodes.once(_may_return_otherwise, body):
            return UNKNOWN
        if len(body) <= 4 and len(returns) == 1 and returns[0].value is not None:
            home = Frame(frame.run, function.module, frame.where, function.row, function.qualname, {}, function.closure)
            test = guards.classify(
                returns[0].value,
                lambda node: expressions.evaluate_quietly(home, node) if isinstance(node, code.Name) else UNKNOWN,
                frame.run.nodes,
                frame.run.rank_names,
            )
            if test.has_kinds:
                return Test(test.positive, test.negative, define.name)
    return UNKNOWN


def _branch(frame: Frame, block: code.Block, kinds: tuple[GuardKind, ...], test: code.Expression) -> Leaves:
    if not block:
        return Leaves.END
    exceptional, ends_from = _ends_loops(frame, block)
    return under_guards(frame, kinds, test, lambda: statements.run_block(frame, block), ends_from, exceptional)


def under_guards(
    frame: Frame,
    kinds: tuple[GuardKind, ...],
    test: code.Expression,
    action: Callable[[], T],
    ends_from: int | None = None,
    exceptional: bool = False,
) -> T:
    """Do `action` under the guards of a condition."""
    where = frame.where
    depth = len(where.loops)
    standing = [Standing(kind, test, depth) for kind in kinds] or [Standing(GuardKind.FLAG, test, depth)]
    if exceptional:
        standing.append(Standing(GuardKind.EXCEPTIONAL, test, depth, ends_from))
    frame.where = where.guarded(*standing)
    try:
        return action()
    finally:
        frame.where = where


def _ends_loops(frame: Frame, block: code.Block) -> tuple[bool, int | None]:
    """Whether a branch leaves the loops around it for good, and from which one on."""
    last = block[-1]
    inside = len(frame.where.loops) - frame.loop_base
    if isinstance(last, code.Raise) or (
        isinstance(last, code.Evaluate) and isinstance(last.value, code.Call) and is_exit(last.value)
    ):
        return True, 0
    if isinstance(last, code.Leave) and last.what == "break" and inside:
        return True, len(frame.where.loops) - 1
    if isinstance(last, code.Return) and inside:
        return True, frame.loop_base
    return False, None


def _join_branches(
    frame: Frame,
    first: Leaves,
    body: dict[str, Value],
    second: Leaves,
    test: Test,
) -> None:
    """Leave in the frame what either branch leaves; a branch for tracing leaves only what the other does not bind."""
    if first is not Leaves.END:
        return
    if second is not Leaves.END:
        frame.variables = body
        return
    orelse = frame.variables
    for name, value in body.items():
        held = orelse.get(name)
        if held is None or GuardKind.EXCEPTIONAL in test.negative:
            orelse[name] = value
        elif held is not value and GuardKind.EXCEPTIONAL not in test.positive:
            orelse[name] = join(value, held)


def _release_graphs(node: code.If, body: dict[str, Value], orelse: dict[str, Value]) -> None:
    """Where the branch that runs the backward pass of a loss detaches it then, the other branch leaves the pass to
    whoever is given the loss: no graph is left behind by either."""
    for name, after in body.items():
        other = orelse.get(name)
        if not isinstance(after, Tensor) or not isinstance(other, Tensor):
            continue
        if other.keeps_graph and not after.keeps_graph and _runs_backward(node.body, name):
            orelse[name] = replace(other, keeps_graph=False)


def _runs_backward(block: code.Block, name: str) -> bool:
    calls = (item.function for item in code.walk(block) if isinstance(item, code.Call))
    return any(isinstance(function, code.Attribute) and dotted(function) == f"{name}.backward" for function in calls)


def _guard_rest(frame: Frame, node: code.If, kinds: tuple[GuardKind, ...]) -> None:
    """After `if …: continue`, the rest of the block runs under the other condition."""
    depth = len(frame.where.loops)
    standing = tuple(Standing(kind, node.test, depth) for kind in kinds)
    frame.where = frame.where.guarded(*standing)


def run_try(frame: Frame, node: code.Try) -> Leaves:
    """Run the block, then each handler as the exception that it is, and join what they leave."""
    held = frame.variables
    before = dict(held)
    leaves = statements.run_block(frame, node.body)
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
        leaves = statements.run_block(frame, node.orelse)
    if node.final:
        statements.run_block(frame, node.final)
    if leaves in (Leaves.FUNCTION, Leaves.TURN, Leaves.LOOP) and node.handlers:
        # what follows runs only where an exception kept the block from leaving
        frame.where = frame.where.guarded(Standing(GuardKind.EXCEPTIONAL, "except", len(frame.where.loops)))
    return leaves if leaves is Leaves.FUNCTION and not node.handlers else Leaves.END


def _exceptionally(frame: Frame, block: code.Block) -> None:
    outer = frame.where
    depth = len(outer.loops)
    frame.where = outer.guarded(Standing(GuardKind.EXCEPTIONAL, "except", depth))
    statements.run_block(frame, block)
    frame.where = outer


def run_match(frame: Frame, node: code.Match) -> Leaves:
    """Run each case from the same start, and join what they leave."""
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
        statements.run_block(frame, case.body)
        for name, value in frame.variables.items():
            joined[name] = join(joined[name], value) if name in joined and name in before else value
    _hold(frame, held, joined)
    return Leaves.END


def is_exit(node: code.Call) -> bool:
    """Whether a call ends the program: `sys.exit()`."""
    return dotted(node.function) in library.EXITS
