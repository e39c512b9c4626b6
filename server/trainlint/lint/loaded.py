"""Findings in the code of a job: in what its script imports before it runs, in what it has loaded afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trainlint.lint.check_options import CheckOptions
from trainlint.lint.closure import import_closure
from trainlint.lint.engine import Run, collector_paused
from trainlint.lint.governing import Governance
from trainlint.lint.result import Reported, Result
from trainlint.lint.selection import Selection
from trainlint.source.discovery import absolute


@dataclass(frozen=True, slots=True)
class JobFindings:
    """What the linter says about the code of a job."""

    folder: Path
    """The folder whose configuration governs the job as a whole."""
    paths: frozenset[Path]
    """The files that were linted."""
    result: Result | None
    """None where there are none."""
    selection: Selection
    """The rules that the configuration of the job as a whole selects."""
    governance: Governance

    @property
    def findings(self) -> tuple[Reported, ...]:
        return self.result.findings if self.result is not None else ()

    def selection_of(self, path: Path) -> Selection:
        """The rules that the configuration of a file selects."""
        return self.governance.of_folder(path.parent).selection

    def with_loaded(self, files: Iterable[Path]) -> JobFindings:
        """The same, with the files that the job has loaded."""
        new = {path for path in map(absolute, files) if path.is_file()} - self.paths
        return _linted(self.folder, self.paths | new) if new else self


def in_script(script: Path | None, folder: Path) -> JobFindings:
    """What the linter says about a script and all that it imports; nothing where no script is known.

    The configuration of the script governs the job; that of `folder` does where no script is known.

    Raises:
        ConfigError: a configuration file is wrong.
    """
    if script is None:
        return _linted(absolute(folder), frozenset())
    script = absolute(script)
    return _linted(script.parent, frozenset(import_closure(script)))


def _linted(folder: Path, paths: frozenset[Path]) -> JobFindings:
    # Without a cache: a job may look at the folder that it would lie in.
    with collector_paused():
        run = Run(sorted(paths), CheckOptions(cache=False))
        selection = run.governance.of_folder(folder).selection
        result = run.result() if paths else None
    return JobFindings(folder, paths, result, selection, run.governance)
