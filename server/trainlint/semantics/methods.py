"""Methods of library objects: optimizers, models, loaders, loggers, trackers, frameworks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from trainlint.semantics import (
    calls,
    classes,
    code,
    expressions,
    frameworks,
    guards,
    library,
    naming,
    packages,
    records,
    tensors,
)
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import Call, Loader, Report, ReportKind, SyncKind, Tokenization, TokenizerWork
from trainlint.semantics.state import Frame, Role, WrappedModel
from trainlint.semantics.text import dotted
from trainlint.semantics.values import (
    ARRAY,
    NONE,
    NUMBER,
    OBJECT,
    STRING,
    UNKNOWN,
    Bound,
    Choice,
    Const,
    DeviceValue,
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
    Unknown,
    Value,
    is_reference,
    join,
    options,
)
from trainlint.semantics.vocabulary import GradMode, Place

if TYPE_CHECKING:
    from trainlint.semantics.calls import Given

Handler = Callable[[Frame, "Object", str, "Given", "code.Call | None"], Value]


# --------------------------------------------------------------------------------------------------------- records


def record_call(frame: Frame, name: str, given: Given, node: code.Call | None, receiver: Value | None = None) -> None:
    """Record a call of a library function that rules ask for by name."""
    if node is None:
        return
    frame.run.record(
        Call,
        frame,
        name,
        name=name,
        site=frame.site(node.at),
        text=node,
        arguments=given.arguments(name),
        receiver=receiver,
        stands_alone=frame.standing_alone == node.at,
    )


def record_report(
    frame: Frame, kind: ReportKind, name: str, given: Given, node: code.Call | None, *, rank_aware: bool = False
) -> None:
    """Record a print or a log; what is printed is read from the device if it lives there."""
    if node is None:
        return
    entry = frame.run.entry
    aware = (
        rank_aware
        or (kind is ReportKind.PRINT and entry.rank_aware_print)
        or (kind is ReportKind.LOGGER and entry.silent_loggers)
    )
    frame.run.record(
        Report,
        frame,
        name,
        kind=kind,
        site=frame.site(node.at),
        text=node,
        name=name,
        arguments=given.arguments(name),
        rank_aware=aware,
        only_reads=all(_only_reads(argument.value) for argument in node.arguments),
        names_rank=any(_mentions_rank(argument.value) for argument in node.arguments),
        stands_alone=frame.standing_alone == node.at,
    )
    if name.startswith("pytorch_lightning."):
        # Lightning keeps tensors that are logged on the device, and reads them when it logs
        return
    for argument, value in zip(node.arguments, given.all(), strict=False):
        tensors.format_sync(frame, node, value, argument.value)


_READS = frozenset(
    {"len", "float", "int", "str", "bool", "round", "min", "max", "sum", "abs", "repr", "format", "join", "time"}
    | {"perf_counter", "now", "strftime", "item", "tolist", "cpu", "numpy", "detach", "mean", "norm", "get_last_lr"}
    | {"get", "keys", "items", "values", "lower", "upper", "strip", "size", "argmax", "basename", "dumps", "isoformat"}
    | {"memory_allocated", "max_memory_allocated", "get_lr", "get_rank", "get_world_size"}
)
"""Calls that change nothing, so that a line of output may be left out with them."""


def _only_reads(node: code.Expression) -> bool:
    return all(guards.last_word(item.function) in _READS for item in code.walk(node) if isinstance(item, code.Call))


def _mentions_rank(node: code.Expression) -> bool:
    return any(
        naming.RANK.search(item.id if isinstance(item, code.Name) else item.name)
        for item in code.walk(node)
        if isinstance(item, code.Name | code.Attribute)
    )


def record_tokenization(
    frame: Frame, kind: str, method: str, given: Given, node: code.Call | None, tokenizer: str = ""
) -> None:
    """Record work of a tokenizer of the library `kind`."""
    if node is None or given.keywords.get("tokenize") == Const(False):
        return
    work = (
        TokenizerWork.DECODE
        if method in library.DECODING_METHODS
        else TokenizerWork.PAD
        if method in library.PADDING_METHODS
        else TokenizerWork.ENCODE
    )
    first = given.get("text", 0)
    frame.run.record(
        Tokenization,
        frame,
        "tokenize",
        site=frame.site(node.at),
        text=node,
        library=kind,
        work=work,
        arguments=given.arguments(),
        cached=_is_cached(frame),
        tokenizer=tokenizer,
        generated=_is_generated(first),
    )


def _is_generated(value: Value | None) -> bool:
    if isinstance(value, Listing):
        value = value.item
    return isinstance(value, Object) and value.type == "generated-text"


def _is_cached(frame: Frame) -> bool:
    """Whether the function that tokenizes keeps its results: an lru_cache, or a dictionary looked up first."""
    function = frame.function
    if function is None:
        return False
    caches = ("functools.lru_cache", "functools.cache", "lru_cache", "cachetools.cached")
    decorated = any(
        is_reference(item, *caches) or (isinstance(item, Object) and item.type == "cache")
        for item in function.decorators
    )
    return decorated or any(_looks_up(guard.test) for guard in frame.where.guards)


def _looks_up(test: object) -> bool:
    """Whether a condition asks a cache: `if key not in self.kept:`, or one that says so in a name."""
    if isinstance(test, code.Compare) and "not in" in test.ops:
        return True
    return any(
        "cache" in (item.id if isinstance(item, code.Name) else item.name).lower()
        for item in code.walk(test)
        if isinstance(item, code.Name | code.Attribute)
    )


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
        return _listing_method(frame, receiver, name, given, node)
    if isinstance(receiver, Tuple):
        return _tuple_method(frame, receiver, name, given, node)
    if isinstance(receiver, Table):
        return _table_method(frame, receiver, name, given, node)
    if isinstance(receiver, Const | Host):
        return _host_method(frame, receiver, name, given, node)
    if isinstance(receiver, Option):
        return _option_method(frame, receiver, name, given, node)
    return _unknown_method(frame, receiver, name, given, node)


def _object_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    handler = _HANDLERS.get(receiver.type)
    if handler is not None:
        return handler(frame, receiver, name, given, node)
    if receiver.type in library.WRAPPERS:
        return _wrapper_method(frame, receiver, name, given, node)
    if receiver.type == "computed" and isinstance(receiver.inner, Tensor) and name in library.TENSOR_METHODS:
        return tensors.call_method(frame, receiver.inner, name, given, node)
    return _unknown_method(frame, receiver, name, given, node)


# ----------------------------------------------------------------------------------------------------------- models

_PLACING = {"to", "cuda", "cpu", "half", "float", "double", "bfloat16", "to_empty", "xpu"}
_SAME_MODEL = {
    "train",
    "eval",
    "requires_grad_",
    "apply",
    "compile",
    "share_memory",
    "type",
    "gradient_checkpointing_enable",
    "enable_input_require_grads",
    "init_weights",
    "freeze",
    "unfreeze",
}


def _model_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name in _PLACING:
        moved = replace(receiver, place=_model_place(frame, receiver.place, name, given))
        calls.rebind(frame, code.receiver_of(node), moved)
        return moved
    if name in _SAME_MODEL:
        _note_mode(frame, name, given, node)
        if name == "requires_grad_" and given.positional[:1] == [Const(False)]:
            calls.rebind(frame, code.receiver_of(node), replace(receiver, frozen=True))
        return receiver
    return _module_protocol(frame, receiver, receiver.place, name, given, node)


def _note_mode(frame: Frame, name: str, given: Given, node: code.Call | None) -> None:
    """`model.eval()` starts what evaluates, `model.train()` ends it; the `eval()` of a teacher beside a model that
    trains does neither."""
    if name not in ("train", "eval"):
        return
    receiver = code.receiver_of(node)
    model = dotted(receiver) if receiver is not None else ""
    if name == "train" and given.positional[:1] != [Const(False)]:
        frame.training.add(model)
        frame.evaluating = False
    else:
        frame.evaluating = model in frame.training or not frame.training
        frame.training.discard(model)


def _model_place(frame: Frame, place: Place, name: str, given: Given) -> Place:
    """Where a model lives after `.to(…)`, `.cuda()` or `.cpu()`."""
    if name == "cpu":
        return Place.HOST
    if name == "cuda" or name == "xpu":
        tensors.note_device(frame, DeviceValue(cuda=True))
        return Place.DEVICE
    if name not in ("to", "to_empty"):
        return place
    device, named = tensors.target_of(given)
    if device is None:
        unknown = named or (given.positional and isinstance(given.positional[0], Unknown))
        return Place.UNKNOWN if unknown and place is not Place.DEVICE else place
    tensors.note_device(frame, device)
    return tensors.place_of(device)


def _module_protocol(
    frame: Frame, model: Value, place: Place, name: str, given: Given, node: code.Call | None
) -> Value:
    """What every `nn.Module` offers beside its forward."""
    if name in ("parameters", "buffers"):
        return Listing(Tensor(place=place))
    if name in ("named_parameters", "named_buffers"):
        return Listing(Tuple((STRING, Tensor(place=place))))
    if name in ("modules", "children"):
        return Listing(Object("torch.nn.Module", place=place))
    if name in ("named_modules", "named_children"):
        return Listing(Tuple((STRING, Object("torch.nn.Module", place=place))))
    if name == "state_dict":
        return Object("state_dict", inner=Object("torch.nn.Module"))
    if name == "load_state_dict":
        packages.note_resume(frame, given)
        return OBJECT
    if name == "zero_grad":
        record_call(frame, "torch.nn.Module.zero_grad", given, node, model)
        return OBJECT
    if name in ("register_buffer", "register_parameter", "add_module"):
        _register(model, given)
        return OBJECT
    if name in (
        "get_parameter",
        "register_forward_hook",
        "register_full_backward_hook",
        "push_to_hub",
        "resize_token_embeddings",
        "print_trainable_parameters",
        "num_parameters",
        "get_input_embeddings",
    ):
        return OBJECT
    if name == "save_pretrained":
        state = Object("state_dict", inner=Object("torch.nn.Module"))
        records.note_checkpoint(frame, calls.Given([state]), node)
        return OBJECT
    if name == "no_sync":
        frame.run.entry.disables_sync = True
        return Object("no_sync")
    if "backward" in name:
        calls.mark_backward(frame, node)
        return OBJECT
    if name == "forward":
        calls.record_forward(frame, model, node)
        return tensors.call_module_value(frame, place, False, given.all())
    if name == "generate":
        return Tensor(place=place if place is Place.DEVICE else Place.UNKNOWN, container=True)
    return tensors.call_module_value(frame, place, False, given.all())


def _register(model: Value, given: Given) -> None:
    """A buffer or parameter is an attribute that moves with its module."""
    name = given.get("name", 0)
    value = given.get("tensor", 1)
    if isinstance(model, Instance) and isinstance(name, Const) and isinstance(name.value, str) and value is not None:
        model.attributes[name.value] = replace(value, registered=True) if isinstance(value, Tensor) else value


def _wrapper_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name in ("no_sync", "join", "set_requires_gradient_sync"):
        frame.run.entry.disables_sync = True
        return Object("no_sync")
    if name in _PLACING:
        place = _model_place(frame, receiver.place, name, given)
        inner = receiver.inner
        if isinstance(inner, Instance):
            inner.place = place
        moved = replace(
            receiver, place=place, inner=replace(inner, place=place) if isinstance(inner, Object) else inner
        )
        calls.rebind(frame, code.receiver_of(node), moved)
        return moved
    if name in _SAME_MODEL:
        _note_mode(frame, name, given, node)
        return receiver
    if receiver.inner is not None and not isinstance(receiver.inner, Unknown):
        callee = expressions.method(frame, receiver.inner, name)
        return calls.call(frame, callee, given, node)
    return _module_protocol(frame, receiver, receiver.place, name, given, node)


def _instance_method(frame: Frame, receiver: Instance, name: str, given: Given, node: code.Call | None) -> Value:
    """A method that an object of the project's class has from a library base."""
    names = classes.library_bases(receiver.cls)
    if library.LIGHTNING_MODULE in names:
        handled = frameworks.lightning_method(frame, receiver, name, given, node)
        if handled is not None:
            return handled
    if classes.is_module_class(receiver.cls):
        if name in _PLACING:
            receiver.place = _model_place(frame, receiver.place, name, given)
            return receiver
        if name in _SAME_MODEL:
            _note_mode(frame, name, given, node)
            if name == "requires_grad_" and given.positional[:1] == [Const(False)]:
                receiver.frozen = True
            return receiver
        if name == "forward":
            return tensors.call_module_value(frame, receiver.place, True, given.all())
        return _module_protocol(frame, receiver, receiver.place, name, given, node)
    if any(library.is_optimizer_class(base) for base in names):
        return _optimizer(frame, Object("torch.optim.Optimizer", origin=receiver.cls.qualname), name, given, node)
    if any(library.HF_TRAINERS.match(base) for base in names):
        return frameworks.hf_trainer_method(frame, receiver, name, given, node)
    return _unknown_method(frame, receiver, name, given, node)


# ------------------------------------------------------------------------------------------- optimizers and scalers


def _optimizer(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name == "step":
        for value in given.positional[:1]:
            if isinstance(value, Function | Bound):
                calls.call(frame, value, calls.Given([]), node)
        calls.mark_update(frame, node)
        return UNKNOWN
    if name == "zero_grad":
        record_call(frame, "torch.optim.Optimizer.zero_grad", given, node, receiver)
        return OBJECT
    if name == "state_dict":
        return Object("state_dict", inner=receiver)
    if name == "load_state_dict":
        packages.note_resume(frame, given)
        return OBJECT
    if "backward" in name:
        calls.mark_backward(frame, node)
    return OBJECT


def _scheduler(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name == "state_dict":
        return Object("state_dict", inner=receiver)
    if name in ("get_last_lr", "get_lr"):
        return Listing(NUMBER)
    return OBJECT


def _scaler(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name == "scale":
        return (
            given.positional[0]
            if given.positional and isinstance(given.positional[0], Tensor)
            else naming.inferred_tensor(Place.UNKNOWN, True)
        )
    if name == "step":
        calls.mark_update(frame, node)
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
        return Object("state_dict", inner=receiver)
    if name == "load_state_dict":
        packages.note_resume(frame, given)
    if name == "__call__":
        calls.mark_backward(frame, node)
        calls.mark_update(frame, node)
    return OBJECT


# ------------------------------------------------------------------------------------------------ loaders and bars


def _loader(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name == "__iter__":
        return Object("iterator", inner=receiver)
    if name in ("next", "__next__", "get_batch", "next_batch"):
        return item_of_object(frame, receiver)
    if name == "set_epoch":
        packages.note_set_epoch(frame, receiver)
    return UNKNOWN


def _sampler(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name == "set_epoch":
        packages.note_set_epoch(frame, receiver)
    return OBJECT


def _iterator(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name in ("next", "__next__"):
        return calls.item_of(frame, receiver)
    return _unknown_method(frame, receiver, name, given, node)


def _progress(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name in ("set_postfix", "set_description", "set_postfix_str", "set_description_str", "write", "comment"):
        if node is not None:
            for argument, value in zip(node.arguments, given.all(), strict=False):
                tensors.format_sync(frame, node, value, argument.value)
        if name == "write":
            record_report(frame, ReportKind.PRINT, "tqdm.write", given, node)
    return OBJECT


def item_of_object(frame: Frame, value: Object) -> Value:
    """What one turn of a loop over a library object gets."""
    if value.type == "torch.utils.data.DataLoader":
        return _batch(value)
    if value.type == "enumerate":
        return Tuple((NUMBER, calls.item_of(frame, value.inner or UNKNOWN)))
    if value.type == "zip":
        items = value.inner.items if isinstance(value.inner, Tuple) else ()
        return Tuple(tuple(calls.item_of(frame, item) for item in items))
    if value.type in ("iterator", "tqdm", "prepared") and value.inner is not None:
        return calls.item_of(frame, value.inner)
    if value.type == "range":
        return NUMBER
    if value.type in ("computed", "generated-text"):
        return value
    if value.type == "torch.nn.Module":
        return replace(value, proved=False)
    if value.type == "datasets.Dataset":
        return UNKNOWN
    if value.type == "state_dict":
        return STRING
    return UNKNOWN


def _batch(loader: Object) -> Value:
    """One batch of a loader: a collection of host tensors, until it is moved."""
    fact = loader.fact if isinstance(loader.fact, Loader) else None
    pinned = fact is not None and fact.arguments.constant("pin_memory") is True
    prepared = fact is not None and fact.prepared_by is not None
    place = Place.DEVICE if prepared or loader.place is Place.DEVICE else Place.HOST
    proved = loader.proved or place is Place.DEVICE
    return Tensor(place=place, proved=proved, loader=fact, pinned=pinned, container=True)


# ---------------------------------------------------------------------------------------------- loggers, trackers


def _logger(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name in library.LOGGING_METHODS:
        record_report(
            frame, ReportKind.LOGGER, f"logging.Logger.{name}", given, node, rank_aware=receiver.origin == "rank-aware"
        )
        return OBJECT
    if name in ("log_metrics", "log_hyperparams", "add_scalar", "add_scalars", "log_metric"):
        return _tracker(frame, receiver, name, given, node)
    if name in ("setLevel", "addHandler", "addFilter", "disabled"):
        packages.note_log_level(frame, given, node)
    return OBJECT


def _tracker(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name in library.TRACKER_METHODS:
        record_report(frame, ReportKind.TRACKER, f"{receiver.origin or 'tracker'}.{name}", given, node)
    return OBJECT


def _tokenizer(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name in library.ENCODING_METHODS or name in library.DECODING_METHODS or name in library.PADDING_METHODS:
        made_by = receiver.inner.name if isinstance(receiver.inner, Reference) else ""
        record_tokenization(frame, receiver.origin or "unknown", name, given, node, made_by)
    if name in library.DECODING_METHODS:
        return Object("generated-text") if _fresh(given) else STRING
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


def _listing_method(frame: Frame, receiver: Listing, name: str, given: Given, node: code.Call | None) -> Value:
    if name in ("append", "appendleft", "add", "insert", "extend") and given.positional:
        added = given.positional[-1]
        if name == "extend":
            added = calls.item_of(frame, added)
        item = added if isinstance(receiver.item, Unknown) else join(receiver.item, added)
        calls.rebind(frame, code.receiver_of(node), Listing(item, growing=True))
        if isinstance(added, Tensor) and name in ("append", "appendleft", "insert"):
            records.note_kept_graph(
                frame, node, code.receiver_of(node), node.arguments[-1].value if node is not None else None, added
            )
        return OBJECT
    if name in ("pop", "popleft", "get"):
        return receiver.item
    if name in ("copy", "sort", "reverse"):
        return receiver
    return UNKNOWN


def _tuple_method(frame: Frame, receiver: Tuple, name: str, given: Given, node: code.Call | None) -> Value:
    if name in ("append", "extend", "insert", "add"):
        return _listing_method(frame, Listing(calls.join_all(receiver.items), growing=True), name, given, node)
    return calls.join_all(receiver.items) if name == "pop" else UNKNOWN


def _table_method(frame: Frame, receiver: Table, name: str, given: Given, node: code.Call | None) -> Value:
    if name in ("update", "setdefault"):
        _update_table(frame, receiver, name, given, node)
    values = [value for _, value in receiver.items] + ([receiver.rest] if receiver.rest is not None else [])
    whole = calls.join_all(values)
    if name == "items":
        return Listing(Tuple((STRING, whole)))
    if name == "values":
        return Listing(whole)
    if name == "keys":
        return Listing(STRING)
    if name in ("get", "pop", "setdefault"):
        key = given.positional[0] if given.positional else UNKNOWN
        return receiver.get(key.value) if isinstance(key, Const) and isinstance(key.value, str) else whole
    if name == "copy":
        return receiver
    return UNKNOWN


def _update_table(frame: Frame, receiver: Table, name: str, given: Given, node: code.Call | None) -> None:
    items = dict(receiver.items)
    rest = receiver.rest
    if name == "setdefault":
        key = given.positional[0] if given.positional else UNKNOWN
        if isinstance(key, Const) and isinstance(key.value, str) and len(given.positional) > 1:
            items.setdefault(key.value, given.positional[1])
    else:
        for value in given.positional[:1]:
            if isinstance(value, Table):
                items |= dict(value.items)
                rest = value.rest if rest is None else rest
            else:
                rest = UNKNOWN
        items |= given.keywords
        rest = rest if given.complete else UNKNOWN
    calls.rebind(frame, code.receiver_of(node), Table(tuple(items.items()), rest))


def _host_method(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    if name == "format" and node is not None:
        for argument, value in zip(node.arguments, given.all(), strict=False):
            tensors.format_sync(frame, node, value, argument.value)
        return STRING
    if isinstance(receiver, Host) and receiver.kind == "array":
        return NUMBER if name in ("item", "sum", "mean", "max", "min") else ARRAY
    if name in ("split", "splitlines"):
        return Listing(STRING)
    if name in ("item", "tolist", "append", "extend"):
        return NUMBER
    return (
        STRING if isinstance(receiver, Const) or (isinstance(receiver, Host) and receiver.kind == "string") else UNKNOWN
    )


def _option_method(frame: Frame, receiver: Option, name: str, given: Given, node: code.Call | None) -> Value:
    if name in ("step", "zero_grad", "state_dict", "load_state_dict") and node is not None:
        return _optimizer(frame, Object("torch.optim.Optimizer", proved=False), name, given, node)
    if name in ("get", "pop") and given.positional and isinstance(given.positional[0], Const):
        return Option(str(given.positional[0].value))
    if name == "items":
        return Listing(Tuple((STRING, Option(receiver.name))))
    if name == "backward":
        calls.mark_backward(frame, node)
    return Option(name)


# -------------------------------------------------------------------------------------------------------- unknown


def _unknown_method(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of something unknown: what people use this name for."""
    named = code.receiver_of(node)
    word = dotted(named).rpartition(".")[2] if named is not None else ""
    if name == "backward" or (
        "backward" in name
        and name not in ("register_backward_hook", "register_full_backward_hook")
        and given.positional
    ):
        calls.mark_backward(frame, node)
        if "update" in name or "step" in name:
            calls.mark_update(frame, node)
        return OBJECT
    if name in ("cuda", "to"):
        return _unknown_moved(frame, name, given)
    if name in ("step", "optimizer_step") and (naming.OPTIMIZER.search(word) and not naming.SCHEDULER.search(word)):
        calls.mark_update(frame, node)
        return OBJECT
    if name == "zero_grad":
        record_call(frame, "torch.optim.Optimizer.zero_grad", given, node, receiver)
        return OBJECT
    if name == "set_epoch":
        frame.run.entry.sets_epoch = True
        return OBJECT
    if library.TRACKER_ONLY_METHODS.match(name):
        record_report(frame, ReportKind.TRACKER, f"tracker.{name}", given, node)
        return OBJECT
    if name == "item":
        return NUMBER
    if name in ("format", "join", "strip", "lower"):
        return _host_method(frame, STRING, name, given, node)
    if name == "parameters":
        return Listing(Tensor(Place.UNKNOWN, proved=False))
    if name in ("items", "keys"):
        return Listing(Tuple((STRING, UNKNOWN)) if name == "items" else STRING)
    if name == "state_dict":
        kind = "torch.optim.Optimizer" if naming.OPTIMIZER.search(word) else "torch.nn.Module"
        return Object("state_dict", inner=Object(kind, proved=False))
    if name == "load_state_dict":
        packages.note_resume(frame, given)
        return OBJECT
    if name == "no_sync":
        frame.run.entry.disables_sync = True
        return Object("no_sync")
    if name in ("append", "add"):
        added = given.positional[-1] if given.positional else UNKNOWN
        if isinstance(added, Tensor):
            records.note_kept_graph(
                frame, node, code.receiver_of(node), node.arguments[-1].value if node is not None else None, added
            )
        return OBJECT
    packages.run_callbacks(frame, given)
    if naming.CRITERION.search(name) or naming.LOSS.search(name):
        found = tensors.result_of(frame, given.all())
        return replace(found, proved=False, number=True) if found is not None else UNKNOWN
    return UNKNOWN


def _unknown_moved(frame: Frame, name: str, given: Given) -> Value:
    if name == "cuda":
        tensors.note_device(frame, DeviceValue(cuda=True))
        return Tensor(Place.DEVICE, proved=False, container=True)
    device, _ = tensors.target_of(given)
    if device is None:
        return UNKNOWN
    tensors.note_device(frame, device)
    return Tensor(tensors.place_of(device), proved=False, container=True)


# ------------------------------------------------------------------------------------------------ calls of objects


def call_object(frame: Frame, callee: Object, given: Given, node: code.Call | None) -> Value:
    """A library object, called like a function."""
    if callee.type == "torch.nn.Module":
        if callee.proved or _may_be_batch(given):
            calls.record_forward(frame, callee, node)
        if isinstance(callee.inner, Instance | Choice):
            inside = calls.call(frame, callee.inner, given, None)
            if isinstance(inside, Tensor):
                return calls.placed(frame, inside, callee.place, given.all())
        loss = callee.origin == "criterion" or callee.origin.endswith("Loss")
        values = given.all()
        place = Place.UNKNOWN if loss else callee.place
        return tensors.call_module_value(frame, place, callee.proved, values, number=loss)
    if callee.type in library.WRAPPERS:
        return _call_wrapper(frame, callee, given, node)
    if callee.type == "tokenizer":
        return _tokenizer(frame, callee, "__call__", given, node)
    if callee.type == "torch.amp.GradScaler":
        return _scaler(frame, callee, "__call__", given, node)
    if callee.type == "deepspeed.Engine":
        calls.record_forward(frame, callee, node)
        inner = callee.inner
        if isinstance(inner, Instance):
            return calls.call_module(frame, inner, given, node)
        return tensors.call_module_value(frame, Place.DEVICE, True, given.all())
    if callee.type in ("no_grad", "enable_grad", "cache", "decorator", "autocast") and given.positional:
        return decorated(callee, given.positional[0])
    if callee.type == "torch.optim.lr_scheduler.LRScheduler":
        return NUMBER
    packages.run_callbacks(frame, given)
    return UNKNOWN


def _may_be_batch(given: Given) -> bool:
    """Whether what is given to something that is a model by its name alone is, or may hold, tensors."""
    values = [option for value in given.all() for option in options(value)]
    return given.spread or any(
        tensors.tensors_in(value) or (isinstance(value, Object) and value.type == "computed") for value in values
    )


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


def _call_wrapper(frame: Frame, callee: Object, given: Given, node: code.Call | None) -> Value:
    if isinstance(callee.fact, WrappedModel):
        callee.fact.called = True
        callee.fact.with_gradients = callee.fact.with_gradients or frame.where.grad is not GradMode.DISABLED
    inner = callee.inner
    if isinstance(inner, Instance):
        inner.place = Place.DEVICE if callee.place is Place.DEVICE else inner.place
        return calls.call_module(frame, inner, given, node)
    calls.record_forward(frame, callee, node)
    return tensors.call_module_value(frame, callee.place, callee.proved, given.all())


def _data_set(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    """A Hugging Face dataset: `map` works once, ahead of training; `set_transform` works for each item."""
    if name in ("map", "filter"):
        packages.run_callbacks(frame, given)
        return receiver
    if name in ("set_transform", "with_transform"):
        frameworks.run_per_item(frame, given.positional[:1], Role.SAMPLE)
        return receiver
    if name in ("__len__", "num_rows"):
        return NUMBER
    return receiver


def _parser(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name == "add_argument":
        _declare_option(frame, given)
        return OBJECT
    if name == "parse_args":
        return Option("config")
    if name == "parse_known_args":
        return Tuple((Option("config"), Listing(STRING)))
    if name == "parse_args_into_dataclasses":
        return Tuple((Option("config"), Option("config"), Option("config")))
    if name in ("add_argument_group", "add_mutually_exclusive_group", "add_parser", "add_subparsers"):
        return receiver
    return OBJECT


def _declare_option(frame: Frame, given: Given) -> None:
    flags = [value.value for value in given.positional if isinstance(value, Const) and isinstance(value.value, str)]
    if not flags:
        return
    longest = next((flag for flag in flags if flag.startswith("--")), flags[0])
    destination = given.keywords.get("dest")
    name = str(destination.value) if isinstance(destination, Const) else longest.lstrip("-").replace("-", "_")
    if naming.RANK.search(name) or naming.DEVICE.search(name):
        return
    default = given.keywords.get("default", NONE)
    if given.keywords.get("action") == Const("store_true"):
        default = Const(False)
    has_default = isinstance(default, Const)
    frame.run.command_line.setdefault(
        name, Option(name, default.value if isinstance(default, Const) else None, has_default)
    )


def _base_constructor(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    frame.run.passed_up[id(receiver.inner)] = given
    return NONE


def _environment(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name == "setdefault" and node is not None and len(given.positional) > 1:
        packages.record_environment(frame, node, given.positional[0], given.positional[1])
    if name == "update" and node is not None and given.positional and isinstance(given.positional[0], Table):
        for key, value in given.positional[0].items:
            packages.record_environment(frame, node, Const(key), value)
    return expressions.item_at(frame, receiver, given.positional[0] if given.positional else UNKNOWN)


def _checkpoint(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    if name in ("get", "pop"):
        return replace(receiver, inner=receiver)
    if name == "items":
        return Listing(Tuple((STRING, Tensor(Place.UNKNOWN, proved=False))))
    return receiver


_HANDLERS: dict[str, Handler] = {
    "os.environ": _environment,
    "super": _base_constructor,
    "generated-text": lambda frame, receiver, name, given, node: receiver,
    "torch.nn.Module": _model_method,
    "torch.optim.Optimizer": _optimizer,
    "torch.optim.lr_scheduler.LRScheduler": _scheduler,
    "torch.amp.GradScaler": _scaler,
    "torch.utils.data.DataLoader": _loader,
    "sampler": _sampler,
    "iterator": _iterator,
    "enumerate": _iterator,
    "tqdm": _progress,
    "logging.Logger": _logger,
    "tracker": _tracker,
    "tokenizer": _tokenizer,
    "datasets.Dataset": _data_set,
    "argparse.ArgumentParser": _parser,
    "checkpoint": _checkpoint,
    "state_dict": _checkpoint,
    "accelerate.Accelerator": frameworks.accelerator_method,
    "lightning.Fabric": frameworks.fabric_method,
    "deepspeed.Engine": frameworks.deepspeed_method,
    "pytorch_lightning.Trainer": frameworks.lightning_trainer_method,
    "hf.Trainer": frameworks.hf_trainer_method,
}
