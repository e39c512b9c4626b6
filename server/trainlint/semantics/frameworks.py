"""Frameworks that own the training loop, or whose objects run it: what of the user's code they run how often.

What they take care of stands in `duties`; Lightning, Ignite and Ray Train have modules of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trainlint.semantics import (
    classes,
    code,
    configurations,
    construction,
    functions,
    iteration,
    library,
    loaders,
    methods,
    object_types,
    records,
    steps,
    tensors,
    unused_parameters,
)
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import DeepSpeedConfiguration, Loader, ReportKind, Trainer
from trainlint.semantics.state import Frame, IteratedByFramework, Role, Standing, Where
from trainlint.semantics.values import (
    NONE,
    NUMBER,
    OBJECT,
    STRING,
    UNKNOWN,
    Bound,
    Choice,
    Class,
    Const,
    Function,
    Instance,
    Listing,
    Object,
    Partial,
    Reference,
    Table,
    Tensor,
    Test,
    Tuple,
    Unknown,
    Value,
    join_all,
    options,
)
from trainlint.semantics.vocabulary import Framework, GradMode, GuardKind, Known, Place


def own(frame: Frame, framework: Framework, *, on_cpu: bool | None = None) -> None:
    """Note that a framework owns the loop of this entry point; it places data on the accelerator, unless it was told
    to stay on the CPU. `on_cpu` is None where nothing is said about that."""
    entry = frame.run.entry
    if entry.framework in (Framework.PYTORCH, Framework.UNKNOWN, Framework.FSDP, Framework.RAY_TRAIN):
        entry.framework = framework
    if on_cpu is not None:
        entry.stays_on_cpu = on_cpu and entry.cuda is not Known.YES
    entry.cuda = Known.NO if entry.stays_on_cpu else Known.YES


def accelerator(frame: Frame) -> Place:
    """Where a framework places models and batches."""
    return Place.HOST if frame.run.entry.stays_on_cpu else Place.DEVICE


def run_as(
    frame: Frame,
    role: Role,
    function: Function | Bound,
    arguments: list[Value],
    *,
    assumed: bool = False,
    trains: bool = True,
    whole_pass: bool = False,
    workers: Known = Known.UNKNOWN,
    guards: tuple[Standing, ...] = (),
    named: Mapping[str, Value] | None = None,
    grad: GradMode | None = None,
) -> Value:
    """Run a function of the project the way a framework or a loader calls it, with `named` arguments by keyword;
    `guards` thin out how often it does. Evaluation runs without gradients unless `grad` says otherwise."""
    outer = frame.where
    if grad is None:
        grad = GradMode.DISABLED if role is Role.EVALUATION else GradMode.ENABLED
    root = frame.run.root(role, assumed=assumed, trains=trains, whole_pass=whole_pass, workers=workers)
    frame.where = Where(root=root, guards=guards, calls=outer.calls[:1], grad=grad)
    target, receiver = (function.function, [function.receiver]) if isinstance(function, Bound) else (function, [])
    try:
        given = Given([*receiver, *arguments], dict(named or {}), complete=bool(arguments))
        result = functions.call_function(frame, target, given, None)
        return (
            iteration.item_of(frame, result)
            if role is Role.SAMPLE and not isinstance(result, Tensor | Tuple | Table)
            else result
        )
    finally:
        frame.where = outer


# ------------------------------------------------------------------------------------------------ datasets, collate


def run_dataset(frame: Frame, dataset: Value, loader: Loader | None) -> None:
    """Interpret what produces one item of a dataset."""
    for option in options(dataset):
        if isinstance(option, Object) and option.inner is not None and option.type == object_types.DATASET:
            run_dataset(frame, option.inner, loader)
        if not isinstance(option, Instance) or id(option) in frame.run.driven_objects:
            continue
        frame.run.driven_objects.add(id(option))
        _run_items(frame, option, loader)
        for value in option.attributes.values():
            if isinstance(value, Instance) and classes.is_dataset_class(value.cls):
                run_dataset(frame, value, loader)


def _run_items(frame: Frame, dataset: Instance, loader: Loader | None) -> None:
    names = classes.library_bases(dataset.cls)
    iterable = any(name.endswith("IterableDataset") for name in names)
    for method in ("__iter__",) if iterable else ("__getitem__", "__getitems__"):
        member = classes.find_member(dataset.cls, method)
        if isinstance(member, Function):
            workers = loader.forks if loader is not None else Known.UNKNOWN
            arguments: list[Value] = [] if iterable else [NUMBER]
            before = len(frame.run.transformations)
            item = run_as(frame, Role.SAMPLE, Bound(member, dataset), arguments, whole_pass=iterable, workers=workers)
            own = frame.run.transformations_of.get(id(dataset), ())
            frame.run.transformations_of[id(dataset)] = (*own, *frame.run.transformations[before:])
            if loader is not None:
                loader.item_place = _item_place(item)


def _item_place(item: Value) -> Place:
    """On the device if any of its tensors is: workers cannot make such an item, nor can it be pinned."""
    found = tensors.tensors_in(item)
    if isinstance(item, Table) and item.rest is not None:
        found += tensors.tensors_in(item.rest)
    if any(tensor.place is Place.DEVICE for tensor in found):
        return Place.DEVICE
    return Place.HOST if found else Place.UNKNOWN


def run_collate(frame: Frame, collate: Value, loader: Loader) -> None:
    """Interpret a collate function, and learn whether it puts the batch on the device, and whether a loader could pin
    it."""
    batches = [_run_item_function(frame, option, Role.COLLATE, loader.forks) for option in options(collate)]
    if any(_item_place(batch) is Place.DEVICE for batch in batches):
        loader.item_place = Place.DEVICE
    loader.cannot_pin = bool(batches) and all(map(_is_closed, batches))


def _is_closed(batch: Value) -> bool:
    """Whether a batch is an object that a loader cannot look into to pin what it holds: of a class of the project that
    has no `pin_memory` of its own and derives from nothing that has parts."""
    return (
        isinstance(batch, Instance)
        and classes.library_bases(batch.cls) <= _WITHOUT_PARTS
        and all(isinstance(base, Class | Reference) for one in classes.lineage(batch.cls) for base in one.bases)
        and classes.find_member(batch.cls, "pin_memory") is None
    )


_WITHOUT_PARTS = frozenset({"object", "abc.ABC", "typing.Generic"})


def run_worker_init(frame: Frame, function: Value, loader: Loader) -> None:
    """Interpret what each worker of a loader runs once, at its start."""
    for option in options(function):
        _run_item_function(frame, option, Role.WORKER, loader.forks)


def run_per_item(frame: Frame, functions: Iterable[Value], role: Role) -> None:
    """Interpret a collate function, or a transform that a dataset applies to each item."""
    for value in functions:
        for option in options(value):
            _run_item_function(frame, option, role)


def _run_item_function(frame: Frame, value: Value, role: Role, workers: Known = Known.UNKNOWN) -> Value:
    """Run a function on items of which nothing is known; what it returns."""
    samples: Value = NUMBER if role is Role.WORKER else Listing(UNKNOWN)
    if isinstance(value, Partial):
        inner = value.function
        if isinstance(inner, Function):
            bound = Function(
                inner.module, inner.define, inner.qualname, inner.row, inner.closure, inner.owner, inner.decorators
            )
            outer = frame.where
            frame.where = Where(root=frame.run.root(role, workers=workers), calls=outer.calls[:1])
            result = functions.call_function(
                frame, bound, Given([*value.arguments, samples], dict(value.keywords), complete=False), None
            )
            frame.where = outer
            return result
    elif isinstance(value, Function | Bound):
        return run_as(frame, role, value, [samples], workers=workers)
    elif isinstance(value, Instance):
        member = classes.find_member(value.cls, "__call__")
        if isinstance(member, Function):
            return run_as(frame, role, Bound(member, value), [samples], workers=workers)
    return UNKNOWN


# ------------------------------------------------------------------------------------------------------- Accelerate


def make_accelerator(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`Accelerator(…)`."""
    own(frame, Framework.ACCELERATE, on_cpu=given.keywords.get("cpu") == Const(True))
    return Object(object_types.ACCELERATOR)


def prepared(frame: Frame, value: Value, framework: Framework) -> Value:
    """What a framework gives back for a model, an optimizer or a loader it is handed."""
    if isinstance(value, Object) and value.type == object_types.LOADER:
        if isinstance(value.fact, Loader):
            value.fact.prepared_by = framework
        return replace(value, place=accelerator(frame))
    if isinstance(value, Instance) and classes.is_module(value):
        unused_parameters.note_trained(frame, value)
        value.place = accelerator(frame)
        return value
    if isinstance(value, Object) and value.type == object_types.MODEL:
        unused_parameters.note_trained(frame, value)
        return replace(value, place=accelerator(frame))
    if isinstance(value, Choice):
        return join_all(prepared(frame, option, framework) for option in value.options)
    if isinstance(value, Unknown):
        unused_parameters.note_trained(frame, value)
    return value


def listed(value: Value) -> list[Value]:
    """The values in a list or a tuple, else the value itself."""
    if isinstance(value, Tuple):
        return list(value.items)
    if isinstance(value, Listing):
        return list(options(value.item))
    return [value]


def take_loader(frame: Frame, value: Value, framework: Framework, *, training: bool) -> None:
    """Note that a framework iterates a loader, and moves its batches."""
    for option in options(value):
        if isinstance(option, Object) and option.type == object_types.LOADER and isinstance(option.fact, Loader):
            option.fact.prepared_by = option.fact.prepared_by or framework
            frame.run.framework_loaders.append(IteratedByFramework(option.fact, training))


def prepare(frame: Frame, given: Given, framework: Framework) -> Value:
    """What a framework gives back for all that it is handed in one call: one value, or as many as it was handed."""
    values = [prepared(frame, value, framework) for value in given.positional]
    if not values:
        return UNKNOWN
    if not given.complete:
        return Listing(join_all(values))
    return values[0] if len(values) == 1 else Tuple(tuple(values))


def accelerator_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of an Accelerator: what it prepares moves to the device and is sharded."""
    if name in ("prepare", "prepare_model", "prepare_data_loader", "prepare_optimizer", "prepare_scheduler"):
        return prepare(frame, given, Framework.ACCELERATE)
    if name in library.FRAMEWORK_COLLECTIVES["accelerate.Accelerator"]:
        records.record_call(frame, f"accelerate.Accelerator.{name}", given, node, receiver)
    if name == "backward":
        steps.mark_backward(frame, node)
        return NONE
    if name == "skip_first_batches":
        return given.first()
    if name == "get_tracker":
        return Object(object_types.TRACKER, origin="accelerate.tracking.GeneralTracker")
    if name == "print":
        records.record_report(frame, ReportKind.PRINT, "accelerate.Accelerator.print", given, node, rank_aware=True)
        return NONE
    if name == "log":
        records.record_report(frame, ReportKind.TRACKER, "accelerate.Accelerator.log", given, node, rank_aware=True)
        return NONE
    records.note_collective(frame, f"accelerate.Accelerator.{name}", given, node)
    if name in ("gather", "gather_for_metrics", "reduce", "pad_across_processes"):
        first = given.first()
        return replace(first, keeps_graph=False) if isinstance(first, Tensor) else first
    if name in ("unwrap_model", "free_memory", "clip_grad_norm_"):
        return (
            given.positional[0]
            if given.positional and name == "unwrap_model"
            else Tensor(accelerator(frame), number=True)
            if name == "clip_grad_norm_"
            else OBJECT
        )
    if name in ("accumulate", "no_sync"):
        frame.run.entry.disables_sync = True
        return Object(object_types.ACCUMULATE)
    if name == "autocast":
        return Object(object_types.AUTOCAST, origin="on")
    if name in ("save", "save_model", "save_state"):
        records.record_call(frame, f"accelerate.Accelerator.{name}", given, node, receiver)
    if name == "save_state":
        frame.run.saved_kinds |= {"model", "optimizer", "scheduler", "scaler"}
    if name == "load_state":
        frame.run.entry.resumes = True
    return UNKNOWN if name == "get_state_dict" else OBJECT


# ------------------------------------------------------------------------------------------------ Hugging Face, DS


def make_hf_trainer(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    """`Trainer(…)` of transformers, by its canonical name."""
    use_hf_trainer(frame, given, None, node, name)
    return Object(object_types.HF_TRAINER)


def use_hf_trainer(
    frame: Frame,
    given: Given,
    trainer: Instance | None,
    node: code.Call | None = None,
    name: str = "transformers.Trainer",
) -> None:
    """What a Trainer is given is used per item, per batch and per step."""
    own(frame, Framework.HF_TRAINER)
    frame.run.entry.trains = True
    _record_trainer(frame, given, trainer, node, name)
    for keyword, position in (("train_dataset", 3), ("eval_dataset", 4)):
        dataset = given.get(keyword, position)
        if dataset is not None:
            run_dataset(frame, dataset, None)
    collate = given.get("data_collator", 2)
    if collate is not None:
        run_per_item(frame, [collate], Role.COLLATE)
    model = given.get("model", 0)
    unused_parameters.note_trained(frame, UNKNOWN if model is None else model)
    if isinstance(model, Instance):
        model.place = accelerator(frame)
        forward = classes.find_member(model.cls, "forward")
        if isinstance(forward, Function):
            run_as(frame, Role.STEP, Bound(forward, model), [])
    if trainer is not None:
        _run_trainer_methods(frame, trainer)
    _run_given_functions(frame, given)
    for callback in listed(given.keywords.get("callbacks", UNKNOWN)):
        run_trainer_callback(frame, callback)


TRAINER_METHODS: Mapping[Role, tuple[str, ...]] = {
    Role.STEP: ("compute_loss", "training_step", "_prepare_inputs"),
    Role.EVALUATION: ("prediction_step",),
    Role.EPOCH: (
        "evaluate",
        "predict",
        "evaluation_loop",
        "prediction_loop",
        "save_model",
        "_save_checkpoint",
    ),
    Role.FUNCTION: (
        *("get_train_dataloader", "get_eval_dataloader", "get_test_dataloader", "create_optimizer"),
        *("create_scheduler", "create_optimizer_and_scheduler"),
    ),
}
"""How often the Trainer of transformers calls the methods that a subclass overrides."""
TRAINER_LOG = "log"
"""The method that it calls every `logging_steps`."""
CALLBACK_METHODS: Mapping[Role, tuple[str, ...]] = {
    Role.STEP: ("on_step_begin", "on_step_end", "on_substep_end", "on_pre_optimizer_step", "on_optimizer_step"),
    Role.EVALUATION: ("on_prediction_step",),
    Role.EPOCH: ("on_epoch_begin", "on_epoch_end", "on_evaluate", "on_predict", "on_save"),
    Role.FUNCTION: ("on_init_end", "on_train_begin", "on_train_end"),
}
"""How often it calls the methods of a callback; `on_log` is called every `logging_steps`."""
_AT_LOGGING = Standing(GuardKind.INTERVAL, "state.global_step % args.logging_steps == 0", 0)


def _run_trainer_methods(frame: Frame, trainer: Instance) -> None:
    """Run what a subclass of the Trainer overrides."""
    place = accelerator(frame)
    batch: list[Value] = [Object(object_types.MODEL, place=place), Tensor(place, container=True)]
    inputs: list[Value] = [Tensor(Place.HOST, container=True)]
    for role, names in TRAINER_METHODS.items():
        for name in names:
            member = classes.find_member(trainer.cls, name)
            if isinstance(member, Function):
                arguments = inputs if name == "_prepare_inputs" else batch if role in _GIVEN_BATCHES else []
                result = run_as(frame, role, Bound(member, trainer), arguments)
                if name.endswith("_dataloader"):
                    take_loader(frame, result, Framework.HF_TRAINER, training=name == "get_train_dataloader")
    log = classes.find_member(trainer.cls, TRAINER_LOG)
    if isinstance(log, Function):
        run_as(frame, Role.STEP, Bound(log, trainer), [], guards=(_AT_LOGGING,))


_GIVEN_BATCHES = (Role.STEP, Role.EVALUATION)


def _run_given_functions(frame: Frame, given: Given) -> None:
    """Run the functions that a Trainer is given: for the loss at each step, for metrics at each evaluation.

    Those for rewards are left out: they return numbers for texts that were just generated, so they have to wait and to
    tokenize.
    """
    place = accelerator(frame)
    loss = given.keywords.get("compute_loss_func", UNKNOWN)
    for value in listed(loss):
        if isinstance(value, Function | Bound):
            run_as(frame, Role.STEP, value, [Tensor(place, container=True, keeps_graph=True), Tensor(place)])
    for name, role in (("compute_metrics", Role.EPOCH), ("preprocess_logits_for_metrics", Role.EVALUATION)):
        value = given.keywords.get(name, UNKNOWN)
        if isinstance(value, Function | Bound):
            run_as(frame, role, value, [Tensor(place), Tensor(place)] if role is Role.EVALUATION else [])


def run_trainer_callback(frame: Frame, callback: Value) -> None:
    """Run the methods of a callback as often as the Trainer of transformers does; a class stands for its object."""
    made = construction.instantiate(frame, callback, Given([]), None) if isinstance(callback, Class) else callback
    if not isinstance(made, Instance) or id(made) in frame.run.driven_objects:
        return
    frame.run.driven_objects.add(id(made))
    named: dict[str, Value] = {
        "model": Object(object_types.MODEL, place=accelerator(frame)),
        "optimizer": Object(object_types.OPTIMIZER),
    }
    for role, names in CALLBACK_METHODS.items():
        for name in names:
            member = classes.find_member(made.cls, name)
            if isinstance(member, Function):
                run_as(frame, role, Bound(member, made), [], named=named)
    log = classes.find_member(made.cls, "on_log")
    if isinstance(log, Function):
        run_as(frame, Role.STEP, Bound(log, made), [], guards=(_AT_LOGGING,), named=named)


def _record_trainer(frame: Frame, given: Given, trainer: Instance | None, node: code.Call | None, name: str) -> None:
    if node is None:
        return
    dataset = given.get("train_dataset", 3) or UNKNOWN
    kind, works = loaders.dataset_facts(frame, dataset)
    own_loader = classes.find_member(trainer.cls, "get_train_dataloader") if trainer is not None else None
    frame.run.record(
        Trainer,
        frame,
        "trainer",
        site=frame.site(node.at),
        text=node,
        library=name,
        arguments=given.arguments(),
        dataset_kind=kind,
        works_per_item=works,
        makes_loader=isinstance(own_loader, Function),
    )


def hf_trainer_method(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of a transformers Trainer."""
    if name == "train":
        frame.run.entry.trains = frame.where.root.runs_passes = True
        records.record_call(frame, "transformers.Trainer.train", given, node, receiver)
    if name == "save_model":
        records.record_call(frame, "transformers.Trainer.save_model", given, node, receiver)
    if name == "add_callback":
        for callback in given.positional[:1]:
            run_trainer_callback(frame, callback)
    if name == "log":
        records.record_report(frame, ReportKind.TRACKER, "transformers.Trainer.log", given, node, rank_aware=True)
    if name in ("compute_loss", "training_step"):
        place = accelerator(frame)
        loss = Tensor(place, keeps_graph=True, number=True)
        outputs = Tensor(place, keeps_graph=True, container=True)
        return Tuple((loss, outputs)) if given.get("return_outputs", 2) == Const(True) else loss
    return UNKNOWN if name in ("evaluate", "predict") else OBJECT


def note_training_arguments(frame: Frame, name: str, given: Given, node: code.Call | None) -> None:
    """`TrainingArguments(…)` and its kin, by the canonical name of their class."""
    records.record_call(frame, "transformers.TrainingArguments", given, node, Reference(name))
    entry = frame.run.entry
    if Const(True) in (given.keywords.get("use_cpu"), given.keywords.get("no_cuda")):
        entry.stays_on_cpu = entry.cuda is not Known.YES
    note_deepspeed(frame, given.keywords.get("deepspeed"), node)


def note_deepspeed(frame: Frame, value: Value | None, node: code.Call | None) -> None:
    """The configuration that DeepSpeed is given: a dict, or the path of a file."""
    table = value if isinstance(value, Table) else configurations.content(frame, value)
    if isinstance(table, Table) and node is not None:
        site = frame.site(node.at)
        frame.run.record(DeepSpeedConfiguration, frame, "deepspeed", site=site, text=node, settings=table)


def initialize_deepspeed(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`deepspeed.initialize(…)`: an engine, an optimizer, a loader, a scheduler."""
    own(frame, Framework.DEEPSPEED)
    frame.run.entry.distributed = Known.YES
    frame.run.entry.data_parallel = Known.YES
    note_deepspeed(frame, given.keywords.get("config", given.keywords.get("config_params")), node)
    model = given.keywords.get("model") or (given.positional[1] if len(given.positional) > 1 else UNKNOWN)
    if isinstance(model, Instance):
        model.place = Place.DEVICE
    engine = Object(object_types.DEEPSPEED_ENGINE, place=Place.DEVICE, inner=model)
    return Tuple(
        (
            engine,
            Object(object_types.OPTIMIZER),
            Object(object_types.LOADER, proved=False),
            Object(object_types.SCHEDULER),
        )
    )


def deepspeed_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of a DeepSpeed engine."""
    if name == "backward":
        steps.mark_backward(frame, node)
        return NONE
    if name == "step":
        steps.mark_update(frame, node)
        return NONE
    if name == "train_batch":
        steps.mark_backward(frame, node)
        steps.mark_update(frame, node)
        return Tensor(Place.DEVICE, number=True)
    if name == "is_gradient_accumulation_boundary":
        return Test((GuardKind.ACCUMULATION,), text="engine.is_gradient_accumulation_boundary()")
    if name == "no_sync":
        frame.run.entry.disables_sync = True
        return Object(object_types.NO_SYNC)
    if name in ("train", "eval"):
        return receiver
    if name == "forward":
        return methods.call_object(frame, receiver, given, node)
    if name in ("parameters", "named_parameters"):
        return Listing(Tensor(Place.DEVICE)) if name == "parameters" else Listing(Tuple((STRING, Tensor(Place.DEVICE))))
    if name == "save_checkpoint":
        records.record_call(frame, "deepspeed.Engine.save_checkpoint", given, node, receiver)
        frame.run.saved_kinds |= {"model", "optimizer", "scheduler", "scaler"}
    if name == "load_checkpoint":
        frame.run.entry.resumes = True
    return UNKNOWN if name == "module_state_dict" else OBJECT
