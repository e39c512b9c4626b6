"""`--output-format github`: workflow commands that annotate a pull request.

Escaping follows https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainlint.lint.finding import Severity
from trainlint.lint.result import Reported, Result
from trainlint.report.concise import plain_line
from trainlint.report.paths import text_of
from trainlint.report.view import View

LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice", Severity.HINT: "notice"}


def render(result: Result, view: View) -> Iterator[str]:
    for reported in result.findings:
        finding = reported.finding
        properties = {
            "title": f"trainlint ({finding.code} {finding.name})",
            "file": text_of(reported.path),
            **_position(reported, view),
        }
        listed = ",".join(f"{key}={_escape_property(str(value))}" for key, value in properties.items())
        yield f"::{LEVELS[reported.severity]} {listed}::{_escape(plain_line(reported, view))}\n"


def _position(reported: Reported, view: View) -> dict[str, int]:
    """Columns are taken on a single line only. Of a notebook, annotations show the JSON, which has other columns."""
    start, end = reported.location, reported.end_location
    if reported.cell is not None:
        first, last = (view.sources.stored_row(reported.path, reported.cell, place.row) for place in (start, end))
        return {"line": first, "endLine": last}
    if start.row != end.row:
        return {"line": start.row, "endLine": end.row}
    return {"line": start.row, "col": start.column, "endLine": end.row, "endColumn": end.column}


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
