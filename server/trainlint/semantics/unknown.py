"""Calls of what is not known, judged by the names that people use."""

from __future__ import annotations

from collections.abc import Callable

from trainlint.semantics import (
    builtin_methods,
    code,
    configurations,
    entry_facts,
    functions,
    library,
    naming,
    object_types,
    records,
    steps,
    tensors,
)
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import ReportKind
from trainlint.semantics.state import Frame
from trainlint.semantics.text import called_name, dotted
from trainlint.semantics.values import (
    NUMBER,
    OBJECT,
    STRING,
    UNKNOWN,
    DeviceValue,
    Listing,
    Object,
    Table,
    Tensor,
    Test,
    Tuple,
    Unknown,
    Value,
)
from trainlint.semantics.vocabulary import GradMode, Place


def call(frame: Frame, callee: Value, given: Given, node: code.Call | None) -> Value:
    """A call of something unknown, judged by the name it is called by."""
    frame.run.note_wait()
    word = called_name(node.function) if node is not None else ""
    if isinstance(callee, Unknown):
        for value in given.all():
            if isinstance(value, Table):
                configurations.note_any_change(frame, value)
    if naming.SCHEDULER.search(word):
        frame.run.entry.resets_learning_rate = True
    if naming.BACKWARD.search(word) and given.positional:
        steps.mark_backward(frame, node)
        if "update" in word or "step" in word:
            steps.mark_update(frame, node)
        return OBJECT
    functions.run_callbacks(frame, given)
    found = tensors.result_of(frame, given.all())
    if naming.CRITERION.search(word) or naming.LOSS.search(word):
        return (
            replace(
                found,
                proved=False,
                number=True,
                keeps_graph=found.keeps_graph or frame.where.grad is not GradMode.DISABLED,
            )
            if found is not None
            else UNKNOWN
        )
    if naming.TOKENIZER.search(word):
        records.record_tokenization(frame, "unknown", "__call__", given, node)
        return UNKNOWN
    if word in frame.run.options.loader_factories:
        return Object(object_types.LOADER, proved=False)
    made = naming.made_by(word)
    if isinstance(made, Object):
        if made.type == object_types.OPTIMIZER:
            steps.note_start(frame)
        return made
    return Object(object_types.COMPUTED, inner=replace(found, proved=False)) if found is not None else UNKNOWN


def call_method(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of something unknown: what people use this name for."""
    frame.run.note_wait()
    if _runs_backward(name, given):
        steps.mark_backward(frame, node)
        if "update" in name or "step" in name:
            steps.mark_update(frame, node)
        return OBJECT
    if naming.SCHEDULER.search(name):
        frame.run.entry.resets_learning_rate = True
    if library.TRACKER_ONLY_METHODS.match(name):
        records.record_report(frame, ReportKind.TRACKER, f"tracker.{name}", given, node)
        return OBJECT
    handler = _METHODS.get(name)
    if handler is not None:
        return handler(frame, receiver, name, given, node)
    return _any_method(frame, receiver, name, given, node)


def _runs_backward(name: str, given: Given) -> bool:
    return name == "backward" or (naming.BACKWARD.search(name) and bool(given.positional))


def _any_method(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    """A method by a name that says nothing of what it does, but perhaps of what it returns."""
    functions.run_callbacks(frame, given)
    made = naming.made_by(name)
    if isinstance(made, Object) and made.type == object_types.OPTIMIZER:
        steps.note_start(frame)
    if naming.CRITERION.search(name) or naming.LOSS.search(name):
        found = tensors.result_of(frame, given.all())
        return replace(found, proved=False, number=True) if found is not None else UNKNOWN
    return UNKNOWN


def _moved(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    if name == "cuda":
        tensors.note_device(frame, DeviceValue(cuda=True))
        return Tensor(Place.DEVICE, proved=False, container=True)
    device, _ = tensors.target_of(given)
    if device is None:
        return UNKNOWN
    tensors.note_device(frame, device)
    return Tensor(tensors.place_of(device), proved=False, container=True)


def _step(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    word = _name_of_receiver(node)
    if naming.OPTIMIZER.search(word) and not naming.SCHEDULER.search(word):
        steps.mark_update(frame, node)
        return OBJECT
    return _any_method(frame, receiver, name, given, node)


def _zero_grad(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    records.record_call(frame, "torch.optim.Optimizer.zero_grad", given, node, receiver)
    return OBJECT


def _unscale(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    records.record_call(frame, "torch.amp.GradScaler.unscale_", given, node, receiver)
    return OBJECT


def _checkpoint_activations(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    records.record_call(frame, f"transformers.PreTrainedModel.{name}", given, node, receiver)
    return OBJECT


def _agreed(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    """What all ranks get of a condition is the condition: `skip = strategy.broadcast(skip)`."""
    first = given.first()
    return first if isinstance(first, Test) else _any_method(frame, receiver, name, given, node)


def _from_pretrained(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    steps.note_start(frame)
    return _any_method(frame, receiver, name, given, node)


def _set_epoch(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    frame.run.entry.sets_epoch = True
    return OBJECT


def _state_dict(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    kind = object_types.OPTIMIZER if naming.OPTIMIZER.search(_name_of_receiver(node)) else object_types.MODEL
    return Object(object_types.STATE_DICT, inner=Object(kind, proved=False))


def _load_state_dict(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    if naming.OPTIMIZER.search(_name_of_receiver(node)):
        entry_facts.note_restored_optimizer(frame, given)
    entry_facts.note_resume(frame, given)
    return OBJECT


def _no_sync(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    frame.run.entry.disables_sync = True
    return Object(object_types.NO_SYNC)


def _added(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    added = given.positional[-1] if given.positional else UNKNOWN
    if isinstance(added, Tensor):
        last = node.arguments[-1].value if node is not None else None
        records.note_kept_graph(frame, node, code.receiver_of(node), last, added)
    return OBJECT


def _text(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    return builtin_methods.host_method(frame, STRING, name, given, node)


def _frame_rows(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    if node is not None:
        records.record_frame_access(frame, node, name, proved=False)
    return UNKNOWN


def _name_of_receiver(node: code.Call | None) -> str:
    """The last word of what a method is called on: `optimizer` of `self.optimizer.step()`."""
    named = code.receiver_of(node)
    return dotted(named).rpartition(".")[2] if named is not None else ""


_METHODS: dict[str, Callable[[Frame, Value, str, Given, code.Call | None], Value]] = {
    **dict.fromkeys(("cuda", "to"), _moved),
    **dict.fromkeys(("step", "optimizer_step"), _step),
    "zero_grad": _zero_grad,
    "unscale_": _unscale,
    "gradient_checkpointing_enable": _checkpoint_activations,
    "from_pretrained": _from_pretrained,
    "set_epoch": _set_epoch,
    "state_dict": _state_dict,
    "load_state_dict": _load_state_dict,
    "no_sync": _no_sync,
    **dict.fromkeys(("broadcast", "reduce_boolean_decision"), _agreed),
    **dict.fromkeys(("append", "add"), _added),
    **dict.fromkeys(("format", "join", "strip", "lower"), _text),
    "iterrows": _frame_rows,
    "item": lambda frame, receiver, name, given, node: NUMBER,
    "parameters": lambda frame, receiver, name, given, node: Listing(Tensor(Place.UNKNOWN, proved=False)),
    "items": lambda frame, receiver, name, given, node: Listing(Tuple((STRING, UNKNOWN))),
    "keys": lambda frame, receiver, name, given, node: Listing(STRING),
}
