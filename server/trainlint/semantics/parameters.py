"""Parameters: what a call, a default or an annotation makes of them."""

from __future__ import annotations

from trainlint.semantics import code, configurations, expressions, frameworks, library, object_types
from trainlint.semantics.arguments import Given
from trainlint.semantics.configuration_files import SUFFIXES
from trainlint.semantics.state import Frame, Role, Where
from trainlint.semantics.text import last_word
from trainlint.semantics.values import (
    ARRAY,
    NUMBER,
    STRING,
    UNKNOWN,
    Class,
    Const,
    DeviceValue,
    Function,
    Listing,
    Object,
    Reference,
    Table,
    Tensor,
    Tuple,
    Unknown,
    Value,
)


def bind_arguments(frame: Frame, function: Function, given: Given) -> dict[str, Value]:
    """Parameters of a function of the project with the values that a call passes."""
    define = function.define
    bound: dict[str, Value] = {}
    positional = list(given.positional)
    keywords = dict(given.keywords)
    for parameter in define.parameters:
        if parameter.kind == "*":
            bound[parameter.name] = Tuple(tuple(positional)) if given.complete else UNKNOWN
            positional = []
        elif parameter.kind == "**":
            bound[parameter.name] = Table(tuple(keywords.items()), None if given.complete else UNKNOWN)
        elif parameter.kind == "positional" and positional:
            bound[parameter.name] = positional.pop(0)
        elif parameter.name in keywords:
            bound[parameter.name] = keywords.pop(parameter.name)
        elif parameter.default is not None and given.complete:
            bound[parameter.name] = _default(frame, function, parameter)
        else:
            bound[parameter.name] = UNKNOWN
        if isinstance(bound[parameter.name], Unknown) and function.decorators:
            bound[parameter.name] = configurations.filled_by_hydra(function) or UNKNOWN
        if isinstance(bound[parameter.name], Unknown) and parameter.annotation is not None:
            bound[parameter.name] = annotated(frame, function, parameter.annotation)
        elif isinstance(bound[parameter.name], Tensor) and parameter.annotation is not None:
            bound[parameter.name] = strings_by(parameter.annotation) or bound[parameter.name]
        value = bound[parameter.name]
        text = value.value if isinstance(value, Const) else None
        if isinstance(text, str) and text not in _TELLING and not text.endswith(SUFFIXES):
            bound[parameter.name] = STRING
    return bound


def takes(function: Function, given: Given) -> bool:
    """Whether a function has a parameter for each keyword that a call passes it."""
    parameters = function.define.parameters
    if function.decorators or any(parameter.kind == "**" for parameter in parameters):
        return True
    return given.keywords.keys() <= {parameter.name for parameter in parameters}


_TELLING = frozenset(
    [
        "cuda",
        "cpu",
        "mps",
        "xpu",
        "cuda:0",
        "auto",
        "max_length",
        "longest",
        "gloo",
        "nccl",
        "mpi",
        "train",
        "val",
        "valid",
        "validation",
        "test",
        "eval",
        "training",
        "bf16",
        "fp16",
        "bfloat16",
        "float16",
        "no_sync",
        "model",
        "optimizer",
        "scheduler",
    ]
)
"""Strings whose exact value a function may pass on to where a rule asks for it; every other one is just a string, so
that calls that differ in nothing else count as one."""


def _default(frame: Frame, function: Function, parameter: code.Parameter) -> Value:
    """A default is evaluated where the function was defined."""
    assert parameter.default is not None
    if isinstance(parameter.default, code.Constant):
        return Const(parameter.default.value)
    where = Where(frame.run.root(Role.PROGRAM))
    home = Frame(frame.run, function.module, where, function.row, function.qualname, {}, function.closure)
    return expressions.evaluate(home, parameter.default)


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
    word = last_word(annotation.value)
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
        return Object(object_types.MODEL, place=expressions.assumed_place(frame), proved=False)
    if name in library.DATA_LOADERS:
        return Object(object_types.LOADER, proved=False)
    if name.startswith("torch.optim") and "sched" not in name:
        return Object(object_types.OPTIMIZER, proved=False)
    if name == "torch.device":
        return DeviceValue(cuda=True, cpu=True, proved=False)
    if name in library.GRAD_SCALERS:
        return Object(object_types.SCALER, proved=False)
    if name == "accelerate.Accelerator":
        return frameworks.make_accelerator(frame, Given([], complete=False), None)
    if name.startswith("transformers.") and "okeniz" in name:
        return Object(object_types.TOKENIZER, origin="transformers")
    if name.startswith("numpy."):
        return ARRAY
    return UNKNOWN
