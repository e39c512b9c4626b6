"""Whatever a file is called and a finding says, every format stays what it is."""

from __future__ import annotations

import json
import os
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from desk import Desk
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from trainlint.lint.finding import Severity
from trainlint.report.formats import FORMATS

FOLDER = Path("/project")
NASTY = [
    "\n",
    "\r",
    "\t",
    "\x1b[31m",
    "\x85",
    "\u2028",
    "%",
    ",",
    ":",
    "::",
    "|",
    "\\",
    "`",
    "``",
    "<b>",
    "&",
    '"',
    "'",
]
NASTY += ["]]>", "*", "_", "[x](y)", "é", "漢", "\U0001f600", " ", "a", "b.py", "-->", "\x00", "\ufffe", "\u202e"]
TEXTS = st.lists(st.sampled_from(NASTY), min_size=1, max_size=8).map("".join)
NAMES = st.one_of(
    TEXTS.map(lambda text: text.replace("\x00", "").replace("/", "") or "x"),
    st.binary(min_size=1, max_size=8).map(lambda data: os.fsdecode(data.translate(None, b"\0/")) or "x"),
).filter(lambda name: name not in (".", ".."))
REPORTS = st.lists(st.tuples(NAMES, TEXTS, st.sampled_from(Severity), st.sampled_from([None, 3])), max_size=3)


def desk_of(reports: list[tuple[str, str, Severity, int | None]]) -> Desk:
    desk = Desk(FOLDER)
    for name, message, severity, cell in sorted(reports, key=lambda report: report[0]):
        path = FOLDER / name
        context = desk.context(path)
        desk.report(path, (2, 1, 4, 2), message=message, severity=severity, cell=cell, context=context)
    return desk


@pytest.mark.parametrize("format", FORMATS)
@given(reports=REPORTS)
@settings(max_examples=60, deadline=None)
def test_output_can_be_encoded(format: str, reports: list[tuple[str, str, Severity, int | None]]) -> None:
    text = desk_of(reports).render(format)
    text.encode("utf-8")
    assert "\\ud8" not in text


@given(reports=REPORTS)
def test_concise_is_one_printable_line_a_finding(reports: list[tuple[str, str, Severity, int | None]]) -> None:
    text = desk_of(reports).render("concise")
    assert len(text.splitlines()) == text.count("\n") == len(reports)
    assert all(character.isprintable() for character in text.replace("\n", ""))


@given(reports=REPORTS)
def test_full_steers_no_terminal(reports: list[tuple[str, str, Severity, int | None]]) -> None:
    text = desk_of(reports).render("full")
    assert all(character.isprintable() for character in text.replace("\n", ""))
    assert len(re.findall(r"^ --> ", text, re.MULTILINE)) == len(reports)


COMMAND = re.compile(r"::(error|warning|notice) ([^:]*)::(.*)")
PROPERTY = re.compile(r"(\w+)=([^,:]*)")


@given(reports=REPORTS)
def test_github_is_one_command_a_finding(reports: list[tuple[str, str, Severity, int | None]]) -> None:
    desk = desk_of(reports)
    lines = desk.render("github").split("\n")[:-1]
    assert len(lines) == len(reports)
    for line, reported in zip(lines, desk.findings, strict=True):
        command = COMMAND.fullmatch(line)
        assert command is not None
        properties = dict(PROPERTY.findall(command[2]))
        assert ",".join(f"{key}={value}" for key, value in properties.items()) == command[2]
        file = decoded(properties["file"])
        assert file == str(reported.path).encode("utf-8", "backslashreplace").decode()
        assert decoded(command[3]).endswith(f"TL201 sync-in-step {reported.finding.message}")
        assert int(properties["line"]) == (1 if reported.cell else 2)


def decoded(text: str) -> str:
    """What the runner makes of an escaped value; it knows no other escapes."""
    escapes = {"%25": "%", "%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ","}
    return re.sub(r"%..", lambda match: escapes[match[0]], text)


@given(reports=REPORTS)
def test_json_lines_are_one_object_a_line(reports: list[tuple[str, str, Severity, int | None]]) -> None:
    desk = desk_of(reports)
    lines = desk.render("json-lines").split("\n")[:-1]
    assert [json.loads(line)["message"] for line in lines] == [one.finding.message for one in desk.findings]
    assert [json.loads(line) for line in lines] == json.loads(desk.render("json"))


SEVERITIES = {"info", "minor", "major", "critical", "blocker"}


@given(reports=REPORTS)
def test_gitlab_has_the_fields_that_gitlab_reads(reports: list[tuple[str, str, Severity, int | None]]) -> None:
    desk = desk_of(reports)
    issues = json.loads(desk.render("gitlab"))
    assert len({issue["fingerprint"] for issue in issues}) == len(issues) == len(reports)
    for issue, reported in zip(issues, desk.findings, strict=True):
        assert issue.keys() == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in SEVERITIES
        assert re.fullmatch(r"[0-9a-f]{32}", issue["fingerprint"])
        assert issue["location"]["path"] == reported.path.name.encode("utf-8", "backslashreplace").decode()
        begin, end = issue["location"]["positions"]["begin"], issue["location"]["positions"]["end"]
        assert (1, 1) <= (begin["line"], begin["column"]) <= (end["line"], end["column"])


JUNIT = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, set(), {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "group", "time", "skipped", "timestamp", "hostname", "id", "package"},
        {"name", "tests", "failures", "errors"},
        {"testcase"},
    ),
    "testcase": ({"name", "time", "classname", "group"}, {"name"}, {"failure"}),
    "failure": ({"type", "message"}, set(), set()),
}
"""For each element, what the schema junit-10 of Jenkins' xUnit plugin allows and requires of its attributes, and those
of the elements within it that a linter has a use for."""


def check_junit(element: ElementTree.Element) -> None:
    allowed, required, within = JUNIT[element.tag]
    assert required <= element.attrib.keys() <= allowed
    assert {child.tag for child in element} <= within
    for count, tag in (("tests", "testcase"), ("failures", "failure")):
        if count in element.attrib:
            assert int(element.attrib[count]) == len(list(element.iter(tag)))
    for child in element:
        check_junit(child)


@given(reports=REPORTS)
def test_junit_is_valid_and_no_test_hides_another(reports: list[tuple[str, str, Severity, int | None]]) -> None:
    desk = desk_of([(f"{number}{name}", *rest) for number, (name, *rest) in enumerate(reports)])
    suites = ElementTree.fromstring(desk.render("junit"))
    check_junit(suites)
    cases = [(case.get("classname"), case.get("name")) for case in suites.iter("testcase")]
    assert len(set(cases)) == len(cases) == max(1, len(reports))


MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")


@given(reports=REPORTS)
def test_markdown_is_a_table_without_markup_of_others(reports: list[tuple[str, str, Severity, int | None]]) -> None:
    text = desk_of(reports).render("markdown")
    tokens = MARKDOWN.parse(text)
    cells = [following for token, following in pairwise(tokens) if token.type == "td_open"]
    assert len(cells) == 4 * len(reports)
    kinds = {child.type for cell in cells for child in cell.children or ()}
    assert kinds <= {"text", "text_special", "code_inline", "link_open", "link_close"}
    links = [child.attrs["href"] for cell in cells for child in cell.children or () if child.type == "link_open"]
    assert links == ["https://trainlint.readthedocs.io/en/latest/rules/sync-in-step/"] * len(reports)
