"""Methods of library objects: optimizers, models, loaders, loggers, trackers, frameworks."""

from __future__ import annotations

from collections.abc import Callable

from trainlint.semantics import (
    builtin_methods,
    calls,
    classes,
    clocks,
    code,
    command_line,
    configurations,
    entry_facts,
    expressions,
    frameworks,
    functions,
    ignite,
    iteration,
    library,
    lightning,
    loaders,
    models,
    naming,
    object_types,
    ray_train,
    records,
    steps,
    tensors,
    transforms,
    unknown,
)
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import ReportKind, SyncKind
from trainlint.semantics.state import Frame, Role
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
    Host,
    Instance,
    Listing,
    Object,
    Option,
    Reference,
    Table,
    Tensor,
    Tuple,
    Value,
    options,
)
from trainlint.semantics.vocabulary import Place

Handler = Callable[[Frame, Object, str, Given, code.Call | None], Value]


# ----------------------------------------------------------------------------------------------------- dispatching


def call_method(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    """`receiver.name(…)` for anything but functions of the project."""
    if isinstance(receiver, Tensor):
        return tensors.call_method(frame, receiver, name, given, node)
    if isinstance(receiver, Object):
        return _object_method(frame, receiver, name, given, node)
    if isinstance(receiver, Instance):
        return _instance_method(frame, receiver, name, given, node)
    if isinstance(receiver, Listing):
        return builtin_methods.listing_method(frame, receiver, name, given, node)
    if isinstance(receiver, Tuple):
        return builtin_methods.tuple_method(frame, receiver, name, given, node)
    if isinstance(receiver, Table):
        return builtin_methods.table_method(frame, receiver, name, given, node)
    if isinstance(receiver, Const | Host):
        return builtin_methods.host_method(frame, receiver, name, given, node)
    if isinstance(receiver, Option):
        return _option_method(frame, receiver, name, given, node)
    return unknown.call_method(frame, receiver, name, given, node)


def _object_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if receiver.type not in _NEVER_WAITING:
        frame.run.note_possible_wait()
    if lightning.is_module(receiver):
        handled = lightning.module_method(frame, receiver, name, given, node)
        if handled is not None:
            return handled
    handler = _HANDLERS.get(receiver.type)
    if handler is not None:
        return handler(frame, receiver, name, given, node)
    if receiver.type in library.WRAPPERS:
        return models.wrapper_method(frame, receiver, name, given, node)
    if receiver.type == object_types.COMPUTED and isinstance(receiver.inner, Tensor) and name in library.TENSOR_METHODS:
        return tensors.call_method(frame, receiver.inner, name, given, node)
    return unknown.call_method(frame, receiver, name, given, node)


_NEVER_WAITING = frozenset(
    {
        *(object_types.MODEL, object_types.OPTIMIZER, object_types.SCHEDULER, object_types.LOADER),
        *(object_types.SAMPLER, object_types.ITERATOR, object_types.ENUMERATE, object_types.PROGRESS),
        *(object_types.LOGGER, object_types.TRACKER, object_types.ENVIRONMENT, object_types.PARSER),
        *(object_types.TOKENIZER, object_types.DATASET, object_types.TRANSFORM, object_types.SUPER),
        *library.WRAPPERS,
    }
)
"""Types of objects whose methods wait for the device only where something else of the model says so."""


# ----------------------------------------------------------------------------------------------------------- models


def _instance_method(frame: Frame, receiver: Instance, name: str, given: Given, node: code.Call | None) -> Value:
    """A method that an object of the project's class has from a library base."""
    names = classes.library_bases(receiver.cls)
    if library.LIGHTNING_MODULE in names:
        handled = lightning.module_method(frame, receiver, name, given, node)
        if handled is not None:
            return handled
    if classes.is_module_class(receiver.cls):
        return models.instance_method(frame, receiver, name, given, node)
    if any(library.is_optimizer_class(base) for base in names):
        return _optimizer(frame, Object(object_types.OPTIMIZER, origin=receiver.cls.qualname), name, given, node)
    if any(library.HF_TRAINERS.match(base) for base in names):
        return frameworks.hf_trainer_method(frame, receiver, name, given, node)
    return unknown.call_method(frame, receiver, name, given, node)


# ------------------------------------------------------------------------------------------- optimizers and scalers


def _optimizer(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name not in ("step", "zero_grad", "state_dict") or not _only_queues(receiver):
        frame.run.note_possible_wait()
    if name == "step":
        closure = given.get("closure", 0)
        loss = calls.call(frame, closure, Given([]), node) if isinstance(closure, Function | Bound) else UNKNOWN
        steps.mark_update(frame, node)
        return loss
    if name == "zero_grad":
        records.record_call(frame, "torch.optim.Optimizer.zero_grad", given, node, receiver)
        return OBJECT
    if name == "state_dict":
        return Object(object_types.STATE_DICT, inner=receiver)
    if name == "load_state_dict":
        entry_facts.note_restored_optimizer(frame, given)
        entry_facts.note_resume(frame, given)
        return OBJECT
    if naming.BACKWARD.search(name):
        steps.mark_backward(frame, node)
    return OBJECT


def _only_queues(optimizer: Object) -> bool:
    """Whether an update gives work to the device and asks it for nothing: torch's optimizers but LBFGS, which searches
    along a line."""
    return optimizer.origin.startswith("torch.optim.") and not optimizer.origin.endswith("LBFGS")


def _scheduler(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name == "state_dict":
        return Object(object_types.STATE_DICT, inner=receiver)
    if name in ("get_last_lr", "get_lr"):
        return Listing(NUMBER)
    return OBJECT


def _scaler(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name == "scale":
        loss = given.first()
        return replace(loss if isinstance(loss, Tensor) else naming.inferred_tensor(Place.UNKNOWN, True), scaled=True)
    if name in ("step", "unscale_", "get_scale"):
        records.record_call(frame, f"torch.amp.GradScaler.{name}", given, node, receiver)
    if name == "step":
        steps.mark_update(frame, node)
    if name == "get_scale" and node is not None:
        tensors.sync(
            frame,
            SyncKind.READ,
            node,
            Tensor(Place.DEVICE, proved=receiver.proved, number=True),
            code.receiver_of(node),
        )
        return NUMBER
    if name == "state_dict":
        return Object(object_types.STATE_DICT, inner=receiver)
    if name == "load_state_dict":
        entry_facts.note_resume(frame, given)
    if name == "__call__":
        steps.mark_backward(frame, node)
        steps.mark_update(frame, node)
    return OBJECT


# ------------------------------------------------------------------------------------------------ loaders and bars


def _loader(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name == "__iter__":
        return Object(object_types.ITERATOR, inner=receiver)
    if name in ("next", "__next__", "get_batch", "next_batch"):
        return iteration.item_of_object(frame, receiver)
    if name == "set_epoch":
        loaders.note_set_epoch(frame, receiver)
    return UNKNOWN


def _sampler(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name == "set_epoch":
        loaders.note_set_epoch(frame, receiver)
    return OBJECT


def _iterator(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name in ("next", "__next__"):
        return iteration.item_of(frame, receiver)
    return unknown.call_method(frame, receiver, name, given, node)


def _progress(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name in ("set_postfix", "set_description", "set_postfix_str", "set_description_str", "write", "comment"):
        if node is not None:
            for argument, value in zip(node.arguments, given.all(), strict=False):
                tensors.format_sync(frame, node, value, argument.value)
        if name == "write":
            records.record_report(frame, ReportKind.PRINT, "tqdm.write", given, node)
    return OBJECT


# ---------------------------------------------------------------------------------------------- loggers, trackers


def _logger(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name in library.LOGGING_METHODS:
        records.record_report(
            frame, ReportKind.LOGGER, f"logging.Logger.{name}", given, node, rank_aware=receiver.origin == "rank-aware"
        )
        return OBJECT
    if name in ("log_metrics", "log_hyperparams", "add_scalar", "add_scalars", "log_metric"):
        return _tracker(frame, receiver, name, given, node)
    if name in ("setLevel", "addHandler", "addFilter", "disabled"):
        entry_facts.note_log_level(frame, given, node)
    return OBJECT


def _tracker(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name in ("attach_output_handler", "attach_opt_params_handler"):
        ignite.attach_logger(frame, name, given, node)
    if name in library.TRACKER_METHODS:
        records.record_report(frame, ReportKind.TRACKER, f"{receiver.origin or 'tracker'}.{name}", given, node)
    return OBJECT


def _tokenizer(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name in library.ENCODING_METHODS or name in library.DECODING_METHODS or name in library.PADDING_METHODS:
        made_by = receiver.inner.name if isinstance(receiver.inner, Reference) else ""
        records.record_tokenization(frame, receiver.origin or "unknown", name, given, node, made_by)
    if name in library.DECODING_METHODS:
        return Object(object_types.GENERATED_TEXT) if _fresh(given) else STRING
    if name in library.PADDING_METHODS or name in (
        "__call__",
        "encode",
        "batch_encode_plus",
        "encode_plus",
        "apply_chat_template",
    ):
        return (
            Tensor(Place.HOST, container=True)
            if "return_tensors" in given.keywords or name == "pad"
            else Listing(NUMBER)
        )
    if name == "to":
        return receiver
    return UNKNOWN


def _fresh(given: Given) -> bool:
    """Whether what is decoded was computed on the device a moment ago."""
    return any(
        tensor.place is Place.DEVICE and tensor.loader is None
        for value in given.all()
        for tensor in tensors.tensors_in(value)
    )


# ------------------------------------------------------------------------------------------------------ containers


def _option_method(frame: Frame, receiver: Option, name: str, given: Given, node: code.Call | None) -> Value:
    frame.run.note_possible_wait()
    if name in ("step", "zero_grad", "state_dict", "load_state_dict") and node is not None:
        return _optimizer(frame, Object(object_types.OPTIMIZER, proved=False), name, given, node)
    if name in ("get", "pop") and given.positional and isinstance(given.positional[0], Const):
        return Option(str(given.positional[0].value))
    if name == "items":
        return Listing(Tuple((STRING, Option(receiver.name))))
    if name == "backward":
        steps.mark_backward(frame, node)
    if name == "update" and command_line.holds_options(receiver):
        command_line.update_options(frame, given)
    return Option(name)


# ------------------------------------------------------------------------------------------------ calls of objects


def call_object(frame: Frame, callee: Object, given: Given, node: code.Call | None) -> Value:
    """A library object, called like a function."""
    if callee.type == object_types.MODEL:
        clocks.note_work(frame, node, callee, *given.all())
        if callee.proved or _may_be_batch(given):
            models.record_forward(frame, callee, node)
        if isinstance(callee.inner, Instance | Choice):
            inside = calls.call(frame, callee.inner, given, None)
            if isinstance(inside, Tensor):
                return models.placed(frame, inside, callee.place, given.all())
        loss = callee.origin == "criterion" or callee.origin.endswith("Loss")
        values = given.all()
        place = Place.UNKNOWN if loss else callee.place
        return tensors.call_module_value(frame, place, callee.proved, values, number=loss)
    if callee.type in library.WRAPPERS:
        return models.call_wrapper(frame, callee, given, node)
    if callee.type == object_types.TOKENIZER:
        return _tokenizer(frame, callee, "__call__", given, node)
    if callee.type == object_types.SCALER:
        frame.run.note_possible_wait()
        return _scaler(frame, callee, "__call__", given, node)
    if callee.type == object_types.DEEPSPEED_ENGINE:
        clocks.note_work(frame, node, callee)
        models.record_forward(frame, callee, node)
        inner = callee.inner
        if isinstance(inner, Instance):
            return models.call_module(frame, inner, given, node)
        return tensors.call_module_value(frame, Place.DEVICE, True, given.all())
    if (
        callee.type
        in (
            object_types.NO_GRAD,
            object_types.ENABLE_GRAD,
            object_types.CACHE,
            object_types.DECORATOR,
            object_types.AUTOCAST,
        )
        and given.positional
    ):
        return functions.decorated(callee, given.positional[0])
    if callee.type == object_types.SCHEDULER:
        return NUMBER
    if callee.type == object_types.TRANSFORM:
        return transforms.apply(frame, callee, given, node)
    frame.run.note_possible_wait()
    functions.run_callbacks(frame, given)
    return UNKNOWN


def _may_be_batch(given: Given) -> bool:
    """Whether what is given to something that is a model by its name alone is, or may hold, tensors."""
    values = [option for value in given.all() for option in options(value)]
    return given.spread or any(
        tensors.tensors_in(value) or (isinstance(value, Object) and value.type == object_types.COMPUTED)
        for value in values
    )


def _dataset(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    """A Hugging Face dataset: `map` works once, ahead of training; `set_transform` works for each item."""
    if name in ("map", "filter"):
        functions.run_callbacks(frame, given)
        for option in options(given.get("function", 0) or UNKNOWN):
            if isinstance(option, Function) and isinstance(option.define, code.Lambda):
                functions.call_unbound(frame, option)
        return receiver
    if name in ("set_transform", "with_transform"):
        frameworks.run_per_item(frame, given.positional[:1], Role.SAMPLE)
        return receiver
    if name in ("__len__", "num_rows"):
        return NUMBER
    return receiver


def _base_constructor(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    frame.run.passed_up[id(receiver.inner)] = given
    return NONE


def _environment(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name == "setdefault" and node is not None and len(given.positional) > 1:
        entry_facts.record_environment(frame, node, given.positional[0], given.positional[1], fallback=True)
    if name == "update" and node is not None and given.positional and isinstance(given.positional[0], Table):
        for key, value in given.positional[0].items:
            entry_facts.record_environment(frame, node, Const(key), value)
    return expressions.item_at(frame, receiver, given.first())


def _path(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    records.record_path_read(frame, name, given, node)
    return configurations.path_method(frame, receiver, name, given, node)


def _checkpoint(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name in ("cuda", "to") and frame.where.root.role in (Role.SAMPLE, Role.COLLATE):
        # what a dataset reads from a file for each item is data, not a model
        return unknown.call_method(frame, receiver, name, given, node)
    if name in ("get", "pop"):
        return replace(receiver, inner=receiver)
    if name == "items":
        return Listing(Tuple((STRING, Tensor(Place.UNKNOWN, proved=False))))
    return receiver


_HANDLERS: dict[str, Handler] = {
    object_types.ENVIRONMENT: _environment,
    object_types.SUPER: _base_constructor,
    object_types.GENERATED_TEXT: lambda frame, receiver, name, given, node: receiver,
    object_types.MODEL: lambda frame, receiver, name, given, node: models.model_method(
        frame, receiver, name, given, node
    ),
    object_types.OPTIMIZER: _optimizer,
    object_types.SCHEDULER: _scheduler,
    object_types.SCALER: _scaler,
    object_types.LOADER: _loader,
    object_types.SAMPLER: _sampler,
    object_types.ITERATOR: _iterator,
    object_types.ENUMERATE: _iterator,
    object_types.PROGRESS: _progress,
    object_types.LOGGER: _logger,
    object_types.TRACKER: _tracker,
    object_types.TOKENIZER: _tokenizer,
    object_types.HF_DATASET: _dataset,
    object_types.PARSER: lambda frame, receiver, name, given, node: command_line.parser_method(
        frame, receiver, name, given, node
    ),
    object_types.PATH: _path,
    object_types.FILE: lambda frame, receiver, name, given, node: receiver if name == "read" else OBJECT,
    object_types.CHECKPOINT: _checkpoint,
    object_types.STATE_DICT: _checkpoint,
    object_types.ACCELERATOR: lambda frame, receiver, name, given, node: frameworks.accelerator_method(
        frame, receiver, name, given, node
    ),
    object_types.FABRIC: lambda frame, receiver, name, given, node: lightning.fabric_method(
        frame, receiver, name, given, node
    ),
    object_types.DEEPSPEED_ENGINE: lambda frame, receiver, name, given, node: frameworks.deepspeed_method(
        frame, receiver, name, given, node
    ),
    object_types.LIGHTNING_TRAINER: lambda frame, receiver, name, given, node: lightning.trainer_method(
        frame, receiver, name, given, node
    ),
    object_types.LIGHTNING_STRATEGY: lambda frame, receiver, name, given, node: lightning.strategy_method(
        frame, receiver, name, given, node
    ),
    object_types.RAY_CONTEXT: lambda frame, receiver, name, given, node: ray_train.context_method(
        frame, receiver, name, given, node
    ),
    object_types.RAY_SHARD: lambda frame, receiver, name, given, node: ray_train.shard_method(
        frame, receiver, name, given, node
    ),
    object_types.IGNITE_ENGINE: lambda frame, receiver, name, given, node: ignite.engine_method(
        frame, receiver, name, given, node
    ),
    object_types.IGNITE_PARALLEL: lambda frame, receiver, name, given, node: ignite.parallel_method(
        frame, receiver, name, given, node
    ),
    object_types.HF_TRAINER: lambda frame, receiver, name, given, node: frameworks.hf_trainer_method(
        frame, receiver, name, given, node
    ),
}
