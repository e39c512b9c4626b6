"""The output formats, by the name that `--output-format` takes; a format's module is imported when it is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from trainlint.lint.result import Result
    from trainlint.report.view import View

Render: TypeAlias = "Callable[[Result, View], Iterator[str]]"
"""Yields the report in pieces that are written one after the other."""


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write a report."""

    name: str
    module: str
    """The module in `trainlint.report` whose `render` writes it."""
    for_people: bool = False
    """Whether it is read rather than parsed: it may be coloured, and a summary follows on standard error."""

    def load(self) -> Render:
        render: Render = import_module(f"trainlint.report.{self.module}").render
        return render


FORMATS = {
    format.name: format
    for format in (
        Format("full", "full", for_people=True),
        Format("concise", "concise", for_people=True),
        Format("json", "json_list"),
        Format("json-lines", "json_lines"),
        Format("sarif", "sarif"),
        Format("github", "github"),
        Format("gitlab", "gitlab"),
        Format("junit", "junit"),
        Format("markdown", "markdown"),
    )
}
