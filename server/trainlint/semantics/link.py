"""From the facts of all files to the project that rules query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainlint.semantics.facts import ModuleFacts
from trainlint.semantics.project import Project


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """What the configuration tells the analyzer about a code base."""

    device: str = "auto"
    """"auto", "cuda", "cpu", "mps" or "xpu"."""
    distributed: str = "auto"
    """"auto", "true" or "false"."""
    step_functions: tuple[str, ...] = ()
    """Names of functions that run once per training step."""
    sync_functions: tuple[str, ...] = ()
    """Names of functions that wait for the device."""
    rank_guards: tuple[str, ...] = ()
    """Names of functions or variables that are true on one rank only."""
    loader_factories: tuple[str, ...] = ()
    """Names of functions that return a DataLoader."""
    torch_version: tuple[int, int] | None = None


def link(files: Mapping[Path, ModuleFacts], options: LinkOptions | None = None) -> Project:
    """Interpret every entry point among `files` and return what the rules may query.

    `files` holds one connected part of the project, by absolute path: modules that import each other, and no others.
    """
    raise NotImplementedError
