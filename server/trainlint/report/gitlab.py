"""`--output-format gitlab`: a code quality report, https://docs.gitlab.com/ci/testing/code_quality/."""

from __future__ import annotations

import json
from collections.abc import Iterator

from trainlint.lint.finding import Severity
from trainlint.lint.result import Reported, Result
from trainlint.report.fingerprint import fingerprints
from trainlint.report.paths import repository_root, slashed
from trainlint.report.verdicts import phrase
from trainlint.report.view import View

LEVELS = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.INFO: "minor", Severity.HINT: "info"}


def render(result: Result, view: View) -> Iterator[str]:
    repository = repository_root(view.root)
    identities = fingerprints(result.findings, view, repository)
    issues = [
        {
            "description": _description(reported),
            "check_name": reported.finding.code,
            "fingerprint": identity,
            "severity": LEVELS[reported.severity],
            "location": {
                "path": slashed(reported.path, repository),
                "positions": _positions(reported, view),
            },
        }
        for reported, identity in zip(result.findings, identities, strict=True)
    ]
    yield json.dumps(issues, indent=2, ensure_ascii=False) + "\n"


def _description(reported: Reported) -> str:
    verdict = "" if reported.verdict is None else f" [{phrase(reported.verdict)}]"
    return f"{reported.finding.name}: {reported.finding.message}{verdict}"


def _positions(reported: Reported, view: View) -> dict[str, dict[str, int]]:
    """Of a notebook, the rows are those of the JSON, which has other columns."""
    start, end = reported.location, reported.end_location
    if reported.cell is not None:
        first, last = (view.sources.stored_row(reported.path, reported.cell, place.row) for place in (start, end))
        return {"begin": {"line": first, "column": 1}, "end": {"line": last, "column": 1}}
    return {
        "begin": {"line": start.row, "column": start.column},
        "end": {"line": end.row, "column": end.column},
    }
