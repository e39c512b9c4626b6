"""What a look at the environment tells: one thing, its state, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    OK = "ok"
    LIMITED = "limited"
    """Something can be measured in part, or makes training slower than it has to be."""
    MISSING = "missing"
    """Not there, so that nothing can be measured by it."""


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    state: State
    found: str
    """What is the case, in words."""
    advice: str | None = None
    """What to do; None where there is nothing to do."""
