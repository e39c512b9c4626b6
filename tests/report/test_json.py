"""The JSON of findings: names, order and positions that tools rely on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from desk import Desk

from trainlint.fixes.recipe import Applicability, Fix, ReplaceExpression
from trainlint.probe.verdict import Measurement, Source, Status, Verdict
from trainlint.report.json_model import FindingJson
from trainlint.report.view import View
from trainlint.semantics.context import Site

FIELDS = [
    "code",
    "name",
    "message",
    "severity",
    "confidence",
    "filename",
    "cell",
    "location",
    "end_location",
    "context",
    "fix",
    "verdict",
    "noqa_row",
    "url",
]


def test_a_finding_has_the_fields_of_the_contract_in_order(desk: Desk) -> None:
    path = desk.write("train.py")
    expression = Site(path, 7, 13, 7, 24, "train_one_epoch")
    recipes = (ReplaceExpression(expression, "loss.detach()"),)
    desk.report(path, context=desk.context(path), fix=Fix(Applicability.UNSAFE, "Keep it on the device", recipes))
    (finding,) = json.loads(desk.render("json"))
    assert list(finding) == FIELDS
    assert finding == {
        "code": "TL201",
        "name": "sync-in-step",
        "message": "`loss.item()` waits for the GPU at every step",
        "severity": "warning",
        "confidence": "high",
        "filename": str(path),
        "cell": None,
        "location": {"row": 7, "column": 14},
        "end_location": {"row": 7, "column": 25},
        "context": {
            "frequency": "per-step",
            "loop": {"filename": str(path), "row": 4},
            "path": ["train.main", "train.train_one_epoch"],
            "framework": "accelerate",
            "distributed": "yes",
        },
        "fix": {
            "applicability": "unsafe",
            "message": "Keep it on the device",
            "edits": [
                {
                    "content": "loss.detach()",
                    "location": {"row": 7, "column": 14},
                    "end_location": {"row": 7, "column": 25},
                }
            ],
        },
        "verdict": None,
        "noqa_row": 7,
        "url": "https://trainlint.readthedocs.io/en/latest/rules/sync-in-step/",
    }


def test_a_finding_about_a_file_has_neither_context_nor_fix(desk: Desk) -> None:
    desk.report(desk.write("broken.py", "x = (\n"), (1, 5, 1, 5), code="TL001", name="syntax-error")
    (finding,) = json.loads(desk.render("json"))
    assert finding["context"] is None
    assert finding["fix"] is None


def test_advice_has_no_edits(desk: Desk) -> None:
    desk.report(desk.write("train.py"), fix=Fix(Applicability.DISPLAY, "Tokenize once, before training"))
    (finding,) = json.loads(desk.render("json"))
    assert finding["fix"] == {"applicability": "display", "message": "Tokenize once, before training", "edits": []}


def test_columns_of_edits_count_characters(desk: Desk) -> None:
    path = desk.write("train.py", "損失 = 関数().item()\n")
    expression = Site(path, 1, len("損失 = ".encode()), 1, len("損失 = 関数().item()".encode()), "")
    recipes = (ReplaceExpression(expression, "x"),)
    desk.report(path, (1, 6, 1, 17), fix=Fix(Applicability.SAFE, "Replace", recipes))
    (finding,) = json.loads(desk.render("json"))
    (edit,) = finding["fix"]["edits"]
    assert (edit["location"], edit["end_location"]) == ({"row": 1, "column": 6}, {"row": 1, "column": 17})


def test_a_verdict_carries_its_evidence(desk: Desk) -> None:
    evidence = (Measurement("sync wait", 12.3, "ms", Source.STACKS),)
    verdict = Verdict(Status.CONFIRMED, 12.3, 0.31, 1.0, evidence, "measured")
    reported = replace(desk.report(desk.write("train.py")), verdict=verdict)
    model = FindingJson.of(reported, View(desk.root))
    assert model.model_dump()["verdict"] == {
        "status": "confirmed",
        "ms_per_step": 12.3,
        "share": 0.31,
        "calls_per_step": 1.0,
        "evidence": [{"metric": "sync wait", "value": 12.3, "unit": "ms", "threshold": None, "source": "stacks"}],
        "note": "measured",
    }
    assert model.verdict is not None
    assert model.verdict.verdict() == verdict


@pytest.mark.parametrize("count", [0, 1, 3])
def test_json_is_one_list(desk: Desk, count: int) -> None:
    path = desk.write("train.py")
    for _ in range(count):
        desk.report(path)
    report = desk.render("json")
    assert len(json.loads(report)) == count
    assert report.endswith("]\n")


def test_an_empty_run_prints_an_empty_list(desk: Desk) -> None:
    assert desk.render("json") == "[]\n"


def test_json_lines_are_the_same_findings_one_a_line(desk: Desk) -> None:
    path = desk.write("train.py")
    desk.report(path, context=desk.context(path))
    desk.report(path, (5, 5, 5, 9), code="TL204", name="branch-on-tensor")
    lines = desk.render("json-lines").splitlines()
    assert [json.loads(line) for line in lines] == json.loads(desk.render("json"))


def test_a_file_name_that_is_no_text_is_escaped(desk: Desk) -> None:
    desk.report(desk.root / "b\udcffd.py", code="TL002", name="unreadable-file")
    (finding,) = json.loads(desk.render("json"))
    assert finding["filename"].endswith("b\\udcffd.py")
