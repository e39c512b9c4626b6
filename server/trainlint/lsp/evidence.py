"""What results of probes say about the files of the workspace, for as long as the server runs.

Of each file, what the latest result says counts. All of it is about rows as they were when the job ran; where these are
by now is found out for each text as it is, so that nothing is said of a row that has changed since.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.probe.command import may_run
from trainlint.source.alignment import row_digests, rows_now

if TYPE_CHECKING:
    from trainlint.lint.verdicts import Verdicts
    from trainlint.probe.measured import LineCost
    from trainlint.report.probe_result import ProbeResult
    from trainlint.source.path_map import PathMap
    from trainlint.source.positions import LineIndex


@dataclass(frozen=True, slots=True)
class FileEvidence:
    """What a result says about a file."""

    result: ProbeResult
    rows: tuple[str, ...]
    """A digest of each row as it was when the job ran."""
    costs: tuple[LineCost, ...]
    """What its lines cost, the dearest first."""

    def rows_in(self, index: LineIndex) -> Mapping[int, int]:
        """For each row that is certainly still there: which row of the text it is now."""
        return rows_now(self.rows, row_digests(index))

    def is_of(self, entry: Path) -> bool:
        """Whether the job ran an entry point."""
        return may_run(self.result.command, entry)


class Evidence:
    """The results that were loaded, and those of the probes that ran."""

    def __init__(self) -> None:
        self.latest: ProbeResult | None = None
        """The result that came last."""
        self._files: dict[str, FileEvidence] = {}
        """By path, without symbolic links."""
        self._verdicts: Verdicts | None = None

    @property
    def verdicts(self) -> Verdicts:
        """What all of it says about findings."""
        from trainlint.lint.verdicts import Verdicts

        return self._verdicts or Verdicts()

    @property
    def is_empty(self) -> bool:
        return self.latest is None

    def add(self, result: ProbeResult, paths: PathMap) -> None:
        """Use a result, whose paths mean what `paths` says."""
        from trainlint.lint.verdicts import Verdicts
        from trainlint.report.probe_verdicts import local_name, verdicts_of

        costs: dict[str, list[LineCost]] = {}
        for cost in result.lines:
            costs.setdefault(local_name(cost.filename, paths), []).append(cost)
        for source in result.sources:
            name = local_name(source.filename, paths)
            self._files[name] = FileEvidence(result, tuple(source.rows), tuple(costs.get(name, ())))
        self._verdicts = Verdicts({**self.verdicts.files, **verdicts_of(result, paths).files})
        self.latest = result

    def clear(self) -> None:
        """Forget all of it."""
        self.latest, self._verdicts = None, None
        self._files = {}

    def of(self, path: Path) -> FileEvidence | None:
        """What is known about a file."""
        return self._files.get(os.path.realpath(path)) if self._files else None
