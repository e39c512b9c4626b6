"""Frameworks that own the training loop: what they take care of, and what of the user's code they run how often."""

from __future__ import annotations

from collections.abc import Iterable

from trainlint.semantics import (
    classes,
    code,
    functions,
    iteration,
    library,
    loaders,
    methods,
    object_types,
    records,
    steps,
    submodules,
    tensors,
)
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import Loader, ReportKind, Trainer
from trainlint.semantics.state import Frame, Role, Where
from trainlint.semantics.values import (
    NONE,
    NUMBER,
    OBJECT,
    STRING,
    UNKNOWN,
    Bound,
    Choice,
    Const,
    Function,
    Instance,
    Listing,
    Object,
    Partial,
    Table,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join_all,
    options,
)
from trainlint.semantics.vocabulary import Framework, GradMode, Known, Place


def _own(frame: Frame, framework: Framework) -> None:
    """Note that a framework owns the loop of this entry point; it places data on the accelerator."""
    entry = frame.run.entry
    if entry.framework in (Framework.PYTORCH, Framework.UNKNOWN, Framework.FSDP):
        entry.framework = framework
    entry.cuda = Known.YES


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
) -> Value:
    """Run a function of the project the way a framework or a loader calls it."""
    outer = frame.where
    grad = GradMode.DISABLED if role is Role.EVALUATION else GradMode.ENABLED
    root = frame.run.root(role, assumed=assumed, trains=trains, whole_pass=whole_pass, workers=workers)
    frame.where = Where(root=root, calls=outer.calls[:1], grad=grad)
    target, receiver = (function.function, [function.receiver]) if isinstance(function, Bound) else (function, [])
    try:
        given = Given([*receiver, *arguments], complete=bool(arguments))
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
    """Interpret a collate function, and learn whether it puts the batch on the device."""
    for option in options(collate):
        if _item_place(_run_item_function(frame, option, Role.COLLATE, loader.forks)) is Place.DEVICE:
            loader.item_place = Place.DEVICE


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
    _own(frame, Framework.ACCELERATE)
    return Object(object_types.ACCELERATOR)


def _prepared(frame: Frame, value: Value, framework: Framework) -> Value:
    """What a framework gives back for a model, an optimizer or a loader it is handed."""
    if isinstance(value, Object) and value.type == object_types.LOADER:
        if isinstance(value.fact, Loader):
            value.fact.prepared_by = framework
        return replace(value, place=Place.DEVICE)
    if isinstance(value, Instance) and classes.is_module(value):
        submodules.note_trained(frame, value)
        value.place = Place.DEVICE
        return value
    if isinstance(value, Object) and value.type == object_types.MODEL:
        submodules.note_trained(frame, value)
        return replace(value, place=Place.DEVICE)
    if isinstance(value, Choice):
        return join_all(_prepared(frame, option, framework) for option in value.options)
    if isinstance(value, Unknown):
        submodules.note_trained(frame, value)
    return value


def _prepare(frame: Frame, given: Given, framework: Framework) -> Value:
    values = [_prepared(frame, value, framework) for value in given.positional]
    if not values:
        return UNKNOWN
    if not given.complete:
        return Listing(join_all(values))
    return values[0] if len(values) == 1 else Tuple(tuple(values))


def accelerator_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of an Accelerator: what it prepares moves to the device and is sharded."""
    if name in ("prepare", "prepare_model", "prepare_data_loader", "prepare_optimizer", "prepare_scheduler"):
        return _prepare(frame, given, Framework.ACCELERATE)
    if name in library.FRAMEWORK_COLLECTIVES["accelerate.Accelerator"]:
        records.record_call(frame, f"accelerate.Accelerator.{name}", given, node, receiver)
    if name == "backward":
        steps.mark_backward(frame, node)
        return NONE
    if name == "print":
        records.record_report(frame, ReportKind.PRINT, "accelerate.Accelerator.print", given, node, rank_aware=True)
        return NONE
    if name == "log":
        records.record_report(frame, ReportKind.TRACKER, "accelerate.Accelerator.log", given, node, rank_aware=True)
        return NONE
    records.note_collective(frame, f"accelerate.Accelerator.{name}", given, node)
    if name in ("gather", "gather_for_metrics", "reduce", "pad_across_processes"):
        first = given.positional[0] if given.positional else UNKNOWN
        return replace(first, keeps_graph=False) if isinstance(first, Tensor) else first
    if name in ("unwrap_model", "free_memory", "clip_grad_norm_"):
        return (
            given.positional[0]
            if given.positional and name == "unwrap_model"
            else Tensor(Place.DEVICE, number=True)
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


# ----------------------------------------------------------------------------------------------- Fabric, Lightning


def make_fabric(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`Fabric(…)`."""
    _own(frame, Framework.FABRIC)
    return Object(object_types.FABRIC)


def fabric_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of a Fabric."""
    if name in ("setup", "setup_module", "setup_optimizers", "setup_dataloaders"):
        return _prepare(frame, given, Framework.FABRIC)
    if name in library.FRAMEWORK_COLLECTIVES["lightning.Fabric"]:
        records.record_call(frame, f"lightning.Fabric.{name}", given, node, receiver)
    if name == "backward":
        steps.mark_backward(frame, node)
        return NONE
    if name == "print":
        records.record_report(frame, ReportKind.PRINT, "lightning.Fabric.print", given, node, rank_aware=True)
        return NONE
    if name in ("log", "log_dict"):
        records.record_report(frame, ReportKind.TRACKER, f"lightning.Fabric.{name}", given, node, rank_aware=True)
        return NONE
    if name in ("all_reduce", "all_gather", "to_device"):
        first = given.positional[0] if given.positional else UNKNOWN
        return replace(first, place=Place.DEVICE) if isinstance(first, Tensor) else first
    if name == "save":
        records.record_call(frame, "lightning.Fabric.save", given, node, receiver)
    if name == "no_backward_sync":
        frame.run.entry.disables_sync = True
        return Object(object_types.NO_SYNC)
    if name == "autocast":
        return Object(object_types.AUTOCAST, origin="on")
    return OBJECT


_LIGHTNING_STEPS = (
    "training_step",
    "on_train_batch_start",
    "on_train_batch_end",
    "on_before_optimizer_step",
    "on_before_backward",
    "on_after_backward",
    "on_before_zero_grad",
    "optimizer_step",
    "training_step_end",
    "lr_scheduler_step",
    "configure_gradient_clipping",
)
_LIGHTNING_EVALUATION = (
    "validation_step",
    "test_step",
    "predict_step",
    "on_validation_batch_end",
    "on_test_batch_end",
    "validation_step_end",
)
_LIGHTNING_ONCE = ("setup", "configure_optimizers", "on_fit_start", "on_train_start", "prepare_data", "configure_model")
_LIGHTNING_EPOCHS = (
    "on_train_epoch_start",
    "on_train_epoch_end",
    "on_validation_epoch_start",
    "on_validation_epoch_end",
    "training_epoch_end",
    "validation_epoch_end",
    "on_save_checkpoint",
)
_LIGHTNING_LOADERS = ("train_dataloader", "val_dataloader", "test_dataloader", "predict_dataloader")


def make_lightning_trainer(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`Trainer(…)` of Lightning."""
    _own(frame, Framework.LIGHTNING)
    _note_processes(frame, given)
    for callback in _listed(given.keywords.get("callbacks", UNKNOWN)):
        if isinstance(callback, Instance):
            run_lightning_object(frame, callback)
    return Object(object_types.LIGHTNING_TRAINER)


_SEVERAL_PROCESSES = ("ddp", "fsdp", "deepspeed", "hpu_parallel", "horovod", "bagua")
"""How the names of Lightning's strategies begin that start a process for each device."""


def _note_processes(frame: Frame, given: Given) -> None:
    """Learn from the strategy and the number of devices of a Trainer whether it starts several processes."""
    one_device = _count(given, "devices", "gpus") == 1 and _count(given, "num_nodes") in (None, 1)
    names = [_constant(given, name) for name in ("strategy", "accelerator", "distributed_backend")]
    several = any((_count(given, name) or 0) > 1 for name in ("devices", "gpus", "num_nodes"))
    in_one_process = "dp" in names
    by_name = any(isinstance(name, str) and name.startswith(_SEVERAL_PROCESSES) for name in names)
    if (by_name or several) and not one_device and not in_one_process:
        frame.run.entry.distributed = Known.YES
        frame.run.entry.data_parallel = Known.YES


def _constant(given: Given, name: str) -> object:
    value = given.keywords.get(name)
    return value.value if isinstance(value, Const) else None


def _count(given: Given, *names: str) -> int | None:
    """How many devices or hosts an argument asks for: a number, or a list of devices; None where it does not tell."""
    for name in names:
        value = given.keywords.get(name)
        if isinstance(value, Tuple):
            return len(value.items)
        if isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool):
            return value.value
    return None


def _listed(value: Value) -> list[Value]:
    if isinstance(value, Tuple):
        return list(value.items)
    if isinstance(value, Listing):
        return list(options(value.item))
    return [value]


def lightning_trainer_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of a Lightning Trainer: `fit` runs the hooks of the module and iterates the loaders."""
    if name in ("fit", "validate", "test"):
        frame.run.entry.trains = frame.run.entry.trains or name == "fit"
        for value in given.all():
            for option in _listed(value):
                if isinstance(option, Instance):
                    run_lightning_object(frame, option)
                elif isinstance(option, Object) and option.type == object_types.LOADER:
                    _take_loader(frame, option, training=name == "fit" and value is not given.get("val_dataloaders", 2))
    if name == "save_checkpoint":
        records.record_call(frame, "pytorch_lightning.Trainer.save_checkpoint", given, node, receiver)
    return OBJECT


def run_lightning_object(frame: Frame, instance: Instance) -> None:
    """Run the hooks of a LightningModule, a data module or a callback as often as the Trainer does."""
    if id(instance) in frame.run.driven_objects:
        return
    frame.run.driven_objects.add(id(instance))
    _own(frame, Framework.LIGHTNING)
    instance.place = Place.DEVICE
    outer, frame.where = frame.where, replace(frame.where, loops=(), guards=())
    for name in (*_LIGHTNING_ONCE, *_LIGHTNING_LOADERS):
        member = classes.find_member(instance.cls, name)
        if isinstance(member, Function):
            result = functions.call_unbound(frame, member, receiver=instance)
            if name in _LIGHTNING_LOADERS:
                for loader in _listed(result):
                    _take_loader(frame, loader, training=name == "train_dataloader")
    frame.where = outer
    callback = not classes.is_module_class(instance.cls)
    if not callback:
        submodules.note_trained(frame, instance, steps=("training_step",))
    roles = ((Role.STEP, _LIGHTNING_STEPS), (Role.EVALUATION, _LIGHTNING_EVALUATION), (Role.EPOCH, _LIGHTNING_EPOCHS))
    for role, hooks in roles:
        for name in hooks:
            member = classes.find_member(instance.cls, name)
            if isinstance(member, Function):
                run_as(frame, role, Bound(member, instance), _hook_arguments(name, callback=callback))


def _hook_arguments(name: str, *, callback: bool) -> list[Value]:
    """What the Trainer passes to a hook that gets a batch, or what a step made of one; nothing is known of others."""
    batch = Tensor(Place.DEVICE, container=True)
    if name in ("training_step", "validation_step", "test_step", "predict_step"):
        return [] if callback else [batch, NUMBER]
    owner: list[Value] = [Object(object_types.LIGHTNING_TRAINER), Object(object_types.MODEL, place=Place.DEVICE)]
    if name.endswith("_batch_end"):
        return [*(owner if callback else ()), batch, batch, NUMBER]
    if name.endswith("_batch_start"):
        return [*(owner if callback else ()), batch, NUMBER]
    return []


def _take_loader(frame: Frame, value: Value, *, training: bool) -> None:
    for option in options(value):
        if isinstance(option, Object) and option.type == object_types.LOADER and isinstance(option.fact, Loader):
            option.fact.prepared_by = Framework.LIGHTNING
            frame.run.framework_loaders.append((option.fact, training))


def lightning_method(frame: Frame, receiver: Instance, name: str, given: Given, node: code.Call | None) -> Value | None:
    """Methods that a LightningModule inherits; None for those it shares with every module."""
    if name in ("log", "log_dict"):
        records.record_report(
            frame, ReportKind.TRACKER, f"pytorch_lightning.LightningModule.{name}", given, node, rank_aware=True
        )
        return NONE
    if name == "print":
        records.record_report(
            frame, ReportKind.PRINT, "pytorch_lightning.LightningModule.print", given, node, rank_aware=True
        )
        return NONE
    if name == "manual_backward":
        steps.mark_backward(frame, node)
        return NONE
    if name == "optimizers":
        return Object(object_types.OPTIMIZER)
    if name in ("save_hyperparameters", "lr_schedulers", "toggle_optimizer", "untoggle_optimizer"):
        return OBJECT
    if name == "all_gather":
        return given.positional[0] if given.positional else UNKNOWN
    return None


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
    _own(frame, Framework.HF_TRAINER)
    frame.run.entry.trains = True
    _record_trainer(frame, given, trainer, node, name)
    for keyword in ("train_dataset", "eval_dataset"):
        if keyword in given.keywords:
            run_dataset(frame, given.keywords[keyword], None)
    collate = given.keywords.get("data_collator")
    if collate is not None:
        run_per_item(frame, [collate], Role.COLLATE)
    model = given.get("model", 0)
    submodules.note_trained(frame, UNKNOWN if model is None else model)
    if isinstance(model, Instance):
        model.place = Place.DEVICE
        forward = classes.find_member(model.cls, "forward")
        if isinstance(forward, Function):
            run_as(frame, Role.STEP, Bound(forward, model), [])
    if trainer is not None:
        for name, role in (
            ("compute_loss", Role.STEP),
            ("training_step", Role.STEP),
            ("prediction_step", Role.EVALUATION),
            ("get_train_dataloader", Role.FUNCTION),
        ):
            member = classes.find_member(trainer.cls, name)
            if isinstance(member, Function):
                run_as(
                    frame,
                    role,
                    Bound(member, trainer),
                    [Object(object_types.MODEL, place=Place.DEVICE), Tensor(Place.DEVICE, container=True)]
                    if role is not Role.FUNCTION
                    else [],
                )
    for callback in _listed(given.keywords.get("callbacks", UNKNOWN)):
        if isinstance(callback, Instance):
            for name in ("on_step_end", "on_step_begin", "on_substep_end", "on_log"):
                member = classes.find_member(callback.cls, name)
                if isinstance(member, Function):
                    run_as(frame, Role.STEP, Bound(member, callback), [])


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
        frame.run.entry.trains = True
        records.record_call(frame, "transformers.Trainer.train", given, node, receiver)
    if name in ("compute_loss", "training_step"):
        return Tensor(Place.DEVICE, keeps_graph=True, number=True)
    return UNKNOWN if name in ("evaluate", "predict") else OBJECT


def initialize_deepspeed(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`deepspeed.initialize(…)`: an engine, an optimizer, a loader, a scheduler."""
    _own(frame, Framework.DEEPSPEED)
    frame.run.entry.distributed = Known.YES
    frame.run.entry.data_parallel = Known.YES
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


def make_ignite_engine(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`Engine(process)` of ignite, which runs `process` once a step."""
    _own(frame, Framework.IGNITE)
    for value in given.positional[:1]:
        if isinstance(value, Function | Bound):
            frame.run.entry.trains = True
            evaluation = "eval" in (value.qualname if isinstance(value, Function) else value.function.qualname).lower()
            run_as(
                frame,
                Role.EVALUATION if evaluation else Role.STEP,
                value,
                [Object(object_types.IGNITE_ENGINE), Tensor(Place.HOST, container=True)],
            )
    return Object(object_types.IGNITE_ENGINE)
