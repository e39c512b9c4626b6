"""What a probe's result says about the files of this machine, for `trainlint.lint.verdicts`."""

from __future__ import annotations

import os
from collections.abc import Iterable

from trainlint.lint.finding import RuntimeFinding
from trainlint.lint.result import Position
from trainlint.lint.verdicts import Recorded, RecordedFile, Verdicts
from trainlint.report.json_model import FindingJson
from trainlint.report.probe_result import ProbeResult
from trainlint.source.path_map import PathMap


def verdicts_of(result: ProbeResult, paths: PathMap) -> Verdicts:
    """The verdicts of a result, by the files here that its paths name."""
    rows = {local_name(source.filename, paths): tuple(source.rows) for source in result.sources}
    findings: dict[str, list[FindingJson]] = {name: [] for name in rows}
    for finding in result.findings:
        # A job runs no notebook: what is said of a cell is about no row that ran.
        if finding.cell is None:
            findings.setdefault(local_name(finding.filename, paths), []).append(finding)
    shown: dict[str, list[RuntimeFinding]] = {}
    for one in result.runtime_findings:
        if one.filename is not None and one.location is not None:
            shown.setdefault(local_name(one.filename, paths), []).append(one.finding())
    return Verdicts(
        {
            name: RecordedFile(rows.get(name), tuple(_recorded(findings.get(name, ()))), tuple(shown.get(name, ())))
            for name in findings.keys() | shown.keys()
        }
    )


def local_name(filename: str, paths: PathMap) -> str:
    """What a file of a result is called here, without symbolic links."""
    return os.path.realpath(paths.local(filename))


def _recorded(findings: Iterable[FindingJson]) -> Iterable[Recorded]:
    for one in findings:
        if one.verdict is not None:
            start = Position(one.location.row, one.location.column)
            end = Position(one.end_location.row, one.end_location.column)
            yield Recorded(one.code, start, end, one.message, one.verdict.verdict())
