"""Transforms of images: what a pipeline of them is made of, and which datasets put their items through it."""

from __future__ import annotations

from trainlint.semantics import code, functions, object_types, records, unknown
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import Loader, Pipeline, Transformation
from trainlint.semantics.state import Frame, Role, Standing
from trainlint.semantics.text import dotted
from trainlint.semantics.values import UNKNOWN, Const, Instance, Listing, Object, Tuple, Value, options
from trainlint.semantics.vocabulary import GuardKind

_OF_OTHERS = frozenset(
    {
        *("Compose", "Sequential", "AugmentationSequential", "ImageSequential", "RandomApply", "RandomChoice"),
        *("RandomOrder", "OneOf", "SomeOf", "OneOrOther"),
    }
)
"""Transforms that are made of others."""
_ANNOTATED = ("bbox_params", "keypoint_params")
"""Arguments of a pipeline that transforms boxes or points along with each image."""


def make(frame: Frame, name: str, given: Given, node: code.Call | None, inner: Value | None = None) -> Value:
    """A transform, or a pipeline of several; `inner` is what runs in it of the project."""
    if node is None:
        return Object(object_types.TRANSFORM, origin=name, inner=inner)
    key = (frame.site(node.at), frame.where.calls)
    pipeline = frame.run.pipelines.get(key)
    if pipeline is None:
        pipeline = frame.run.pipelines[key] = Pipeline(frame.site(node.at), frame.run.nodes.text(node))
    pipeline.steps = _steps(name, given)
    return Object(object_types.TRANSFORM, origin=name, proved=not _evaluates(frame), inner=inner, fact=pipeline)


def compose(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    """A transform made of others, or of a function, which run once it is given to a dataset."""
    return make(frame, name, given, node, given.first())


def make_of_library(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    """A transform of a library."""
    functions.run_callbacks(frame, given)
    return make(frame, name, given, node)


def _steps(name: str, given: Given) -> tuple[str, ...]:
    """What an image goes through, in order, by canonical names; empty names stand for what is not known."""
    if name.rpartition(".")[2] not in _OF_OTHERS:
        return (name,)
    if not given.complete or any(argument in given.keywords for argument in _ANNOTATED):
        return ("",)
    listed = given.keywords.get("transforms")
    values = given.positional if listed is None else [listed]
    return tuple(step for value in values for step in _steps_in(value))


def _steps_in(value: Value) -> tuple[str, ...]:
    if isinstance(value, Tuple):
        return tuple(step for item in value.items for step in _steps_in(item))
    if isinstance(value, Listing):
        # what was added to a list is known by its kinds alone, and joined in the order in which it was met
        return tuple(step for item in options(value.item) for step in _steps_in(item))
    if isinstance(value, Object) and isinstance(value.fact, Pipeline):
        return value.fact.steps
    return ("",)


def apply(frame: Frame, transform: Object, given: Given, node: code.Call | None) -> Value:
    """A transform that is called with an image."""
    if node is not None:
        note_application(frame, transform, node)
    if transform.inner is None:
        return unknown.call(frame, transform, given, node)
    frame.run.note_possible_wait()
    functions.run_callbacks(frame, given)
    return UNKNOWN


def note_application(frame: Frame, transform: Object, node: code.Call) -> None:
    """An item of a dataset goes through a pipeline, each time that it is asked for."""
    where = frame.where
    root = where.root
    per_item = root.role is Role.SAMPLE and (bool(where.loops) or not root.whole_pass)
    if not per_item or not transform.proved or records.is_cached(frame):
        return
    path = dotted(node.function)
    if isinstance(transform.fact, Pipeline) and all(_lets_pass(guard, path) for guard in where.guards):
        frame.run.transformations.append(
            Transformation(transform.fact, frame.site(node.at), frame.run.nodes.text(node))
        )


def _lets_pass(guard: Standing, path: str) -> bool:
    """Whether the items that a model trains on stand under a condition: one of training, or whether there is the
    transform at all."""
    asks = not isinstance(guard.test, str) and any(
        dotted(item) == path for item in code.walk(guard.test) if isinstance(item, code.Name | code.Attribute)
    )
    return guard.kind is GuardKind.TRAINING or (guard.kind is GuardKind.FLAG and asks)


def given_to_dataset(frame: Frame, given: Given) -> Pipeline | None:
    """The pipeline that a dataset of a library is given for the images that a model may train on."""
    named_otherwise = given.keywords.get("train") == Const(False) or given.keywords.get("split") in _OTHER_SPLITS
    if named_otherwise or _evaluates(frame):
        return None
    named = [given.keywords[name] for name in ("transform", "transforms") if name in given.keywords]
    for value in [*named, *given.positional]:
        if isinstance(value, Object) and value.type == object_types.TRANSFORM and isinstance(value.fact, Pipeline):
            return value.fact if value.proved else None
    return None


_OTHER_SPLITS = tuple(Const(name) for name in ("val", "valid", "validation", "test"))
"""What datasets of torchvision call the images that a model is not trained on."""


def _evaluates(frame: Frame) -> bool:
    return any(guard.kind is GuardKind.EVALUATION for guard in frame.where.guards)


def one_of(transform: Value) -> Value:
    """A transform that is one of several: which of them is not known."""
    known = isinstance(transform, Object) and transform.type == object_types.TRANSFORM
    return replace(transform, proved=False) if known else transform


def of_dataset(frame: Frame, dataset: Value) -> tuple[Transformation, ...]:
    """The pipelines that a dataset puts its items through, with the places at which the project's code does so."""
    found: list[Transformation] = []
    for option in options(dataset):
        if isinstance(option, Instance):
            found += frame.run.transformations_of.get(id(option), ())
        elif isinstance(option, Object) and option.type == object_types.DATASET:
            if isinstance(option.fact, Pipeline) and option.proved:
                found.append(Transformation(option.fact, dataset=option.origin))
            if option.inner is not None:
                found += of_dataset(frame, option.inner)
        elif isinstance(option, Tuple):
            found += [one for item in option.items for one in of_dataset(frame, item)]
        elif isinstance(option, Listing):
            found += of_dataset(frame, option.item)
    return tuple(dict.fromkeys(found))


def join_loader(frame: Frame, loader: Loader, dataset: Value) -> None:
    """Tell a loader which pipelines its items go through."""
    loader.transformations = tuple(dict.fromkeys((*loader.transformations, *of_dataset(frame, dataset))))
