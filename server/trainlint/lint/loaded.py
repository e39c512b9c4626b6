"""Findings in the code of a job: in what its script imports before it runs, in what it has loaded afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trainlint.lint.check_options import CheckOptions
from trainlint.lint.closure import import_closure
from trainlint.lint.engine import check
from trainlint.lint.result import Reported, Result
from trainlint.source.discovery import absolute


@dataclass(frozen=True, slots=True)
class JobFindings:
    """What the linter says about the code of a job."""

    paths: frozenset[Path]
    """The files that were linted."""
    result: Result | None
    """None where there are none."""

    @property
    def findings(self) -> tuple[Reported, ...]:
        return self.result.findings if self.result is not None else ()

    def with_loaded(self, files: Iterable[Path]) -> JobFindings:
        """The same, with the files that the job has loaded."""
        new = {path for path in map(absolute, files) if path.is_file()} - self.paths
        return _linted(self.paths | new) if new else self


def in_script(script: Path | None) -> JobFindings:
    """What the linter says about a script and all that it imports; nothing where no script is known.

    Raises:
        ConfigError: a configuration file is wrong.
    """
    return _linted(frozenset() if script is None else frozenset(import_closure(absolute(script))))


def _linted(paths: frozenset[Path]) -> JobFindings:
    # Without a cache: a job may look at the folder that it would lie in.
    return JobFindings(paths, check(sorted(paths), CheckOptions(cache=False)) if paths else None)
