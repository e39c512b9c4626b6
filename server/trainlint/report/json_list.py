"""`--output-format json`: one list of findings."""

from __future__ import annotations

from collections.abc import Iterator

from trainlint.lint.result import Result
from trainlint.report.json_model import FindingJson
from trainlint.report.view import View


def render(result: Result, view: View) -> Iterator[str]:
    separator = "["
    for reported in result.findings:
        text = FindingJson.of(reported, view).model_dump_json(indent=2).replace("\n", "\n  ")
        yield f"{separator}\n  {text}"
        separator = ","
    yield "[]\n" if separator == "[" else "\n]\n"
