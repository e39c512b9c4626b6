"""`--output-format junit`: a test suite a file, a failed test a finding.

Elements and attributes are those that the schema of Jenkins' xUnit plugin has (junit-10.xsd), which refuses others. A
test's name holds its place, since readers take tests of the same name for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from xml.sax.saxutils import quoteattr

from trainlint.lint.result import Reported, Result
from trainlint.report.concise import plain_line
from trainlint.report.paths import shown
from trainlint.report.style import printable
from trainlint.report.view import View

_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
    group = shown(reported.path, view.root)
    place = view.place(reported).removeprefix(f"{printable(group)}:")
    name = f"{finding.code} {finding.name} at {place}"
    yield f"    <testcase name={_attribute(name)} classname={_attribute(group)}>\n"
    message, text = _attribute(finding.message), _attribute(plain_line(reported, view))[1:-1]
    yield f"      <failure type={_attribute(reported.severity.label)} message={message}>{text}</failure>\n"
    yield "    </testcase>\n"


def _attribute(text: str) -> str:
    """Return `text` quoted; characters that XML 1.0 forbids even as references are replaced."""
    allowed = _FORBIDDEN.sub("\ufffd", text)
    return quoteattr(allowed, {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
