"""Interpretation of statements: what is bound, which loops and conditions surround what runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainlint.semantics import (
    assignment,
    calls,
    classes,
    classification,
    clocks,
    code,
    command_line,
    conditions,
    expressions,
    functions,
    ignite,
    iteration,
    library,
    loops,
    module_runs,
    naming,
    object_types,
    records,
    tensors,
)
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import Loader
from trainlint.semantics.state import Frame, Leaves, Standing, Where
from trainlint.semantics.text import dotted
from trainlint.semantics.values import (
    NONE,
    UNKNOWN,
    Class,
    Const,
    Function,
    Host,
    Instance,
    Listing,
    Object,
    Option,
    Reference,
    Tensor,
    Unknown,
    Value,
    join,
)
from trainlint.semantics.vocabulary import GradMode, GuardKind


def run_block(frame: Frame, block: code.Block) -> Leaves:
    """Interpret statements in order; guards from early exits hold to the end of the block."""
    outer, run = frame.where, frame.run
    try:
        for statement in block:
            if not run.count_statement():
                return Leaves.END
            handler = _STATEMENTS[statement.tag]
            returned = len(frame.returned)
            leaves = handler(frame, statement)
            if leaves is not Leaves.END:
                return leaves
            if len(frame.returned) > returned and statement.__class__ is code.If:
                conditions.guard_renewal(frame, statement, block)
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
        return Leaves.PROGRAM if conditions.is_exit(value) else Leaves.END
    expressions.evaluate(frame, value)
    return Leaves.END


def _assign(frame: Frame, node: code.Assign) -> Leaves:
    if node.value is None:
        return Leaves.END
    frame.rebinding = _bound_paths(node.targets)
    value = expressions.evaluate(frame, node.value)
    frame.rebinding = _NO_PATHS
    if isinstance(node.value, code.Call):
        records.note_concatenation(frame, node)
    for target in node.targets:
        if isinstance(value, Tensor):
            _note_growth(frame, node, target, value)
        assignment.assign(frame, target, value)
        if isinstance(value, Object):
            _name_fact(target, value)
        elif isinstance(value, Tensor) and value.created and isinstance(target, code.Name):
            made = frame.made_by(node.value)
            if made is not None:
                frame.factory_names[target.id] = made
        if isinstance(target, code.Attribute):
            _note_switch(frame, target.name, node.value)
    return Leaves.END


def _note_switch(frame: Frame, name: str, value: code.Expression) -> None:
    """Attributes that switch something for the whole program by being set."""
    if name in ("require_backward_grad_sync", "require_backward_sync"):
        frame.run.entry.disables_sync = True
    elif name == "disabled":
        # `logger.disabled = rank != 0` keeps the other ranks quiet
        test = classification.classify(frame, value)
        if GuardKind.RANK in test.positive + test.negative:
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
    if isinstance(added, Tensor) or isinstance(old, Tensor):
        clocks.note_work(frame, code.Binary(f"{node.op}=", node.target, node.value, node.at), added, old)
    if isinstance(added, Tensor):
        if node.op == "+":
            whole = code.Binary("+=", node.target, node.value, node.at)
            records.note_kept_graph(frame, whole, node.target, node.value, added)
        value: Value = tensors.combine(added, old)
    elif isinstance(old, Tensor):
        value = tensors.combine(old, added)
    elif isinstance(old, Listing):
        value = join(old, Listing(iteration.item_of(frame, added), growing=True))
    elif isinstance(old, Unknown):
        value = UNKNOWN
    else:
        text = isinstance(old, Const) and isinstance(old.value, str)
        value = Host("string") if text else expressions.computed_number(frame, node.op, old, added)
    _count_turn(frame, node)
    assignment.assign(frame, node.target, value)
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
    value = expressions.evaluate_optional(frame, node.value)
    (frame.returned_in_tracing if frame.is_traced else frame.returned).append(value)
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
    expressions.decide(frame, node.test)
    return Leaves.END


def _delete(frame: Frame, node: code.Delete) -> Leaves:
    for target in node.targets:
        if isinstance(target, code.Name):
            frame.variables.pop(target.id, None)
        elif isinstance(target, code.Subscript):
            key = expressions.evaluate(frame, target.key)
            assignment.forget_item(frame, target.value, expressions.evaluate(frame, target.value), key)
    return Leaves.END


def _leave(frame: Frame, node: code.Leave) -> Leaves:
    if node.what == "break" and len(frame.where.loops) > frame.loop_base:
        frame.where.loops[-1].ends_early = True
    return Leaves.TURN if node.what == "continue" else Leaves.LOOP


def _scope(frame: Frame, node: code.Scope) -> Leaves:
    (frame.globals if node.what == "global" else frame.nonlocals).update(node.names)
    return Leaves.END


# ------------------------------------------------------------------------------------------------------------ with


def _with(frame: Frame, node: code.With) -> Leaves:
    outer, may_wait = frame.where, False
    try:
        for item in node.items:
            value = expressions.evaluate(frame, item.value)
            entered = _entered(frame, item.value, value)
            may_wait = may_wait or not (isinstance(value, Object) and value.type in _ENDS_WITHOUT_WAITING)
            frame.where = replace(entered, managers=(*entered.managers, frame.site(item.value.at)))
            if isinstance(value, Instance):
                value = _enter_instance(frame, value)
            if item.target is not None:
                assignment.assign(frame, item.target, value)
        leaves = run_block(frame, node.body)
    finally:
        frame.where = outer
    if may_wait:
        frame.run.note_possible_wait()
    return leaves


_ENDS_WITHOUT_WAITING = frozenset(
    {
        *(object_types.NO_GRAD, object_types.ENABLE_GRAD, object_types.MAYBE_GRAD, object_types.NO_SYNC),
        *(object_types.AUTOCAST, object_types.PROGRESS),
    }
)
"""Context managers at whose end nothing waits for the device."""


def _enter_instance(frame: Frame, value: Instance) -> Value:
    """Run `__enter__` and `__exit__` of a context manager of the project; both happen once a block."""
    result: Value = value
    for name in ("__enter__", "__exit__"):
        member = classes.find_member(value.cls, name)
        if isinstance(member, Function):
            found = functions.call_function(frame, member, Given([value], complete=False), None)
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
            and naming.MAIN_PROCESS.search(node.function.name)
            and not naming.ORDERS_RANKS.search(node.function.name)
        ):
            return replace(where, guards=(*where.guards, Standing(GuardKind.RANK, node, len(where.loops))))
        return where
    if value.type == object_types.NO_GRAD:
        return replace(where, grad=GradMode.DISABLED)
    if value.type == object_types.ENABLE_GRAD:
        # asked for in so many words: whoever writes that wants the gradients
        return replace(where, grad=GradMode.ENABLED, gradients_asked=True)
    if value.type == object_types.MAYBE_GRAD:
        return replace(where, grad=GradMode.UNKNOWN)
    if value.type in (object_types.NO_SYNC, object_types.ACCUMULATE):
        return replace(where, no_sync=True)
    if value.type == object_types.AUTOCAST:
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
    for decorator in decorators:
        if isinstance(decorator, Object) and decorator.type == object_types.SUBSCRIPTION:
            ignite.subscribe(frame, decorator, function)
    return Leaves.END


def _wrapped(frame: Frame, function: Function) -> Function:
    """A function after the project's own decorators: what they return, if that is a function."""
    result = function
    for decorator in reversed(function.decorators):
        if isinstance(decorator, Function):
            made = calls.call(frame, decorator, Given([result]), None)
            result = made if isinstance(made, Function) else result
    return result


def _define_class(frame: Frame, node: code.DefineClass) -> Leaves:
    qualname = f"{frame.symbol}.{node.name}" if frame.symbol else node.name
    bases = tuple(_base(frame, base.value) for base in node.bases if base.keyword is None)
    decorators = [expressions.evaluate(frame, decorator) for decorator in node.decorators]
    settings = command_line.is_settings_class(decorators, bases) or any(
        isinstance(decorator, code.Call) and dotted(decorator.function).endswith(("dataclass", "define"))
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
                _make_setting(frame, cls, statement.targets[0].id)
    frame.bind(node.name, cls)
    return Leaves.END


def _base(frame: Frame, node: code.Expression) -> Value:
    """What a class derives from; types that a generic class is given, as in `Dataset[Sample]`, make no other class."""
    generic = expressions.evaluate(frame, node.value) if isinstance(node, code.Subscript) else UNKNOWN
    return generic if isinstance(generic, Class | Reference) else expressions.evaluate(frame, node)


def _make_setting(frame: Frame, cls: Class, name: str) -> None:
    """A field of a dataclass has a default that whoever makes the object may change."""
    value = cls.members.get(name)
    if isinstance(value, Const):
        cls.members[name] = command_line.option_of(frame, name, value)
    elif isinstance(value, Option):
        cls.members[name] = replace(value, name=name)


_Handler = Callable[[Frame, Any], Leaves]
_STATEMENTS: list[_Handler] = [lambda frame, node: Leaves.END] * len(code.NODE_TYPES)
for _node_type, _handler in (
    (code.Evaluate, _evaluate),
    (code.Assign, _assign),
    (code.Augment, _augment),
    (code.Return, _return),
    (code.If, lambda frame, node: conditions.run_if(frame, node)),
    (code.For, lambda frame, node: loops.run_for(frame, node)),
    (code.While, lambda frame, node: loops.run_while(frame, node)),
    (code.With, _with),
    (code.Try, lambda frame, node: conditions.run_try(frame, node)),
    (code.Raise, _raise),
    (code.Assert, _assert),
    (code.Delete, _delete),
    (code.Leave, _leave),
    (code.Scope, _scope),
    (code.Import, lambda frame, node: module_runs.run_import(frame, node)),
    (code.ImportFrom, lambda frame, node: module_runs.run_import_from(frame, node)),
    (code.Define, _define),
    (code.DefineClass, _define_class),
    (code.Match, lambda frame, node: conditions.run_match(frame, node)),
):
    _STATEMENTS[code.NODE_TYPES.index(_node_type)] = _handler
