"""`--output-format json-lines`: one finding a line."""

from __future__ import annotations

from collections.abc import Iterator

from trainlint.lint.result import Result
from trainlint.report.json_model import FindingJson
from trainlint.report.view import View


def render(result: Result, view: View) -> Iterator[str]:
    for reported in result.findings:
        yield FindingJson.of(reported, view).model_dump_json() + "\n"
