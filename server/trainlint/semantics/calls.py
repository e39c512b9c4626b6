"""Calls: of functions and classes of the project, which are followed, and of libraries, whose effect is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trainlint.semantics import (
    classes,
    code,
    expressions,
    guards,
    library,
    methods,
    naming,
    packages,
    statements,
    tensors,
)
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import Arguments, EvaluationForward, Site, SyncKind
from trainlint.semantics.state import (
    DEEPEST_CALL,
    MOST_STATEMENTS,
    NOWHERE,
    Frame,
    ModuleState,
    Role,
    Standing,
    Where,
)
from trainlint.semantics.text import dotted
from trainlint.semantics.values import (
    NONE,
    NUMBER,
    STRING,
    UNKNOWN,
    Bound,
    Choice,
    Class,
    Const,
    Function,
    Generated,
    Host,
    Instance,
    Listing,
    Method,
    ModuleValue,
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
    is_reference,
    join,
)
from trainlint.semantics.vocabulary import GradMode, GuardKind, Place

SETTINGS_METHODS = {
    "get",
    "pop",
    "items",
    "keys",
    "values",
    "update",
    "copy",
    "setdefault",
    "to_dict",
    "add_argument",
    "parse_args",
    "step",
    "zero_grad",
    "state_dict",
    "load_state_dict",
    "print",
}
T = TypeVar("T")


@dataclass(slots=True)
class Given:
    """The evaluated arguments of a call."""

    positional: list[Value]
    keywords: dict[str, Value] = field(default_factory=dict)
    complete: bool = True
    spread: bool = False
    nodes: tuple[code.Argument, ...] = ()

    def arguments(self, name: str = "") -> Arguments:
        """As records keep them: positional ones by parameter name where the callee is known."""
        named = dict(self.keywords)
        for parameter, value in zip(library.PARAMETERS.get(name, ()), self.positional, strict=False):
            named.setdefault(parameter, value)
        return Arguments(named, tuple(self.positional), self.complete, self.spread)

    def get(self, name: str, position: int) -> Value | None:
        """The argument for a parameter, by its name or its position; None where the call leaves it out."""
        if name in self.keywords:
            return self.keywords[name]
        return self.positional[position] if position < len(self.positional) else None

    def all(self) -> list[Value]:
        """The values of all arguments, in the order of the call."""
        return [*self.positional, *self.keywords.values()]


def join_all(values: Iterable[Value]) -> Value:
    """What a value may be that is any of several; UNKNOWN for none."""
    result: Value | None = None
    for value in values:
        result = value if result is None else join(result, value)
    return UNKNOWN if result is None else result


def evaluate_call(frame: Frame, node: code.Call) -> Value:
    """The result of a call as it is written."""
    callee = expressions.callee_of(frame, node.function)
    given = gather(frame, node.arguments)
    if isinstance(callee, Reference) and callee.name == "super":
        return _super(frame)
    taught = frame.run.options.sync_functions
    if taught and guards.last_word(node.function) in taught:
        tensors.sync(frame, SyncKind.READ, node, Tensor(Place.DEVICE, proved=False), None)
    return call(frame, callee, given, node)


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
            _spread_keywords(given, value)
        elif argument.keyword is not None:
            given.keywords[argument.keyword] = value
        else:
            given.positional.append(value)
    frame.standing_alone = alone
    return given


def _spread_keywords(given: Given, value: Value) -> None:
    for option in value.options if isinstance(value, Choice) else (value,):
        if isinstance(option, Table):
            for name, item in option.items:
                given.keywords[name] = join(given.keywords[name], item) if name in given.keywords else item
            if option.rest is not None:
                given.complete = False
        elif option != NONE:
            given.complete = False


def call(frame: Frame, callee: Value, given: Given, node: code.Call | None) -> Value:
    """The result of calling `callee`."""
    caller = _CALLERS.get(type(callee))
    if caller is None:
        return packages.call_unknown(frame, callee, given, node)
    return caller(frame, callee, given, node)


def _call_choice(frame: Frame, callee: Choice, given: Given, node: code.Call | None) -> Value:
    return join_all(call(frame, option, given, node) for option in callee.options if option != NONE)


def _call_bound(frame: Frame, callee: Bound, given: Given, node: code.Call | None) -> Value:
    receiver = callee.receiver
    if frame.where.loops and isinstance(receiver, Instance) and frame.function is not callee.function:
        note_change(frame, receiver)
    if (
        isinstance(receiver, Instance)
        and classes.is_tokenizer(receiver.cls)
        and isinstance(callee.function.define, code.Define)
    ):
        name = callee.function.define.name
        if name in library.ENCODING_METHODS and frame.function is not None and frame.function.owner is not receiver.cls:
            methods.record_tokenization(frame, "bpe", name, given, node, receiver.cls.qualname)
    steps = callee.function.qualname.endswith(".step") and frame.function is not callee.function
    if steps and isinstance(receiver, Instance) and classes.is_optimizer(receiver):
        mark_update(frame, node)
    return call_function(frame, callee.function, replace(given, positional=[receiver, *given.positional]), node)


def note_change(frame: Frame, instance: Instance) -> None:
    """A dataset whose method is called in a loop, or whose attribute is set there, changes between epochs."""
    owner = frame.function.owner if frame.function is not None else None
    if owner is not instance.cls and classes.is_dataset_class(instance.cls):
        frame.run.changed_datasets.add(id(instance))


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
        return call_module(frame, callee, given, node)
    member = classes.find_member(callee.cls, "__call__")
    if isinstance(member, Function):
        if classes.is_tokenizer(callee.cls):
            methods.record_tokenization(frame, "bpe", "__call__", given, node, callee.cls.qualname)
        return call_function(frame, member, replace(given, positional=[callee, *given.positional]), node)
    return packages.call_unknown(frame, callee, given, node)


def _call_object(frame: Frame, callee: Object, given: Given, node: code.Call | None) -> Value:
    return methods.call_object(frame, callee, given, node)


def _call_tensor(frame: Frame, callee: Tensor, given: Given, node: code.Call | None) -> Value:
    """Something that was moved to a device and is called: a model whose code is not known."""
    return tensors.call_module_value(frame, callee.place, callee.proved, given.all())


def _call_method(frame: Frame, callee: Method, given: Given, node: code.Call | None) -> Value:
    if isinstance(callee.receiver, Function) and callee.name in ("remote", "apply", "submit"):
        return call_function(frame, callee.receiver, given, node)
    if isinstance(callee.receiver, Class) and callee.name in (
        "from_pretrained",
        "from_config",
        "load_from_checkpoint",
        "create",
        "build",
    ):
        return instantiate(frame, callee.receiver, replace(given, positional=[], complete=False), node)
    if isinstance(callee.receiver, Class) and callee.name == "apply":
        forward = classes.find_member(callee.receiver, "forward")
        if isinstance(forward, Function):
            return call_function(frame, forward, replace(given, positional=[UNKNOWN, *given.positional]), node)
    return methods.call_method(frame, callee.receiver, callee.name, given, node)


# ------------------------------------------------------------------------------------------------------- functions


def call_function(frame: Frame, function: Function, given: Given, node: code.Call | None) -> Value:
    """Follow a call of a function of the project; returns what it returns."""
    run = frame.run
    define = function.define
    if given.positional and isinstance(given.positional[0], Instance) and given.positional[0].construct is not None:
        given.positional[0].settle()
    bound = bind_arguments(frame, function, given)
    if isinstance(define, code.Define) and define.is_generator and not _is_context_manager(function):
        run.reached.add((function.module.path, define.body))
        return Generated(function, tuple(bound.items()))
    if isinstance(define, code.Define):
        run.reached.add((function.module.path, define.body))
    where = _enter(frame, function, node)
    signature = (id(define), id(function.closure), tuple(bound.items()))
    if signature in run.quiet:
        return run.quiet[signature]
    key = (*signature, *_memo_key(where))
    if key in run.memo:
        return run.memo[key]
    if any(item is define for item in run.open_calls) or len(run.open_calls) >= DEEPEST_CALL or run.exhausted:
        return UNKNOWN
    repeated = _walked_enough(frame, function, where)
    if repeated is not None:
        return repeated
    inner = _frame_for(frame, function, bound, where)
    inner.called_at = node.at if node is not None else None
    effects, entered = run.effects, len(run.open_calls)
    run.open_calls.append(define)
    try:
        if isinstance(define, code.Lambda):
            result = expressions.evaluate(inner, define.body)
        else:
            statements.run_block(inner, run.body(function.module, define.body))
            result = join_all(inner.returned) if inner.returned else NONE
            if _is_context_manager(function):
                result = _managed(inner)
    finally:
        run.open_calls.pop()
    run.memo[key] = result
    run.results[id(define)] = result
    if run.effects == effects and entered < DEEPEST_CALL - 1 and not where.guards[len(frame.where.guards) :]:
        run.quiet[signature] = result
    return result


def _managed(inner: Frame) -> Value:
    """What a context manager of the project stands for: the circumstances at its `yield`."""
    inside = inner.yield_where
    if inside is not None and inside.grad is GradMode.DISABLED:
        return Object("no_grad")
    if inside is not None and inside.no_sync:
        return Object("no_sync")
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
    added: list[Standing] = []
    for decorator in function.decorators:
        if is_reference(decorator, *library.NO_GRADS) or (
            isinstance(decorator, Object) and decorator.type == "no_grad"
        ):
            grad = GradMode.DISABLED
        elif is_reference(decorator, "functools.lru_cache", "functools.cache") or (
            isinstance(decorator, Object) and decorator.type == "cache"
        ):
            added.append(Standing(GuardKind.FIRST, "a cached function", len(where.loops)))
        elif isinstance(decorator, Reference | Function) and naming.MAIN_PROCESS.search(_name_of(decorator)):
            added.append(Standing(GuardKind.RANK, _name_of(decorator), len(where.loops)))
    name = f"{function.module.name}.{function.qualname}"
    return replace(where, grad=grad, guards=where.guards + tuple(added), calls=(*where.calls, (name, called_at)))


def _name_of(value: Reference | Function) -> str:
    return value.name if isinstance(value, Reference) else value.qualname


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
        function=function,
        loop_base=len(where.loops),
    )
    if isinstance(define, code.Define):
        inner.backpropagated = frame.run.backpropagated(inner.module, define.body)
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
    facts = function.module.facts
    if len(facts.lines[len(facts.unit_rows) + define.body]) < _LARGE:
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
    )


def bind_arguments(frame: Frame, function: Function, given: Given) -> dict[str, Value]:
    """Parameters of a function of the project with the values that a call passes."""
    define = function.define
    bound: dict[str, Value] = {}
    positional = list(given.positional)
    keywords = dict(given.keywords)
    for parameter in define.parameters:
        if parameter.kind == "*":
            bound[parameter.name] = Tuple(tuple(positional)) if given.complete else UNKNOWN
            positional = []
        elif parameter.kind == "**":
            bound[parameter.name] = Table(tuple(keywords.items()), None if given.complete else UNKNOWN)
        elif parameter.kind == "positional" and positional:
            bound[parameter.name] = positional.pop(0)
        elif parameter.name in keywords:
            bound[parameter.name] = keywords.pop(parameter.name)
        elif parameter.default is not None and given.complete:
            bound[parameter.name] = _default(frame, function, parameter)
        else:
            bound[parameter.name] = UNKNOWN
        if isinstance(bound[parameter.name], Unknown) and parameter.annotation is not None:
            bound[parameter.name] = packages.annotated(frame, function, parameter.annotation)
        elif isinstance(bound[parameter.name], Tensor) and parameter.annotation is not None:
            bound[parameter.name] = packages.strings_by(parameter.annotation) or bound[parameter.name]
        value = bound[parameter.name]
        if isinstance(value, Const) and isinstance(value.value, str) and value.value not in _TELLING:
            bound[parameter.name] = STRING
    return bound


_TELLING = frozenset(
    [
        "cuda",
        "cpu",
        "mps",
        "xpu",
        "cuda:0",
        "auto",
        "max_length",
        "longest",
        "gloo",
        "nccl",
        "mpi",
        "train",
        "val",
        "valid",
        "validation",
        "test",
        "eval",
        "training",
        "bf16",
        "fp16",
        "bfloat16",
        "float16",
        "no_sync",
        "model",
        "optimizer",
        "scheduler",
    ]
)
"""Strings whose exact value a function may pass on to where a rule asks for it; every other one is just a string, so
that calls that differ in nothing else count as one."""


def _default(frame: Frame, function: Function, parameter: code.Parameter) -> Value:
    """A default is evaluated where the function was defined."""
    home = Frame(frame.run, function.module, frame.where, function.row, function.qualname, {}, function.closure)
    assert parameter.default is not None
    if isinstance(parameter.default, code.Constant):
        return Const(parameter.default.value)
    return expressions.evaluate(home, parameter.default)


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


def guard_function(frame: Frame, function: Function) -> Value:
    """What a function of the project that returns a condition stands for, by what it returns: `is_main_process()`."""
    define = function.define
    if isinstance(define, code.Define) and len(function.define.parameters) <= 2:
        if naming.MAIN_PROCESS.search(define.name):
            return Test((GuardKind.RANK,), (), define.name)
        body = frame.run.body(function.module, define.body)
        returns = [item for item in body if isinstance(item, code.Return)]
        if len(body) <= 4 and len(returns) == 1 and returns[0].value is not None:
            home = Frame(frame.run, function.module, frame.where, function.row, function.qualname, {}, function.closure)
            positive, negative = guards.classify(
                returns[0].value,
                lambda node: expressions.evaluate_quietly(home, node) if isinstance(node, code.Name) else UNKNOWN,
            )
            if positive or negative:
                return Test(positive, negative, define.name)
    return UNKNOWN


# --------------------------------------------------------------------------------------------------------- classes


def instantiate(frame: Frame, cls: Class, given: Given, node: code.Call | None) -> Value:
    """Make an object of a class of the project; one stands for all that are made at one place."""
    names = classes.library_bases(cls)
    if names & library.DATA_LOADERS:
        return _own_loader(frame, cls, given, node)
    key = (id(cls), frame.site(node.at) if node is not None else None)
    instance = frame.run.instances.get(key)
    if instance is None:
        instance = frame.run.instances[key] = Instance(cls)
        if classes.is_module_class(cls):
            instance.place = Place.HOST
    elif classes.is_module_class(cls):
        return instance
    constructor = classes.find_member(cls, "__init__")
    if isinstance(constructor, Function):
        whole = replace(given, positional=[instance, *given.positional])
        if classes.is_module_class(cls) and library.LIGHTNING_MODULE not in names:
            instance.construct = _constructor(frame, constructor, whole, node)
        else:
            call_function(frame, constructor, whole, node)
    else:
        _fill_fields(cls, instance, given)
    packages.after_instantiation(frame, instance, names, given, node)
    return instance


def _own_loader(frame: Frame, cls: Class, given: Given, node: code.Call | None) -> Value:
    """A subclass of DataLoader: what its constructor passes to `super().__init__`, or else what it is given."""
    constructor = classes.find_member(cls, "__init__")
    if not isinstance(constructor, Function):
        return packages.make_loader(frame, given, node, "torch.utils.data.DataLoader")
    instance = Instance(cls)
    frame.run.passed_up.pop(id(instance), None)
    call_function(frame, constructor, replace(given, positional=[instance, *given.positional]), node)
    passed = frame.run.passed_up.pop(id(instance), None)
    return packages.make_loader(frame, passed or given, node, "torch.utils.data.DataLoader", exact=passed is not None)


def _constructor(frame: Frame, constructor: Function, given: Given, node: code.Call | None) -> Callable[[], None]:
    where = frame.where

    def construct() -> None:
        outer, frame.where = frame.where, where
        try:
            call_function(frame, constructor, given, node)
        finally:
            frame.where = outer

    return construct


def _fill_fields(cls: Class, instance: Instance, given: Given) -> None:
    """Dataclasses and named tuples: fields in order of their annotation."""
    fields = [
        member.statement.targets[0]
        for member in cls.define.members
        if isinstance(member.statement, code.Assign) and member.statement.annotation is not None
    ]
    for target, value in zip(fields, given.positional, strict=False):
        if isinstance(target, code.Name):
            instance.attributes[target.id] = value
    instance.attributes.update(given.keywords)


def _super(frame: Frame) -> Value:
    function = frame.function
    outer: Frame | None = frame
    while outer is not None and (function is None or function.owner is None):
        outer = outer.enclosing
        function = outer.function if outer is not None else None
    if function is None or function.owner is None:
        return UNKNOWN
    receiver = next(iter(frame.variables.values()), UNKNOWN) if function is frame.function else UNKNOWN
    return Object("super", inner=receiver if isinstance(receiver, Instance) else None, origin=function.owner.qualname)


def super_member(frame: Frame, receiver: Instance, name: str) -> Value:
    """`super().name`, looked up behind the class that holds the running method."""
    function = frame.function
    owner = function.owner if function is not None else None
    for base in owner.bases if owner is not None else ():
        if isinstance(base, Class):
            member = classes.find_member(base, name)
            if isinstance(member, Function):
                return classes.bind(member, receiver)
    return Method(Object("super", inner=receiver), name) if name == "__init__" else Method(receiver, name)


def member_of_module(frame: Frame, module: ModuleState, name: str) -> Value:
    """A global of another module of the project, or a submodule."""
    statements.touch(frame, module)
    found = frame.run.find_global(module, name)
    if found is not None:
        return found
    path = frame.run.map.locate(module.path, f"{name}", 1) if module.path.name == "__init__.py" else None
    if path is not None and path in frame.run.facts:
        return ModuleValue(frame.run.module(path))
    return UNKNOWN


# --------------------------------------------------------------------------------------------------------- modules


def call_module(frame: Frame, module: Instance, given: Given, node: code.Call | None) -> Value:
    """Run a model of the project's own: its forward, in the circumstances of the call."""
    record_forward(frame, module, node)
    forward = classes.find_member(module.cls, "forward")
    values = given.all()
    if not isinstance(forward, Function) or not _worth_following(frame, module):
        number = naming.LOSS.search(module.cls.define.name.lower())
        return tensors.call_module_value(frame, Place.UNKNOWN if number else module.place, True, values, number=number)
    result = call_function(frame, forward, replace(given, positional=[module, *given.positional]), node)
    return placed(frame, result, module.place, values)


def _worth_following(frame: Frame, module: Instance) -> bool:
    """Whether a model's forward may hold anything to report; without gradients, nothing in it is training code."""
    if frame.where.grad is GradMode.DISABLED:
        return False
    known = frame.run.interest
    return any(known.of_class(cls.module.path, cls.define.name) for cls in classes.lineage(module.cls))


def placed(frame: Frame, result: Value, place: Place, values: list[Value]) -> Value:
    """A model's output, where its forward alone does not tell where it lives."""
    if isinstance(result, Unknown | Object) or result == NONE:
        return tensors.call_module_value(frame, place, True, values)
    if isinstance(result, Tensor):
        graph = frame.where.grad is not GradMode.DISABLED
        outside = tensors.call_module_value(frame, place, True, values)
        if result.place is not Place.DEVICE and outside.place is Place.DEVICE:
            result = replace(result, place=Place.DEVICE, proved=outside.proved)
        return replace(result, keeps_graph=graph, loader=None)
    if isinstance(result, Tuple):
        return Tuple(
            tuple(placed(frame, item, place, values) if not isinstance(item, Const) else item for item in result.items)
        )
    if isinstance(result, Table):
        return replace(
            result,
            items=tuple(
                (name, placed(frame, item, place, values) if isinstance(item, Tensor | Unknown) else item)
                for name, item in result.items
            ),
        )
    return result


def record_forward(frame: Frame, model: Value, node: code.Call | None) -> None:
    """Keep a model's call: it matters if it turns out to stand in an evaluation loop."""
    if node is None or frame.where.grad is GradMode.DISABLED or frame.where.gradients_asked:
        return
    if frame.where.root.role is Role.FORWARD:
        return
    if (
        frame.function is not None
        and frame.function.owner is not None
        and classes.is_module_class(frame.function.owner)
    ):
        # a layer inside of a model: the call of the model is the one that matters
        return
    if isinstance(model, Object) and (model.origin == "criterion" or library.has_no_parameters(model.origin)):
        return
    frame.run.record(
        EvaluationForward,
        frame,
        "forward",
        site=frame.site(node.at),
        text=node,
        model=model,
        frozen_inputs=isinstance(model, Object | Instance) and model.frozen,
        only_evaluates=_only_evaluates(frame),
    )


def _only_evaluates(frame: Frame) -> bool:
    function = frame.function
    if function is None or not isinstance(function.define, code.Define):
        return False
    mentions = function.module.facts.functions[function.define.body].mentions
    return "backward" not in mentions and "step" not in mentions


# ------------------------------------------------------------------------------------------------------ iteration


def item_of(frame: Frame, value: Value) -> Value:
    """What one turn of a loop over `value` gets."""
    run = frame.run
    if run.unwrapping >= _DEEPEST_WRAPPING:
        return UNKNOWN
    run.unwrapping += 1
    try:
        return _item_of(frame, value)
    finally:
        run.unwrapping -= 1


_DEEPEST_WRAPPING = 12
"""Iterators around iterators are looked through this deep; one that returns itself has no end."""


def _item_of(frame: Frame, value: Value) -> Value:
    if isinstance(value, Object):
        return methods.item_of_object(frame, value)
    if isinstance(value, Listing):
        return value.item
    if isinstance(value, Tuple):
        return join_all(value.items) if value.items else UNKNOWN
    if isinstance(value, Table):
        return STRING
    if isinstance(value, Tensor):
        return replace(value, container=False)
    if isinstance(value, Choice):
        return join_all(item_of(frame, option) for option in value.options if option != NONE)
    if isinstance(value, Host):
        return value if value.kind in ("array", "string") else NUMBER
    if isinstance(value, Const):
        return STRING
    if isinstance(value, Generated):
        return _item_of_generated(frame, value)
    if isinstance(value, Instance):
        return _item_of_instance(frame, value)
    if isinstance(value, Option):
        return Option(value.name)
    return UNKNOWN


def _item_of_generated(frame: Frame, value: Generated) -> Value:
    """One item of a generator that is advanced by hand: its loops turn with the loop that advances it."""
    run = frame.run
    known = run.generated_items.get(value)
    if known is not None:
        return known
    run.generated_items[value] = UNKNOWN
    values: list[Value] = []
    run.advancing += 1
    try:
        run_generated(frame, value, values.append)
    finally:
        run.advancing -= 1
    found = run.generated_items[value] = join_all(values)
    loader = next((tensor.loader for tensor in tensors.tensors_in(found) if tensor.loader is not None), None)
    if loader is not None:
        # whoever writes a generator without end starts the loader anew in it
        run.hand_iterated.append((loader, replace(frame.where, loops=()), True))
    return found


def _item_of_instance(frame: Frame, value: Instance) -> Value:
    iterator = classes.find_member(value.cls, "__iter__")
    if isinstance(iterator, Function):
        result = call_function(frame, iterator, Given([value]), None)
        if result is not value:
            return item_of(frame, result)
    following = classes.find_member(value.cls, "__next__")
    if isinstance(following, Function):
        return call_function(frame, following, Given([value]), None)
    getter = classes.find_member(value.cls, "__getitem__")
    if isinstance(getter, Function):
        return call_function(frame, getter, Given([value, NUMBER]), None)
    return UNKNOWN


def generated_in(frame: Frame, value: Value, depth: int = 0) -> tuple[Generated | None, Callable[[Value], Value]]:
    """The generator that a loop over `value` runs, seen through `enumerate` and progress bars, with what each of its
    values becomes for the loop's target."""
    if isinstance(value, Generated):
        return value, _as_it_is
    if depth > 6:
        return None, _as_it_is
    if isinstance(value, Object) and value.inner is not None:
        if value.type == "enumerate":
            generated, wrap = generated_in(frame, value.inner, depth + 1)
            return generated, lambda item: Tuple((NUMBER, wrap(item)))
        if value.type in ("iterator", "tqdm"):
            return generated_in(frame, value.inner, depth + 1)
    if isinstance(value, Instance):
        iterator = classes.find_member(value.cls, "__iter__")
        if isinstance(iterator, Function):
            result = call_function(frame, iterator, Given([value]), None)
            if result is not value:
                return generated_in(frame, result, depth + 1)
    return None, _as_it_is


def _as_it_is(item: Value) -> Value:
    return item


def loader_in(value: Value, depth: int = 0) -> Object | None:
    """The loader that a loop over `value` draws from, if any."""
    if depth > 6:
        return None
    if isinstance(value, Object):
        if value.type == "torch.utils.data.DataLoader":
            return value
        return (
            loader_in(value.inner, depth + 1)
            if value.inner is not None and value.type in ("enumerate", "iterator", "tqdm", "zip", "prepared")
            else None
        )
    if isinstance(value, Tuple | Choice):
        for item in value.items if isinstance(value, Tuple) else value.options:
            found = loader_in(item, depth + 1)
            if found is not None:
                return found
    if isinstance(value, Instance):
        for name, item in value.attributes.items():
            if "loader" in name or "dl" in name or "iter" in name:
                found = loader_in(item, depth + 1)
                if found is not None:
                    return found
    return None


# ------------------------------------------------------------------------------------------------------ assignment


def assign(frame: Frame, target: code.Expression, value: Value) -> None:
    """Bind `value` to a target: a name, an attribute, an item, or a pattern of these."""
    if isinstance(target, code.Name):
        frame.bind(target.id, value)
    elif isinstance(target, code.Sequence):
        _assign_items(frame, target.items, value)
    elif isinstance(target, code.Attribute):
        base = expressions.evaluate(frame, target.value)
        assign_attribute(frame, base, target.name, value)
    elif isinstance(target, code.Subscript):
        _assign_item(frame, target, value)
    elif isinstance(target, code.Starred):
        assign(frame, target.value, Listing(value))


def _assign_items(frame: Frame, targets: tuple[code.Expression, ...], value: Value) -> None:
    if isinstance(value, Choice):
        spread = [option for option in value.options if isinstance(option, Tuple) and len(option.items) == len(targets)]
        value = join_all(spread) if len(spread) == len(value.options) else Listing(item_of(frame, value))
    if (
        isinstance(value, Tuple)
        and len(value.items) == len(targets)
        and not any(isinstance(target, code.Starred) for target in targets)
    ):
        for target, part in zip(targets, value.items, strict=True):
            assign(frame, target, part)
        return
    item: Value
    if isinstance(value, Tensor):
        # the parts of a batch are tensors, whatever the batch itself is
        item = replace(value, container=False)
        if (value.container or value.number) and value.keeps_graph:
            for target in targets:
                assign(frame, target, _part_of_output(frame, target, item))
            return
    elif isinstance(value, Listing):
        item = value.item
    elif isinstance(value, Tuple) and len(value.items) != len(targets):
        item = join_all(value.items)
    elif isinstance(value, Object) and value.type == "torch.Generator":
        item = UNKNOWN
    else:
        item = item_of(frame, value) if isinstance(value, Object) else UNKNOWN
    for target in targets:
        assign(frame, target, item)


def _part_of_output(frame: Frame, target: code.Expression, item: Tensor) -> Value:
    """One of several things that a model or a loss function returned: only what is called a loss, or is
    backpropagated, is known to carry the graph."""
    name = dotted(target)
    word = name.rpartition(".")[2]
    if name in frame.backpropagated or naming.LOSS.search(word):
        return item
    if naming.COUNT.search(word):
        return UNKNOWN
    return replace(item, keeps_graph=False, number=False)


def assign_attribute(frame: Frame, base: Value, name: str, value: Value) -> None:
    """`base.name = value`."""
    frame.run.effects += 1
    if isinstance(base, Instance):
        if frame.where.loops:
            note_change(frame, base)
        old = base.attributes.get(name)
        base.attributes[name] = value if old is None or old == NONE else _merge(old, value)
    elif isinstance(base, ModuleValue):
        base.module.variables[name] = value
    elif isinstance(base, Reference):
        packages.set_attribute(frame, base, name)
    elif isinstance(base, Class):
        base.members[name] = value
    elif isinstance(base, Option):
        frame.run.command_line[name] = value


def _merge(old: Value, new: Value) -> Value:
    """An attribute after another assignment: the newest value counts, but knowledge is not lost to the unknown."""
    if isinstance(new, Unknown):
        return old
    return new


def _assign_item(frame: Frame, target: code.Subscript, value: Value) -> None:
    base = expressions.evaluate(frame, target.value)
    key = expressions.evaluate(frame, target.key)
    if isinstance(base, Object) and base.type == "os.environ":
        packages.record_environment(frame, target, key, value)
        return
    path = target.value
    updated: Value | None = None
    if isinstance(base, Table) and isinstance(key, Const) and isinstance(key.value, str):
        items = dict(base.items) | {key.value: value}
        updated = Table(tuple(items.items()), base.rest)
    elif isinstance(base, Table):
        updated = Table(base.items, value if base.rest is None else join(base.rest, value))
    elif (
        isinstance(base, Tuple)
        and isinstance(key, Const)
        and isinstance(key.value, int)
        and 0 <= key.value < len(base.items)
    ):
        updated = Tuple((*base.items[: key.value], value, *base.items[key.value + 1 :]))
    elif isinstance(base, Tensor) and isinstance(value, Tensor):
        if base.container and base.loader is not None:
            updated = replace(base, place=value.place, proved=value.proved)
        elif base.place is Place.DEVICE and value.place is Place.HOST:
            tensors.record_copy(frame, target, value)
    elif isinstance(base, Listing):
        updated = Listing(value if isinstance(base.item, Unknown) else join(base.item, value), base.growing)
    if updated is not None and isinstance(path, code.Name | code.Attribute):
        assign(frame, path, updated)


def rebind(frame: Frame, node: code.Expression | None, value: Value) -> None:
    """Learn that an object was changed in place: `model.cuda()`."""
    if isinstance(node, code.Name | code.Attribute) and dotted(node):
        assign(frame, node, value)


# ---------------------------------------------------------------------------------------------------------- guards


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


# ----------------------------------------------------------------------------------------------------------- steps


def mark_backward(frame: Frame, node: code.Call | None) -> None:
    """A backward pass runs here."""
    _mark(frame, node, update=False)


def mark_update(frame: Frame, node: code.Call | None) -> None:
    """An optimizer step runs here."""
    _mark(frame, node, update=True)


def _mark(frame: Frame, node: code.Call | None, *, update: bool) -> None:
    """A backward pass or an optimizer step runs here: the innermost loop over data is a step loop."""
    frame.run.effects += 1
    where = frame.where
    if not where.loops:
        if where.root.role is not Role.PROGRAM:
            where.root.runs_step = True
        elif node is None:
            return
        if where.root.role is Role.FUNCTION:
            frame.run.entry.trains = True
        return
    frame.run.entry.trains = True
    data = [position for position, loop in enumerate(where.loops) if not loop.small] or [len(where.loops) - 1]
    inner = data[-1]
    step_loop = where.loops[inner]
    step_loop.runs_step = True
    for loop in where.loops[inner:]:
        loop.trains = True
    for loop in where.loops[:inner]:
        loop.holds_steps = True
    step_loop.no_sync = step_loop.no_sync or where.no_sync
    if node is None:
        return
    site = _site_in_loop(frame, node, inner)
    if update:
        step_loop.updates[site] = any(
            guard.kind is GuardKind.ACCUMULATION and guard.depth > inner for guard in where.guards
        )
    else:
        single = any(guard.kind is GuardKind.SINGLE for guard in where.guards)
        step_loop.backwards[site] = not single
        if inner < len(where.loops) - 1 and not single:
            step_loop.micro_batches = True
        step_loop.wrapper = step_loop.wrapper or frame.run.wrapper


def _site_in_loop(frame: Frame, node: code.Call, index: int) -> Site:
    """The call, in the function that holds the loop `index`, that leads to `node`."""
    at: code.Place = node.at
    holder = frame
    while holder.loop_base > index and holder.caller is not None and holder.called_at is not None:
        at, holder = holder.called_at, holder.caller
    return holder.site(at)


_CALLERS: dict[type, Callable[[Frame, Any, Given, code.Call | None], Value]] = {
    Choice: _call_choice,
    Function: call_function,
    Bound: _call_bound,
    Class: instantiate,
    Instance: _call_instance,
    Partial: _call_partial,
    Reference: lambda frame, callee, given, node: packages.call_reference(frame, callee.name, given, node),
    Object: _call_object,
    Tensor: _call_tensor,
    Method: _call_method,
}


def count_statement(frame: Frame) -> bool:
    """Count one interpreted statement; False once an entry point has used up what it may."""
    run = frame.run
    run.statements += 1
    if run.statements > MOST_STATEMENTS:
        run.exhausted = True
    return not run.exhausted
