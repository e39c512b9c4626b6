"""The JSON of a probe's result: what was measured, the findings with their verdicts, and what only a run shows."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import ValidationError

from trainlint.lint.result import Reported
from trainlint.probe.measured import Measured, Model
from trainlint.report.json_model import FindingJson, MeasurementJson, PositionJson
from trainlint.report.view import View

VERSION: Final = 1


class BrokenResult(Exception):  # noqa: N818
    """A file is no result that this version can read. The message continues a sentence that names the file."""


class JudgedJson(FindingJson):
    """A finding of the code as it was when the job ran."""

    text: list[str] | None = None
    """The rows that the finding is in, as they were then, without their ends: a verdict is about these, and no others.
    None where nobody has them."""

    @classmethod
    def of(cls, reported: Reported, view: View) -> Self:
        text = None
        if view.sources.document(reported.path) is not None:
            rows = range(reported.location.row, reported.end_location.row + 1)
            text = [view.sources.line(reported.path, reported.cell, row) for row in rows]
        return cls.model_validate({**FindingJson.of(reported, view).model_dump(), "text": text})


class RuntimeFindingJson(Model):
    """What no line of code shows: TL901 and on."""

    code: str
    name: str
    message: str
    severity: Literal["error", "warning", "info", "hint"]
    filename: str | None
    location: PositionJson | None
    evidence: list[MeasurementJson]


class ProbeResult(Measured):
    schema_version: Literal[1] = VERSION
    findings: list[JudgedJson]
    runtime_findings: list[RuntimeFindingJson]


def read_result(data: bytes) -> ProbeResult:
    """Read the content of a result file.

    Raises:
        BrokenResult: with the reason.
    """
    try:
        return ProbeResult.model_validate_json(data)
    except ValidationError as error:
        raise BrokenResult(_reason(error)) from error


def _reason(error: ValidationError) -> str:
    """The first thing that is wrong, above all another version."""
    errors = error.errors(include_url=False)
    if any(one["loc"] == ("schema_version",) and one["type"] != "missing" for one in errors):
        return f"has a version other than {VERSION}, the one that this trainlint reads"
    place = ".".join(map(str, errors[0]["loc"]))
    message = errors[0]["msg"][:1].lower() + errors[0]["msg"][1:]
    return f"is no result of `trainlint probe`: {f'`{place}`: ' if place else ''}{message}"
