"""Functions of the project: calls are followed into their bodies."""

from __future__ import annotations

from collections.abc import Callable

from trainlint.semantics import code, expressions, library, naming, object_types, parameters, statements
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.state import AHEAD, DEEPEST_CALL, NOWHERE, Entered, Frame, Standing, Where
from trainlint.semantics.values import (
    NONE,
    UNKNOWN,
    Bound,
    Function,
    Generated,
    Instance,
    Method,
    Object,
    Partial,
    Reference,
    Tensor,
    Test,
    Unknown,
    Value,
    is_reference,
    join_all,
    options,
)
from trainlint.semantics.vocabulary import GradMode, GuardKind, Place


def call_function(frame: Frame, function: Function, given: Given, node: code.Call | None) -> Value:
    """Follow a call of a function of the project; returns what it returns."""
    run = frame.run
    define = function.define
    if given.positional and isinstance(given.positional[0], Instance) and given.positional[0].construct is not None:
        given.positional[0].settle()
    bound = parameters.bind_arguments(frame, function, given)
    if isinstance(define, code.Define) and define.is_generator and not _is_context_manager(function):
        run.reached.add((function.module.path, define.body))
        return Generated(function, tuple(bound.items()))
    if isinstance(define, code.Define):
        run.reached.add((function.module.path, define.body))
    where = _enter(frame, function, node)
    signature = (id(define), id(function.closure), tuple(bound.items()), where.autocast)
    if any(isinstance(decorator, Function | Unknown) for decorator in function.decorators):
        run.note_possible_wait()
    if signature in run.quiet:
        run.note_remembered_call(signature)
        return run.quiet[signature]
    key = (*signature, *_memo_key(where))
    if key in run.memo:
        run.note_remembered_call(key)
        return run.memo[key]
    if any(item is define for item in run.open_calls) or len(run.open_calls) >= DEEPEST_CALL or run.exhausted:
        run.note_wait()
        return UNKNOWN
    repeated = _walked_enough(frame, function, where)
    if repeated is not None:
        run.note_wait()
        return repeated
    inner = _frame_for(frame, function, bound, where)
    inner.called_at = node.at if node is not None else None
    inner.called_by = node
    effects, entered, waits = run.effects, len(run.open_calls), run.waits + run.reads
    run.open_calls.append(define)
    try:
        if isinstance(define, code.Lambda):
            result = expressions.evaluate(inner, define.body)
        else:
            statements.run_block(inner, run.body(function.module, define.body))
            returned = inner.returned or inner.returned_in_tracing
            result = join_all(returned) if returned else NONE
            if _is_context_manager(function):
                result = _managed(inner)
    finally:
        run.open_calls.pop()
    run.memo[key] = result
    run.waiting_calls[key] = run.waiting_calls[signature] = run.waits + run.reads > waits
    run.results[id(define)] = result
    if run.effects == effects and entered < DEEPEST_CALL - 1 and not where.guards[len(frame.where.guards) :]:
        run.quiet[signature] = result
    return result


def _managed(inner: Frame) -> Value:
    """What a context manager of the project stands for: the circumstances at its `yield`."""
    inside = inner.yield_where
    if inside is not None and inside.grad is GradMode.DISABLED:
        return Object(object_types.NO_GRAD)
    if inside is not None and inside.no_sync:
        return Object(object_types.NO_SYNC)
    return join_all(inner.yielded) if inner.yielded else NONE


def run_generated(frame: Frame, generated: Generated, on_yield: Callable[[Value], None]) -> None:
    """Run a generator's body; each value it yields goes to `on_yield`, in the circumstances of the yield."""
    function = generated.function
    define = function.define
    run = frame.run
    if (
        not isinstance(define, code.Define)
        or any(item is define for item in run.open_calls)
        or len(run.open_calls) >= DEEPEST_CALL
    ):
        return
    inner = _frame_for(frame, function, dict(generated.arguments), _enter(frame, function, None))
    if run.advancing:
        ahead = Standing(GuardKind.FIRST, AHEAD, len(inner.where.loops))
        inner.where = replace(inner.where, guards=(*inner.where.among_items(), ahead))
    outer = frame.where

    def pass_on(value: Value) -> None:
        frame.where = replace(inner.where, calls=outer.calls)
        try:
            on_yield(value)
        finally:
            frame.where = outer

    inner.yields = pass_on
    run.open_calls.append(define)
    try:
        statements.run_block(inner, run.body(function.module, define.body))
    finally:
        run.open_calls.pop()


def _is_context_manager(function: Function) -> bool:
    return any(
        is_reference(decorator, "contextlib.contextmanager", "contextlib.asynccontextmanager")
        for decorator in function.decorators
    )


def _enter(frame: Frame, function: Function, node: code.Call | None) -> Where:
    where = frame.where
    called_at = (frame.row, node.at) if node is not None else NOWHERE
    grad = where.grad
    compiled = where.compiled
    added: list[Standing] = []
    for decorator in function.decorators:
        if is_reference(decorator, *library.NO_GRADS) or (
            isinstance(decorator, Object) and decorator.type == object_types.NO_GRAD
        ):
            grad = GradMode.DISABLED
        elif is_reference(decorator, "functools.lru_cache", "functools.cache") or (
            isinstance(decorator, Object) and decorator.type == object_types.CACHE
        ):
            added.append(Standing(GuardKind.FIRST, "a cached function", len(where.loops)))
        elif _leaves_one_rank(decorator):
            added.append(Standing(GuardKind.RANK, _name_of(decorator), len(where.loops)))
        if is_reference(decorator, "torch.compile") or (
            isinstance(decorator, Object) and decorator.origin == "torch.compile"
        ):
            compiled = True
        elif is_reference(decorator, *_UNTRACED):
            compiled = False
    name = f"{function.module.name}.{function.qualname}"
    calls = (*where.calls, Entered(name, called_at))
    return replace(where, grad=grad, guards=where.guards + tuple(added), calls=calls, compiled=compiled)


_UNTRACED = ("torch.compiler.disable", "torch._dynamo.disable", "torch._dynamo.decorators.disable")
"""Decorators that keep a function out of what `torch.compile` traces."""


def _leaves_one_rank(decorator: Value) -> bool:
    """Whether a decorator runs its function on one rank only, by what it is called."""
    if isinstance(decorator, Test):
        return GuardKind.RANK in decorator.positive
    return bool(naming.MAIN_PROCESS.search(_name_of(decorator)))


def _name_of(value: Value) -> str:
    if isinstance(value, Object):
        return value.origin
    if isinstance(value, Reference | Method):
        return value.name
    return value.qualname if isinstance(value, Function) else value.text if isinstance(value, Test) else ""


def _frame_for(frame: Frame, function: Function, bound: dict[str, Value], where: Where) -> Frame:
    define = function.define
    symbol = function.qualname
    inner = Frame(
        run=frame.run,
        module=function.module,
        where=where,
        row=function.row,
        symbol=symbol,
        variables=bound,
        enclosing=function.closure,
        caller=frame,
        evaluating=frame.evaluating,
        evaluating_from=frame.evaluating_from,
        function=function,
        loop_base=len(where.loops),
        guard_base=len(where.guards),
    )
    if isinstance(define, code.Define):
        inner.backpropagated = frame.run.backpropagated(inner.module, define.body)
        for name in frame.run.nodes.on_host(frame.run.body(function.module, define.body)) & bound.keys():
            value = bound[name]
            if isinstance(value, Tensor | Unknown):
                known = value if isinstance(value, Tensor) else Tensor(Place.HOST, proved=False)
                bound[name] = replace(known, place=Place.HOST)
    return inner


_LARGE = 1_200
"""Length of a lowered body, in characters of JSON (about ten lines of code), from which walking it again is dear."""


_MOST_WALKS, _MOST_EVALUATION_WALKS = 6, 2
"""How often a large function is walked for one entry point, and for its evaluation code: other arguments, loops and
conditions seldom tell more."""


def _walked_enough(frame: Frame, function: Function, where: Where) -> Value | None:
    """The latest result of a large function that was walked in this loop as often as it pays; None to walk it."""
    define, run = function.define, frame.run
    if not isinstance(define, code.Define):
        return None
    if len(run.body_text(function.module, define.body)) < _LARGE:
        return None
    evaluates = where.grad is GradMode.DISABLED or any(loop.in_evaluation for loop in where.loops)
    key = (id(define), evaluates)
    count = run.walked.get(key, 0)
    run.walked[key] = count + 1
    return run.results.get(id(define)) if count >= (_MOST_EVALUATION_WALKS if evaluates else _MOST_WALKS) else None


def _memo_key(where: Where) -> tuple[object, ...]:
    return (
        tuple([id(loop) for loop in where.loops]),
        where.guard_key(),
        where.grad,
        where.root,
        where.no_sync,
        where.compiled,
    )


def call_unbound(
    frame: Frame, function: Function, *, receiver: Value | None = None, known: dict[str, Value] | None = None
) -> Value:
    """Call a function whose arguments are not known, as a root or a callback."""
    given = Given([] if receiver is None else [receiver], dict(known or {}), complete=False)
    result = call_function(frame, function, given, None)
    if isinstance(result, Generated):
        values: list[Value] = []
        run_generated(frame, result, values.append)
        return join_all(values)
    return result


def run_callbacks(frame: Frame, given: Given) -> None:
    """Functions handed to code that is not known are called by it, as far as anyone can tell at this frequency."""
    for value in given.all():
        for option in options(value):
            callback = option.function if isinstance(option, Partial) else option
            if isinstance(callback, Function) and isinstance(callback.define, code.Define):
                call_unbound(frame, callback)
            elif isinstance(callback, Bound):
                call_unbound(frame, callback.function, receiver=callback.receiver)


def decorated(decorator: Object, function: Value) -> Value:
    """A function with one decorator more; anything else as it is."""
    if isinstance(function, Function):
        return Function(
            function.module,
            function.define,
            function.qualname,
            function.row,
            function.closure,
            function.owner,
            (*function.decorators, decorator),
        )
    return function
