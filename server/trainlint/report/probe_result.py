"""The JSON of a probe's result: what was measured, the findings with their verdicts, and what only a run shows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import ValidationError

from trainlint.probe.measured import Measured, Model
from trainlint.report.json_model import FindingJson, MeasurementJson, PositionJson
from trainlint.report.paths import text_of
from trainlint.report.view import View
from trainlint.source.alignment import row_digests

VERSION: Final = 1


class BrokenResult(Exception):  # noqa: N818
    """A file is no result that this version can read. The message continues a sentence that names the file."""


class SourceJson(Model):
    """A file of the job's own code as it was then. What is said of a row of it holds for that row, wherever it moves,
    until it is another."""

    filename: str
    """Absolute."""
    rows: list[str]
    """A digest of each row (`source.alignment`)."""

    @classmethod
    def all(cls, paths: Iterable[Path], view: View) -> list[Self]:
        """The files among these that can be read, each once."""
        documents = ((path, view.sources.document(path)) for path in sorted(set(paths)))
        return [
            cls(filename=text_of(path), rows=list(row_digests(document.index)))
            for path, document in documents
            if document is not None
        ]


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
    findings: list[FindingJson]
    runtime_findings: list[RuntimeFindingJson]
    sources: list[SourceJson] = []
    """All files that something is said of."""


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
