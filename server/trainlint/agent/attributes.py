"""What an object holds itself, read without a call of its own code.

`__getattr__` and `__getattribute__` of the job's objects may print or raise, and those of a module that is loaded on
demand load it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any


def attributes_of(of: object) -> dict[str, Any]:
    """The attributes of an object, without those of its class; none where it has no place for any."""
    try:
        held = object.__getattribute__(of, "__dict__")
    except AttributeError:
        return {}
    return held if isinstance(held, dict) else {}


def loaded_files() -> Iterator[str]:
    """The files of all modules that are loaded."""
    for module in list(sys.modules.values()):
        file = attributes_of(module).get("__file__")
        if isinstance(file, str):
            yield file
