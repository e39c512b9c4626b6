"""`--output-format markdown`: a table for a pull request's comment or a job's summary."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainlint.lint.result import Result
from trainlint.report.style import printable
from trainlint.report.view import View

_BACKTICKS = re.compile("`+")
_MEANINGFUL = frozenset("\\`*_[]~|")
"""What Markdown reads as markup, with the bar that ends a cell."""


def render(result: Result, view: View) -> Iterator[str]:
    if not result.findings:
        yield "trainlint found nothing.\n"
        return
    yield "| place | rule | severity | finding |\n| --- | --- | --- | --- |\n"
    for reported in result.findings:
        finding = reported.finding
        text = _cell(finding.message)
        if finding.context is not None:
            text += f"; it {_cell(finding.context.why)}"
        place = _code(view.place(reported))
        code = f"[{finding.code}]({reported.url})" if reported.url else finding.code
        rule = f"{code} {finding.name}"
        yield f"| {place} | {rule} | {reported.severity.label} | {text} |\n"


def _code(text: str) -> str:
    """Return `text` as code within a table, where a bar ends a cell even between backticks."""
    fence = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(text)), default=0))
    pad = " " if len(fence) > 1 else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|")


def _cell(text: str) -> str:
    """Return `text` for a table's cell: code that it quotes stays code, the rest is taken literally. Where backticks
    do not pair, as with one in a quoted string, nobody can tell what is code, and all is taken literally."""
    pieces = printable(text).split("`")
    paired = len(pieces) % 2 == 1 and all(pieces[1:-1])
    if not paired:
        return _literal("`".join(pieces))
    return "".join(_code(piece) if index % 2 else _literal(piece) for index, piece in enumerate(pieces))


def _literal(text: str) -> str:
    escaped = "".join(f"\\{c}" if c in _MEANINGFUL else c for c in text)
    return escaped.replace("&", "&amp;").replace("<", "&lt;")
