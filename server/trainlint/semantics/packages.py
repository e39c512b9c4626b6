"""Calls of library functions and classes: what they return, and what they tell about the entry point."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from trainlint.semantics import (
    builtin_functions,
    builtin_methods,
    calls,
    clocks,
    code,
    command_line,
    configurations,
    entry_facts,
    expressions,
    frameworks,
    functions,
    ignite,
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
)
from trainlint.semantics.arguments import Given
from trainlint.semantics.configuration_files import SUFFIXES
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import Arguments, FileLoad, ReportKind, SyncKind
from trainlint.semantics.state import Frame
from trainlint.semantics.text import dotted
from trainlint.semantics.values import (
    ARRAY,
    FRAME,
    NONE,
    NUMBER,
    OBJECT,
    PATH,
    STRING,
    UNKNOWN,
    WHOLE_ARRAY,
    Bound,
    Const,
    DeviceValue,
    Function,
    Host,
    Instance,
    Listing,
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
from trainlint.semantics.vocabulary import GradMode, GuardKind, Known, Place

Call = Callable[[Frame, Given, code.Call | None], Value]


# ------------------------------------------------------------------------------------------------ library functions


def call_reference(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    """The result of calling the library name `name`."""
    if name in library.CLOCKS:
        return clocks.read(frame, name, node)
    if _may_wait(name):
        frame.run.note_possible_wait()
    recorded = name in library.RECORDED or name.startswith(library.RECORDED_PREFIXES)
    if recorded or records.is_made_per_item(frame, name):
        records.record_call(frame, name, given, node)
    if name.endswith(_WAITING) or (not name.startswith(("torch.", "numpy.")) and "." in name):
        frame.run.note_wait()
    exact = _EXACT.get(name) or ignite.FUNCTIONS.get(name) or ray_train.FUNCTIONS.get(name)
    if exact is not None:
        return exact(frame, given, node)
    return _maker(name)(frame, name, given, node)


@functools.cache
def _may_wait(name: str) -> bool:
    """Whether a function of torch may wait for the device, apart from reading the tensors that it is given."""
    return name.startswith(library.MAY_WAIT) and library.NEVER_WAITING.match(name) is None


_WAITING = ("synchronize", "barrier", "wait")
"""How functions of torch are called that wait for the device."""


@functools.cache
def _maker(name: str) -> _Make:
    """What makes of a call of `name` what it makes; asked once a name."""
    return next((make for accepts, make in _KINDS if accepts(name)), _by_package)


def _by_package(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    package = name.partition(".")[0]
    if package == "torch":
        return tensors.call_torch(frame, name, given, node)
    if package in library.BUILTINS and "." not in name:
        return builtin_functions.call_builtin(frame, name, given, node)
    if package == "numpy":
        return _call_numpy(frame, name, given, node)
    if package in _READ_IMAGES and library.ARRAY_MAKERS.match(name):
        return WHOLE_ARRAY
    if package == "pandas" and name.count(".") == 1 and _makes_frame(name.rpartition(".")[2]):
        return FRAME
    if package in library.NUMBER_PACKAGES:
        for argument, value in zip(given.nodes, given.positional, strict=False):
            if isinstance(value, Tensor) and node is not None:
                tensors.sync(frame, SyncKind.READ, node, value, argument.value)
        return NUMBER
    if package not in ("functools", "inspect", "typing", "dataclasses", "contextlib", "abc"):
        functions.run_callbacks(frame, given)
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
    return Object(object_types.COMPUTED, inner=replace(found, proved=False)) if found is not None else UNKNOWN


def _call_numpy(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    fetched = any(isinstance(value, Host) and value.fetched for value in given.all())
    if fetched:
        records.record_call(frame, name, given, node)
    if library.ARRAY_MAKERS.match(name):
        return replace(WHOLE_ARRAY, fetched=fetched, double=_is_double(name, given))
    if name in library.DOUBLE_SAMPLERS and (given.positional or given.keywords):
        return replace(ARRAY, fetched=fetched, double="dtype" not in given.keywords and given.complete)
    if name.startswith("numpy.random.rand") and not given.positional:
        return NUMBER
    return replace(ARRAY, fetched=fetched)


def _makes_frame(function: str) -> bool:
    """Whether a function of pandas returns a DataFrame or a Series."""
    return function in library.FRAME_MAKERS or function.startswith("read_")


def _is_double(name: str, given: Given) -> bool:
    """Whether a function of numpy makes an array of float64 for want of a type."""
    if "dtype" in given.keywords or not given.complete or not given.positional:
        return False
    most = library.DOUBLE_BY_DEFAULT.get(name)
    if most is not None:
        return len(given.positional) <= most
    literal = name in ("numpy.array", "numpy.asarray") and len(given.positional) == 1
    return literal and _holds_floats(given.positional[0])


def _holds_floats(value: Value) -> bool:
    """Whether a value is a list of literal numbers, one of them a float at least."""
    if not isinstance(value, Tuple) or not value.items:
        return False
    if all(isinstance(item, Tuple) for item in value.items):
        return any(_holds_floats(item) for item in value.items)
    numbers = [item.value for item in value.items if isinstance(item, Const)]
    plain = len(numbers) == len(value.items) and all(type(number) in (int, float) for number in numbers)
    return plain and any(type(number) is float for number in numbers)


_READ_IMAGES = frozenset({"cv2", "skimage", "imageio"})
_NOTHING_KNOWN = frozenset(
    {
        *("hydra", "omegaconf", "importlib", "copy", "functools", "multiprocessing"),
        *("inspect", "typing", "dataclasses", "contextlib", "abc"),
    }
)
"""Packages whose functions may return anything, whatever they are given."""


# ---------------------------------------------------------------------------------------------- torch and its kin


def _device(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if not given.positional:
        return DeviceValue(cuda=True, cpu=True, proved=False)
    value = given.positional[0]
    found = [device for option in options(value) if (device := tensors.as_device(option)) is not None]
    if found:
        joined = join_all(found)
        if isinstance(joined, DeviceValue):
            numbered = given.get("index", 1) not in (None, NONE)
            return replace(joined, bare=False) if numbered else joined
    if isinstance(value, Host) and value.kind == "string" and node is not None:
        return _device_in_text(node)
    return DeviceValue(cuda=True, cpu=True, proved=False)


def _xla_device(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """The device of torch_xla: a TPU, as far as a script tells, and no GPU that the rules know the costs of."""
    return DeviceValue(cuda=False, cpu=True)


def _device_in_text(node: code.Call) -> DeviceValue:
    """`torch.device(f"cuda:{rank}")`."""
    words = {item.value for item in code.walk(node) if isinstance(item, code.Constant) and isinstance(item.value, str)}
    ranked = any(
        isinstance(item, code.Name | code.Attribute)
        and naming.RANK.search(item.id if isinstance(item, code.Name) else item.name)
        for item in code.walk(node)
    )
    mps = "mps" in words
    return DeviceValue(cuda=True, cpu="cpu" in words, rank_local=ranked, other=mps, mps=mps)


def _available(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return Test((GuardKind.DEVICE,), (GuardKind.NOT_DEVICE,), "torch.cuda.is_available()")


def _init_process_group(frame: Frame, given: Given, node: code.Call | None) -> Value:
    frame.run.entry.distributed = Known.YES
    if given.keywords.get("device_id", NONE) != NONE:
        frame.run.entry.chooses_device = True
    return NONE


def _init_on_device(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """A library's way to start the process group, which gives each process a GPU of its own."""
    frame.run.entry.distributed = Known.YES
    frame.run.entry.chooses_device = True
    return NONE


def _choose_device(frame: Frame, given: Given, node: code.Call | None) -> Value:
    frame.run.entry.chooses_device = True
    return NONE


def _no_grad(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if given.positional and isinstance(given.positional[0], Const) and given.positional[0].value is False:
        return Object(object_types.ENABLE_GRAD)
    if given.positional and isinstance(given.positional[0], Function):
        return functions.decorated(Object(object_types.NO_GRAD), given.positional[0])
    return Object(object_types.NO_GRAD)


def _set_grad(frame: Frame, given: Given, node: code.Call | None) -> Value:
    mode = given.first()
    result = (
        Object(object_types.NO_GRAD)
        if mode == Const(False)
        else Object(object_types.ENABLE_GRAD)
        if mode == Const(True)
        else Object(object_types.MAYBE_GRAD)
    )
    if node is not None and frame.standing_alone == node.at:
        grad = {object_types.NO_GRAD: GradMode.DISABLED, object_types.ENABLE_GRAD: GradMode.ENABLED}.get(
            result.type, GradMode.UNKNOWN
        )
        frame.where = replace(frame.where, grad=grad)
        frame.last_grad = grad
    return result


def _save(frame: Frame, given: Given, node: code.Call | None) -> Value:
    records.note_checkpoint(frame, given, node)
    return NONE


def _load(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if node is None:
        return Object(object_types.CHECKPOINT)
    site = frame.site(node.at)
    frame.run.record(FileLoad, frame, "load", site=site, text=node, arguments=given.arguments("torch.load"))
    return Object(object_types.CHECKPOINT, origin=entry_facts.place_key(site))


def _autograd_backward(frame: Frame, given: Given, node: code.Call | None) -> Value:
    steps.mark_backward(frame, node)
    return NONE


def _logging_config(frame: Frame, given: Given, node: code.Call | None) -> Value:
    entry_facts.note_log_level(frame, given, node)
    return NONE


def _get_logger(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return Object(object_types.LOGGER)


def _root_logger(method: str) -> Call:
    def log(frame: Frame, given: Given, node: code.Call | None) -> Value:
        records.record_report(frame, ReportKind.LOGGER, f"logging.{method}", given, node)
        return NONE

    return log


def _partial(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if not given.positional:
        return UNKNOWN
    return Partial(given.positional[0], tuple(given.positional[1:]), tuple(given.keywords.items()))


def _first_argument(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return given.first()


def _compile(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if given.keywords.get("dynamic") != Const(True):
        frame.run.entry.wants_fixed_shapes = True
    if "disable" in given.keywords or not given.complete:
        return given.positional[0] if given.positional else Object(object_types.DECORATOR)
    decorator = Object(object_types.DECORATOR, origin="torch.compile")
    if not given.positional:
        return decorator
    target = given.positional[0]
    written = node.arguments[0].value if node is not None and node.arguments else None
    # a model stays what it is: where its own name is bound to the result, its calls are those of the compiled one
    if isinstance(target, Instance) and written is not None and dotted(written) in frame.rebinding:
        target.compiled = True
    return functions.decorated(decorator, target)


def _wants_fixed_shapes(frame: Frame) -> Value:
    frame.run.entry.wants_fixed_shapes = True
    return OBJECT


def _iterates(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return Object(object_types.ITERATOR, inner=given.positional[0]) if given.positional else UNKNOWN


def _progress(frame: Frame, given: Given, node: code.Call | None) -> Value:
    inner = given.get("iterable", 0)
    return Object(object_types.PROGRESS, inner=inner) if inner is not None else Object(object_types.PROGRESS)


def _accelerate_progress(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """Accelerate's `tqdm`, whose first argument once said whether one process alone shows a bar."""
    switched = bool(given.positional) and isinstance(given.positional[0], Const)
    return _progress(frame, replace(given, positional=given.positional[1:]) if switched else given, node)


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
        outer, frame.run.process = frame.run.process, object()
        calls.call(frame, target, Given(passed, complete=isinstance(arguments, Tuple)), node)
        frame.run.process = outer
    return OBJECT


def _world_size(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return Host("world-size")


def _environment_get(frame: Frame, given: Given, node: code.Call | None) -> Value:
    key = given.first()
    return expressions.item_at(frame, Object(object_types.ENVIRONMENT), key)


def _environment_set(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if len(given.positional) >= 2 and node is not None:
        entry_facts.record_environment(frame, node, given.positional[0], given.positional[1])
    return STRING


def _environment_default(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if len(given.positional) >= 2 and node is not None:
        entry_facts.record_environment(frame, node, given.positional[0], given.positional[1], fallback=True)
    return STRING


def _deepspeed_by(keyword: str) -> Call:
    """A class that is given DeepSpeed's configuration by a keyword."""

    def make(frame: Frame, given: Given, node: code.Call | None) -> Value:
        frameworks.note_deepspeed(frame, given.keywords.get(keyword), node)
        return UNKNOWN

    return make


def _path(frame: Frame, given: Given) -> Value:
    """A path of pathlib."""
    named = configurations.joined(frame, given.positional)
    return PATH if named == OBJECT else named


def _path_argument(given: Given) -> Value:
    """A path that a function of `os.path` is given, for those that keep what it means."""
    value = given.positional[0] if given.positional else OBJECT
    named = isinstance(value, Const) and str(value.value).endswith(SUFFIXES)
    return value if named or (isinstance(value, Object) and value.type == object_types.PATH) else OBJECT


def _configuration_argument(given: Given) -> Value:
    """The configuration that a function wraps, or turns into another type; nothing is known of any other argument."""
    value = next(iter(given.all()), UNKNOWN)
    return value if isinstance(value, Table) else UNKNOWN


def _set_start_method(frame: Frame, given: Given, node: code.Call | None) -> Value:
    frame.run.entry.chooses_start_method = True
    return NONE


def _set_default_place(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """Tensors are made elsewhere from here on, so that nothing is known to be trained on the host."""
    frame.run.training_places.add(Place.UNKNOWN)
    return tensors.call_torch(frame, "torch.set_default_device", given, node)


def _compose(name: str, frame: Frame, given: Given, node: code.Call | None) -> Value:
    return transforms.compose(frame, name, given, node)


_EXACT: dict[str, Call] = {
    "torch.device": _device,
    "torch_xla.device": _xla_device,
    "torch_xla.core.xla_model.xla_device": _xla_device,
    "torch.set_default_device": _set_default_place,
    "torch.set_default_tensor_type": _set_default_place,
    "torch.cuda.is_available": _available,
    "torch.accelerator.is_available": _available,
    "torch.accelerator.current_accelerator": lambda frame, given, node: DeviceValue(cuda=True, other=True),
    "torch.backends.mps.is_available": lambda frame, given, node: Test(text="mps"),
    "torch.cuda.device_count": lambda frame, given, node: Host("world-size"),
    "torch.cuda.current_device": lambda frame, given, node: DeviceValue(cuda=True, rank_local=True),
    "torch.distributed.init_process_group": _init_process_group,
    "deepspeed.init_distributed": _init_on_device,
    "torch.distributed.device_mesh.init_device_mesh": _init_on_device,
    **dict.fromkeys(library.CHOOSES_DEVICE, _choose_device),
    "torch.distributed.get_rank": lambda frame, given, node: Host("rank"),
    "torch.distributed.get_node_local_rank": lambda frame, given, node: Host("rank"),
    "torch.distributed.get_world_size": _world_size,
    "torch.distributed.is_initialized": lambda frame, given, node: Test(
        (GuardKind.DISTRIBUTED,), (GuardKind.NOT_DISTRIBUTED,), "dist.is_initialized()"
    ),
    "torch.no_grad": _no_grad,
    "torch.inference_mode": _no_grad,
    "torch.enable_grad": lambda frame, given, node: Object(object_types.ENABLE_GRAD),
    "torch.set_grad_enabled": _set_grad,
    "torch.save": _save,
    "torch.load": _load,
    "torch.autograd.backward": _autograd_backward,
    "torch.nn.parallel.data_parallel": lambda frame, given, node: models.call_data_parallel(frame, given, node),
    "logging.basicConfig": _logging_config,
    "logging.disable": _logging_config,
    "logging.getLogger": _get_logger,
    "accelerate.logging.get_logger": lambda frame, given, node: Object(object_types.LOGGER, origin="rank-aware"),
    "functools.partial": _partial,
    "copy.deepcopy": _first_argument,
    "copy.copy": _first_argument,
    "torch.jit.script": _first_argument,
    "torch.compile": _compile,
    "torch.cuda.CUDAGraph": lambda frame, given, node: _wants_fixed_shapes(frame),
    "torch.cuda.make_graphed_callables": lambda frame, given, node: _wants_fixed_shapes(frame),
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm": _first_argument,
    **{
        f"torchvision.transforms.{name}": functools.partial(_compose, f"torchvision.transforms.{name}")
        for name in ("Compose", "v2.Compose", "Lambda")
    },
    "itertools.cycle": _iterates,
    "itertools.islice": _iterates,
    "itertools.chain": _iterates,
    "tqdm.tqdm": _progress,
    "tqdm": _progress,
    "tqdm.tqdm_notebook": _progress,
    "rich.progress.track": _progress,
    "tqdm.trange": lambda frame, given, node: Object(object_types.PROGRESS, inner=Object(object_types.RANGE)),
    "torch.multiprocessing.spawn": _spawn,
    "torch.multiprocessing.Process": _spawn,
    "multiprocessing.Process": _spawn,
    "threading.Thread": _spawn,
    "torch.multiprocessing.set_start_method": _set_start_method,
    "multiprocessing.set_start_method": _set_start_method,
    "shlex.split": lambda frame, given, node: builtin_methods.words_of(given.first()),
    "functools.lru_cache": lambda frame, given, node: Object(object_types.CACHE),
    **dict.fromkeys(library.ARGUMENT_PARSERS, lambda frame, given, node: command_line.make_parser(frame, given, node)),
    **dict.fromkeys(
        library.DATACLASS_PARSERS,
        lambda frame, given, node: Object(object_types.PARSER, inner=given.get("dataclass_types", 0)),
    ),
    **dict.fromkeys(library.COMMAND_RUNNERS, lambda frame, given, node: command_line.run_command(frame, given, node)),
    **dict.fromkeys(library.FIELDS, lambda frame, given, node: command_line.field(frame, given, node)),
    "os.path.join": lambda frame, given, node: configurations.joined(frame, given.positional),
    **dict.fromkeys(library.PATHLIB_PATHS, lambda frame, given, node: _path(frame, given)),
    **dict.fromkeys(library.SAME_PATH, lambda frame, given, node: _path_argument(given)),
    "os.path.dirname": lambda frame, given, node: configurations.parent_of(_path_argument(given)),
    **dict.fromkeys(
        library.CONFIGURATION_LOADERS, lambda frame, given, node: configurations.loaded(frame, given, node)
    ),
    **dict.fromkeys(
        library.CONFIGURATION_READERS, lambda frame, given, node: configurations.loaded_by_path(frame, given, node)
    ),
    **dict.fromkeys(library.CONFIGURATION_WRAPPERS, lambda frame, given, node: _configuration_argument(given)),
    "omegaconf.OmegaConf.update": lambda frame, given, node: configurations.updated(frame, given, node),
    "omegaconf.OmegaConf.merge": lambda frame, given, node: configurations.merged(frame, given, node),
    "omegaconf.OmegaConf.unsafe_merge": lambda frame, given, node: configurations.merged(frame, given, node),
    "omegaconf.OmegaConf.structured": lambda frame, given, node: command_line.run_command(frame, given, node),
    "hydra.main": lambda frame, given, node: configurations.hydra_main(frame, given, node),
    "argparse.Namespace": lambda frame, given, node: configurations.from_keywords(frame, given, node),
    "types.SimpleNamespace": lambda frame, given, node: configurations.from_keywords(frame, given, node),
    "os.environ.get": _environment_get,
    "os.getenv": _environment_get,
    "os.environ.setdefault": _environment_default,
    "os.putenv": _environment_set,
    "sys.exit": lambda frame, given, node: builtin_functions.exit(frame, given, node),
    **dict.fromkeys(
        ("accelerate.PartialState", "accelerate.AcceleratorState"),
        lambda frame, given, node: Object(object_types.ACCELERATOR),
    ),
    "accelerate.utils.tqdm": _accelerate_progress,
    "accelerate.Accelerator": lambda frame, given, node: frameworks.make_accelerator(frame, given, node),
    "lightning.Fabric": lambda frame, given, node: lightning.make_fabric(frame, given, node),
    "pytorch_lightning.Trainer": lambda frame, given, node: lightning.make_trainer(frame, given, node),
    "pytorch_lightning.Trainer.from_argparse_args": lambda frame, given, node: lightning.make_trainer(
        frame, given, node
    ),
    "pytorch_lightning.cli.LightningCLI": lambda frame, given, node: lightning.make_command_line(frame, given, node),
    "accelerate.DeepSpeedPlugin": _deepspeed_by("hf_ds_config"),
    "accelerate.utils.DeepSpeedPlugin": _deepspeed_by("hf_ds_config"),
    "deepspeed.initialize": lambda frame, given, node: frameworks.initialize_deepspeed(frame, given, node),
    **{f"logging.{name}": _root_logger(name) for name in ("debug", "info", "warning", "error", "critical", "log")},
}


# ---------------------------------------------------------------------------------------------- kinds of classes


def _make_optimizer(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    steps.note_start(frame)
    return Object(object_types.OPTIMIZER, origin=name)


def _make_scheduler(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    if name in library.FREE_SCHEDULES or any(expressions.ranks_in(value) for value in given.all()):
        frame.run.entry.resets_learning_rate = True
    return Object(object_types.SCHEDULER, origin=name)


def _names_schedule(name: str) -> bool:
    """Whether something of a library that is not known is called as what decides a learning rate."""
    own = not name.startswith("torch.") and naming.SCHEDULER.search(name.rpartition(".")[2])
    return library.is_scheduler(name) or own


def _other_scheduler(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    """A schedule of a library that is not known further."""
    frame.run.entry.resets_learning_rate = True
    return _by_package(frame, name, given, node)


def _make_scaler(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    return Object(object_types.SCALER, origin=name)


def _make_autocast(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    arguments = given.arguments(name)
    enabled = arguments.value("enabled")
    off = enabled == Const(False) or (isinstance(enabled, Option) and enabled.default is False)
    frame.run.entry.autocast = True
    frame.run.entry.autocast_runs = frame.run.entry.autocast_runs or not off
    return Object(object_types.AUTOCAST, origin=_autocast_type(name, arguments))


def _autocast_type(name: str, arguments: Arguments) -> str:
    """The dtype of an autocast region; "on" where it is not known, empty where the region switches autocast off."""
    enabled, dtype = arguments.value("enabled"), arguments.value("dtype")
    if enabled == Const(False):
        return ""
    if not arguments.complete or isinstance(enabled, Unknown | Host):
        return "on"
    if dtype is None or dtype == NONE:
        on_cuda = name == "torch.cuda.amp.autocast" or _names_cuda(arguments.value("device_type"))
        return "torch.float16" if on_cuda else "on"
    return dtype.name if isinstance(dtype, Reference) else "on"


def _names_cuda(device: Value | None) -> bool:
    return device is not None and any(
        found.cuda and found.proved and not found.cpu
        for option in options(device)
        if (found := tensors.as_device(option)) is not None
    )


def _make_tracker(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    return Object(object_types.TRACKER, origin=name)


def _track(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    records.record_report(frame, ReportKind.TRACKER, name, given, node)
    return NONE


def _make_hf_dataset(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    return Object(object_types.HF_DATASET, origin=name)


def _make_tokenizer(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    kind = next((kind for pattern, kind in library.TOKENIZER_FACTORIES if pattern.match(name)), "unknown")
    return Object(object_types.TOKENIZER, origin=kind, inner=Reference(name.removesuffix(".from_pretrained")))


def _tokenize(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    kind = next((kind for pattern, kind in library.TOKENIZER_FUNCTIONS if pattern.match(name)), "unknown")
    records.record_tokenization(frame, kind, "tokenize", given, node, name)
    return Tensor(Place.HOST) if kind == "bpe" else Listing(STRING)


def _hf_trainer(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    return frameworks.make_hf_trainer(frame, name, given, node)


def _lightning_strategy(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    if name.endswith("DeepSpeedStrategy"):
        frameworks.note_deepspeed(frame, given.keywords.get("config"), node)
    return Object(object_types.LIGHTNING_STRATEGY, origin=name)


def _rank_zero_report(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    records.record_report(frame, ReportKind.LOGGER, name, given, node, rank_aware=True)
    return NONE


def _lightning_profiler(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    return Object(object_types.LIGHTNING_PROFILER, origin=name)


def _hf_arguments(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    frameworks.note_training_arguments(frame, name, given, node)
    return Option("config")


def _loader(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    return loaders.make_loader(frame, given, node, name)


def _collective(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    records.note_collective(frame, name, given, node)
    return NONE


_Make = Callable[[Frame, str, Given, code.Call | None], Value]
_KINDS: tuple[tuple[Callable[[str], Any], _Make], ...] = (
    (library.DATA_LOADERS.__contains__, _loader),
    (library.WRAPPERS.__contains__, lambda frame, name, given, node: models.wrap(frame, name, given, node)),
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
        lambda frame, name, given, node: loaders.make_sampler(frame, name, given, node),
    ),
    (
        lambda name: (
            name in library.IN_MEMORY_DATASETS
            or name in library.DATASET_WRAPPERS
            or name == "torch.utils.data.random_split"
        ),
        lambda frame, name, given, node: loaders.make_dataset(frame, name, given, node),
    ),
    (
        library.TORCHVISION_DATASETS.match,
        lambda frame, name, given, node: loaders.make_dataset(frame, name, given, node),
    ),
    (
        library.TRANSFORMS.match,
        lambda frame, name, given, node: transforms.make_of_library(frame, name, given, node),
    ),
    (library.HF_DATASETS.match, _make_hf_dataset),
    (lambda name: any(pattern.match(name) for pattern, _ in library.TOKENIZER_FACTORIES), _make_tokenizer),
    (lambda name: any(pattern.match(name) for pattern, _ in library.TOKENIZER_FUNCTIONS), _tokenize),
    (library.TRACKER_FACTORIES.match, _make_tracker),
    (library.TRACKER_CALLS.match, _track),
    (lambda name: name.startswith(library.IGNITE_EVENT), lambda frame, name, given, node: ignite.event(name, given)),
    (library.LIGHTNING_STRATEGIES.match, _lightning_strategy),
    (library.RANK_ZERO_REPORTS.match, _rank_zero_report),
    (library.LIGHTNING_PROFILERS.match, _lightning_profiler),
    (library.HF_TRAINERS.match, _hf_trainer),
    (library.HF_ARGUMENTS.match, _hf_arguments),
    (library.COLLECTIVES.match, _collective),
    (library.is_module_class, lambda frame, name, given, node: models.make_layer(frame, name, given, node)),
    (_names_schedule, _other_scheduler),
)
