"""Defects of rules and of trainlint itself: reported, and the rest of the run goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Failure:
    """A defect of a rule, or of trainlint, that showed on some files."""

    what: str
    """What failed: a rule's code and name, or a stage of the analysis."""
    where: str
    summary: str
    traceback: str

    def text(self, verbose: bool) -> str:
        """The message for standard error."""
        text = f"internal error: {self.what} failed on {self.where}: {self.summary}"
        return f"{text}\n{self.traceback.rstrip()}" if verbose and self.traceback else text


def guarded(failures: list[Failure], what: str, where: str, action: Callable[[], _T]) -> _T | None:
    """Do it; a defect is added to the failures, and the run goes on."""
    try:
        return action()
    except Exception as error:
        import traceback

        failures.append(Failure(what, where, f"{type(error).__name__}: {error}", traceback.format_exc()))
        return None
