"""Calls of library functions and classes: what they return, and what they tell about the entry point."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from trainlint.semantics import (
    calls,
    classes,
    code,
    expressions,
    frameworks,
    guards,
    library,
    methods,
    naming,
    records,
    tensors,
)
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import DatasetKind, EnvironmentSetting, Loader, ReportKind, Sampler, SyncKind, Wrapping
from trainlint.semantics.state import Frame, Role, WrappedModel
from trainlint.semantics.text import describe
from trainlint.semantics.values import (
    ARRAY,
    NONE,
    NUMBER,
    OBJECT,
    STRING,
    UNKNOWN,
    Bound,
    Class,
    Const,
    DeviceValue,
    Function,
    Host,
    Instance,
    Listing,
    ModuleValue,
    Object,
    Option,
    Partial,
    Reference,
    Table,
    Tensor,
    Test,
    Tuple,
    Unknown,
    Value,
    join_all,
    options,
)
from trainlint.semantics.vocabulary import Framework, GradMode, GuardKind, Known, Place

Call = Callable[[Frame, Given, code.Call | None], Value]


# ------------------------------------------------------------------------------------------------ library functions


def call_reference(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    """The result of calling the library name `name`."""
    if name in library.RECORDED or name.startswith(library.RECORDED_PREFIXES):
        methods.record_call(frame, name, given, node)
    exact = _EXACT.get(name)
    if exact is not None:
        return exact(frame, given, node)
    return _maker(name)(frame, name, given, node)


@functools.cache
def _maker(name: str) -> _Make:
    """What makes of a call of `name` what it makes; asked once a name."""
    return next((make for accepts, make in _KINDS if accepts(name)), _by_package)


def _by_package(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    package = name.partition(".")[0]
    if package == "torch":
        return tensors.call_torch(frame, name, given, node)
    if package in library.BUILTINS and "." not in name:
        return _builtin(frame, name, given, node)
    if package == "numpy":
        return NUMBER if name.startswith("numpy.random.rand") and not given.positional else ARRAY
    if package in library.NUMBER_PACKAGES:
        for argument, value in zip(given.nodes, given.positional, strict=False):
            if isinstance(value, Tensor) and node is not None:
                tensors.sync(frame, SyncKind.READ, node, value, argument.value)
        return NUMBER
    if package not in ("functools", "inspect", "typing", "dataclasses", "contextlib", "abc"):
        run_callbacks(frame, given)
    if package in library.TENSOR_PACKAGES:
        found = tensors.result_of(frame, given.all())
        if found is not None:
            return replace(found, proved=False, container=True)
        return UNKNOWN
    if package in _NOTHING_KNOWN:
        return UNKNOWN
    if package in library.HOST_PACKAGES:
        return OBJECT
    found = tensors.result_of(frame, given.all())
    return Object("computed", inner=replace(found, proved=False)) if found is not None else UNKNOWN


_NOTHING_KNOWN = frozenset(
    {
        *("hydra", "omegaconf", "importlib", "copy", "functools", "multiprocessing"),
        *("inspect", "typing", "dataclasses", "contextlib", "abc"),
    }
)
"""Packages whose functions may return anything, whatever they are given."""


def call_unknown(frame: Frame, callee: Value, given: Given, node: code.Call | None) -> Value:
    """A call of something unknown, judged by the name it is called by."""
    word = _called_name(node.function) if node is not None else ""
    if "backward" in word and given.positional:
        calls.mark_backward(frame, node)
        if "update" in word or "step" in word:
            calls.mark_update(frame, node)
        return OBJECT
    run_callbacks(frame, given)
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
        methods.record_tokenization(frame, "unknown", "__call__", given, node)
        return UNKNOWN
    if word in frame.run.options.loader_factories:
        return Object("torch.utils.data.DataLoader", proved=False)
    return Object("computed", inner=replace(found, proved=False)) if found is not None else UNKNOWN


def _called_name(function: code.Expression) -> str:
    """The name that a call uses for what it calls; empty where it calls the result of another expression."""
    return (
        function.id
        if isinstance(function, code.Name)
        else function.name
        if isinstance(function, code.Attribute)
        else ""
    )


def run_callbacks(frame: Frame, given: Given) -> None:
    """Functions handed to code that is not known are called by it, as far as anyone can tell at this frequency."""
    for value in given.all():
        for option in options(value):
            callback = option.function if isinstance(option, Partial) else option
            if isinstance(callback, Function) and isinstance(callback.define, code.Define):
                calls.call_unbound(frame, callback)
            elif isinstance(callback, Bound):
                calls.call_unbound(frame, callback.function, receiver=callback.receiver)


# --------------------------------------------------------------------------------------------------------- builtins


def _builtin(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    handler = _BUILTINS.get(name)
    if handler is not None:
        return handler(frame, given, node)
    if name in ("list", "tuple", "reversed", "sorted", "set", "iter"):
        return _same_items(frame, name, given)
    return OBJECT if name in ("isinstance", "hasattr", "callable", "issubclass", "id", "hash", "open") else UNKNOWN


def _same_items(frame: Frame, name: str, given: Given) -> Value:
    if not given.positional:
        return Listing(UNKNOWN, growing=True)
    value = given.positional[0]
    if name == "iter":
        loader = calls.loader_in(value)
        if loader is not None:
            records.note_iteration(frame, loader)
        return Object("iterator", inner=value)
    if isinstance(value, Tuple):
        return value
    return Listing(calls.item_of(frame, value), growing=name == "list")


def _number_of(frame: Frame, given: Given, node: code.Call | None) -> Value:
    for value in given.positional[:1]:
        if isinstance(value, Tensor) and not value.container and node is not None:
            tensors.sync(frame, SyncKind.READ, node, value, node.arguments[0].value if node.arguments else None)
        if isinstance(value, Const) and value.value in ("inf", "-inf"):
            return Const(float(str(value.value)))
        if isinstance(value, Const | Option):
            return value if isinstance(value, Const) and not isinstance(value.value, str) else NUMBER
        if isinstance(value, Test):
            return value
        if isinstance(value, Host) and value.kind in ("rank", "world-size"):
            return value
        if isinstance(value, Object) and value.type == "os.environ":
            return Host("rank")
    return NUMBER


def _extreme(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`max` and `min` of tensors compare them, which reads each."""
    values = (
        given.positional if len(given.positional) > 1 else [calls.item_of(frame, value) for value in given.positional]
    )
    for value in values:
        if (
            isinstance(value, Tensor)
            and node is not None
            and (len(given.positional) > 1 or isinstance(given.positional[0], Listing | Tuple))
        ):
            tensors.sync(frame, SyncKind.BRANCH, node, value, node.arguments[0].value if node.arguments else None)
            return value
    return join_all(values) if values else NUMBER


def _sum(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if not given.positional:
        return NUMBER
    item = calls.item_of(frame, given.positional[0])
    return replace(item, loader=None) if isinstance(item, Tensor) else NUMBER


def _print(frame: Frame, given: Given, node: code.Call | None) -> Value:
    methods.record_report(frame, ReportKind.PRINT, "print", given, node)
    return NONE


def _text(frame: Frame, given: Given, node: code.Call | None) -> Value:
    for value in given.positional[:1]:
        if node is not None:
            tensors.format_sync(frame, node, value, node.arguments[0].value if node.arguments else None)
    return STRING


def _range(frame: Frame, given: Given, node: code.Call | None) -> Value:
    for argument, value in zip(given.nodes, given.positional, strict=False):
        if isinstance(value, Tensor) and not value.container and node is not None:
            tensors.sync(frame, SyncKind.INDEX, node, value, argument.value)
    return Object("range")


def _enumerate(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return Object("enumerate", inner=given.positional[0] if given.positional else UNKNOWN)


def _zip(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return Object("zip", inner=Tuple(tuple(given.positional)))


def _next(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return calls.item_of(frame, given.positional[0]) if given.positional else UNKNOWN


def _map(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if not given.positional:
        return UNKNOWN
    items = [calls.item_of(frame, value) for value in given.positional[1:]]
    return Listing(calls.call(frame, given.positional[0], Given(items), node))


def _filter(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return given.positional[1] if len(given.positional) > 1 else UNKNOWN


def _getattr(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if len(given.positional) >= 2 and isinstance(given.positional[0], ModuleValue):
        return expressions.item_at(frame, Object("module-dict", inner=given.positional[0]), given.positional[1])
    if (
        len(given.positional) >= 2
        and isinstance(given.positional[0], Reference)
        and not isinstance(given.positional[1], Const)
    ):
        return Reference(f"{given.positional[0].name}.any")
    if (
        len(given.positional) >= 2
        and isinstance(given.positional[1], Const)
        and isinstance(given.positional[1].value, str)
    ):
        return expressions.attribute(frame, given.positional[0], given.positional[1].value)
    return UNKNOWN


def _dict(frame: Frame, given: Given, node: code.Call | None) -> Value:
    base = given.positional[0] if given.positional else None
    items = dict(base.items) if isinstance(base, Table) else {}
    items.update(given.keywords)
    return Table(
        tuple(items.items()), None if given.complete and (base is None or isinstance(base, Table)) else UNKNOWN
    )


def _setattr(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if len(given.positional) > 2 and isinstance(given.positional[1], Const):
        calls.assign_attribute(frame, given.positional[0], str(given.positional[1].value), given.positional[2])
    return NONE


def _exit(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return NONE


_BUILTINS: dict[str, Call] = {
    "print": _print,
    "float": _number_of,
    "int": _number_of,
    "bool": _number_of,
    "round": lambda frame, given, node: (
        given.positional[0] if given.positional and isinstance(given.positional[0], Tensor) else NUMBER
    ),
    "abs": lambda frame, given, node: (
        given.positional[0] if given.positional and isinstance(given.positional[0], Tensor) else NUMBER
    ),
    "max": _extreme,
    "min": _extreme,
    "sum": _sum,
    "str": _text,
    "format": _text,
    "repr": _text,
    "range": _range,
    "enumerate": _enumerate,
    "zip": _zip,
    "next": _next,
    "map": _map,
    "filter": _filter,
    "getattr": _getattr,
    "setattr": _setattr,
    "dict": _dict,
    "len": lambda frame, given, node: NUMBER,
    "any": lambda frame, given, node: NUMBER,
    "all": lambda frame, given, node: NUMBER,
    "vars": lambda frame, given, node: given.positional[0] if given.positional else UNKNOWN,
    "exit": _exit,
    "quit": _exit,
}


# ---------------------------------------------------------------------------------------------- torch and its kin


def _device(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if not given.positional:
        return DeviceValue(cuda=True, cpu=True, proved=False)
    value = given.positional[0]
    found = [device for option in options(value) if (device := tensors.as_device(option)) is not None]
    if found:
        joined = join_all(found)
        if isinstance(joined, DeviceValue):
            return joined
    if isinstance(value, Host) and value.kind == "string" and node is not None:
        return _device_in_text(node)
    return DeviceValue(cuda=True, cpu=True, proved=False)


def _device_in_text(node: code.Call) -> DeviceValue:
    """`torch.device(f"cuda:{rank}")`."""
    words = {item.value for item in code.walk(node) if isinstance(item, code.Constant) and isinstance(item.value, str)}
    ranked = any(
        isinstance(item, code.Name | code.Attribute)
        and naming.RANK.search(item.id if isinstance(item, code.Name) else item.name)
        for item in code.walk(node)
    )
    return DeviceValue(cuda=True, cpu="cpu" in words, rank_local=ranked)


def _available(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return Test((GuardKind.DEVICE,), (GuardKind.NOT_DEVICE,), "torch.cuda.is_available()")


def _init_process_group(frame: Frame, given: Given, node: code.Call | None) -> Value:
    frame.run.entry.distributed = Known.YES
    return NONE


def _no_grad(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if given.positional and isinstance(given.positional[0], Const) and given.positional[0].value is False:
        return Object("enable_grad")
    if given.positional and isinstance(given.positional[0], Function):
        return methods.decorated(Object("no_grad"), given.positional[0])
    return Object("no_grad")


def _set_grad(frame: Frame, given: Given, node: code.Call | None) -> Value:
    mode = given.positional[0] if given.positional else UNKNOWN
    result = (
        Object("no_grad")
        if mode == Const(False)
        else Object("enable_grad")
        if mode == Const(True)
        else Object("maybe_grad")
    )
    if node is not None and frame.standing_alone == node.at:
        grad = {"no_grad": GradMode.DISABLED, "enable_grad": GradMode.ENABLED}.get(result.type, GradMode.UNKNOWN)
        frame.where = replace(frame.where, grad=grad)
        frame.last_grad = grad
    return result


def _save(frame: Frame, given: Given, node: code.Call | None) -> Value:
    records.note_checkpoint(frame, given, node)
    return NONE


def _load(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return Object("checkpoint")


def _autograd_backward(frame: Frame, given: Given, node: code.Call | None) -> Value:
    calls.mark_backward(frame, node)
    return NONE


def _logging_config(frame: Frame, given: Given, node: code.Call | None) -> Value:
    note_log_level(frame, given, node)
    return NONE


def note_log_level(frame: Frame, given: Given, node: code.Call | None) -> None:
    """Learn from a log level or a handler that depends on the rank that other ranks keep quiet."""
    by_rank = any(guard.kind in (GuardKind.RANK, GuardKind.OTHER_RANKS) for guard in frame.where.guards)
    for argument in node.arguments if node is not None else ():
        if isinstance(argument.value, code.Conditional):
            positive, negative = guards.classify(
                argument.value.test, lambda item: expressions.evaluate_quietly(frame, item)
            )
            by_rank = by_rank or GuardKind.RANK in positive or GuardKind.RANK in negative
    if by_rank:
        frame.run.entry.silent_loggers = True


def _get_logger(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return Object("logging.Logger")


def _root_logger(method: str) -> Call:
    def log(frame: Frame, given: Given, node: code.Call | None) -> Value:
        methods.record_report(frame, ReportKind.LOGGER, f"logging.{method}", given, node)
        return NONE

    return log


def _partial(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if not given.positional:
        return UNKNOWN
    return Partial(given.positional[0], tuple(given.positional[1:]), tuple(given.keywords.items()))


def _first_argument(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return given.positional[0] if given.positional else UNKNOWN


def _compile(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if given.keywords.get("dynamic") != Const(True):
        frame.run.entry.wants_fixed_shapes = True
    return given.positional[0] if given.positional else Object("decorator")


def _wants_fixed_shapes(frame: Frame) -> Value:
    frame.run.entry.wants_fixed_shapes = True
    return OBJECT


def _iterates(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return Object("iterator", inner=given.positional[0]) if given.positional else UNKNOWN


def _progress(frame: Frame, given: Given, node: code.Call | None) -> Value:
    inner = given.get("iterable", 0)
    return Object("tqdm", inner=inner) if inner is not None else Object("tqdm")


def _spawn(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`mp.spawn(fn, args=(…))` and `Process(target=fn, args=(…))` run a function in other processes."""
    target = given.keywords.get("target") or given.get("fn", 0)
    arguments = given.keywords.get("args")
    if arguments is None and "target" not in given.keywords and len(given.positional) > 1:
        arguments = given.positional[1]
    passed = list(arguments.items) if isinstance(arguments, Tuple) else []
    spawned = "target" not in given.keywords
    if spawned:
        passed.insert(0, Host("rank"))
    if target is not None and (isinstance(target, Function | Bound | Partial | Instance)):
        calls.call(frame, target, Given(passed, complete=isinstance(arguments, Tuple)), node)
    return OBJECT


def _data_parallel_function(frame: Frame, given: Given, node: code.Call | None) -> Value:
    _record_wrapping(frame, "torch.nn.parallel.data_parallel", given, node)
    model = given.get("module", 0)
    inputs = given.get("inputs", 1)
    values = [inputs] if inputs is not None else []
    if isinstance(model, Instance):
        return calls.call_module(frame, model, Given(values), node)
    return tensors.call_module_value(frame, Place.DEVICE, True, values)


def _world_size(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return Host("world-size")


def _environment_get(frame: Frame, given: Given, node: code.Call | None) -> Value:
    key = given.positional[0] if given.positional else UNKNOWN
    return expressions.item_at(frame, Object("os.environ"), key)


def _environment_set(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if len(given.positional) >= 2 and node is not None:
        record_environment(frame, node, given.positional[0], given.positional[1])
    return STRING


_EXACT: dict[str, Call] = {
    "torch.device": _device,
    "torch.cuda.is_available": _available,
    "torch.accelerator.is_available": _available,
    "torch.accelerator.current_accelerator": lambda frame, given, node: DeviceValue(cuda=True, other=True),
    "torch.backends.mps.is_available": lambda frame, given, node: Test((), (), "mps"),
    "torch.cuda.device_count": lambda frame, given, node: Host("world-size"),
    "torch.cuda.current_device": lambda frame, given, node: DeviceValue(cuda=True, rank_local=True),
    "torch.distributed.init_process_group": _init_process_group,
    "deepspeed.init_distributed": _init_process_group,
    "torch.distributed.device_mesh.init_device_mesh": _init_process_group,
    "torch.distributed.get_rank": lambda frame, given, node: Host("rank"),
    "torch.distributed.get_node_local_rank": lambda frame, given, node: Host("rank"),
    "torch.distributed.get_world_size": _world_size,
    "torch.distributed.is_initialized": lambda frame, given, node: Test(
        (GuardKind.DISTRIBUTED,), (GuardKind.NOT_DISTRIBUTED,), "dist.is_initialized()"
    ),
    "torch.no_grad": _no_grad,
    "torch.inference_mode": _no_grad,
    "torch.enable_grad": lambda frame, given, node: Object("enable_grad"),
    "torch.set_grad_enabled": _set_grad,
    "torch.save": _save,
    "torch.load": _load,
    "torch.autograd.backward": _autograd_backward,
    "torch.nn.parallel.data_parallel": _data_parallel_function,
    "logging.basicConfig": _logging_config,
    "logging.disable": _logging_config,
    "logging.getLogger": _get_logger,
    "accelerate.logging.get_logger": lambda frame, given, node: Object("logging.Logger", origin="rank-aware"),
    "functools.partial": _partial,
    "copy.deepcopy": _first_argument,
    "copy.copy": _first_argument,
    "torch.jit.script": _first_argument,
    "torch.compile": _compile,
    "torch.cuda.CUDAGraph": lambda frame, given, node: _wants_fixed_shapes(frame),
    "torch.cuda.make_graphed_callables": lambda frame, given, node: _wants_fixed_shapes(frame),
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm": _first_argument,
    "torchvision.transforms.Compose": lambda frame, given, node: _transform(given),
    "torchvision.transforms.v2.Compose": lambda frame, given, node: _transform(given),
    "torchvision.transforms.Lambda": lambda frame, given, node: _transform(given),
    "itertools.cycle": _iterates,
    "itertools.islice": _iterates,
    "itertools.chain": _iterates,
    "tqdm.tqdm": _progress,
    "tqdm": _progress,
    "tqdm.tqdm_notebook": _progress,
    "rich.progress.track": _progress,
    "tqdm.trange": lambda frame, given, node: Object("tqdm", inner=Object("range")),
    "torch.multiprocessing.spawn": _spawn,
    "torch.multiprocessing.Process": _spawn,
    "multiprocessing.Process": _spawn,
    "threading.Thread": _spawn,
    "functools.lru_cache": lambda frame, given, node: Object("cache"),
    "argparse.ArgumentParser": lambda frame, given, node: Object("argparse.ArgumentParser"),
    "configargparse.ArgumentParser": lambda frame, given, node: Object("argparse.ArgumentParser"),
    "transformers.HfArgumentParser": lambda frame, given, node: Object("argparse.ArgumentParser"),
    "os.environ.get": _environment_get,
    "os.getenv": _environment_get,
    "os.environ.setdefault": _environment_set,
    "os.putenv": _environment_set,
    "sys.exit": _exit,
    "accelerate.Accelerator": lambda frame, given, node: frameworks.make_accelerator(frame, given, node),
    "lightning.Fabric": lambda frame, given, node: frameworks.make_fabric(frame, given, node),
    "pytorch_lightning.Trainer": lambda frame, given, node: frameworks.make_lightning_trainer(frame, given, node),
    "deepspeed.initialize": lambda frame, given, node: frameworks.initialize_deepspeed(frame, given, node),
    "ignite.engine.Engine": lambda frame, given, node: frameworks.make_ignite_engine(frame, given, node),
    **{f"logging.{name}": _root_logger(name) for name in ("debug", "info", "warning", "error", "critical", "log")},
}


# ---------------------------------------------------------------------------------------------- kinds of classes


def _make_optimizer(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    return Object("torch.optim.Optimizer", origin=name)


def _make_scheduler(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    return Object("torch.optim.lr_scheduler.LRScheduler", origin=name)


def _make_scaler(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    return Object("torch.amp.GradScaler", origin=name)


def _make_autocast(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    frame.run.entry.autocast = True
    dtype = given.arguments(name).value("dtype")
    return Object("autocast", origin=dtype.name if isinstance(dtype, Reference) else "on")


def _make_tracker(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    return Object("tracker", origin=name)


def _track(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    methods.record_report(frame, ReportKind.TRACKER, name, given, node)
    return NONE


def _make_dataset(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    for keyword in ("transform", "target_transform", "transforms"):
        _run_transforms(frame, given.keywords.get(keyword))
    if name in library.DATASET_WRAPPERS:
        return Object("dataset", origin=name, inner=given.positional[0] if given.positional else UNKNOWN)
    if name == "torch.utils.data.random_split":
        whole = Object(
            "dataset", origin="torch.utils.data.Subset", inner=given.positional[0] if given.positional else UNKNOWN
        )
        return Listing(whole)
    return Object(
        "dataset", origin=name, inner=join_all(given.positional) if name in library.IN_MEMORY_DATASETS else None
    )


def _transform(given: Given) -> Value:
    return Object("transform", inner=given.positional[0] if given.positional else UNKNOWN)


def _run_transforms(frame: Frame, value: Value | None) -> None:
    """What a dataset of a library applies to each item."""
    if isinstance(value, Object) and value.type == "transform":
        _run_transforms(frame, value.inner)
    elif isinstance(value, Tuple):
        for item in value.items:
            _run_transforms(frame, item)
    elif value is not None:
        frameworks.run_per_item(frame, [value], Role.SAMPLE)


def _make_hf_dataset(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    return Object("datasets.Dataset", origin=name)


def make_sampler(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    """A sampler: a record that its loader joins, and a value."""
    wrapped = given.get("sampler", 0)
    if name == "torch.utils.data.BatchSampler" and isinstance(wrapped, Object) and wrapped.type == "sampler":
        return Object("sampler", origin=name, inner=wrapped)
    if node is None:
        return Object("sampler", origin=name)
    key = (frame.site(node.at), frame.where.calls)
    sampler = frame.run.samplers.get(key)
    if sampler is None:
        sampler = Sampler(
            site=frame.site(node.at),
            context=records.pending_context(frame),
            library=name,
            arguments=given.arguments(name),
            shards=name in library.SHARDING_SAMPLERS or "istributed" in name,
        )
        frame.run.samplers[key] = sampler
        frame.run.sampler_where[id(sampler)] = frame.where
    sampler.arguments = given.arguments(name)
    return Object("sampler", origin=name, fact=sampler)


def _make_layer(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    """A layer, a loss, a container or a whole model of a library."""
    _note_start(frame, name, given)
    inner = None
    if name in ("torch.nn.Sequential", "torch.nn.ModuleList"):
        items = (
            calls.item_of(frame, given.positional[0])
            if len(given.positional) == 1 and not isinstance(given.positional[0], Object | Instance)
            else join_all(given.positional)
            if given.positional
            else UNKNOWN
        )
        if name == "torch.nn.ModuleList":
            return Listing(items, growing=True)
        inner = items
    return Object("torch.nn.Module", origin=name, place=Place.HOST, inner=inner)


def _note_start(frame: Frame, name: str, given: Given) -> None:
    """Learn whether a model starts from nothing, from weights that an option names, or from either."""
    cls, _, how = name.rpartition(".")
    if how == "from_pretrained" and isinstance(given.get("pretrained_model_name_or_path", 0), Option):
        frame.run.started_from_saved.add(cls)
    else:
        frame.run.started_from_nothing.add(name)


def _wrap(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
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
        conditional_forward=records.conditional_forward(frame, model) if _may_skip(given) else Known.UNKNOWN,
    )


def _may_skip(given: Given) -> bool:
    """Whether the wrapping says anything about unused parameters, so that it matters whether there are any."""
    return "find_unused_parameters" in given.keywords or len(given.positional) > 8 or not given.complete


def _make_tokenizer(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    kind = next((kind for pattern, kind in library.TOKENIZER_FACTORIES if pattern.match(name)), "unknown")
    return Object("tokenizer", origin=kind, inner=Reference(name.removesuffix(".from_pretrained")))


def _tokenize(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    kind = next((kind for pattern, kind in library.TOKENIZER_FUNCTIONS if pattern.match(name)), "unknown")
    methods.record_tokenization(frame, kind, "tokenize", given, node, name)
    return Tensor(Place.HOST) if kind == "bpe" else Listing(STRING)


def _hf_trainer(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    return frameworks.make_hf_trainer(frame, given, node)


def _hf_arguments(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    methods.record_call(frame, "transformers.TrainingArguments", given, node)
    return Option("config")


def _loader(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    return make_loader(frame, given, node, name)


def _collective(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    return NONE


_Make = Callable[[Frame, str, Given, code.Call | None], Value]
_KINDS: tuple[tuple[Callable[[str], Any], _Make], ...] = (
    (library.DATA_LOADERS.__contains__, _loader),
    (library.WRAPPERS.__contains__, _wrap),
    (library.GRAD_SCALERS.__contains__, _make_scaler),
    (library.AUTOCASTS.__contains__, _make_autocast),
    (library.is_optimizer_class, _make_optimizer),
    (
        lambda name: name.startswith(("torch.optim", "transformers", "timm.scheduler")) and library.is_scheduler(name),
        _make_scheduler,
    ),
    (
        lambda name: (
            name.startswith(("torch.utils.data.", "torchdata.", "catalyst.data."))
            and name.endswith(("Sampler", "SamplerWrapper"))
        ),
        make_sampler,
    ),
    (
        lambda name: (
            name in library.IN_MEMORY_DATASETS
            or name in library.DATASET_WRAPPERS
            or name == "torch.utils.data.random_split"
        ),
        _make_dataset,
    ),
    (library.TORCHVISION_DATASETS.match, _make_dataset),
    (library.HF_DATASETS.match, _make_hf_dataset),
    (lambda name: any(pattern.match(name) for pattern, _ in library.TOKENIZER_FACTORIES), _make_tokenizer),
    (lambda name: any(pattern.match(name) for pattern, _ in library.TOKENIZER_FUNCTIONS), _tokenize),
    (library.TRACKER_FACTORIES.match, _make_tracker),
    (library.TRACKER_CALLS.match, _track),
    (library.HF_TRAINERS.match, _hf_trainer),
    (library.HF_ARGUMENTS.match, _hf_arguments),
    (library.COLLECTIVES.match, _collective),
    (library.is_module_class, _make_layer),
)


# ---------------------------------------------------------------------------------------------------------- loaders


def make_loader(frame: Frame, given: Given, node: code.Call | None, name: str, *, exact: bool = True) -> Value:
    """A DataLoader: a record that its uses join, and a value that loops recognize."""
    if node is None:
        return Object("torch.utils.data.DataLoader")
    arguments = given.arguments("torch.utils.data.DataLoader")
    if not exact or name != "torch.utils.data.DataLoader":
        arguments = replace(arguments, complete=False)
    key = (frame.site(node.at), frame.where.calls, arguments.named.get("dataset"))
    loader = frame.run.loaders.get(key)
    if loader is None:
        loader = frame.run.loaders[key] = Loader(
            frame.site(node.at), records.pending_context(frame), describe(node), arguments, library=name
        )
        frame.run.loader_where[id(loader)] = frame.where
    loader.arguments = arguments
    dataset = arguments.value("dataset") or UNKNOWN
    loader.dataset = dataset
    loader.dataset_kind, loader.works_per_item = dataset_facts(frame, dataset)
    if (
        isinstance(dataset, Object)
        and dataset.origin in library.IN_MEMORY_DATASETS
        and isinstance(dataset.inner, Tensor)
    ):
        loader.item_place = dataset.inner.place
    for argument in node.arguments:
        if argument.keyword == "dataset" or (argument.keyword is None and argument is node.arguments[0]):
            loader.dataset_text = describe(argument.value)
    _join_sampler(loader, [arguments.value("sampler"), arguments.value("batch_sampler")])
    frameworks.run_dataset(frame, dataset, loader)
    collate = arguments.value("collate_fn")
    if collate is not None:
        frameworks.run_per_item(frame, [collate], Role.COLLATE)
    return Object("torch.utils.data.DataLoader", fact=loader)


def _join_sampler(loader: Loader, values: list[Value | None]) -> None:
    """Connect a loader with its sampler; of several that it may get, the one that shards."""
    found: list[Sampler] = []
    for value in values:
        for option in options(value) if value is not None else ():
            inner: Value | None = option.attributes.get("__sampler__") if isinstance(option, Instance) else option
            while (
                isinstance(inner, Object) and inner.type == "sampler" and inner.fact is None and inner.inner is not None
            ):
                inner = inner.inner
            if isinstance(inner, Object) and isinstance(inner.fact, Sampler):
                found.append(inner.fact)
    if found:
        loader.sampler = next((sampler for sampler in found if sampler.shards), found[0])
        if loader not in loader.sampler.loaders:
            loader.sampler.loaders.append(loader)


def dataset_facts(frame: Frame, dataset: Value) -> tuple[DatasetKind, Known]:
    """What kind of dataset this is, and whether it works for each item."""
    kinds = [_one_dataset(frame, option) for option in options(dataset) if option != NONE]
    if not kinds:
        return DatasetKind.UNKNOWN, Known.UNKNOWN
    kind = kinds[0][0] if all(item[0] is kinds[0][0] for item in kinds) else DatasetKind.UNKNOWN
    works = kinds[0][1] if all(item[1] is kinds[0][1] for item in kinds) else Known.UNKNOWN
    return kind, works


def _one_dataset(frame: Frame, dataset: Value) -> tuple[DatasetKind, Known]:
    if isinstance(dataset, Object):
        if dataset.origin in library.IN_MEMORY_DATASETS:
            return DatasetKind.IN_MEMORY, Known.NO
        if dataset.origin in library.DATASET_WRAPPERS and dataset.inner is not None:
            return dataset_facts(frame, dataset.inner)
        if dataset.type == "datasets.Dataset" or library.TORCHVISION_DATASETS.match(dataset.origin):
            return DatasetKind.MAP, Known.YES
        return DatasetKind.UNKNOWN, Known.UNKNOWN
    if isinstance(dataset, Instance):
        names = classes.library_bases(dataset.cls)
        if any(name.endswith("IterableDataset") for name in names):
            return DatasetKind.ITERABLE, Known.YES
        getter = classes.find_member(dataset.cls, "__getitem__")
        if isinstance(getter, Function):
            return DatasetKind.MAP, _works(frame, getter)
        if any(library.TORCHVISION_DATASETS.match(name) for name in names):
            return DatasetKind.MAP, Known.YES
        return DatasetKind.UNKNOWN, Known.UNKNOWN
    if isinstance(dataset, Listing | Tuple | Tensor):
        return DatasetKind.IN_MEMORY, Known.NO
    if isinstance(dataset, Host) and dataset.kind == "array":
        return DatasetKind.IN_MEMORY, Known.NO
    return DatasetKind.UNKNOWN, Known.UNKNOWN


_IDLE = {
    "len",
    "int",
    "tensor",
    "as_tensor",
    "from_numpy",
    "float",
    "long",
    "is_tensor",
    "isinstance",
    "LongTensor",
    "FloatTensor",
    "tolist",
    "dict",
    "items",
    "Tensor",
    "unsqueeze",
}


def _works(frame: Frame, getter: Function) -> Known:
    """Whether `__getitem__` does more than hand out what is in memory."""
    if not isinstance(getter.define, code.Define):
        return Known.UNKNOWN
    body = frame.run.body(getter.module, getter.define.body)
    for item in code.walk(body):
        if isinstance(item, code.Call) and _called_name(item.function) not in _IDLE:
            return Known.YES
        if isinstance(item, code.For | code.While | code.Comprehension):
            return Known.YES
    return Known.NO


def after_instantiation(
    frame: Frame, instance: Instance, names: set[str], given: Given, node: code.Call | None
) -> None:
    """What a library base class does with a new object of a project class."""
    if names & library.SHARDING_SAMPLERS:
        instance.attributes["__sampler__"] = make_sampler(
            frame, next(iter(names & library.SHARDING_SAMPLERS)), given, node
        )
    if any(library.HF_TRAINERS.match(name) for name in names):
        frameworks.use_hf_trainer(frame, given, instance)
    if "torch.utils.tensorboard.SummaryWriter" in names:
        instance.attributes.setdefault("_tracker", Const(True))


def annotated(frame: Frame, function: Function, annotation: code.Expression) -> Value:
    """What a parameter of unknown value holds, by its annotation."""
    home = Frame(frame.run, function.module, frame.where, function.row, function.qualname, {}, None)
    if isinstance(annotation, code.Binary):
        return annotated(frame, function, annotation.left)
    if not isinstance(annotation, code.Name | code.Attribute):
        return UNKNOWN
    value = expressions.evaluate(home, annotation)
    if isinstance(value, Class):
        return _annotated_instance(frame, value)
    if not isinstance(value, Reference):
        return UNKNOWN
    return _annotated_reference(frame, value.name)


_COLLECTIONS = frozenset({"List", "list", "Sequence", "Iterable", "Iterator", "Tuple", "tuple", "Set", "set"})


def strings_by(annotation: code.Expression) -> Value | None:
    """Strings, or a collection of them, where an annotation says so: `str`, `list[str] | None`; None for any other."""
    if isinstance(annotation, code.Binary):
        return strings_by(annotation.left)
    if isinstance(annotation, code.Name):
        return STRING if annotation.id == "str" else None
    if not isinstance(annotation, code.Subscript):
        return None
    word = guards.last_word(annotation.value)
    inner = annotation.key.items[0] if isinstance(annotation.key, code.Sequence) else annotation.key
    said = strings_by(inner)
    if said is None or word == "Optional":
        return said
    return Listing(said) if word in _COLLECTIONS else None


def _annotated_instance(frame: Frame, cls: Class) -> Value:
    known = [instance for (key, *_), instance in frame.run.instances.items() if key == id(cls)]
    return known[0] if known else UNKNOWN


def _annotated_reference(frame: Frame, name: str) -> Value:
    if name in ("int", "float", "bool"):
        return NUMBER
    if name == "str":
        return STRING
    if name == "torch.Tensor":
        return UNKNOWN
    if name == "torch.nn.Module":
        return Object("torch.nn.Module", place=expressions.assumed_place(frame), proved=False)
    if name in library.DATA_LOADERS:
        return Object("torch.utils.data.DataLoader", proved=False)
    if name.startswith("torch.optim") and "sched" not in name:
        return Object("torch.optim.Optimizer", proved=False)
    if name == "torch.device":
        return DeviceValue(cuda=True, cpu=True, proved=False)
    if name in library.GRAD_SCALERS:
        return Object("torch.amp.GradScaler", proved=False)
    if name == "accelerate.Accelerator":
        return frameworks.make_accelerator(frame, Given([], complete=False), None)
    if name.startswith("transformers.") and "okeniz" in name:
        return Object("tokenizer", origin="transformers")
    if name.startswith("numpy."):
        return ARRAY
    return UNKNOWN


# --------------------------------------------------------------------------------------------------- the environment


def set_attribute(frame: Frame, base: Reference, name: str) -> None:
    """`library.name = …`: a print that is replaced may keep the other ranks quiet."""
    if base.name in ("builtins", "__builtin__") and name == "print":
        frame.run.entry.rank_aware_print = True


def record_environment(frame: Frame, node: code.Call | code.Subscript, key: Value, value: Value) -> None:
    """`os.environ[key] = value`, in whichever way it is written."""
    if isinstance(key, Const) and isinstance(key.value, str):
        frame.run.record(EnvironmentSetting, frame, key.value, site=frame.site(node.at), name=key.value, value=value)


def note_resume(frame: Frame, given: Given) -> None:
    """`load_state_dict` of something read from disk, before training: the script can continue a training run."""
    if not frame.where.loops and any(loop.runs_step for loop in frame.run.loops.values()):
        return
    for value in given.positional[:1]:
        for option in options(value):
            if (isinstance(option, Object) and option.type == "checkpoint") or isinstance(option, Unknown):
                frame.run.resumes.append(isinstance(option, Object) and option.inner is not None)
                frame.run.entry.resumes = True


def note_set_epoch(frame: Frame, receiver: Object) -> None:
    """`set_epoch` of a sampler, or of the loader that holds it."""
    frame.run.entry.sets_epoch = True
    fact = receiver.fact
    if isinstance(fact, Sampler):
        fact.sets_epoch = True
    elif isinstance(fact, Loader) and fact.sampler is not None:
        fact.sampler.sets_epoch = True
