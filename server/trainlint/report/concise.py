"""`--output-format concise`: one line a finding, which editors and terminals turn into a link."""

from __future__ import annotations

from collections.abc import Iterator

from trainlint.lint.result import Reported, Result
from trainlint.report.style import SEVERITY_INK, Ink, Style, printable
from trainlint.report.view import View


def render(result: Result, view: View) -> Iterator[str]:
    style = Style(view.colour)
    for reported in result.findings:
        finding = reported.finding
        code = style.paint(finding.code, SEVERITY_INK[reported.severity])
        place = style.paint(view.place(reported), Ink.BOLD)
        yield f"{place}: {code} {finding.name} {printable(finding.message + _verdict(reported))}\n"


def plain_line(reported: Reported, view: View) -> str:
    """Return the finding on one line, without colour: what other formats use as a message that stands alone."""
    finding = reported.finding
    return f"{view.place(reported)}: {finding.code} {finding.name} {finding.message}{_verdict(reported)}"


def _verdict(reported: Reported) -> str:
    if reported.verdict is None:
        return ""
    from trainlint.report.verdicts import phrase

    return f" [{phrase(reported.verdict)}]"
