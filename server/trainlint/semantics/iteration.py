"""Iteration: what one turn of a loop gets, the generators that are run and the loaders that are drawn from."""

from __future__ import annotations

from collections.abc import Callable

from trainlint.semantics import classes, functions, object_types, tensors
from trainlint.semantics.arguments import Given
from trainlint.semantics.duties import Duty
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import Loader
from trainlint.semantics.state import Frame, IteratedByHand
from trainlint.semantics.values import (
    ARRAY,
    FRAME,
    NONE,
    NUMBER,
    STRING,
    UNKNOWN,
    Choice,
    Const,
    Function,
    Generated,
    Host,
    Instance,
    Listing,
    Object,
    Option,
    Table,
    Tensor,
    Tuple,
    Value,
    join_all,
)
from trainlint.semantics.vocabulary import Place

_DEEPEST_WRAPPING = 12
"""Iterators around iterators are looked through this deep; one that returns itself has no end."""


def item_of(frame: Frame, value: Value) -> Value:
    """What one turn of a loop over `value` gets."""
    run = frame.run
    if run.unwrapping >= _DEEPEST_WRAPPING:
        return UNKNOWN
    run.unwrapping += 1
    try:
        return _item_of(frame, value)
    finally:
        run.unwrapping -= 1


def _item_of(frame: Frame, value: Value) -> Value:
    if isinstance(value, Object):
        return item_of_object(frame, value)
    if isinstance(value, Listing):
        return value.item
    if isinstance(value, Tuple):
        return join_all(value.items) if value.items else UNKNOWN
    if isinstance(value, Table):
        return STRING
    if isinstance(value, Tensor):
        return replace(value, container=False, double=False)
    if isinstance(value, Choice):
        return join_all(item_of(frame, option) for option in value.options if option != NONE)
    if value == FRAME:
        return UNKNOWN
    if isinstance(value, Host):
        return ARRAY if value.kind == "array" else value if value.kind == "string" else NUMBER
    if isinstance(value, Const):
        return STRING
    if isinstance(value, Generated):
        return _item_of_generated(frame, value)
    if isinstance(value, Instance):
        return _item_of_instance(frame, value)
    if isinstance(value, Option):
        return Option(value.name)
    return UNKNOWN


def _item_of_generated(frame: Frame, value: Generated) -> Value:
    """One item of a generator that is advanced by hand: its loops turn with the loop that advances it."""
    run = frame.run
    known = run.generated_items.get(value)
    if known is not None:
        return known
    run.generated_items[value] = UNKNOWN
    values: list[Value] = []
    run.advancing += 1
    try:
        functions.run_generated(frame, value, values.append)
    finally:
        run.advancing -= 1
    found = run.generated_items[value] = join_all(values)
    loader = next((tensor.loader for tensor in tensors.tensors_in(found) if tensor.loader is not None), None)
    if loader is not None:
        # whoever writes a generator without end starts the loader anew in it
        run.hand_iterated.append(IteratedByHand(loader, replace(frame.where, loops=()), again=True))
    return found


def _item_of_instance(frame: Frame, value: Instance) -> Value:
    iterator = classes.find_member(value.cls, "__iter__")
    if isinstance(iterator, Function):
        result = functions.call_function(frame, iterator, Given([value]), None)
        if result is not value:
            return item_of(frame, result)
    following = classes.find_member(value.cls, "__next__")
    if isinstance(following, Function):
        return functions.call_function(frame, following, Given([value]), None)
    getter = classes.find_member(value.cls, "__getitem__")
    if isinstance(getter, Function):
        return functions.call_function(frame, getter, Given([value, NUMBER]), None)
    return UNKNOWN


def item_of_object(frame: Frame, value: Object) -> Value:
    """What one turn of a loop over a library object gets."""
    if value.type == object_types.LOADER:
        return _batch(value)
    if value.type == object_types.ENUMERATE:
        return Tuple((NUMBER, item_of(frame, value.inner or UNKNOWN)))
    if value.type == object_types.ZIP:
        items = value.inner.items if isinstance(value.inner, Tuple) else ()
        return Tuple(tuple(item_of(frame, item) for item in items))
    if value.type in (object_types.ITERATOR, object_types.PROGRESS, object_types.PREPARED) and value.inner is not None:
        return item_of(frame, value.inner)
    if value.type == object_types.RANGE:
        return NUMBER
    if value.type in (object_types.COMPUTED, object_types.GENERATED_TEXT):
        return value
    if value.type == object_types.OPTIMIZER:
        # what returns one optimizer returns a list of them where there are several
        return value
    if value.type == object_types.MODEL:
        return replace(value, proved=False)
    if value.type == object_types.HF_DATASET:
        return UNKNOWN
    if value.type == object_types.STATE_DICT:
        return STRING
    return UNKNOWN


def _batch(loader: Object) -> Value:
    """One batch of a loader: a collection of host tensors, until it is moved."""
    fact = loader.fact if isinstance(loader.fact, Loader) else None
    pinned = fact is not None and fact.arguments.constant("pin_memory") is True
    prepared = fact is not None and fact.spared(Duty.MOVE_BATCHES)
    place = Place.DEVICE if prepared or loader.place is Place.DEVICE else Place.HOST
    proved = loader.proved or place is Place.DEVICE
    return Tensor(place=place, proved=proved, loader=fact, pinned=pinned, container=True)


def generated_in(frame: Frame, value: Value, depth: int = 0) -> tuple[Generated | None, Callable[[Value], Value]]:
    """The generator that a loop over `value` runs, seen through `enumerate` and progress bars, with what each of its
    values becomes for the loop's target."""
    if isinstance(value, Generated):
        return value, _as_it_is
    if depth > 6:
        return None, _as_it_is
    if isinstance(value, Object) and value.inner is not None:
        if value.type == object_types.ENUMERATE:
            generated, wrap = generated_in(frame, value.inner, depth + 1)
            return generated, lambda item: Tuple((NUMBER, wrap(item)))
        if value.type in (object_types.ITERATOR, object_types.PROGRESS):
            return generated_in(frame, value.inner, depth + 1)
    if isinstance(value, Instance):
        iterator = classes.find_member(value.cls, "__iter__")
        if isinstance(iterator, Function):
            result = functions.call_function(frame, iterator, Given([value]), None)
            if result is not value:
                return generated_in(frame, result, depth + 1)
    return None, _as_it_is


def _as_it_is(item: Value) -> Value:
    return item


def loader_in(value: Value, depth: int = 0) -> Object | None:
    """The loader that a loop over `value` draws from, if any."""
    if depth > 6:
        return None
    if isinstance(value, Object):
        if value.type == object_types.LOADER:
            return value
        return (
            loader_in(value.inner, depth + 1)
            if value.inner is not None
            and value.type
            in (
                object_types.ENUMERATE,
                object_types.ITERATOR,
                object_types.PROGRESS,
                object_types.ZIP,
                object_types.PREPARED,
            )
            else None
        )
    if isinstance(value, Tuple | Choice):
        for item in value.items if isinstance(value, Tuple) else value.options:
            found = loader_in(item, depth + 1)
            if found is not None:
                return found
    if isinstance(value, Instance):
        for name, item in value.attributes.items():
            if "loader" in name or "dl" in name or "iter" in name:
                found = loader_in(item, depth + 1)
                if found is not None:
                    return found
    return None
