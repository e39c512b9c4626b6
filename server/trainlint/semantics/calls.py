"""Calls: of functions and classes of the project, which are followed, and of libraries, whose effect is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainlint.semantics import (
    classes,
    code,
    configurations,
    construction,
    expressions,
    functions,
    library,
    loaders,
    methods,
    models,
    naming,
    object_types,
    packages,
    records,
    steps,
    tensors,
    transforms,
    unknown,
)
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import SyncKind
from trainlint.semantics.state import Frame
from trainlint.semantics.text import last_word
from trainlint.semantics.values import (
    NONE,
    UNKNOWN,
    Bound,
    Choice,
    Class,
    Function,
    Host,
    Instance,
    Method,
    Object,
    Option,
    Partial,
    Reference,
    Table,
    Tensor,
    Test,
    Tuple,
    Unknown,
    Value,
    join,
    join_all,
)
from trainlint.semantics.vocabulary import GradMode, GuardKind, Place


def evaluate_call(frame: Frame, node: code.Call) -> Value:
    """The result of a call as it is written."""
    callee = expressions.callee_of(frame, node.function)
    given = gather(frame, node.arguments)
    if isinstance(callee, Reference) and callee.name == "super":
        return _super(frame)
    taught = frame.run.options.sync_functions
    if taught and last_word(node.function) in taught:
        tensors.sync(frame, SyncKind.READ, node, Tensor(Place.DEVICE, proved=False), None)
    result = call(frame, callee, given, node)
    if isinstance(result, Unknown | Host | Option) and _asks_if_due(last_word(node.function)):
        return Test((GuardKind.INTERVAL,), (), last_word(node.function))
    return result


def _asks_if_due(word: str) -> bool:
    """Whether a function by its name answers whether it is time for something: `should_validate`."""
    return naming.ASKS_IF_DUE.search(word) and naming.SHOULD.search(word)


def gather(frame: Frame, arguments: tuple[code.Argument, ...]) -> Given:
    """Evaluate the arguments of a call."""
    given = Given([], nodes=arguments)
    alone, frame.standing_alone = frame.standing_alone, -1
    for argument in arguments:
        value = expressions.evaluate(frame, argument.value)
        if argument.star == "*":
            given.spread = True
            if isinstance(value, Tuple):
                given.positional.extend(value.items)
            else:
                given.complete = False
        elif argument.star == "**":
            given.spread = True
            _spread_keywords(frame, given, value)
        elif argument.keyword is not None:
            given.keywords[argument.keyword] = value
        else:
            given.positional.append(value)
    frame.standing_alone = alone
    return given


def _spread_keywords(frame: Frame, given: Given, value: Value) -> None:
    for option in value.options if isinstance(value, Choice) else (value,):
        if isinstance(option, Table):
            given.unsure |= option.unsure
            for name, held in option.items:
                item = configurations.current(frame, held)
                given.keywords[name] = join(given.keywords[name], item) if name in given.keywords else item
            if option.rest is not None or (option.file and not configurations.is_as_read(frame, option)):
                given.complete = False
        elif option != NONE:
            given.complete = False


def call(frame: Frame, callee: Value, given: Given, node: code.Call | None) -> Value:
    """The result of calling `callee`."""
    caller = _CALLERS.get(type(callee))
    if caller is None:
        return unknown.call(frame, callee, given, node)
    return caller(frame, callee, given, node)


def _call_choice(frame: Frame, callee: Choice, given: Given, node: code.Call | None) -> Value:
    one_of = [option for option in callee.options if option != NONE]
    makers = [option for option in one_of if _makes_module(option)]
    if makers and not any(tensors.tensors_in(value) for value in given.all()):
        # where a model or what makes one is called with no tensor, one is made
        one_of = makers
    if len(one_of) < 2:
        return join_all(call(frame, option, given, node) for option in one_of)
    outer, frame.choosing = frame.choosing, node.at if node is not None else -1
    result = join_all(call(frame, transforms.one_of(option), given, node) for option in one_of)
    frame.choosing = outer
    return result


def _makes_module(callee: Value) -> bool:
    """Whether a call makes a model, rather than running one."""
    made = callee.function if isinstance(callee, Partial) else callee
    if isinstance(made, Class):
        return classes.is_module_class(made)
    return isinstance(made, Reference) and library.is_module_class(made.name)


def _call_bound(frame: Frame, callee: Bound, given: Given, node: code.Call | None) -> Value:
    receiver = callee.receiver
    if frame.where.loops and isinstance(receiver, Instance) and frame.function is not callee.function:
        loaders.note_dataset_change(frame, receiver)
    if (
        isinstance(receiver, Instance)
        and classes.is_tokenizer(receiver.cls)
        and isinstance(callee.function.define, code.Define)
    ):
        name = callee.function.define.name
        if name in library.ENCODING_METHODS and frame.function is not None and frame.function.owner is not receiver.cls:
            records.record_tokenization(frame, "bpe", name, given, node, receiver.cls.qualname)
    is_step = callee.function.qualname.endswith(".step") and frame.function is not callee.function
    if is_step and isinstance(receiver, Instance) and classes.is_optimizer(receiver):
        steps.mark_update(frame, node)
    return functions.call_function(
        frame, callee.function, replace(given, positional=[receiver, *given.positional]), node
    )


def _call_partial(frame: Frame, callee: Partial, given: Given, node: code.Call | None) -> Value:
    keywords = dict(callee.keywords) | given.keywords
    return call(
        frame,
        callee.function,
        replace(given, positional=[*callee.arguments, *given.positional], keywords=keywords),
        node,
    )


def _call_instance(frame: Frame, callee: Instance, given: Given, node: code.Call | None) -> Value:
    if classes.is_module(callee):
        return models.call_module(frame, callee, given, node)
    member = classes.find_member(callee.cls, "__call__")
    if isinstance(member, Function):
        if classes.is_tokenizer(callee.cls):
            records.record_tokenization(frame, "bpe", "__call__", given, node, callee.cls.qualname)
        return functions.call_function(frame, member, replace(given, positional=[callee, *given.positional]), node)
    return unknown.call(frame, callee, given, node)


def _call_object(frame: Frame, callee: Object, given: Given, node: code.Call | None) -> Value:
    return methods.call_object(frame, callee, given, node)


def _call_tensor(frame: Frame, callee: Tensor, given: Given, node: code.Call | None) -> Value:
    """Something that was moved to a device and is called: a model whose code is not known."""
    return tensors.call_module_value(frame, callee.place, callee.proved, given.all())


def _call_method(frame: Frame, callee: Method, given: Given, node: code.Call | None) -> Value:
    if isinstance(callee.receiver, Function) and callee.name in ("remote", "apply", "submit"):
        return functions.call_function(frame, callee.receiver, given, node)
    if isinstance(callee.receiver, Class) and callee.name in (
        "from_pretrained",
        "from_config",
        "load_from_checkpoint",
        "create",
        "build",
    ):
        return construction.instantiate(frame, callee.receiver, replace(given, positional=[], complete=False), node)
    if isinstance(callee.receiver, Class) and callee.name == "apply":
        forward = classes.find_member(callee.receiver, "forward")
        if isinstance(forward, Function):
            return _call_autograd_function(frame, forward, given, node)
    return methods.call_method(frame, callee.receiver, callee.name, given, node)


def _call_autograd_function(frame: Frame, forward: Function, given: Given, node: code.Call | None) -> Value:
    """`Function.apply`: autograd is off in its forward, and gives the result a graph that its backward goes through."""
    where = frame.where
    frame.where = replace(where, grad=GradMode.DISABLED)
    try:
        result = functions.call_function(frame, forward, replace(given, positional=[UNKNOWN, *given.positional]), node)
    finally:
        frame.where = where
    return replace(result, keeps_graph=where.grad is not GradMode.DISABLED) if isinstance(result, Tensor) else result


def _super(frame: Frame) -> Value:
    function = frame.function
    outer: Frame | None = frame
    while outer is not None and (function is None or function.owner is None):
        outer = outer.enclosing
        function = outer.function if outer is not None else None
    if function is None or function.owner is None:
        return UNKNOWN
    receiver = next(iter(frame.variables.values()), UNKNOWN) if function is frame.function else UNKNOWN
    return Object(
        object_types.SUPER, inner=receiver if isinstance(receiver, Instance) else None, origin=function.owner.qualname
    )


def super_member(frame: Frame, receiver: Instance, name: str) -> Value:
    """`super().name`, looked up behind the class that holds the running method."""
    function = frame.function
    owner = function.owner if function is not None else None
    for base in owner.bases if owner is not None else ():
        if isinstance(base, Class):
            member = classes.find_member(base, name)
            if isinstance(member, Function):
                return classes.bind(member, receiver)
    return Method(Object(object_types.SUPER, inner=receiver), name) if name == "__init__" else Method(receiver, name)


_CALLERS: dict[type, Callable[[Frame, Any, Given, code.Call | None], Value]] = {
    Choice: _call_choice,
    Function: lambda frame, callee, given, node: functions.call_function(frame, callee, given, node),
    Bound: _call_bound,
    Class: lambda frame, callee, given, node: construction.instantiate(frame, callee, given, node),
    Instance: _call_instance,
    Partial: _call_partial,
    Reference: lambda frame, callee, given, node: packages.call_reference(frame, callee.name, given, node),
    Object: _call_object,
    Tensor: _call_tensor,
    Method: _call_method,
}
