"""What is remembered of the job's objects while they live; comparing or hashing them would be code of the job's own."""

from __future__ import annotations

from typing import Any, Generic, TypeVar
from weakref import ref

Value = TypeVar("Value")


class ByIdentity(Generic[Value]):
    """A value for each object."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[ref[Any], Value]] = {}

    def get(self, key: Any) -> Value | None:
        found = self._held.get(id(key))
        return found[1] if found is not None and found[0]() is key else None

    def __setitem__(self, key: Any, value: Value) -> None:
        number = id(key)

        def forget(gone: ref[Any]) -> None:
            found = self._held.get(number)
            if found is not None and found[0] is gone:
                del self._held[number]

        self._held[number] = ref(key, forget), value

    def clear(self) -> None:
        self._held.clear()
