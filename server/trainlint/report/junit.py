"""`--output-format junit`: a test suite a file, a failed test a finding."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from xml.sax.saxutils import quoteattr

from trainlint.lint.result import Reported, Result
from trainlint.report.concise import plain_line
from trainlint.report.paths import shown
from trainlint.report.view import View


def render(result: Result, view: View) -> Iterator[str]:
    count = len(result.findings)
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<testsuites name="trainlint" tests="{max(count, 1)}" failures="{count}" errors="0">\n'
    if not count:
        yield '  <testsuite name="trainlint" tests="1" failures="0" errors="0" skipped="0">\n'
        yield '    <testcase name="No findings" classname="trainlint"/>\n'
        yield "  </testsuite>\n"
    for path, group in groupby(result.findings, key=lambda reported: reported.path):
        findings = list(group)
        name = _attribute(shown(path, view.root))
        size = len(findings)
        yield f'  <testsuite name={name} tests="{size}" failures="{size}" errors="0" skipped="0">\n'
        for reported in findings:
            yield from _case(reported, view)
        yield "  </testsuite>\n"
    yield "</testsuites>\n"


def _case(reported: Reported, view: View) -> Iterator[str]:
    finding = reported.finding
    place = "" if reported.cell is not None else f' line="{reported.location.row}" column="{reported.location.column}"'
    group = _attribute(shown(reported.path, view.root))
    yield f"    <testcase name={_attribute(f'{finding.code} {finding.name}')} classname={group}{place}>\n"
    message, text = _attribute(finding.message), _attribute(plain_line(reported, view))[1:-1]
    yield f"      <failure type={_attribute(finding.severity.label)} message={message}>{text}</failure>\n"
    yield "    </testcase>\n"


def _attribute(text: str) -> str:
    """Return `text` quoted; characters that XML 1.0 forbids even as references are replaced."""
    allowed = "".join(c if c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff") else "\ufffd" for c in text)
    return quoteattr(allowed, {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
