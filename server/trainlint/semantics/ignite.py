"""Ignite: engines run a function of the project at each step, and functions that wait for an event of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from trainlint.semantics import (
    calls,
    classes,
    code,
    entry_facts,
    expressions,
    frameworks,
    iteration,
    library,
    loaders,
    naming,
    object_types,
    records,
    tensors,
)
from trainlint.semantics.arguments import Given
from trainlint.semantics.project import Loader, ReportKind
from trainlint.semantics.state import (
    EngineRun,
    Frame,
    Handler,
    IteratedByFramework,
    Occasion,
    Role,
    Standing,
    Subscription,
    Where,
)
from trainlint.semantics.values import (
    NONE,
    NUMBER,
    OBJECT,
    UNKNOWN,
    Bound,
    Const,
    DeviceValue,
    Function,
    Host,
    Instance,
    Object,
    Partial,
    Reference,
    Table,
    Tensor,
    Value,
    options,
)
from trainlint.semantics.vocabulary import Framework, GradMode, GuardKind, Known, Place

STEP_EVENTS = ("ITERATION_STARTED", "ITERATION_COMPLETED", "GET_BATCH_STARTED", "GET_BATCH_COMPLETED")
"""Events that an engine fires for each batch."""
EPOCH_EVENTS = ("EPOCH_STARTED", "EPOCH_COMPLETED")
"""Events that it fires once per epoch."""
ONCE_EVENTS = ("STARTED", "COMPLETED", "EXCEPTION_RAISED", "TERMINATE", "INTERRUPT")
"""Events that it fires once in a run, if at all."""
_THINNED = ("every", "event_filter")
"""Arguments of an event that leave out most of its occurrences."""


# --------------------------------------------------------------------------------------------------------- engines


def make_engine(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`Engine(process)`, which runs `process` at each step."""
    frameworks.own(frame, Framework.IGNITE)
    process = _callable(given.get("process_function", 0) or UNKNOWN)
    return _engine(frame, node, EngineRun(process, _role_of(frame, process)))


def _make_trainer(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`create_supervised_trainer(model, optimizer, loss_fn, …)`: an engine with a process of the library."""
    _own_on(frame, given.get("device", 3))
    frame.run.entry.trains = True
    run = EngineRun(UNKNOWN, Role.STEP)
    # without a transform of its own, the trainer reads the loss itself, and hands out a number
    run.output = NUMBER
    transform = given.keywords.get("output_transform")
    if isinstance(transform, Function):
        loss = Tensor(frameworks.accelerator(frame), keeps_graph=True, number=True)
        run.output = frameworks.run_as(frame, Role.STEP, transform, [UNKNOWN, UNKNOWN, UNKNOWN, loss])
    _place_model(frame, given)
    return _engine(frame, node, run)


def _make_evaluator(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`create_supervised_evaluator(model, metrics, …)`: an engine with a process of the library."""
    _own_on(frame, given.get("device", 2))
    _place_model(frame, given)
    return _engine(frame, node, EngineRun(UNKNOWN, Role.EVALUATION))


def _own_on(frame: Frame, device: Value | None) -> None:
    """Note that Ignite owns the loop, and whether it was told to stay on the CPU."""
    told = tensors.as_device(device or UNKNOWN)
    elsewhere = isinstance(told, DeviceValue) and not told.cuda
    frameworks.own(frame, Framework.IGNITE, on_cpu=True if elsewhere else None)


def _place_model(frame: Frame, given: Given) -> None:
    model = given.get("model", 0)
    if isinstance(model, Instance):
        model.place = frameworks.accelerator(frame)


def _engine(frame: Frame, node: code.Call | None, run: EngineRun) -> Object:
    place = entry_facts.place_key(frame.site(node.at)) if node is not None else ""
    key = f"{place}:{frame.where.calls}"
    run.batch = Tensor(Place.HOST, container=True)
    frame.run.engines[key] = run
    return Object(object_types.IGNITE_ENGINE, origin=key)


def _role_of(frame: Frame, process: Value) -> Role:
    """What a process function is called for. It evaluates where nothing in it goes backward, and its name, or that it
    is without gradients, says so."""
    function = process.function if isinstance(process, Bound | Partial) else process
    if not isinstance(function, Function) or not isinstance(function.define, code.Define):
        return Role.STEP
    frame.run.read.add((function.module.path, function.define.body))
    mentions = function.module.facts.functions[function.define.body].mentions
    if mentions & {"backward", "step"}:
        return Role.STEP
    evaluates = naming.EVALUATION.search(function.define.name) or mentions & {"no_grad", "inference_mode", "eval"}
    return Role.EVALUATION if evaluates else Role.STEP


def engine_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of an engine: `run` runs its process and its handlers; `on` and `add_event_handler` add one."""
    if name == "on":
        occasions = tuple(_occasions(frame, given))
        frame.run.subscriptions.append(Subscription(receiver.origin, occasions, tuple(given.positional[1:])))
        return Object(object_types.SUBSCRIPTION, origin=str(len(frame.run.subscriptions) - 1))
    if name == "add_event_handler":
        handler = _callable(given.get("handler", 1) or UNKNOWN)
        for occasion in _occasions(frame, given):
            _add(frame, receiver.origin, occasion, handler, tuple(given.positional[2:]))
        return OBJECT
    if name == "run":
        _use_loader(frame, receiver.origin, given.get("data", 0) or UNKNOWN)
        _run(frame, receiver.origin)
        return Object(object_types.IGNITE_STATE, origin=receiver.origin)
    return OBJECT


def subscribe(frame: Frame, decorator: Object, handler: Function) -> None:
    """A function that `@engine.on(…)` is put on handles the event."""
    key, occasions, arguments = frame.run.subscriptions[int(decorator.origin)]
    for occasion in occasions:
        _add(frame, key, occasion, handler, arguments)


def _callable(value: Value) -> Value:
    """What runs when a value is called: for an object of the project, its `__call__`."""
    called = classes.find_member(value.cls, "__call__") if isinstance(value, Instance) else None
    return Bound(called, value) if isinstance(called, Function) else value


def _add(frame: Frame, key: str, occasion: Occasion, handler: Value, arguments: tuple[Value, ...]) -> None:
    run = frame.run.engines.get(key)
    if run is not None and isinstance(handler, Function | Bound | Partial):
        run.handlers.append(Handler(occasion, handler, arguments))


# ---------------------------------------------------------------------------------------------------------- events


def event(name: str, given: Given) -> Value:
    """`Events.ITERATION_COMPLETED(every=100)`, called by its canonical name."""
    kind = GuardKind.FIRST if "once" in given.keywords else GuardKind.INTERVAL
    thinned = "once" in given.keywords or any(
        word in given.keywords and given.keywords[word] not in (NONE, Const(1)) for word in _THINNED
    )
    return Object(object_types.IGNITE_EVENT, origin=name, inner=Const(kind.value) if thinned else None)


def _occasions(frame: Frame, given: Given, position: int = 0) -> Iterator[Occasion]:
    """The events that an argument names: one, or several joined by `|`."""
    named = (one.value for one in given.nodes if one.keyword == "event_name")
    placed = (one.value for one in given.nodes[position : position + 1] if one.keyword is None)
    waiting = [*named, *placed]
    while waiting:
        node = waiting.pop()
        if isinstance(node, code.Binary) and node.op == "|":
            waiting += (node.left, node.right)
            continue
        for value in options(expressions.evaluate(frame, node)):
            if isinstance(value, Reference) and value.name.startswith(library.IGNITE_EVENT):
                yield Occasion(value.name.removeprefix(library.IGNITE_EVENT))
            elif isinstance(value, Object) and value.type == object_types.IGNITE_EVENT:
                thinned = value.inner
                kind = GuardKind(str(thinned.value)) if isinstance(thinned, Const) else None
                standing = () if kind is None else (Standing(kind, _count(node), 0),)
                yield Occasion(value.origin.removeprefix(library.IGNITE_EVENT), standing)


def _count(node: code.Expression) -> str:
    """What thins out an event, as text: `every=100`."""
    arguments = node.arguments if isinstance(node, code.Call) else ()
    found = [one for one in arguments if one.keyword is not None]
    texts = (f"{one.keyword}={one.value.value}" for one in found if isinstance(one.value, code.Constant))
    return ", ".join(texts) or "every few events"


def attach_logger(frame: Frame, name: str, given: Given, node: code.Call | None) -> None:
    """`logger.attach_output_handler(engine, event_name, …)`: the tracker is called at each such event."""
    engine = given.get("engine", 0)
    run = frame.run.engines.get(engine.origin) if isinstance(engine, Object) else None
    if run is None or not run.trains:
        return
    outer = frame.where
    for occasion in _occasions(frame, given, 1):
        if occasion.event in STEP_EVENTS:
            frame.where = Where(root=frame.run.root(Role.STEP), guards=occasion.guards, calls=outer.calls[:1])
            records.record_report(frame, ReportKind.TRACKER, f"ignite.handlers.{name}", given, node)
    frame.where = outer


# --------------------------------------------------------------------------------------------------------- running


def _use_loader(frame: Frame, key: str, data: Value) -> None:
    """Note which loader an engine goes over; it gets its batches as the loader makes them."""
    run = frame.run.engines.get(key)
    if run is None:
        return
    for option in options(data):
        if isinstance(option, Object) and option.type == object_types.LOADER:
            run.batch = iteration.item_of_object(frame, option)
            if isinstance(option.fact, Loader):
                frame.run.framework_loaders.append(IteratedByFramework(option.fact, run.trains))


def _run(frame: Frame, key: str) -> None:
    """Run the process of an engine and its handlers, once for the entry point."""
    run = frame.run.engines.get(key)
    if run is None or run.ran:
        return
    run.ran = True
    engine = Object(object_types.IGNITE_ENGINE, origin=key)
    if isinstance(run.process, Function | Bound | Partial):
        frame.run.entry.trains = frame.run.entry.trains or run.trains
        # an engine runs its process as it is, also where that evaluates
        run.output = _call(frame, run.role, run.process, [engine, run.batch], (), grad=GradMode.ENABLED)
    for occasion, handler, arguments in run.handlers:
        called_as = run.role if occasion.event in STEP_EVENTS else Role.EPOCH
        # once in a run is no more often than once per epoch
        if occasion.event in (*STEP_EVENTS, *EPOCH_EVENTS, *ONCE_EVENTS):
            _call(frame, called_as, handler, [engine, *arguments], occasion.guards)


def run_rest(frame: Frame) -> None:
    """Run the engines that nothing in sight starts: a function may return one to whoever asks."""
    for key in list(frame.run.engines):
        _run(frame, key)


def _call(
    frame: Frame,
    role: Role,
    function: Value,
    arguments: list[Value],
    standing: tuple[Standing, ...],
    grad: GradMode | None = None,
) -> Value:
    """Call a handler or a process with as many of the arguments as it takes."""
    if isinstance(function, Partial):
        outer, inner = function, function.function
        if not isinstance(inner, Function | Bound):
            return UNKNOWN
        return frameworks.run_as(frame, role, inner, [*outer.arguments, *arguments], guards=standing, grad=grad)
    assert isinstance(function, Function | Bound)
    define = function.function.define if isinstance(function, Bound) else function.define
    takes = len(define.parameters) - isinstance(function, Bound)
    return frameworks.run_as(frame, role, function, arguments[:takes], guards=standing, grad=grad)


def attribute(frame: Frame, base: Object, name: str) -> Value | None:
    """What an engine and its state hold; None where nothing is known."""
    if base.type == object_types.IGNITE_ENGINE:
        return Object(object_types.IGNITE_STATE, origin=base.origin) if name == "state" else None
    if base.type != object_types.IGNITE_STATE:
        return None
    run = frame.run.engines.get(base.origin)
    if run is not None and name in ("output", "batch"):
        return run.output if name == "output" else run.batch
    return _STATE.get(name)


_STATE: Mapping[str, Value] = {
    **dict.fromkeys(("iteration", "epoch", "epoch_length", "max_epochs"), NUMBER),
    "metrics": Table((), NUMBER),
}


# ----------------------------------------------------------------------------------------------- ignite.distributed


def parallel_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    """`idist.Parallel(…).run(training, …)` starts a function on each rank, with the local rank."""
    if name == "run" and given.positional:
        calls.call(frame, given.positional[0], Given([Host("rank"), *given.positional[1:]]), node)
    return receiver if name == "__enter__" else OBJECT


def _make_parallel(frame: Frame, given: Given, node: code.Call | None) -> Value:
    frameworks.own(frame, Framework.IGNITE)
    backend = given.get("backend", 0)
    if isinstance(backend, Const) and backend.value is not None:
        frame.run.entry.distributed = Known.YES
        frame.run.entry.chooses_device = True
    return Object(object_types.IGNITE_PARALLEL)


def _auto_loader(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`idist.auto_dataloader(dataset, …)`: a loader with a sampler for each rank and pinned memory."""
    made = loaders.make_loader(frame, given, node, "torch.utils.data.DataLoader")
    if isinstance(made, Object) and isinstance(made.fact, Loader):
        made.fact.prepared_by = Framework.IGNITE
    return made


def _auto_model(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`idist.auto_model(model)`: moved to the device, and wrapped where there are several processes."""
    model = given.get("model", 0) or UNKNOWN
    if frame.run.entry.distributed is Known.YES:
        frame.run.entry.data_parallel = Known.YES
    return frameworks.prepared(frame, model, Framework.IGNITE)


def _convert(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`convert_tensor(batch, device=…)` moves a tensor or a collection of tensors."""
    moved = given.get("x", 0) or given.get("input_", 0) or UNKNOWN
    device = given.get("device", 1)
    if isinstance(moved, Tensor) and isinstance(device, DeviceValue) and device.cuda:
        return Tensor(Place.DEVICE, device.proved, container=moved.container)
    return moved


def _all_reduce(frame: Frame, given: Given, node: code.Call | None) -> Value:
    records.note_collective(frame, "ignite.distributed.all_reduce", given, node)
    return given.first()


def _barrier(frame: Frame, given: Given, node: code.Call | None) -> Value:
    records.note_collective(frame, "ignite.distributed.barrier", given, node)
    return NONE


FUNCTIONS: Mapping[str, Callable[[Frame, Given, code.Call | None], Value]] = {
    "ignite.engine.Engine": make_engine,
    "ignite.engine.create_supervised_trainer": _make_trainer,
    "ignite.engine.create_supervised_evaluator": _make_evaluator,
    "ignite.distributed.Parallel": _make_parallel,
    "ignite.distributed.auto_dataloader": _auto_loader,
    "ignite.distributed.auto_model": _auto_model,
    "ignite.distributed.auto_optim": lambda frame, given, node: Object(object_types.OPTIMIZER),
    "ignite.distributed.device": lambda frame, given, node: DeviceValue(cuda=True, cpu=True, rank_local=True),
    "ignite.distributed.get_rank": lambda frame, given, node: Host("rank"),
    "ignite.distributed.get_local_rank": lambda frame, given, node: Host("rank"),
    "ignite.distributed.get_world_size": lambda frame, given, node: Host("world-size"),
    "ignite.distributed.all_reduce": _all_reduce,
    "ignite.distributed.all_gather": lambda frame, given, node: given.first(),
    "ignite.distributed.barrier": _barrier,
    "ignite.distributed.one_rank_only": lambda frame, given, node: Object(
        object_types.DECORATOR, origin="ignite.distributed.one_rank_only"
    ),
    "ignite.utils.setup_logger": lambda frame, given, node: Object(object_types.LOGGER, origin="rank-aware"),
    "ignite.utils.convert_tensor": _convert,
}
"""Functions and classes of Ignite, by canonical name."""
