"""Ray Train: a trainer runs a function of the project on each worker, which prepares its model and its loaders."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trainlint.semantics import calls, code, frameworks, object_types, records, steps
from trainlint.semantics.arguments import Given
from trainlint.semantics.state import Frame
from trainlint.semantics.values import (
    NONE,
    OBJECT,
    UNKNOWN,
    Bound,
    Const,
    DeviceValue,
    Function,
    Host,
    Object,
    Option,
    Partial,
    Table,
    Value,
)
from trainlint.semantics.vocabulary import Framework, Known, Place


def make_trainer(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`TorchTrainer(train_loop_per_worker, …)`: the loop runs on each worker once the trainer is told to fit."""
    scaling = given.keywords.get("scaling_config", NONE)
    _note_workers(frame, scaling)
    loop = given.get("train_loop_per_worker", 0) or UNKNOWN
    function = loop.function if isinstance(loop, Bound | Partial) else loop
    if isinstance(function, Function):
        # the loop may take the configuration that the trainer is given for it
        calls.call(frame, loop, Given([Option("config")] if function.define.parameters else []), node)
    return OBJECT


def _note_workers(frame: Frame, scaling: Value) -> None:
    """Learn from a ScalingConfig on how many workers the loop runs, and whether they have GPUs."""
    given = dict(scaling.items) if isinstance(scaling, Table) else {}
    in_sight = scaling == NONE or (isinstance(scaling, Table) and scaling.rest is None)
    on_cpu = given.get("use_gpu") == Const(False) or (in_sight and "use_gpu" not in given)
    frameworks.own(frame, Framework.RAY_TRAIN, on_cpu=on_cpu)
    workers = given.get("num_workers", UNKNOWN)
    count = workers.value if isinstance(workers, Const) else None
    entry = frame.run.entry
    if isinstance(count, int) and count > 1:
        entry.distributed = Known.YES
    elif count == 1 and entry.distributed is Known.UNKNOWN:
        entry.distributed = Known.NO


def _scaling(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return Table(tuple(given.keywords.items()), None if given.complete else UNKNOWN)


def _prepare_model(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`prepare_model(model)`: moved to the worker's device, and wrapped in DDP where there are several."""
    if frame.run.entry.distributed is Known.YES:
        frame.run.entry.data_parallel = Known.YES
    return frameworks.prepared(frame, given.get("model", 0) or UNKNOWN, Framework.RAY_TRAIN)


def _prepare_loader(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`prepare_data_loader(loader)`: with a distributed sampler, and batches that are moved to the device."""
    loader = given.get("data_loader", 0) or UNKNOWN
    by_hand = Const(False) in (given.keywords.get("add_dist_sampler"), given.keywords.get("move_to_device"))
    return loader if by_hand else frameworks.prepared(frame, loader, Framework.RAY_TRAIN)


def _report(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`ray.train.report(…)`: every worker waits until all have reported."""
    records.note_collective(frame, "ray.train.report", given, node)
    return NONE


def _backward(frame: Frame, given: Given, node: code.Call | None) -> Value:
    steps.mark_backward(frame, node)
    return NONE


def context_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of `ray.train.get_context()`."""
    if name in ("get_world_rank", "get_local_rank", "get_node_rank"):
        return Host("rank")
    return Host("world-size") if name in ("get_world_size", "get_local_world_size") else OBJECT


def shard_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of a worker's share of a Ray dataset: batches come ready made, on the worker's device."""
    if name in ("iter_torch_batches", "iter_batches"):
        device = name == "iter_torch_batches" and given.keywords.get("device") != Const("cpu")
        return Object(object_types.LOADER, place=frameworks.accelerator(frame) if device else Place.HOST)
    return receiver if name == "materialize" else UNKNOWN


FUNCTIONS: Mapping[str, Callable[[Frame, Given, code.Call | None], Value]] = {
    "ray.train.torch.TorchTrainer": make_trainer,
    "ray.train.ScalingConfig": _scaling,
    "ray.train.torch.prepare_model": _prepare_model,
    "ray.train.torch.prepare_data_loader": _prepare_loader,
    "ray.train.torch.prepare_optimizer": lambda frame, given, node: given.first(),
    "ray.train.torch.backward": _backward,
    "ray.train.torch.get_device": lambda frame, given, node: DeviceValue(cuda=True, cpu=True, rank_local=True),
    "ray.train.report": _report,
    "ray.train.get_context": lambda frame, given, node: Object(object_types.RAY_CONTEXT),
    "ray.train.get_dataset_shard": lambda frame, given, node: Object(object_types.RAY_SHARD),
    "ray.train.lightning.prepare_trainer": lambda frame, given, node: given.first(),
    "ray.train.huggingface.transformers.prepare_trainer": lambda frame, given, node: given.first(),
}
"""Functions and classes of Ray Train, by canonical name."""
