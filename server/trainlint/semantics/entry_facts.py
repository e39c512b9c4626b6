"""What single statements tell about the whole entry point: resumed training, quiet ranks, the environment."""

from __future__ import annotations

from trainlint.semantics import classification, code, library, object_types
from trainlint.semantics.arguments import Given
from trainlint.semantics.project import ConfigurationSetting, EnvironmentSetting, Site
from trainlint.semantics.state import Allocation, Frame
from trainlint.semantics.values import Const, DeviceValue, Object, Reference, Unknown, Value, options
from trainlint.semantics.vocabulary import GuardKind


def note_log_level(frame: Frame, given: Given, node: code.Call | None) -> None:
    """Learn from a log level or a handler that depends on the rank that other ranks keep quiet."""
    by_rank = any(guard.kind in (GuardKind.RANK, GuardKind.OTHER_RANKS) for guard in frame.where.guards)
    for argument in node.arguments if node is not None else ():
        if isinstance(argument.value, code.Conditional):
            test = classification.classify(frame, argument.value.test)
            by_rank = by_rank or GuardKind.RANK in test.positive + test.negative
    if by_rank:
        frame.run.entry.silent_loggers = True


def set_attribute(frame: Frame, base: Reference, name: str) -> None:
    """`library.name = …`: a print that is replaced may keep the other ranks quiet."""
    if base.name == "torch._dynamo.config":
        frame.run.entry.captures_scalars |= name == "capture_scalar_outputs"
        frame.run.entry.captures_shapes |= name == "capture_dynamic_output_shape_ops"
    if base.name in ("builtins", "__builtin__") and name == "print":
        frame.run.entry.rank_aware_print = True


def record_environment(
    frame: Frame, node: code.Call | code.Subscript, key: Value, value: Value, *, fallback: bool = False
) -> None:
    """`os.environ[key] = value`, in whichever way it is written."""
    if isinstance(key, Const) and isinstance(key.value, str):
        if key.value in _VISIBLE and not isinstance(value, Const):
            frame.run.entry.chooses_device = True
        site = frame.site(node.at)
        frame.run.record(
            EnvironmentSetting,
            frame,
            key.value,
            site=site,
            name=key.value,
            value=value,
            fallback=fallback,
            after_cuda=_has_allocated(frame),
        )


def note_allocation(frame: Frame, device: DeviceValue) -> None:
    """Something is put on a device: where that is CUDA, the process holds memory of it from here on."""
    origin = frame.origin
    if device.cuda and device.proved and origin is not None and not frame.where.loops:
        frame.run.allocations.append(Allocation(origin, frame.run.process, frame.where.guards))


def _has_allocated(frame: Frame) -> bool:
    """Whether the process is sure to hold memory of a CUDA device at this point, if it ever does: something put it
    there that runs before, and under no condition that does not hold here as well."""
    origin, where = frame.origin, frame.where
    if origin is None or where.loops:
        return False
    standing = {id(guard) for guard in where.guards}
    return any(
        one.origin is origin and one.process is frame.run.process and all(id(guard) in standing for guard in one.guards)
        for one in frame.run.allocations
    )


_VISIBLE = frozenset({"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"})
"""Variables that say which GPUs a process sees; one and the same for all processes if it is a literal."""


def note_environment_read(frame: Frame, key: Value) -> None:
    """`os.environ[key]`: who asks for the variables of a cluster's launcher is started by it."""
    if isinstance(key, Const) and isinstance(key.value, str) and key.value.startswith(library.TASK_LAUNCHERS):
        frame.run.entry.chooses_device = True


def record_setting(frame: Frame, node: code.Attribute, name: str, value: Value) -> None:
    """`config.name = value`, `torch.backends.cudnn.benchmark = value`."""
    frame.run.record(ConfigurationSetting, frame, name, site=frame.site(node.at), name=name, value=value)


def place_key(site: Site) -> str:
    """A place as text, by which a value tells where it was loaded."""
    return f"{site.path}:{site.row}:{site.column}"


def note_restored_optimizer(frame: Frame, given: Given) -> None:
    """An optimizer's `load_state_dict`: what it is given makes its file a checkpoint of training."""
    for value in given.positional[:1]:
        for option in options(value):
            if isinstance(option, Object) and option.type == object_types.CHECKPOINT and option.origin:
                frame.run.optimizer_files.add(option.origin)


def note_resume(frame: Frame, given: Given) -> None:
    """`load_state_dict` of something read from disk, before training: the script can continue a training run."""
    if not frame.where.loops and any(loop.runs_step for loop in frame.run.loops.values()):
        return
    for value in given.positional[:1]:
        for option in options(value):
            if (isinstance(option, Object) and option.type == object_types.CHECKPOINT) or isinstance(option, Unknown):
                frame.run.resumes.append(isinstance(option, Object) and option.inner is not None)
                frame.run.entry.resumes = True
