"""`--output-format markdown`: a table for a pull request's comment or a job's summary."""

from __future__ import annotations

from collections.abc import Iterator

from trainlint.lint.result import Result
from trainlint.report.style import printable
from trainlint.report.view import View


def render(result: Result, view: View) -> Iterator[str]:
    if not result.findings:
        yield "trainlint found nothing.\n"
        return
    yield "| place | rule | severity | finding |\n| --- | --- | --- | --- |\n"
    for reported in result.findings:
        finding = reported.finding
        text = printable(finding.message)
        if finding.context is not None:
            text += f"; it {printable(finding.context.why)}"
        place = _code(printable(view.place(reported)))
        code = f"[{finding.code}]({reported.url})" if reported.url else finding.code
        rule = f"{code} {finding.name}"
        yield f"| {place} | {rule} | {finding.severity.label} | {_cell(text)} |\n"


def _code(text: str) -> str:
    """Return `text` as code within a table, where a bar ends a cell even between backticks."""
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}".replace("|", "\\|")


def _cell(text: str) -> str:
    """Return `text` for a table's cell: code that the message quotes stays code, the rest is taken literally."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return _literal(text).replace("|", "\\|")
    for index in range(0, len(pieces), 2):
        pieces[index] = _literal(pieces[index])
    return "`".join(pieces).replace("|", "\\|")


def _literal(text: str) -> str:
    escaped = "".join(f"\\{c}" if c in "\\`*_[]~" else c for c in text)
    return escaped.replace("&", "&amp;").replace("<", "&lt;")
