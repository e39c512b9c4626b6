"""Models: how they are made, wrapped, called and moved."""

from __future__ import annotations

from collections.abc import Callable

from trainlint.semantics import (
    assignment,
    attributes,
    calls,
    classes,
    clocks,
    code,
    derivatives,
    entry_facts,
    functions,
    iteration,
    library,
    module_parameters,
    naming,
    normalization,
    object_types,
    parameters,
    records,
    steps,
    tensors,
    unused_parameters,
)
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import EvaluationForward, Placement, Wrapping
from trainlint.semantics.state import Frame, Role, WrappedModel
from trainlint.semantics.text import dotted
from trainlint.semantics.values import (
    NONE,
    OBJECT,
    STRING,
    UNKNOWN,
    Const,
    DeviceValue,
    Function,
    Instance,
    Listing,
    Object,
    Option,
    Table,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join_all,
)
from trainlint.semantics.vocabulary import Framework, GradMode, Known, Place


def make_layer(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    """A layer, a loss, a container or a whole model of a library."""
    _note_start(frame, name, given)
    inner = None
    if name in ("torch.nn.Sequential", "torch.nn.ModuleList"):
        items = (
            iteration.item_of(frame, given.positional[0])
            if len(given.positional) == 1 and not isinstance(given.positional[0], Object | Instance)
            else join_all(given.positional)
            if given.positional
            else UNKNOWN
        )
        if name == "torch.nn.ModuleList":
            return Listing(items, growing=True)
        inner = items
        if node is not None:
            normalization.note_sequence(frame, node)
    frozen = name in library.MADE_FROZEN and given.keywords.get("freeze", Const(True)) == Const(True)
    return Object(object_types.MODEL, origin=name, place=Place.HOST, inner=inner, frozen=frozen)


def _note_start(frame: Frame, name: str, given: Given) -> None:
    """Learn whether a model starts from nothing, from weights that an option names, or from either."""
    cls, _, how = name.rpartition(".")
    if how in ("from_pretrained", "get_peft_model"):
        steps.note_start(frame)
    if how == "from_pretrained" and isinstance(given.get("pretrained_model_name_or_path", 0), Option):
        frame.run.started_from_saved.add(cls)
    else:
        frame.run.started_from_nothing.add(name)


def wrap(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    """A model wrapped for several devices, which may tell that the run is distributed."""
    model = given.get("module", 0) or UNKNOWN
    _record_wrapping(frame, name, given, node)
    entry = frame.run.entry
    if name not in library.DATA_PARALLEL:
        entry.distributed = Known.YES
        entry.data_parallel = Known.YES
        frame.run.wrapper = name
    if name in library.FSDP:
        entry.framework = Framework.FSDP if entry.framework is Framework.PYTORCH else entry.framework
    place = model.place if isinstance(model, Object | Instance | Tensor) else Place.UNKNOWN
    if name in library.DATA_PARALLEL or name in library.FSDP or given.arguments(name).given("device_ids"):
        place = Place.DEVICE
        tensors.note_device(frame, DeviceValue(cuda=True))
    if isinstance(model, Instance) and place is Place.DEVICE:
        model.place = place
    fact = None
    if node is not None:
        fact = frame.run.wrapped_models.setdefault(frame.site(node.at), WrappedModel(frame.site(node.at)))
    return Object(name, inner=model, place=place, proved=not isinstance(model, Unknown), fact=fact)


def _record_wrapping(frame: Frame, name: str, given: Given, node: code.Call | None) -> None:
    if node is None:
        return
    model = given.get("module", 0) or UNKNOWN
    frame.run.record(
        Wrapping,
        frame,
        name,
        site=frame.site(node.at),
        text=node,
        library=name,
        arguments=given.arguments(name),
        model=model,
        by_apex=any(one.module.startswith("apex") for one in frame.module.facts.imports),
        conditional_forward=unused_parameters.conditional_forward(frame, model) if _may_skip(given) else Known.UNKNOWN,
        for_evaluation=naming.evaluates(frame.symbol.rpartition(".")[2]),
    )


def _may_skip(given: Given) -> bool:
    """Whether the wrapping says anything about unused parameters, so that it matters whether there are any."""
    return "find_unused_parameters" in given.keywords or len(given.positional) > 8 or not given.complete


def call_module(frame: Frame, module: Instance, given: Given, node: code.Call | None) -> Value:
    """Run a model of the project's own: its forward, in the circumstances of the call."""
    called = classes.find_member(module.cls, "__call__")
    if isinstance(called, Function) and frame.function is not called:
        # what stands before the forward may switch gradients off, or run something else
        result = functions.call_function(frame, called, replace(given, positional=[module, *given.positional]), node)
        return placed(frame, result, module.place, given.all())
    forward = classes.find_member(module.cls, "forward")
    if isinstance(forward, Function) and not parameters.takes(forward, given):
        # what is called is something else: another model, or what makes one
        return UNKNOWN
    record_forward(frame, module, node)
    values = given.all()
    if not isinstance(forward, Function) or not _worth_following(frame, module):
        clocks.note_work(frame, node, module)
        number = naming.LOSS.search(module.cls.define.name.lower())
        return tensors.call_module_value(frame, Place.UNKNOWN if number else module.place, True, values, number=number)
    outer = frame.where
    frame.where = replace(outer, compiled=True) if module.compiled else outer
    result = functions.call_function(frame, forward, replace(given, positional=[module, *given.positional]), node)
    frame.where = outer
    clocks.note_work(frame, node, module)
    output = placed(frame, result, module.place, values)
    if isinstance(output, Tensor) and module_parameters.keeps_buffers_alone(frame, module):
        kept = any(isinstance(value, Tensor) and value.keeps_graph for value in values)
        return replace(output, keeps_graph=output.keeps_graph and kept)
    return output


def _worth_following(frame: Frame, module: Instance) -> bool:
    """Whether a model's forward may hold anything to report; without gradients, nothing in it is training code."""
    if frame.where.grad is GradMode.DISABLED:
        return False
    run = frame.run
    return any(run.may_matter(cls.module.path, cls.define.name) for cls in classes.lineage(module.cls))


def placed(frame: Frame, result: Value, place: Place, values: list[Value]) -> Value:
    """A model's output, where its forward alone does not tell where it lives."""
    if isinstance(result, Unknown | Object) or result == NONE:
        return tensors.call_module_value(frame, place, True, values)
    if isinstance(result, Tensor):
        graph = frame.where.grad is not GradMode.DISABLED
        outside = tensors.call_module_value(frame, place, True, values)
        if result.place is not Place.DEVICE and outside.place is Place.DEVICE:
            result = replace(result, place=Place.DEVICE, proved=outside.proved)
        return replace(result, keeps_graph=graph, loader=None)
    if isinstance(result, Tuple):
        return Tuple(
            tuple(placed(frame, item, place, values) if not isinstance(item, Const) else item for item in result.items)
        )
    if isinstance(result, Table):
        return replace(
            result,
            items=tuple(
                (name, placed(frame, item, place, values) if isinstance(item, Tensor | Unknown) else item)
                for name, item in result.items
            ),
        )
    return result


def call_wrapper(frame: Frame, callee: Object, given: Given, node: code.Call | None) -> Value:
    """Call the model inside a wrapper, and note whether gradients flow through the wrapper."""
    if isinstance(callee.fact, WrappedModel):
        callee.fact.called = True
        callee.fact.with_gradients = callee.fact.with_gradients or frame.where.grad is not GradMode.DISABLED
    inner = callee.inner
    if isinstance(inner, Instance):
        inner.place = Place.DEVICE if callee.place is Place.DEVICE else inner.place
        return call_module(frame, inner, given, node)
    record_forward(frame, callee, node)
    clocks.note_work(frame, node, callee)
    return tensors.call_module_value(frame, callee.place, callee.proved, given.all())


def call_data_parallel(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`data_parallel(module, inputs)`: a wrapper that is made and called at once."""
    _record_wrapping(frame, "torch.nn.parallel.data_parallel", given, node)
    model = given.get("module", 0)
    inputs = given.get("inputs", 1)
    values = [inputs] if inputs is not None else []
    if isinstance(model, Instance):
        return call_module(frame, model, Given(values), node)
    return tensors.call_module_value(frame, Place.DEVICE, True, values)


def record_forward(frame: Frame, model: Value, node: code.Call | None) -> None:
    """Keep a model's call: it matters if it turns out to stand in an evaluation loop."""
    for loop in frame.where.loops:
        loop.runs_forward = True
    if node is None or frame.where.grad is GradMode.DISABLED or frame.where.gradients_asked:
        return
    if frame.where.root.role is Role.FORWARD:
        return
    if _is_of_module(frame) or _inside_forward(frame):
        # a layer inside of a model: the call of the model is the one that matters
        return
    if isinstance(model, Instance) and (
        module_parameters.keeps_buffers_alone(frame, model) or module_parameters.is_frozen_alone(frame, model)
    ):
        return
    if isinstance(model, Instance) and derivatives.differentiates(frame, model):
        frame.run.differentiated.add(frame.site(node.at))
        return
    if isinstance(model, Object):
        if model.origin == "criterion" or library.has_no_parameters(model.origin):
            return
        if not model.proved and not frame.module.facts.packages.isdisjoint(library.OTHER_FRAMEWORKS):
            return
    frame.run.record(
        EvaluationForward,
        frame,
        "forward",
        site=frame.site(node.at),
        text=node,
        model=model,
        frozen_inputs=isinstance(model, Object | Instance) and model.frozen,
        only_evaluates=_only_evaluates(frame),
    )


def _is_of_module(frame: Frame) -> bool:
    """Whether a method of a module runs."""
    owner = frame.function.owner if frame.function is not None else None
    return owner is not None and classes.is_module_class(owner)


def _inside_forward(frame: Frame) -> bool:
    """Whether the forward of a module is what leads here, by calls of functions that are none."""
    outer = frame.caller
    while outer is not None:
        define = outer.function.define if outer.function is not None else None
        if isinstance(define, code.Define) and define.name == "forward" and _is_of_module(outer):
            return True
        outer = outer.caller
    return False


def _only_evaluates(frame: Frame) -> bool:
    function = frame.function
    if function is None or not isinstance(function.define, code.Define):
        return False
    mentions = function.module.facts.functions[function.define.body].mentions
    return "backward" not in mentions and "step" not in mentions


_PLACING = {"to", "cuda", "cpu", "half", "float", "double", "bfloat16", "to_empty", "xpu"}
"""Methods that move a model or give it another type, and return it."""


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
"""Methods that change a model in place and return it."""


def model_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of a model whose code is not part of the project."""
    if name in _REDUCES_WHEN_TOLD:
        frame.run.entry.disables_sync = True
        return OBJECT
    if name in _PLACING:
        moved = replace(receiver, place=_model_place(frame, receiver, name, given, node))
        assignment.rebind(frame, code.receiver_of(node), moved)
        return moved
    if name in _SAME_MODEL:
        _note_mode(frame, name, given, node)
        _note_checkpointing(frame, receiver, name, given, node)
        _note_compilation(frame, receiver, name, given, node)
        if name == "requires_grad_" and given.positional[:1] == [Const(False)]:
            assignment.rebind(frame, code.receiver_of(node), replace(receiver, frozen=True))
        return receiver
    return _module_protocol(frame, receiver, receiver.place, name, given, node)


_REDUCES_WHEN_TOLD = ("set_requires_gradient_sync", "set_requires_all_reduce", "set_is_last_backward")
"""Methods that `fully_shard` gives a model, by which a script says which backward passes reduce gradients."""


def instance_method(frame: Frame, receiver: Instance, name: str, given: Given, node: code.Call | None) -> Value:
    """A method that a model of the project's own has from `nn.Module`, or from `fully_shard`."""
    if name in _REDUCES_WHEN_TOLD:
        frame.run.entry.disables_sync = True
        return OBJECT
    if name in _PLACING:
        receiver.place = _model_place(frame, receiver, name, given, node)
        return receiver
    if name in _SAME_MODEL:
        _note_mode(frame, name, given, node)
        _note_checkpointing(frame, receiver, name, given, node)
        _note_compilation(frame, receiver, name, given, node)
        if name == "requires_grad_" and given.positional[:1] == [Const(False)]:
            receiver.frozen = True
        return receiver
    if name == "forward":
        return tensors.call_module_value(frame, receiver.place, True, given.all())
    return _module_protocol(frame, receiver, receiver.place, name, given, node)


def wrapper_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of a model wrapped for several devices; what the wrapper lacks is asked of the model inside."""
    if name in ("no_sync", "join", *_REDUCES_WHEN_TOLD):
        frame.run.entry.disables_sync = True
        return Object(object_types.NO_SYNC)
    if name == "clip_grad_norm_":
        return Tensor(receiver.place, receiver.proved, number=True)
    if name in _PLACING:
        place = _model_place(frame, receiver, name, given, node)
        inner = receiver.inner
        if isinstance(inner, Instance):
            inner.place = place
        moved = replace(
            receiver, place=place, inner=replace(inner, place=place) if isinstance(inner, Object) else inner
        )
        assignment.rebind(frame, code.receiver_of(node), moved)
        return moved
    if name in _SAME_MODEL:
        _note_mode(frame, name, given, node)
        _note_checkpointing(frame, receiver, name, given, node)
        _note_compilation(frame, receiver, name, given, node)
        return receiver
    if name == "generate" and isinstance(receiver.fact, WrappedModel):
        receiver.fact.called = True
    if receiver.inner is not None and not isinstance(receiver.inner, Unknown):
        callee = attributes.method(frame, receiver.inner, name)
        return calls.call(frame, callee, given, node)
    return _module_protocol(frame, receiver, receiver.place, name, given, node)


def _note_compilation(frame: Frame, model: Value, name: str, given: Given, node: code.Call | None) -> None:
    """`model.compile()` compiles a model in place, with the arguments of `torch.compile`."""
    if name == "compile":
        if isinstance(model, Instance):
            model.compiled = True
        records.record_call(frame, "torch.nn.Module.compile", given, node, model)
        if given.keywords.get("dynamic") != Const(True):
            frame.run.entry.wants_fixed_shapes = True


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
        frame.evaluating_from = len(frame.where.loops)
        frame.training.discard(model)


def _note_checkpointing(frame: Frame, model: Value, name: str, given: Given, node: code.Call | None) -> None:
    if name == "gradient_checkpointing_enable":
        records.record_call(frame, f"transformers.PreTrainedModel.{name}", given, node, model)


def _model_place(frame: Frame, model: Object | Instance, name: str, given: Given, node: code.Call | None) -> Place:
    """Where a model lives after `.to(…)`, `.cuda()` or `.cpu()`."""
    place = model.place
    frame.run.note_possible_wait()
    if name == "cpu":
        return Place.HOST
    if name == "cuda" or name == "xpu":
        device = DeviceValue(cuda=True, bare=name == "cuda" and given.complete and not given.all())
        tensors.note_device(frame, device)
        _record_placement(frame, model, device, node)
        return Place.DEVICE
    if name not in ("to", "to_empty"):
        return place
    target, named = tensors.target_of(given)
    if target is None:
        unknown = named or (given.positional and isinstance(given.positional[0], Unknown))
        return Place.UNKNOWN if unknown and place is not Place.DEVICE else place
    tensors.note_device(frame, target)
    _record_placement(frame, model, target, node)
    return tensors.place_of(target)


def _record_placement(frame: Frame, model: Object | Instance, device: DeviceValue, node: code.Call | None) -> None:
    """Keep where a model is moved, if it has anything to move."""
    empty = isinstance(model, Object) and (model.origin == "criterion" or library.has_no_parameters(model.origin))
    if node is not None and not empty:
        entry_facts.note_allocation(frame, device)
        frame.run.record(Placement, frame, "placement", site=frame.site(node.at), text=node, model=model, device=device)


def _module_protocol(
    frame: Frame, model: Value, place: Place, name: str, given: Given, node: code.Call | None
) -> Value:
    """What every `nn.Module` offers beside its forward."""
    handler = _PROTOCOL.get(name)
    if handler is not None:
        return handler(frame, model, place, given, node)
    frame.run.note_possible_wait()
    if name.startswith("register_"):
        return OBJECT
    if naming.BACKWARD.search(name):
        steps.mark_backward(frame, node)
        return OBJECT
    if naming.HOUSEKEEPING.search(name):
        return UNKNOWN
    if name.startswith("get_") and naming.METRIC.search(name):
        # what a model has counted so far: numbers for all that is known
        return UNKNOWN
    return tensors.call_module_value(frame, place, False, given.all())


def _state_dict(frame: Frame, model: Value, place: Place, given: Given, node: code.Call | None) -> Value:
    return Object(object_types.STATE_DICT, inner=Object(object_types.MODEL))


def _load_state_dict(frame: Frame, model: Value, place: Place, given: Given, node: code.Call | None) -> Value:
    entry_facts.note_resume(frame, given)
    return OBJECT


def _save_pretrained(frame: Frame, model: Value, place: Place, given: Given, node: code.Call | None) -> Value:
    state = _state_dict(frame, model, place, given, node)
    records.note_checkpoint(frame, Given([state]), node)
    records.record_call(frame, "transformers.PreTrainedModel.save_pretrained", given, node, model)
    return OBJECT


def _zero_grad(frame: Frame, model: Value, place: Place, given: Given, node: code.Call | None) -> Value:
    records.record_call(frame, "torch.nn.Module.zero_grad", given, node, model)
    return OBJECT


def _register(frame: Frame, model: Value, place: Place, given: Given, node: code.Call | None) -> Value:
    """A buffer or parameter is an attribute that moves with its module."""
    name = given.get("name", 0)
    value = given.get("tensor", 1)
    if isinstance(model, Instance) and isinstance(name, Const) and isinstance(name.value, str) and value is not None:
        model.attributes[name.value] = replace(value, registered=True) if isinstance(value, Tensor) else value
    return OBJECT


def _no_sync(frame: Frame, model: Value, place: Place, given: Given, node: code.Call | None) -> Value:
    frame.run.entry.disables_sync = True
    return Object(object_types.NO_SYNC)


def _forward(frame: Frame, model: Value, place: Place, given: Given, node: code.Call | None) -> Value:
    record_forward(frame, model, node)
    return tensors.call_module_value(frame, place, False, given.all())


def _generate(frame: Frame, model: Value, place: Place, given: Given, node: code.Call | None) -> Value:
    """Tokens are drawn one by one, and the host asks after each whether all sequences have ended."""
    frame.run.note_possible_wait()
    return Tensor(place=place if place is Place.DEVICE else Place.UNKNOWN, container=True)


def _tensors(frame: Frame, model: Value, place: Place, given: Given, node: code.Call | None) -> Value:
    return Listing(Tensor(place=place))


def _named_tensors(frame: Frame, model: Value, place: Place, given: Given, node: code.Call | None) -> Value:
    return Listing(Tuple((STRING, Tensor(place=place))))


def _layers(frame: Frame, model: Value, place: Place, given: Given, node: code.Call | None) -> Value:
    return Listing(Object(object_types.MODEL, place=place))


def _named_layers(frame: Frame, model: Value, place: Place, given: Given, node: code.Call | None) -> Value:
    return Listing(Tuple((STRING, Object(object_types.MODEL, place=place))))


_WITHOUT_EFFECT = (
    "get_parameter",
    "push_to_hub",
    "resize_token_embeddings",
    "print_trainable_parameters",
    "num_parameters",
    "get_input_embeddings",
)
_PROTOCOL: dict[str, Callable[[Frame, Value, Place, Given, code.Call | None], Value]] = {
    **dict.fromkeys(("parameters", "buffers"), _tensors),
    **dict.fromkeys(("named_parameters", "named_buffers"), _named_tensors),
    **dict.fromkeys(("modules", "children"), _layers),
    **dict.fromkeys(("named_modules", "named_children"), _named_layers),
    **dict.fromkeys(("register_buffer", "register_parameter", "add_module"), _register),
    **dict.fromkeys(_WITHOUT_EFFECT, lambda frame, model, place, given, node: OBJECT),
    "state_dict": _state_dict,
    "load_state_dict": _load_state_dict,
    "save_pretrained": _save_pretrained,
    "zero_grad": _zero_grad,
    "no_sync": _no_sync,
    "forward": _forward,
    "generate": _generate,
}
