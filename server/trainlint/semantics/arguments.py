"""What a call passes: its arguments, evaluated."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainlint.semantics import code, library
from trainlint.semantics.project import Arguments
from trainlint.semantics.values import UNKNOWN, Value


@dataclass(slots=True)
class Given:
    """The evaluated arguments of a call."""

    positional: list[Value]
    keywords: dict[str, Value] = field(default_factory=dict)
    complete: bool = True
    spread: bool = False
    unsure: frozenset[str] = frozenset()
    nodes: tuple[code.Argument, ...] = ()

    def arguments(self, name: str = "") -> Arguments:
        """As records keep them: positional ones by parameter name where the callee is known."""
        named = dict(self.keywords)
        for parameter, value in zip(library.PARAMETERS.get(name, ()), self.positional, strict=False):
            named.setdefault(parameter, value)
        return Arguments(named, tuple(self.positional), self.complete, self.spread, self.unsure)

    def get(self, name: str, position: int) -> Value | None:
        """The argument for a parameter, by its name or its position; None where the call leaves it out."""
        if name in self.keywords:
            return self.keywords[name]
        return self.positional[position] if position < len(self.positional) else None

    def first(self) -> Value:
        """The first positional argument; UNKNOWN where the call passes none by position."""
        return self.positional[0] if self.positional else UNKNOWN

    def all(self) -> list[Value]:
        """The values of all arguments, in the order of the call."""
        return [*self.positional, *self.keywords.values()]
