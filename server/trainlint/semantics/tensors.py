"""Tensors: where they live, what moves them, and where the host reads them."""

from __future__ import annotations

from collections.abc import Callable

from trainlint.semantics import clocks, code, entry_facts, library, naming, object_types, records, steps, unchanged
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import Arguments, EarlyRead, Site, SyncKind, SyncPoint, Transfer, Upload
from trainlint.semantics.state import Factory, Frame
from trainlint.semantics.text import describe, dotted
from trainlint.semantics.values import (
    ARRAY,
    NUMBER,
    OBJECT,
    STRING,
    UNKNOWN,
    WHOLE_ARRAY,
    Choice,
    Const,
    DeviceValue,
    Host,
    Listing,
    Object,
    Option,
    Reference,
    Table,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join,
    options,
)
from trainlint.semantics.vocabulary import GradMode, Known, Place

DEVICE_TESTS = {"torch.cuda.is_available", "torch.accelerator.is_available", "torch.cuda.is_initialized"}
_ACCELERATORS = ("cuda", "mps", "xpu", "npu", "hpu", "musa")


# ---------------------------------------------------------------------------------------------------- sync points


def sync(
    frame: Frame,
    kind: SyncKind,
    node: code.Expression,
    value: Tensor,
    operand: code.Expression | None,
    site: Site | None = None,
) -> None:
    """Record that the host reads `value` at `node`."""
    note_read(frame, value, node)
    if value.place is Place.DEVICE:
        # the read stands in line behind the copies that were issued before it
        frame.run.note_wait()
    elif value.place is Place.UNKNOWN or not value.proved:
        frame.run.note_possible_wait()
    frame.run.record(
        SyncPoint,
        frame,
        kind,
        kind=kind,
        operand_site=frame.site(operand.at) if operand is not None else None,
        site=site or frame.site(node.at),
        text=node,
        value=value,
        operand=operand if operand is not None else "",
        accumulated=frame.accumulating,
    )


def note_read(frame: Frame, value: Tensor, node: code.Expression, *, shares: bool = False) -> None:
    """Record that the host reads a tensor before the copy that fills it is known to have arrived."""
    if value.arriving > frame.run.waited_for:
        copy = frame.run.copies_under_way[value.arriving - 1]
        site = frame.site(node.at)
        frame.run.record(EarlyRead, frame, copy, site=site, text=node, copy=copy, value=value, shares=shares)


def format_sync(
    frame: Frame,
    node: code.Expression,
    value: Value,
    operand: code.Expression | None,
    site_of: code.Expression | None = None,
) -> None:
    """Record that formatting `value` into text reads each tensor in it."""
    for tensor in tensors_in(value):
        place = site_of if site_of is not None and not isinstance(site_of, code.Constant) else node
        sync(frame, SyncKind.FORMAT, node, tensor, operand, frame.site(place.at))
        return
    note_question(frame, value)


def note_question(frame: Frame, *values: Value) -> None:
    """Python asks what values hold; of those that may be tensors for all that is known, the host may wait for one."""
    if any(_may_be_tensor(value) for value in values):
        frame.run.note_possible_wait()


def _may_be_tensor(value: Value, depth: int = 0) -> bool:
    if isinstance(value, Unknown):
        return True
    if isinstance(value, Object):
        return value.type == object_types.COMPUTED
    if isinstance(value, Reference):
        # an object of a library that is not known, or of a module that is not there
        return value.name.partition(".")[0] not in ("torch", "numpy", *library.HOST_PACKAGES, *library.BUILTINS)
    if depth > 2:
        return True
    if isinstance(value, Choice):
        return any(_may_be_tensor(option, depth + 1) for option in value.options)
    if isinstance(value, Tuple):
        return any(_may_be_tensor(item, depth + 1) for item in value.items)
    if isinstance(value, Listing):
        return not value.empty and _may_be_tensor(value.item, depth + 1)
    if isinstance(value, Table):
        rest = value.rest is not None and _may_be_tensor(value.rest, depth + 1)
        return rest or any(_may_be_tensor(item, depth + 1) for _, item in value.items)
    return False


def tensors_in(value: Value, depth: int = 0) -> list[Tensor]:
    """The tensors that `str(value)` would print, as far as they are known to be tensors on the device."""
    if isinstance(value, Tensor):
        return [value]
    if depth > 2:
        return []
    if isinstance(value, Tuple):
        return [tensor for item in value.items for tensor in tensors_in(item, depth + 1)]
    if isinstance(value, Table):
        return [tensor for _, item in value.items for tensor in tensors_in(item, depth + 1)]
    if isinstance(value, Listing):
        return tensors_in(value.item, depth + 1)
    return []


def branch_sync(frame: Frame, test: code.Expression, value: Value) -> None:
    """Record that Python asks for the truth of a tensor."""
    if isinstance(value, Tensor) and not value.container and _is_condition(test, value):
        sync(frame, SyncKind.BRANCH, test, value, test)
    elif isinstance(value, Tensor):
        if value.place is not Place.HOST:
            frame.run.note_possible_wait()
    else:
        note_question(frame, value)


def _is_condition(test: code.Expression, value: Tensor) -> bool:
    """Whether a tensor is meant as a truth value, rather than tested for being there at all."""
    return value.number or isinstance(test, code.Compare | code.Call | code.Binary)


# ----------------------------------------------------------------------------------------------------- arithmetic


def combine(one: Tensor, other: Value) -> Tensor:
    """The result of an operation on a tensor and anything else."""
    if not isinstance(other, Tensor):
        return replace(one, loader=None, created=False, container=False, boolean=False, single=True)
    place = (
        Place.DEVICE
        if Place.DEVICE in (one.place, other.place)
        else one.place
        if one.place is other.place
        else Place.UNKNOWN
    )
    proved = (
        one.proved
        if one.place is Place.DEVICE
        else other.proved
        if other.place is Place.DEVICE
        else one.proved and other.proved
    )
    return Tensor(
        place=place,
        proved=proved,
        keeps_graph=one.keeps_graph or other.keeps_graph,
        number=one.number and other.number,
        figure=is_figure(one) and is_figure(other),
        boolean=one.boolean and other.boolean,
        autocast=one.autocast or other.autocast,
        scaled=one.scaled or other.scaled,
        single=True,
    )


def is_figure(value: Tensor) -> bool:
    """Whether it is a single number with a graph, such as a loss, or computed from such numbers alone."""
    return value.figure or (value.number and value.keeps_graph)


def result_of(frame: Frame, values: list[Value]) -> Tensor | None:
    """What a library function makes of its tensor arguments; None if there are none."""
    result: Tensor | None = None
    for value in values:
        for tensor in tensors_in(value):
            result = (
                replace(_of_any_type(tensor), loader=None, created=False, number=False, figure=is_figure(tensor))
                if result is None
                else combine(result, tensor)
            )
    if result is not None and frame.where.grad is GradMode.DISABLED:
        result = replace(result, keeps_graph=False)
    return result


# -------------------------------------------------------------------------------------------------------- devices


def as_device(value: Value) -> DeviceValue | None:
    """The device that a value names, if it can name one."""
    if isinstance(value, DeviceValue):
        return value
    if isinstance(value, Const) and isinstance(value.value, str):
        return device_named(value.value)
    if isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return DeviceValue(cuda=True)
    if isinstance(value, Host) and value.kind == "rank":
        return DeviceValue(cuda=True, rank_local=True)
    if isinstance(value, Object) and value.type == object_types.DEVICE_TEXT:
        return DeviceValue(cuda=True)
    if isinstance(value, Option) and (
        naming.DEVICE.search(value.name) or naming.RANK.search(value.name) or naming.CUDA.search(value.name)
    ):
        return DeviceValue(cuda=True, cpu=True, proved=False)
    return None


def device_named(text: str) -> DeviceValue | None:
    """The device that a string such as `"cuda:0"` names; None for any other string."""
    kind = text.partition(":")[0]
    if kind not in (*_ACCELERATORS, "cpu", "meta", "auto"):
        return None
    return DeviceValue(
        cuda=kind in ("cuda", "auto"),
        cpu=kind in ("cpu", "meta", "auto"),
        other=kind in _ACCELERATORS[1:],
        mps=kind == "mps",
        bare=text == "cuda",
    )


def device_of_strings(one: str, other: str) -> DeviceValue | None:
    """`"cuda" if … else "cpu"`."""
    first, second = device_named(one), device_named(other)
    if first is None or second is None:
        return None
    joined = join(first, second)
    return joined if isinstance(joined, DeviceValue) else None


def place_of(device: DeviceValue) -> Place:
    """Where data goes that is moved to `device`: to an accelerator in every set-up that has one."""
    if device.cuda or device.other:
        return Place.DEVICE
    return Place.HOST


def constant_reference(name: str) -> Value | None:
    """Values of library names that are neither functions nor classes."""
    if name in ("sys.argv", "torch.version.cuda"):
        return STRING
    if name in ("math.inf", "numpy.inf", "torch.inf", "torch._six.inf"):
        return Const(float("inf"))
    if name in ("math.pi", "numpy.pi"):
        return NUMBER
    if name == "os.environ":
        return Object(object_types.ENVIRONMENT)
    if name == "torch.utils.data.DataLoader.__init__":
        return OBJECT
    return None


def note_device(frame: Frame, device: DeviceValue) -> None:
    """Learn from a device that something is moved to whether this entry point runs on CUDA."""
    entry = frame.run.entry
    if device.cuda and device.proved:
        entry.cuda = Known.YES
    elif device.cpu and not device.cuda and not device.other and entry.cuda is Known.UNKNOWN:
        entry.cuda = Known.NO


# ------------------------------------------------------------------------------------------------------ transfers


def target_of(given: Given) -> tuple[DeviceValue | None, bool]:
    """The device that `.to(…)` names, and whether it names one at all rather than a dtype."""
    candidates = [given.keywords["device"]] if "device" in given.keywords else given.positional[:1]
    for value in candidates:
        for option in options(value):
            device = as_device(option)
            if device is not None:
                return device, True
            if isinstance(option, Tensor):
                return _where(option), True
            if isinstance(option, Reference):
                return None, False
            if isinstance(option, Unknown | Option) and "device" not in given.keywords:
                return None, False
    return None, "device" in given.keywords


def _where(tensor: Tensor) -> DeviceValue:
    """Where another tensor is. What was made on the host may have moved since, with its module or by its caller; only
    what the code around has just made there, or brought there, has not."""
    on_device = tensor.place is Place.DEVICE
    on_host = tensor.place is Place.HOST and (tensor.created or tensor.fetched) and not tensor.registered
    return DeviceValue(cuda=on_device, cpu=not on_device, proved=tensor.proved and (on_device or on_host))


def _is_a_setting(node: code.Call | None) -> bool:
    """Whether a tensor is moved to what settings call the device: `x.to(config.device)`."""
    argument = node.arguments[0].value if node is not None and node.arguments else None
    return isinstance(argument, code.Attribute) and argument.name.strip("_") == "device"


def move(frame: Frame, value: Tensor, given: Given, node: code.Call | None, name: str) -> Tensor:
    """`.to(…)`, `.cuda()` of a tensor or of a collection of tensors."""
    if name == "cuda":
        device: DeviceValue | None = DeviceValue(cuda=True)
        if given.positional and (argument := as_device(given.positional[0])) is not None:
            device = replace(argument, cuda=True, cpu=False, proved=True, bare=False)
    else:
        device, named = target_of(given)
        if device is None:
            return _of_any_type(value if not named else replace(value, place=Place.UNKNOWN))
        if _may_name_type(given):
            value = _of_any_type(value)
    assert device is not None
    if device.cpu and not device.cuda and not device.proved:
        # the device of another tensor, of which only is known that it was made on the host
        return replace(value, place=value.place if value.place is Place.DEVICE else Place.UNKNOWN)
    if value.place is Place.DEVICE and device.cpu and not device.cuda and _is_a_setting(node):
        # a default that this run has replaced, or nothing would be on the GPU
        return value
    note_device(frame, device)
    entry_facts.note_allocation(frame, device)
    target = place_of(device)
    arriving = 0
    if target is Place.HOST and value.place is Place.DEVICE and node is not None:
        if given.keywords.get("non_blocking") == Const(True):
            frame.run.copies_under_way.append(frame.site(node.at))
            arriving = len(frame.run.copies_under_way) if value.proved else 0
        else:
            sync(frame, SyncKind.COPY, node, value, code.receiver_of(node))
    if target is Place.DEVICE and value.place is not Place.DEVICE and not value.pinned:
        # a copy from pageable memory waits for what the device was given before; one from pinned memory may not
        frame.run.note_possible_wait()
    elif target is Place.DEVICE and given.keywords.get("non_blocking") != Const(True):
        frame.run.note_possible_wait()
    if value.place is not target and node is not None:
        _record_transfer(frame, value, given, node, device, target, name)
    proved = device.proved and (value.proved or value.place is not Place.DEVICE)
    return replace(
        value,
        place=target,
        proved=proved or (value.proved and value.place is target),
        created=False,
        pinned=False,
        arriving=arriving,
        fetched=target is Place.HOST and _is_fetched(value),
    )


def _is_fetched(value: Tensor) -> bool:
    """Whether a tensor, once it is on the host, has been brought there from the device."""
    return value.fetched or (value.place is Place.DEVICE and value.proved)


def _record_transfer(
    frame: Frame, value: Tensor, given: Given, node: code.Call, device: DeviceValue, target: Place, name: str
) -> None:
    moved = code.receiver_of(node)
    factory = frame.factories.get(id(moved)) if moved is not None else None
    if factory is None and value.created and isinstance(moved, code.Name | code.Call):
        factory = frame.made_by(moved)
    non_blocking = given.keywords.get("non_blocking")
    if non_blocking is None and name == "cuda" and len(given.positional) > 1:
        non_blocking = given.positional[1]
    if non_blocking is None:
        blocking = Known.NO if given.complete else Known.UNKNOWN
    else:
        blocking = (
            Known.YES if non_blocking == Const(True) else Known.NO if non_blocking == Const(False) else Known.UNKNOWN
        )
    frame.run.record(
        records.transfer,
        frame,
        "transfer",
        unchanged_in=unchanged.unchanged_loops(frame, moved) if moved is not None and value.created else frozenset(),
        site=frame.site(node.at),
        text=node,
        value=value,
        target=target,
        non_blocking=blocking,
        may_be_cuda=device.cuda,
        may_be_other_accelerator=device.other,
        may_be_mps=device.mps,
        device_is_certain=device.cuda and not device.cpu and not device.other and device.proved,
        device_is_known=device.proved,
        host_value_reused=not (moved is not None and dotted(moved) in frame.rebinding),
        made_by=factory.site if factory and moved is not None and id(moved) in frame.factories else None,
        factory=factory.name if factory else name if "." in name else "",
        factory_arguments=factory.arguments if factory else given.arguments(name) if "." in name else Arguments(),
        device_text=_device_text(node, given, name),
    )


def record_copy(frame: Frame, node: code.Subscript, value: Tensor) -> None:
    """`on_device[…] = on_host` copies the host tensor, as `.to(device)` would."""
    frame.run.note_possible_wait()
    made = next((factory for factory in frame.factories.values() if value.created), None)
    frame.run.record(
        Transfer,
        frame,
        "copy",
        site=frame.site(node.at),
        text=node,
        value=value,
        target=Place.DEVICE,
        non_blocking=Known.NO,
        factory=made.name if made else "",
    )


def _device_text(node: code.Call, given: Given, name: str) -> str:
    """The device that a transfer names, as source text; empty where it names none or is too long to repeat."""
    if any(isinstance(option, Tensor) for value in given.all() for option in options(value)):
        # to where another tensor is, and to its type
        return ""
    arguments = [argument for argument in node.arguments if argument.keyword != "non_blocking"]
    if name == "cuda":
        return '"cuda"' if not arguments else ""
    if len(arguments) == 1 and not arguments[0].star and arguments[0].keyword in (None, "device"):
        text = describe(arguments[0].value)
        return "" if "…" in text else text
    return ""


def _may_name_type(given: Given) -> bool:
    """Whether `.to(…)` may change the type besides the device: by a type, or to that of another tensor."""
    by_tensor = any(isinstance(value, Tensor) for value in given.all())
    return by_tensor or len(given.positional) > 1 or "dtype" in given.keywords or not given.complete


def _of_any_type(value: Tensor) -> Tensor:
    """A tensor of whose type nothing is known any more."""
    return replace(value, double=False, boolean=False) if value.double or value.boolean else value


# -------------------------------------------------------------------------------------------------------- methods


def call_method(frame: Frame, value: Tensor, name: str, given: Given, node: code.Call | None) -> Value:
    """`tensor.name(…)`."""
    if name in library.SYNCING_METHODS:
        if node is not None:
            sync(frame, SyncKind.READ, node, value, code.receiver_of(node))
        return Listing(NUMBER) if name == "tolist" else NUMBER
    if name in library.COPYING_METHODS:
        if node is not None and value.place is Place.DEVICE:
            sync(frame, SyncKind.COPY, node, value, code.receiver_of(node))
        elif node is not None and name == "numpy":
            note_read(frame, value, node, shares=True)
        fetched = _is_fetched(value)
        if name == "numpy":
            return replace(ARRAY if value.number else WHOLE_ARRAY, fetched=fetched)
        return replace(value, place=Place.HOST, proved=True, fetched=fetched)
    if name in library.STRING_METHODS and not (name == "split" and _is_whole(given.get("split_size", 0))):
        return STRING
    if name in library.HOST_METHODS:
        return Listing(STRING) if name == "keys" else NUMBER
    if not value.container and name.startswith(library.TELLING_PREFIXES):
        return UNKNOWN
    if name in ("zero_", "detach_") and value.gradient:
        records.record_call(frame, f"torch.Tensor.{name}", given, node, value)
    other = given.get("other", 0)
    if name == "type_as" and value.created and isinstance(other, Tensor) and other.place is Place.DEVICE:
        return move(frame, value, given, node, name)
    handler = _METHODS.get(name)
    if handler is not None:
        return handler(frame, value, given, node)
    if _shape_depends_on_values(name, given, 0) and node is not None:
        records.note_dynamic_shape(frame, node, value)
    if name in library.REDUCTIONS and node is not None:
        note_read(frame, value, node)
    graph = value.keeps_graph and name not in library.NOT_DIFFERENTIABLE and frame.where.grad is not GradMode.DISABLED
    result = replace(value, loader=value.loader if value.container else None, created=value.created, keeps_graph=graph)
    result = replace(result, remade=value.remade or _copies(name, node))
    result = result if name in library.KEEPING_TYPE else _of_any_type(result)
    result = replace(result, boolean=True) if name in library.BOOLEAN_RESULTS else result
    one = not value.container or value.single or name in library.OF_TENSORS
    if name not in library.VIEWS:
        clocks.note_work(frame, node, replace(value, single=one))
    result = replace(result, single=one and (name not in library.RETURNING_SEVERAL or _takes_items(name, given, 0)))
    for other in given.positional:
        if isinstance(other, Tensor):
            result = combine(result, other)
    if name in library.REDUCTIONS:
        whole = not given.positional and not given.keywords
        result = replace(result, number=whole, container=False, created=False, arriving=0)
    return result


def _copies(name: str, node: code.Call | None) -> bool:
    """Whether a method surely copies its tensor: `clone()`, or `contiguous()` behind a transposition."""
    before = code.receiver_of(node)
    before = before.function if isinstance(before, code.Call) else before
    transposed = isinstance(before, code.Attribute) and before.name in library.TRANSPOSING
    return name in library.COPIES or (name == "contiguous" and transposed)


def _move_to(name: str) -> Callable[[Frame, Tensor, Given, code.Call | None], Value]:
    return lambda frame, value, given, node: move(frame, value, given, node, name)


def _detach(frame: Frame, value: Tensor, given: Given, node: code.Call | None) -> Value:
    return replace(value, keeps_graph=False, figure=is_figure(value), autocast="", scaled=False)


def _backward(frame: Frame, value: Tensor, given: Given, node: code.Call | None) -> Value:
    steps.mark_backward(frame, node, value)
    return OBJECT


def _items(frame: Frame, value: Tensor, given: Given, node: code.Call | None) -> Value:
    return Listing(Tuple((STRING, replace(value, container=False))))


def _pin(frame: Frame, value: Tensor, given: Given, node: code.Call | None) -> Value:
    records.record_call(frame, "torch.Tensor.pin_memory", given, node, value)
    return replace(value, pinned=True)


def _type(frame: Frame, value: Tensor, given: Given, node: code.Call | None) -> Value:
    if not given.positional:
        return STRING
    target = given.positional[0]
    value = _of_any_type(value)
    if isinstance(target, Reference) and library.CUDA_TENSOR.match(target.name):
        return move(frame, value, Given([]), node, "cuda")
    if value.place is Place.DEVICE and _names_host_type(target):
        records.record_call(frame, "torch.Tensor.type", given, node, value)
        return replace(value, place=Place.HOST, proved=True, loader=None)
    return replace(value, created=value.created)


def _names_host_type(target: Value) -> bool:
    """Whether a legacy tensor type is named that lives on the host: `torch.LongTensor`, or its name as text."""
    if isinstance(target, Const):
        return isinstance(target.value, str) and bool(library.HOST_TENSOR.match(target.value))
    return isinstance(target, Reference) and bool(library.HOST_TENSOR.match(target.name))


def _masked(frame: Frame, value: Tensor, given: Given, node: code.Call | None) -> Value:
    return value


def _new(frame: Frame, value: Tensor, given: Given, node: code.Call | None) -> Value:
    return Tensor(place=value.place, proved=value.proved, created=value.place is Place.HOST)


def _new_tensor(frame: Frame, value: Tensor, given: Given, node: code.Call | None) -> Value:
    if value.place is Place.DEVICE and "device" not in given.keywords:
        _record_upload(frame, "torch.Tensor.new_tensor", given, node, proved=value.proved)
    return _new(frame, value, given, node)


_METHODS: dict[str, Callable[[Frame, Tensor, Given, code.Call | None], Value]] = {
    "to": _move_to("to"),
    "cuda": _move_to("cuda"),
    "detach": _detach,
    "detach_": _detach,
    "backward": _backward,
    "items": _items,
    "pin_memory": _pin,
    "type": _type,
    "values": lambda frame, value, given, node: Listing(replace(value, container=False)),
    "get": lambda frame, value, given, node: replace(value, container=False),
    "pop": lambda frame, value, given, node: replace(value, container=False),
    "parameters": lambda frame, value, given, node: Listing(Tensor(place=value.place, proved=value.proved)),
    "named_parameters": lambda frame, value, given, node: Listing(
        Tuple((STRING, Tensor(place=value.place, proved=value.proved)))
    ),
    "new_zeros": _new,
    "new_ones": _new,
    "new_tensor": _new_tensor,
    "new_full": _new,
    "new_empty": _new,
    "size": lambda frame, value, given, node: NUMBER if given.positional else OBJECT,
    "train": _masked,
    "eval": _masked,
    "state_dict": lambda frame, value, given, node: Object(object_types.STATE_DICT, inner=Object(object_types.MODEL)),
    "load_state_dict": lambda frame, value, given, node: OBJECT,
    "zero_grad": lambda frame, value, given, node: OBJECT,
    "requires_grad_": lambda frame, value, given, node: value,
    "register_hook": lambda frame, value, given, node: OBJECT,
    "__getitem__": lambda frame, value, given, node: value,
}


# -------------------------------------------------------------------------------------------- functions of torch


def call_torch(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    """A function of `torch` or `torch.nn.functional` that no other part of the library knowledge speaks about."""
    last = name.rpartition(".")[2]
    if name in library.SYNCING_FUNCTIONS:
        tensor = result_of(frame, given.positional[:1])
        if tensor is not None and node is not None:
            sync(frame, SyncKind.READ, node, tensor, node.arguments[0].value if node.arguments else None)
        return NUMBER
    if name in library.HOST_RESULTS:
        return OBJECT
    if name == "torch.nn.Parameter":
        made = result_of(frame, given.positional[:1])
        return replace(made or Tensor(Place.HOST), registered=True)
    if library.CUDA_TENSOR.match(name):
        return _made_on_device(frame, name, given, node)
    if (name.count(".") == 1 and last in library.FACTORIES) or name == "torch.autograd.Variable":
        return _factory(frame, name, last, given, node)
    if name == "torch.stack" or name == "torch.cat":
        found = result_of(frame, given.positional[:1])
        return found if found is not None else UNKNOWN
    made = result_of(frame, [*given.positional, *given.keywords.values()])
    if node is not None and made is not None and _shape_depends_on_values(last, given, 1):
        records.note_dynamic_shape(frame, node, made)
    if made is not None and last not in library.VIEWS:
        clocks.note_work(frame, node, made)
    if made is not None:
        whole = last in library.REDUCTIONS and len(given.positional) == 1 and not given.keywords
        return replace(
            made,
            number=whole
            or "loss" in last
            or last in ("cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits"),
            container=last in ("max", "min", "topk", "sort", "split", "chunk", "unbind") and not whole,
            boolean=last in library.BOOLEAN_RESULTS,
            single=last not in library.RETURNING_SEVERAL or _takes_items(last, given, 1),
        )
    return UNKNOWN


def _is_whole(value: Value | None) -> bool:
    return isinstance(value, Const) and type(value.value) is int


def _takes_items(name: str, given: Given, before: int) -> bool:
    """Whether a function or method takes a tensor apart item by item, which leaves as much to go over as it had."""
    size = given.keywords.get("split_size") or given.get("split_size_or_sections", before)
    return name == "unbind" or (name == "split" and size == Const(1))


def _shape_depends_on_values(name: str, given: Given, before: int) -> bool:
    """Whether what a function or method returns has a shape that the values of a tensor decide; `before` is the number
    of arguments that a function has before those of the method."""
    if name == "where":
        return before == 1 and len(given.positional) == 1 and not given.keywords and given.complete
    if name == "repeat_interleave":
        repeats = given.get("repeats", before)
        return isinstance(repeats, Tensor) and "output_size" not in given.keywords and given.complete
    return name in library.SHAPED_BY_VALUES


def _made_on_device(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    """`torch.cuda.FloatTensor(…)`: made on the host and copied, unless it is given sizes only."""
    frame.run.note_possible_wait()
    note_device(frame, DeviceValue(cuda=True))
    entry_facts.note_allocation(frame, DeviceValue(cuda=True))
    if node is not None and any(
        isinstance(value, Host | Listing | Tuple | Unknown | Tensor)
        and not (isinstance(value, Host) and value.kind == "number")
        for value in given.positional
    ):
        made = Tensor(place=Place.HOST, created=True)
        _record_transfer(frame, made, given, node, DeviceValue(cuda=True), Place.DEVICE, name)
    return Tensor(place=Place.DEVICE)


def _factory(frame: Frame, name: str, last: str, given: Given, node: code.Call | None) -> Value:
    if last.endswith("_like") or (last == "normal" and isinstance(given.first(), Tensor | Unknown)):
        # `torch.normal` of tensors draws where these are
        model = given.first()
        place = model.place if isinstance(model, Tensor) else Place.UNKNOWN
        result = Tensor(
            place=place, created=place is Place.HOST, proved=model.proved if isinstance(model, Tensor) else True
        )
    elif (
        last in ("as_tensor", "tensor", "asarray", "Variable")
        and given.positional
        and isinstance(given.positional[0], Tensor)
        and given.positional[0].place is not Place.HOST
    ):
        result = replace(given.positional[0], keeps_graph=last == "Variable" and given.positional[0].keeps_graph)
    else:
        origin = given.first()
        data = isinstance(origin, Listing)
        loader = origin.loader if isinstance(origin, Tensor) and last == "Variable" else None
        result = Tensor(
            place=Place.HOST,
            created=not data and last not in ("Variable", "from_numpy", "frombuffer"),
            loader=loader,
            double=last in _KEEPING_TYPE and isinstance(origin, Host) and origin.double and _has_no_type(given),
        )
    result = replace(result, single=True)
    if _holds_device_values(given):
        frame.run.note_possible_wait()
        if library.HOST_TENSOR.match(name):
            records.record_call(frame, name, given, node)
    if node is not None and last not in ("Variable",):
        frame.factories[id(node)] = Factory(frame.site(node.at), name, given.arguments(name), len(frame.where.loops))
    device = given.keywords.get("device")
    if device is None and last == "as_tensor" and len(given.positional) > 2:
        device = given.positional[2]
    if device is not None:
        where = as_device(device)
        if where is None:
            return replace(result, place=Place.UNKNOWN, created=False)
        note_device(frame, where)
        entry_facts.note_allocation(frame, where)
        if last in _COPYING_FACTORIES and place_of(where) is Place.DEVICE:
            _record_upload(frame, name, given, node, proved=where.proved)
        return replace(result, place=place_of(where), proved=where.proved, created=False)
    return result


def _has_no_type(given: Given) -> bool:
    return given.complete and len(given.positional) == 1 and "dtype" not in given.keywords


_KEEPING_TYPE = frozenset({"tensor", "as_tensor", "asarray", "from_numpy"})
"""Factories whose result has the type of the array that they are given."""
_COPYING_FACTORIES = frozenset({"tensor", "as_tensor", "asarray"})
"""Factories that make a tensor of the values that they are given."""


def _record_upload(frame: Frame, name: str, given: Given, node: code.Call | None, *, proved: bool) -> None:
    frame.run.note_possible_wait()
    value = given.positional[0] if given.positional else given.keywords.get("data", UNKNOWN)
    if node is not None and not isinstance(value, Tensor):
        frame.run.record(
            Upload, frame, name, site=frame.site(node.at), text=node, name=name, value=value, device_proved=proved
        )


def _holds_device_values(given: Given) -> bool:
    """Whether a list of tensors is given, and these live on the device: each is read to make one on the host."""
    lists = [value for value in given.positional[:1] if isinstance(value, Tuple | Listing)]
    return any(tensor.place is Place.DEVICE for value in lists for tensor in tensors_in(value))


def call_module_value(frame: Frame, place: Place, proved: bool, values: list[Value], *, number: bool = False) -> Tensor:
    """What a model of unknown code returns for `values`."""
    given = result_of(frame, values)
    graph = frame.where.grad is not GradMode.DISABLED
    # what a loss is computed of was computed by a model; what a model is given is data, or another model's concern
    autocast = frame.where.autocast or (given.autocast if given is not None and number else "")
    if place is Place.UNKNOWN and not number:
        frame.run.training_places.add(place)
    if place is Place.DEVICE:
        pass
    elif given is not None and given.place is not Place.UNKNOWN:
        place, proved = given.place, given.proved
    elif given is not None and frame.run.entry.cuda is Known.YES:
        place, proved = Place.DEVICE, False
    return Tensor(
        place, proved, keeps_graph=graph, number=number, container=not number, autocast=autocast if graph else ""
    )
