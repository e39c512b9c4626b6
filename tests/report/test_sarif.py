"""SARIF: valid against the schema, and with all that code scanning can show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from desk import Desk
from jsonschema import Draft4Validator, FormatChecker

from trainlint.fixes.recipe import Applicability, Fix, ReplaceExpression
from trainlint.lint.finding import RelatedSite, Severity
from trainlint.semantics.context import Site

SCHEMA = json.loads((Path(__file__).parent / "schemas" / "sarif-2.1.0-rtm.5.json").read_bytes())


def run_of(desk: Desk) -> dict[str, Any]:
    """The only run of the report, which is valid against the official schema."""
    log = json.loads(desk.render("sarif"))
    Draft4Validator(SCHEMA, format_checker=FormatChecker()).validate(log)
    (run,) = log["runs"]
    assert isinstance(run, dict)
    return run


def test_an_empty_report_is_valid(desk: Desk) -> None:
    assert run_of(desk)["results"] == []


def test_a_finding_carries_its_fix_its_loop_and_its_rule(desk: Desk) -> None:
    path = desk.write("src/a b/train.py")
    expression = Site(path, 7, 13, 7, 24, "train_one_epoch")
    desk.report(
        path,
        code="TL210",
        name="loss-keeps-graph",
        context=desk.context(path),
        fix=Fix(Applicability.SAFE, "Detach it", (ReplaceExpression(expression, "loss.detach()"),)),
        related=(RelatedSite(Site(path, 4, 0, 4, 20, ""), "the loop that runs it"),),
    )
    run = run_of(desk)
    assert run["columnKind"] == "unicodeCodePoints"
    (rule,) = run["tool"]["driver"]["rules"]
    assert (rule["id"], rule["name"]) == ("TL210", "loss-keeps-graph")
    assert rule["helpUri"].startswith("https://trainlint.readthedocs.io/en/latest/")
    assert rule["shortDescription"]["text"] and rule["help"]["markdown"]
    (result,) = run["results"]
    assert (result["ruleId"], result["ruleIndex"], result["level"]) == ("TL210", 0, "warning")
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "src/a%20b/train.py", "uriBaseId": "%SRCROOT%"}
    assert location["region"] == {"startLine": 7, "startColumn": 14, "endLine": 7, "endColumn": 25}
    assert result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 4
    (change,) = result["fixes"][0]["artifactChanges"]
    assert change["replacements"] == [
        {
            "deletedRegion": {"startLine": 7, "startColumn": 14, "endLine": 7, "endColumn": 25},
            "insertedContent": {"text": "loss.detach()"},
        }
    ]


@pytest.mark.parametrize(
    ("severity", "level"),
    [
        (Severity.ERROR, "error"),
        (Severity.WARNING, "warning"),
        (Severity.INFO, "note"),
        (Severity.HINT, "note"),
    ],
)
def test_severities_map_to_levels(desk: Desk, severity: Severity, level: str) -> None:
    desk.report(desk.write("train.py"), severity=severity)
    assert run_of(desk)["results"][0]["level"] == level


def test_a_finding_keeps_its_fingerprint_when_lines_move(desk: Desk) -> None:
    path = desk.write("train.py", "x = loss.item()\n")
    desk.report(path, (1, 5, 1, 16))
    before = run_of(desk)["results"][0]["partialFingerprints"]
    desk.findings.clear()
    desk.write("train.py", "import torch\n\nx  =  loss.item()\n")
    desk.report(path, (3, 7, 3, 18))
    assert run_of(desk)["results"][0]["partialFingerprints"] == before


def test_equal_lines_have_different_fingerprints(desk: Desk) -> None:
    path = desk.write("train.py", "x = loss.item()\nx = loss.item()\n")
    desk.report(path, (1, 5, 1, 16))
    desk.report(path, (2, 5, 2, 16))
    first, second = (result["partialFingerprints"] for result in run_of(desk)["results"])
    assert first != second


def test_files_are_named_from_the_top_of_the_repository(desk: Desk) -> None:
    (desk.root / ".git").mkdir()
    path = desk.write("src/train.py")
    desk.report(path)
    desk.root = desk.root / "src"
    run = run_of(desk)
    uri = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "src/train.py"
    assert run["originalUriBaseIds"]["%SRCROOT%"]["uri"] == (desk.root.parent).as_uri() + "/"


def test_a_file_outside_the_repository_has_an_absolute_address(desk: Desk) -> None:
    path = desk.write("elsewhere/train.py")
    desk.report(path)
    desk.root = desk.root / "here"
    artifact = run_of(desk)["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": path.as_uri()}
