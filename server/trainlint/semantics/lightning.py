"""Lightning and Fabric: which hooks run how often, how many processes they start, and what their objects hand out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from trainlint.semantics import (
    classes,
    code,
    construction,
    frameworks,
    functions,
    library,
    object_types,
    records,
    steps,
    unused_parameters,
)
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import ReportKind
from trainlint.semantics.state import Frame, Role
from trainlint.semantics.values import (
    NONE,
    NUMBER,
    OBJECT,
    UNKNOWN,
    Bound,
    Class,
    Const,
    Function,
    Host,
    Instance,
    Listing,
    Object,
    Table,
    Tensor,
    Tuple,
    Value,
)
from trainlint.semantics.vocabulary import Framework, GradMode, Known

# ---------------------------------------------------------------------------------------------------------- Fabric


def make_fabric(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`Fabric(…)`."""
    frameworks.own(frame, Framework.FABRIC, on_cpu=_constant(given, "accelerator") == "cpu")
    _note_processes(frame, given)
    return Object(object_types.FABRIC)


def fabric_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of a Fabric."""
    if name == "setup_dataloaders" and given.keywords.get("move_to_device") == Const(False):
        return given.positional[0] if len(given.positional) == 1 else Tuple(tuple(given.positional))
    if name in ("setup", "setup_module", "setup_optimizers", "setup_dataloaders"):
        return frameworks.prepare(frame, given, Framework.FABRIC)
    if name in ("launch", "run"):
        functions.run_callbacks(frame, given)
        return UNKNOWN
    if name in library.FRAMEWORK_COLLECTIVES["lightning.Fabric"]:
        records.record_call(frame, f"lightning.Fabric.{name}", given, node, receiver)
        records.note_collective(frame, f"lightning.Fabric.{name}", given, node)
    if name == "backward":
        steps.mark_backward(frame, node)
        return NONE
    if name == "print":
        records.record_report(frame, ReportKind.PRINT, "lightning.Fabric.print", given, node, rank_aware=True)
        return NONE
    if name in ("log", "log_dict"):
        records.record_report(frame, ReportKind.TRACKER, f"lightning.Fabric.{name}", given, node, rank_aware=True)
        return NONE
    if name in ("all_reduce", "all_gather", "broadcast", "to_device"):
        first = given.first()
        place = frameworks.accelerator(frame)
        return replace(first, place=place, keeps_graph=False) if isinstance(first, Tensor) else first
    if name == "clip_gradients":
        return Tensor(frameworks.accelerator(frame), number=True)
    if name == "save":
        records.record_call(frame, "lightning.Fabric.save", given, node, receiver)
    if name == "no_backward_sync":
        frame.run.entry.disables_sync = True
        return Object(object_types.NO_SYNC)
    if name == "autocast":
        return Object(object_types.AUTOCAST, origin="on")
    return OBJECT


# ----------------------------------------------------------------------------------------------------------- hooks

STEP_HOOKS = (
    "training_step",
    "on_train_batch_start",
    "on_train_batch_end",
    "on_before_optimizer_step",
    "on_before_backward",
    "on_after_backward",
    "on_before_zero_grad",
    "on_before_batch_transfer",
    "on_after_batch_transfer",
    "transfer_batch_to_device",
    "optimizer_step",
    "optimizer_zero_grad",
    "backward",
    "training_step_end",
    "lr_scheduler_step",
    "configure_gradient_clipping",
)
"""What a Trainer calls at each training step."""
EVALUATION_HOOKS = (
    "validation_step",
    "test_step",
    "predict_step",
    "on_validation_batch_start",
    "on_validation_batch_end",
    "on_test_batch_start",
    "on_test_batch_end",
    "on_predict_batch_start",
    "on_predict_batch_end",
    "validation_step_end",
    "test_step_end",
)
"""What it calls for each batch of an evaluation."""
EPOCH_HOOKS = (
    "on_train_epoch_start",
    "on_train_epoch_end",
    "on_validation_start",
    "on_validation_end",
    "on_validation_epoch_start",
    "on_validation_epoch_end",
    "on_test_epoch_end",
    "training_epoch_end",
    "validation_epoch_end",
    "on_save_checkpoint",
)
"""What it calls once per epoch."""
ONCE_HOOKS = (
    "setup",
    "configure_optimizers",
    "configure_model",
    "on_fit_start",
    "on_fit_end",
    "on_train_start",
    "on_train_end",
    "prepare_data",
    "teardown",
)
"""What it calls once."""
LOADER_HOOKS = ("train_dataloader", "val_dataloader", "test_dataloader", "predict_dataloader")
"""What returns the loaders; their batches are moved to the device."""


def make_trainer(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`Trainer(…)` of Lightning."""
    frameworks.own(frame, Framework.LIGHTNING, on_cpu=_constant(given, "accelerator") == "cpu")
    _note_processes(frame, given)
    if Const(False) in (given.keywords.get("use_distributed_sampler"), given.keywords.get("replace_sampler_ddp")):
        frame.run.entry.leaves_samplers = True
    for callback in frameworks.listed(given.keywords.get("callbacks", UNKNOWN)):
        if isinstance(callback, Instance):
            run_object(frame, callback)
    return Object(object_types.LIGHTNING_TRAINER)


def make_command_line(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`LightningCLI(Model, Data)`: a Trainer that fits what the command line asks for."""
    defaults = given.keywords.get("trainer_defaults")
    said = dict(defaults.items) if isinstance(defaults, Table) else {}
    trainer = make_trainer(frame, Given([], said, complete=False), node)
    for name, position in (("model_class", 0), ("datamodule_class", 1)):
        made = given.get(name, position)
        if isinstance(made, Class):
            instance = construction.instantiate(frame, made, Given([], complete=False), node)
            if isinstance(instance, Instance):
                frame.run.entry.trains = True
                run_object(frame, instance)
    return trainer


_SEVERAL_PROCESSES = (
    "ddp",
    "fsdp",
    "deepspeed",
    "hpu_parallel",
    "horovod",
    "bagua",
    "rayddp",
    "rayfsdp",
    "raydeepspeed",
)
"""How the names of Lightning's strategies begin, in lower case, that start a process for each device."""


def _note_processes(frame: Frame, given: Given) -> None:
    """Learn from the strategy and the number of devices whether several processes are started."""
    entry = frame.run.entry
    several = _several_processes(given)
    if several is Known.YES:
        entry.distributed = Known.YES
        entry.data_parallel = Known.YES
    elif several is Known.NO and entry.distributed is Known.UNKNOWN:
        entry.distributed = Known.NO


def _several_processes(given: Given) -> Known:
    """Whether a Trainer or a Fabric with these arguments runs in several processes."""
    devices, hosts = _count(given, "devices", "gpus"), _count(given, "num_nodes")
    strategies = [_strategy(given, name) for name in ("strategy", "accelerator", "distributed_backend")]
    if "dp" in strategies:
        return Known.UNKNOWN
    if devices == 1 and hosts in (None, 1):
        alone = given.complete and ("num_nodes" not in given.keywords or hosts == 1)
        return Known.NO if alone else Known.UNKNOWN
    # -1 asks for all GPUs of the machine
    several = any(count is not None and (count > 1 or count == -1) for count in (devices, hosts))
    by_name = any(name.startswith(_SEVERAL_PROCESSES) for name in strategies)
    return Known.YES if several or by_name else Known.UNKNOWN


def _strategy(given: Given, name: str) -> str:
    """The name of a strategy, given as text or as an object, in lower case; empty where it is not known."""
    value = given.keywords.get(name)
    if isinstance(value, Object) and value.type == object_types.LIGHTNING_STRATEGY:
        return value.origin.rpartition(".")[2].lower()
    text = _constant(given, name)
    return text.lower() if isinstance(text, str) else ""


def _constant(given: Given, name: str) -> object:
    value = given.keywords.get(name)
    return value.value if isinstance(value, Const) else None


def _count(given: Given, *names: str) -> int | None:
    """How many devices or hosts an argument asks for: a number, or a list of devices; None where it does not tell."""
    for name in names:
        value = given.keywords.get(name)
        if isinstance(value, Tuple):
            return len(value.items)
        if isinstance(value, Const) and not isinstance(value.value, bool):
            text = str(value.value)
            if text.lstrip("-").isdecimal():
                return int(text)
    return None


def trainer_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of a Lightning Trainer: `fit` runs the hooks of the module and iterates the loaders."""
    if name in ("fit", "validate", "test", "predict"):
        if name == "fit":
            frame.run.entry.trains = frame.where.root.runs_passes = True
        for value in given.all():
            for option in frameworks.listed(value):
                if isinstance(option, Instance):
                    run_object(frame, option)
                elif isinstance(option, Object) and option.type == object_types.LOADER:
                    training = name == "fit" and value is not given.get("val_dataloaders", 2)
                    frameworks.take_loader(frame, option, Framework.LIGHTNING, training=training)
    if name == "save_checkpoint":
        records.record_call(frame, "pytorch_lightning.Trainer.save_checkpoint", given, node, receiver)
    return OBJECT


def strategy_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of a Trainer's strategy, by which ranks wait for each other or exchange values."""
    records.note_collective(frame, f"pytorch_lightning.Strategy.{name}", given, node)
    return given.positional[0] if given.positional and name in ("reduce", "all_gather", "broadcast") else OBJECT


def run_object(frame: Frame, instance: Instance) -> None:
    """Run the hooks of a LightningModule, a data module or a callback as often as the Trainer does."""
    if id(instance) in frame.run.driven_objects:
        return
    frame.run.driven_objects.add(id(instance))
    frameworks.own(frame, Framework.LIGHTNING)
    instance.place = frameworks.accelerator(frame)
    outer, frame.where = frame.where, replace(frame.where, loops=(), guards=())
    for name in (*ONCE_HOOKS, *LOADER_HOOKS):
        member = classes.find_member(instance.cls, name)
        if isinstance(member, Function):
            result = functions.call_unbound(frame, member, receiver=instance)
            if name in LOADER_HOOKS:
                for loader in frameworks.listed(result):
                    training = name == "train_dataloader"
                    frameworks.take_loader(frame, loader, Framework.LIGHTNING, training=training)
    frame.where = outer
    callback = not classes.is_module_class(instance.cls)
    if not callback:
        unused_parameters.note_trained(frame, instance, steps=("training_step",))
    for role, hooks in ((Role.STEP, STEP_HOOKS), (Role.EVALUATION, EVALUATION_HOOKS), (Role.EPOCH, EPOCH_HOOKS)):
        for name in hooks:
            member = classes.find_member(instance.cls, name)
            if isinstance(member, Function):
                arguments = _hook_arguments(frame, name, callback=callback)
                grad = GradMode.DISABLED if _EVALUATES.search(name) else None
                frameworks.run_as(frame, role, Bound(member, instance), arguments, grad=grad)


_EVALUATES = re.compile("validation|test|predict")
"""In the names of hooks that a Trainer runs without gradients."""


def _hook_arguments(frame: Frame, name: str, *, callback: bool) -> list[Value]:
    """What the Trainer passes to a hook that gets a batch, or what a step made of one; nothing is known of others."""
    place = frameworks.accelerator(frame)
    batch = Tensor(place, container=True)
    if name in ("training_step", "validation_step", "test_step", "predict_step"):
        return [] if callback else [batch, NUMBER]
    module = Object(object_types.MODEL, origin=library.LIGHTNING_MODULE, place=place)
    owner: list[Value] = [Object(object_types.LIGHTNING_TRAINER), module]
    if name.endswith("_batch_end"):
        return [*(owner if callback else ()), batch, batch, NUMBER]
    if name.endswith("_batch_start"):
        return [*(owner if callback else ()), batch, NUMBER]
    if name == "on_before_backward":
        return [*(owner if callback else ()), Tensor(place, keeps_graph=True, number=True)]
    if name in ("on_after_backward", "on_train_epoch_start", "on_train_epoch_end", "on_validation_epoch_end"):
        return owner if callback else []
    return []


# --------------------------------------------------------------------------------------------- what modules inherit


def is_driven(bases: set[str]) -> bool:
    """Whether objects of a class with these bases are run by a Trainer: modules, data modules, callbacks."""
    return bool(bases & _DRIVEN) or any(base.startswith("pytorch_lightning.callbacks.") for base in bases)


_DRIVEN = {library.LIGHTNING_MODULE, "pytorch_lightning.LightningDataModule", "pytorch_lightning.Callback"}


def is_module(value: Value) -> bool:
    """Whether a value is a LightningModule: one of the project, or the one that a callback is handed."""
    if isinstance(value, Instance):
        return library.LIGHTNING_MODULE in classes.library_bases(value.cls)
    return isinstance(value, Object) and value.origin == library.LIGHTNING_MODULE


def module_method(
    frame: Frame, receiver: Instance | Object, name: str, given: Given, node: code.Call | None
) -> Value | None:
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
        records.note_collective(frame, "pytorch_lightning.LightningModule.all_gather", given, node)
        return given.first()
    return None


_LOGGER = Object(object_types.TRACKER, origin="lightning.loggers.Logger")
_MODULE_ATTRIBUTES: Mapping[str, Value] = {
    "trainer": Object(object_types.LIGHTNING_TRAINER),
    "logger": _LOGGER,
    "loggers": Listing(_LOGGER),
    "global_rank": Host("rank"),
    "local_rank": Host("rank"),
    "global_step": NUMBER,
    "current_epoch": NUMBER,
}


def module_attribute(name: str) -> Value | None:
    """An attribute that a LightningModule inherits; None for any other."""
    return _MODULE_ATTRIBUTES.get(name)


_TRAINER_ATTRIBUTES: Mapping[str, Callable[[Frame], Value]] = {
    "global_rank": lambda frame: Host("rank"),
    "local_rank": lambda frame: Host("rank"),
    "node_rank": lambda frame: Host("rank"),
    "world_size": lambda frame: Host("world-size"),
    "global_step": lambda frame: NUMBER,
    "current_epoch": lambda frame: NUMBER,
    "logger": lambda frame: _LOGGER,
    "loggers": lambda frame: Listing(_LOGGER),
    "strategy": lambda frame: Object(object_types.LIGHTNING_STRATEGY),
    **dict.fromkeys(
        ("callback_metrics", "logged_metrics"),
        lambda frame: Table((), Tensor(frameworks.accelerator(frame), number=True)),
    ),
    **dict.fromkeys(
        ("model", "lightning_module"),
        lambda frame: Object(object_types.MODEL, library.LIGHTNING_MODULE, frameworks.accelerator(frame)),
    ),
}


def trainer_attribute(frame: Frame, name: str) -> Value | None:
    """An attribute of a Trainer: its metrics stay where they were logged; None where nothing is known."""
    made = _TRAINER_ATTRIBUTES.get(name)
    return None if made is None else made(frame)
