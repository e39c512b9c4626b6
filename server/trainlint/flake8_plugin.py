"""The plugin that runs trainlint inside flake8; flake8 finds it by the entry point group `flake8.extension`."""

from __future__ import annotations

import argparse
import ast
import logging
import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from flake8.exceptions import ExecutionError  # type: ignore[import-untyped]
from flake8.utils import stdin_get_value  # type: ignore[import-untyped]

from trainlint import __version__
from trainlint.config.errors import ConfigError
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.engine import check
from trainlint.lint.result import Reported
from trainlint.report.style import printable
from trainlint.source.discovery import absolute
from trainlint.source.documents import encoded

STANDARD_INPUT = "-"
_log = logging.getLogger(f"flake8.{__name__}")


class Plugin:
    """Gives flake8 the findings of one file.

    All files that flake8 was asked about are linted at once, before flake8 shares them out among its processes: what
    a line costs depends on other files, which are read once for all that way.
    """

    name = "trainlint"
    version = __version__
    _jobs: ClassVar[int | None] = None
    _found: ClassVar[Mapping[Path, Sequence[Reported]]] = {}
    """Findings of each file that was linted, by absolute path; none where there are none."""

    def __init__(self, tree: ast.Module, filename: str) -> None:
        """Take what flake8 tells. The tree is not used; but flake8 asks those that want one about files that parse,
        and reports E999 itself for the others, where trainlint would report TL001."""
        self._path = absolute(filename)

    @classmethod
    def parse_options(cls, options: argparse.Namespace) -> None:
        """Lint what flake8 was asked about.

        Raises:
            ExecutionError: trainlint's configuration is wrong, or one of its rules failed.
        """
        in_worker = multiprocessing.parent_process() is not None
        cls._jobs = 1 if in_worker or options.jobs.n_jobs == 1 else None
        paths = [absolute(name) for name in options.filenames or ["."] if name != STANDARD_INPUT]
        texts = {}
        if STANDARD_INPUT in options.filenames:
            path = absolute(options.stdin_display_name)
            texts[path] = encoded(stdin_get_value())
            paths.append(path)
        cls._found = cls._lint(paths, texts)

    def run(self) -> Iterator[tuple[int, int, str, type]]:
        """Yield row (from 1), column (from 0), code with message, and the plugin, as flake8 asks for."""
        found = self._found.get(self._path)
        if found is None:  # flake8 may be told to take other files from a folder than those that are linted there.
            found = self._lint([self._path], {})[self._path]
        for reported in found:
            finding, location = reported.finding, reported.location
            yield location.row, location.column - 1, f"{finding.code} {printable(finding.message)}", type(self)

    @classmethod
    def _lint(cls, paths: Sequence[Path], texts: Mapping[Path, bytes]) -> dict[Path, list[Reported]]:
        """The findings of each file that was linted, and of each that was named though it is excluded."""
        try:
            result = check(paths, CheckOptions(force_exclude=True, jobs=cls._jobs, texts=texts))
        except ConfigError as error:
            raise ExecutionError(f"trainlint: {error}") from error
        if result.errors:
            raise ExecutionError("\n".join(f"trainlint: {error}" for error in result.errors))
        for warning in result.warnings:
            _log.warning("trainlint: %s", warning)
        found: dict[Path, list[Reported]] = {path: [] for path in (*result.paths, *paths)}
        for reported in result.findings:
            found[reported.path].append(reported)
        return found
