"""`--output-format markdown`: a table for a pull request's comment or a job's summary."""

from __future__ import annotations

from collections.abc import Iterator

from trainlint.lint.result import Result
from trainlint.report.markdown_text import code, prose
from trainlint.report.verdicts import phrase
from trainlint.report.view import View


def render(result: Result, view: View) -> Iterator[str]:
    if not result.findings:
        yield "trainlint found nothing.\n"
        return
    yield "| place | rule | severity | finding |\n| --- | --- | --- | --- |\n"
    for reported in result.findings:
        finding = reported.finding
        text = prose(finding.message)
        if finding.context is not None:
            text += f"; it {prose(finding.context.why)}"
        if reported.verdict is not None:
            text += f" ({prose(phrase(reported.verdict))})"
        place = code(view.place(reported))
        linked = f"[{finding.code}]({reported.url})" if reported.url else finding.code
        rule = f"{linked} {finding.name}"
        yield f"| {place} | {rule} | {reported.severity.label} | {text} |\n"
