"""The formats with a line or a record a finding: concise, github, gitlab, junit, markdown."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest
from desk import Desk

from trainlint.lint.finding import Severity


def test_concise_is_one_line_a_finding(desk: Desk) -> None:
    path = desk.write("src/train.py")
    desk.report(path)
    desk.report(path, (5, 1, 5, 9), code="TL204", name="branch-on-tensor", message="two\nlines")
    assert desk.render("concise").splitlines() == [
        "src/train.py:7:14: TL201 sync-in-step `loss.item()` waits for the GPU at every step",
        "src/train.py:5:1: TL204 branch-on-tensor two lines",
    ]


def test_a_file_outside_the_folder_is_named_in_full(desk: Desk) -> None:
    path = desk.write("train.py")
    desk.report(path)
    desk.root = desk.root / "below"
    assert desk.render("concise").startswith(f"{path}:7:14: ")


def test_a_place_in_a_notebook_names_the_cell(desk: Desk) -> None:
    desk.report(desk.root / "train.ipynb", (2, 1, 2, 5), cell=3)
    assert desk.render("concise").startswith("train.ipynb:cell 3:2:1: ")


@pytest.mark.parametrize(
    ("severity", "command"),
    [
        (Severity.ERROR, "error"),
        (Severity.WARNING, "warning"),
        (Severity.INFO, "notice"),
        (Severity.HINT, "notice"),
    ],
)
def test_github_has_a_command_for_each_severity(desk: Desk, severity: Severity, command: str) -> None:
    path = desk.write("train.py")
    desk.report(path, severity=severity)
    assert desk.render("github") == (
        f"::{command} title=trainlint (TL201 sync-in-step),file={path},line=7,col=14,endLine=7,endColumn=25"
        "::train.py:7:14: TL201 sync-in-step `loss.item()` waits for the GPU at every step\n"
    )


def test_github_escapes_what_would_end_a_property_or_a_command(desk: Desk) -> None:
    path = desk.root / "a,b:c%.py"
    desk.report(path, message="100 %\r\nof: it, all")
    line = desk.render("github")
    assert f"file={desk.root}/a%2Cb%3Ac%25.py," in line
    assert line.endswith("100 %25%0D%0Aof: it, all\n")


def test_github_gives_columns_on_a_single_line_only(desk: Desk) -> None:
    desk.report(desk.write("train.py"), (5, 3, 7, 4))
    assert ",line=5,endLine=7::" in desk.render("github")


def test_gitlab_lists_issues_with_different_fingerprints(desk: Desk) -> None:
    path = desk.write("train.py")
    desk.report(path)
    desk.report(path, code="TL204", name="branch-on-tensor", severity=Severity.ERROR)
    first, second = json.loads(desk.render("gitlab"))
    assert first["check_name"] == "TL201"
    assert first["severity"] == "major"
    assert first["location"] == {
        "path": "train.py",
        "positions": {"begin": {"line": 7, "column": 14}, "end": {"line": 7, "column": 25}},
    }
    assert second["severity"] == "critical"
    assert first["fingerprint"] != second["fingerprint"]


def test_junit_has_a_suite_a_file_and_a_failure_a_finding(desk: Desk) -> None:
    one, two = desk.write("one.py"), desk.write("two.py")
    desk.report(one, message='x < "y" & \x00 z')
    desk.report(one)
    desk.report(two)
    suites = ElementTree.fromstring(desk.render("junit"))
    assert (suites.get("tests"), suites.get("failures")) == ("3", "3")
    assert [(suite.get("name"), suite.get("tests")) for suite in suites] == [("one.py", "2"), ("two.py", "1")]
    case = suites[0][0]
    assert (case.get("name"), case.get("classname")) == ("TL201 sync-in-step at 7:14", "one.py")
    failure = case[0]
    assert failure.get("message") == 'x < "y" & \ufffd z'
    assert failure.text == 'one.py:7:14: TL201 sync-in-step x < "y" & \ufffd z'


def test_junit_of_an_empty_run_has_one_test_that_passed(desk: Desk) -> None:
    suites = ElementTree.fromstring(desk.render("junit"))
    assert (suites.get("tests"), suites.get("failures")) == ("1", "0")


def test_markdown_is_a_table_with_links(desk: Desk) -> None:
    path = desk.write("train.py")
    desk.report(path, context=desk.context(path), message="`a | b` waits <b>now</b> | for __it__ [x](http://y)")
    row = desk.render("markdown").splitlines()[2]
    assert row == (
        "| `train.py:7:14` | [TL201](https://trainlint.readthedocs.io/en/latest/rules/sync-in-step/) sync-in-step "
        "| warning | `a \\| b` waits &lt;b>now&lt;/b> \\| for \\_\\_it\\_\\_ \\[x\\](http://y); it runs at every "
        "training step of the loop at train.py:4, reached by train.main > train.train\\_one\\_epoch |"
    )
    assert len(re.findall(r"(?<!\\)\|", row)) == 5


def test_markdown_of_an_empty_run_says_so(desk: Desk) -> None:
    assert desk.render("markdown") == "trainlint found nothing.\n"
