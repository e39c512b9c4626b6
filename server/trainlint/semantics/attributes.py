"""Attributes: what `base.name` is, by what the base is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainlint.semantics import (
    calls,
    classes,
    configurations,
    expressions,
    functions,
    ignite,
    library,
    lightning,
    module_runs,
    naming,
    object_types,
    tensors,
)
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import Loader
from trainlint.semantics.state import Frame
from trainlint.semantics.values import (
    ARRAY,
    FRAME,
    NONE,
    NUMBER,
    OBJECT,
    PATH,
    UNKNOWN,
    Bound,
    Choice,
    Class,
    DeviceValue,
    Function,
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
    Unknown,
    Value,
    is_reference,
    join,
    options,
)
from trainlint.semantics.vocabulary import GuardKind, Known, Place

_SETTINGS_METHODS = {
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
"""What a configuration, or what was made of one, is called by."""


def read(frame: Frame, base: Value, name: str) -> Value:
    """`base.name`, read."""
    if isinstance(base, Choice):
        found: Value | None = None
        for option in base.options:
            if option != NONE:
                one = read(frame, option, name)
                found = one if found is None else join(found, one)
        return UNKNOWN if found is None else found
    reader = _ATTRIBUTES.get(type(base))
    value = reader(frame, base, name) if reader is not None else UNKNOWN
    return expressions.infer(frame, name, name) if isinstance(value, Unknown) else value


def _reference_attribute(frame: Frame, base: Reference, name: str) -> Value:
    if name == "__dict__":
        return Object(object_types.LIBRARY_DICT, origin=base.name)
    full = library.canonical(f"{base.name}.{name}")
    return tensors.constant_reference(full) or Reference(full)


def _module_attribute(frame: Frame, base: ModuleValue, name: str) -> Value:
    if name == "__dict__":
        return Object(object_types.MODULE_DICT, inner=base)
    return module_runs.member_of_module(frame, base.module, name)


def _instance_attribute(frame: Frame, base: Instance, name: str) -> Value:
    if name in base.attributes:
        value = base.attributes[name]
        if isinstance(value, Tensor) and value.registered and base.place is Place.DEVICE:
            return replace(value, place=Place.DEVICE, created=False)
        return value
    member = classes.find_member(base.cls, name)
    if member is None and base.construct is not None and not classes.is_module(base):
        base.settle()
        return _instance_attribute(frame, base, name)
    if isinstance(member, Function):
        if any(is_reference(decorator, "property", "functools.cached_property") for decorator in member.decorators):
            return functions.call_function(frame, member, Given([base]), None)
        return classes.bind(member, base)
    if member is not None:
        return member
    if name == "device" and classes.is_module(base):
        return DeviceValue(
            cuda=base.place is Place.DEVICE or frame.run.entry.cuda is Known.YES,
            cpu=True,
            proved=base.place is Place.DEVICE,
        )
    if name == "__class__":
        return base.cls
    if name == "training":
        return Test((GuardKind.TRAINING,), (GuardKind.EVALUATION,), "self.training")
    inferred = _framework_attribute(frame, base, name)
    return inferred if inferred is not None else UNKNOWN


def _parameter_groups(frame: Frame) -> Value:
    parameters = Listing(Tensor(expressions.assumed_place(frame), proved=False))
    return Listing(Table((("params", parameters),), OBJECT))


def _framework_attribute(frame: Frame, base: Instance, name: str) -> Value | None:
    """What a framework's base class gives an instance of the project's class."""
    names = classes.library_bases(base.cls)
    if name == "param_groups" and any(library.is_optimizer_class(one) for one in names):
        return _parameter_groups(frame)
    if name == "accelerator" and any(library.HF_TRAINERS.match(one) for one in names):
        return Object(object_types.ACCELERATOR)
    return lightning.module_attribute(name) if library.LIGHTNING_MODULE in names else None


def _class_attribute(frame: Frame, base: Class, name: str) -> Value:
    member = classes.find_member(base, name)
    if isinstance(member, Function) and any(is_reference(one, "classmethod") for one in member.decorators):
        return Bound(member, base)
    return member if member is not None else Method(base, name)


def _tensor_attribute(frame: Frame, base: Tensor, name: str) -> Value:
    if name == "device":
        on_device = base.place is Place.DEVICE
        return DeviceValue(cuda=on_device, cpu=not on_device, proved=on_device and base.proved)
    if name in library.HOST_ATTRIBUTES:
        return NUMBER if name in ("ndim", "itemsize", "nbytes") else OBJECT
    if name in ("data", "grad"):
        figure = name == "data" and tensors.is_figure(base)
        return replace(base, keeps_graph=False, gradient=name == "grad", figure=figure)
    if naming.CONFIG.search(name):
        return Option("config")
    if naming.NUMBER_OF.search(name):
        return UNKNOWN
    if name == "loss" and base.container:
        return replace(base, container=False, number=True)
    return replace(base, container=False) if name in ("loss", "logits", "T", "mT") else base


def _object_attribute(frame: Frame, base: Object, name: str) -> Value:
    if base.type == object_types.PATH:
        return configurations.path_attribute(base, name)
    found = _of_lightning(frame, base, name) or ignite.attribute(frame, base, name)
    if found is not None:
        return found
    reader = _OBJECT_ATTRIBUTES.get((base.type, name))
    if reader is not None:
        return reader(base)
    if base.type in library.WRAPPERS:
        if name == "module":
            return base.inner if base.inner is not None else Object(object_types.MODEL, place=base.place, proved=False)
        if base.inner is not None:
            return read(frame, base.inner, name)
    if name == "no_sync" and (
        base.type in library.WRAPPERS or base.type in (object_types.MODEL, object_types.ACCELERATOR)
    ):
        return Method(base, name)
    if base.type in (object_types.ITERATOR, object_types.PROGRESS, object_types.PREPARED) and base.inner is not None:
        return read(frame, base.inner, name)
    if base.type == object_types.MODEL:
        return _layer_attribute(base, name)
    if base.type == object_types.ACCELERATOR and naming.MAIN_PROCESS.search(name):
        return Test((GuardKind.RANK,), text=f"accelerator.{name}")
    return UNKNOWN


def _of_lightning(frame: Frame, base: Object, name: str) -> Value | None:
    """What Lightning's Trainer, its module and its loggers have; None for what is none of them, or is not known."""
    if base.type == object_types.LIGHTNING_TRAINER:
        return lightning.trainer_attribute(frame, name)
    if base.type == object_types.TRACKER and name == "experiment":
        return base
    return lightning.module_attribute(name) if lightning.is_module(base) else None


def _layer_attribute(base: Object, name: str) -> Value:
    """An attribute of a model that is not the project's own: a layer, a parameter, the configuration."""
    if name == "device":
        return DeviceValue(cuda=base.place is not Place.HOST, cpu=True, proved=base.place is Place.DEVICE)
    if name in ("weight", "bias", "data"):
        return Tensor(place=base.place, proved=base.proved)
    if name == "config" or naming.CONFIG.search(name):
        return Option("config")
    if name == "training":
        return Test((GuardKind.TRAINING,), (GuardKind.EVALUATION,), name)
    if naming.TOKENIZER.search(name):
        return UNKNOWN
    return replace(base, inner=None, fact=None, proved=False)


_OBJECT_ATTRIBUTES: dict[tuple[str, str], Callable[[Object], Value]] = {
    (object_types.LOADER, "dataset"): lambda base: _dataset_of(base),
    (object_types.LOADER, "sampler"): lambda base: sampler_of(base),
    (object_types.LOADER, "batch_sampler"): lambda base: sampler_of(base),
    (object_types.LOADER, "batch_size"): lambda base: NUMBER,
    (object_types.ACCELERATOR, "device"): lambda base: DeviceValue(cuda=True, cpu=True),
    (object_types.ACCELERATOR, "process_index"): lambda base: Host("rank"),
    (object_types.ACCELERATOR, "local_process_index"): lambda base: Host("rank"),
    (object_types.ACCELERATOR, "num_processes"): lambda base: Host("world-size"),
    (object_types.ACCELERATOR, "sync_gradients"): lambda base: Test(
        (GuardKind.ACCUMULATION,), text="accelerator.sync_gradients"
    ),
    (object_types.FABRIC, "device"): lambda base: DeviceValue(cuda=True, cpu=True),
    (object_types.FABRIC, "global_rank"): lambda base: Host("rank"),
    (object_types.DEEPSPEED_ENGINE, "device"): lambda base: DeviceValue(cuda=True),
    (object_types.DEEPSPEED_ENGINE, "local_rank"): lambda base: Host("rank"),
    (object_types.DEEPSPEED_ENGINE, "global_rank"): lambda base: Host("rank"),
    (object_types.DEEPSPEED_ENGINE, "world_size"): lambda base: Host("world-size"),
    (object_types.DEEPSPEED_ENGINE, "global_steps"): lambda base: NUMBER,
    (object_types.DEEPSPEED_ENGINE, "module"): lambda base: (
        base.inner or Object(object_types.MODEL, place=Place.DEVICE, proved=False)
    ),
    (object_types.OPTIMIZER, "param_groups"): lambda base: Listing(Table((), OBJECT)),
}


def _dataset_of(loader: Object) -> Value:
    return loader.fact.dataset if isinstance(loader.fact, Loader) else UNKNOWN


def sampler_of(loader: Object) -> Value:
    """The sampler of a loader, as a value."""
    sampler = loader.fact.sampler if isinstance(loader.fact, Loader) else None
    return (
        Object(object_types.SAMPLER, fact=sampler)
        if sampler is not None
        else Object(object_types.SAMPLER, proved=False)
    )


def option_attribute(frame: Frame, base: Option, name: str) -> Value:
    """A part of a setting: an option of the command line, a field of a configuration."""
    known = frame.run.command_line.get(name)
    # an option of the command line is no field of a part of some configuration that has the same name
    if known is not None and naming.CONFIG.search(base.name):
        return known
    if naming.RANK.search(name):
        return Host("rank")
    if naming.DEVICE.search(name) and name != "gpus":
        return DeviceValue(cuda=True, cpu=True, proved=False)
    if name in _SETTINGS_METHODS:
        return Method(base, name)
    return Option(name)


def _table_attribute(frame: Frame, base: Table, name: str) -> Value:
    return configurations.current(frame, base.get(name))


def _host_attribute(frame: Frame, base: Host, name: str) -> Value:
    if base == FRAME:
        # a column, or what all frames have: the shape, the index
        return ARRAY if name == "values" else UNKNOWN
    if base == PATH and name == "parent":
        return PATH
    return OBJECT if base.kind == "array" else UNKNOWN


_ATTRIBUTES: dict[type, Callable[[Frame, Any, str], Value]] = {
    Reference: _reference_attribute,
    ModuleValue: _module_attribute,
    Instance: _instance_attribute,
    Class: _class_attribute,
    Tensor: _tensor_attribute,
    Object: _object_attribute,
    Option: option_attribute,
    Table: _table_attribute,
    Host: _host_attribute,
    Partial: lambda frame, base, name: base.function if name == "func" else UNKNOWN,
}


def method(frame: Frame, base: Value, name: str) -> Value:
    """`base.name`, to be called."""
    if isinstance(base, Choice):
        return Choice(tuple(method(frame, option, name) for option in options(base) if option != NONE))
    if isinstance(base, Instance):
        value = _instance_attribute(frame, base, name)
        return Method(base, name) if isinstance(value, Unknown) else value
    if isinstance(base, Reference | ModuleValue | Class):
        value = read(frame, base, name)
        return Method(base, name) if isinstance(value, Unknown) else value
    if isinstance(base, Object) and base.type in library.WRAPPERS and name == "module" and base.inner is not None:
        return base.inner
    if isinstance(base, Table):
        found = dict(base.items).get(name, UNKNOWN)
        if not isinstance(found, Unknown):
            return found
    if isinstance(base, Object) and base.type == object_types.SUPER and isinstance(base.inner, Instance):
        return calls.super_member(frame, base.inner, name)
    return Method(base, name)
