"""Immutable objects that are cheap to make.

The interpreter makes hundreds of thousands of small values. A frozen dataclass pays for every field of every one of
them, since it is initialised past its own guard; measured, that is five times the time of one without. Here the type
checker is the guard: it takes these classes for frozen ones, while at run time nothing stands in the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

_T = TypeVar("_T")

if TYPE_CHECKING:

    @dataclass_transform(frozen_default=True)
    def immutable(cls: type[_T]) -> type[_T]:
        """Make a dataclass that is compared and hashed by its fields, and that nobody changes."""
else:
    immutable = dataclass(slots=True, unsafe_hash=True)


def replace(original: _T, **changes: Any) -> _T:
    """A copy of an immutable object with some fields changed: `dataclasses.replace`, at a third of its cost.

    Raises:
        AttributeError: a name is no field of the object.
    """
    cls = original.__class__
    read = _READERS.get(cls)
    if read is None:
        read = _READERS[cls] = _reader(cls)
    made = cls(*read(original))
    for name, value in changes.items():
        setattr(made, name, value)
    return made


_READERS: dict[type, Callable[[Any], tuple[Any, ...]]] = {}


def _reader(cls: type) -> Callable[[Any], tuple[Any, ...]]:
    names = list(cls.__dataclass_fields__)  # type: ignore[attr-defined]
    # attrgetter gives a single attribute bare
    return attrgetter(*names) if len(names) > 1 else lambda original: (getattr(original, names[0]),)
