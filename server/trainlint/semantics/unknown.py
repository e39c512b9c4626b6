"""Calls of what is not known, judged by the names that people use."""

from __future__ import annotations

from trainlint.semantics import builtin_methods, code, entry_facts, functions, library, naming, records, steps, tensors
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
    Tensor,
    Tuple,
    Value,
)
from trainlint.semantics.vocabulary import GradMode, Place


def call(frame: Frame, callee: Value, given: Given, node: code.Call | None) -> Value:
    """A call of something unknown, judged by the name it is called by."""
    word = called_name(node.function) if node is not None else ""
    if "backward" in word and given.positional:
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
        return Object("torch.utils.data.DataLoader", proved=False)
    return Object("computed", inner=replace(found, proved=False)) if found is not None else UNKNOWN


def call_method(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of something unknown: what people use this name for."""
    named = code.receiver_of(node)
    word = dotted(named).rpartition(".")[2] if named is not None else ""
    if name == "backward" or (
        "backward" in name
        and name not in ("register_backward_hook", "register_full_backward_hook")
        and given.positional
    ):
        steps.mark_backward(frame, node)
        if "update" in name or "step" in name:
            steps.mark_update(frame, node)
        return OBJECT
    if name in ("cuda", "to"):
        return _moved(frame, name, given)
    if name in ("step", "optimizer_step") and (naming.OPTIMIZER.search(word) and not naming.SCHEDULER.search(word)):
        steps.mark_update(frame, node)
        return OBJECT
    if name == "zero_grad":
        records.record_call(frame, "torch.optim.Optimizer.zero_grad", given, node, receiver)
        return OBJECT
    if name == "set_epoch":
        frame.run.entry.sets_epoch = True
        return OBJECT
    if library.TRACKER_ONLY_METHODS.match(name):
        records.record_report(frame, ReportKind.TRACKER, f"tracker.{name}", given, node)
        return OBJECT
    if name == "item":
        return NUMBER
    if name in ("format", "join", "strip", "lower"):
        return builtin_methods.host_method(frame, STRING, name, given, node)
    if name == "parameters":
        return Listing(Tensor(Place.UNKNOWN, proved=False))
    if name in ("items", "keys"):
        return Listing(Tuple((STRING, UNKNOWN)) if name == "items" else STRING)
    if name == "state_dict":
        kind = "torch.optim.Optimizer" if naming.OPTIMIZER.search(word) else "torch.nn.Module"
        return Object("state_dict", inner=Object(kind, proved=False))
    if name == "load_state_dict":
        entry_facts.note_resume(frame, given)
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
    functions.run_callbacks(frame, given)
    if naming.CRITERION.search(name) or naming.LOSS.search(name):
        found = tensors.result_of(frame, given.all())
        return replace(found, proved=False, number=True) if found is not None else UNKNOWN
    return UNKNOWN


def _moved(frame: Frame, name: str, given: Given) -> Value:
    if name == "cuda":
        tensors.note_device(frame, DeviceValue(cuda=True))
        return Tensor(Place.DEVICE, proved=False, container=True)
    device, _ = tensors.target_of(given)
    if device is None:
        return UNKNOWN
    tensors.note_device(frame, device)
    return Tensor(tensors.place_of(device), proved=False, container=True)
