"""The JSON of a probe's result: what was measured, the findings with their verdicts, and what only a run shows.

`probe.schema.json` beside this file is its published schema, which `docs/build_pages.py` writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

from pydantic import BaseModel, ValidationError

from trainlint.lint.finding import RuntimeFinding, Severity
from trainlint.lint.pages import DOCUMENTATION
from trainlint.lint.result import Reported
from trainlint.probe.analysis.diagnosis import AGAIN, NOTHING
from trainlint.probe.figures import counted, percent
from trainlint.probe.measured import Bottleneck, Measured
from trainlint.probe.model import Model
from trainlint.probe.verdict import Status
from trainlint.report.attribute_docs import attribute_docs
from trainlint.report.json_model import FindingJson, MeasurementJson, PositionJson
from trainlint.report.paths import text_of
from trainlint.report.view import View
from trainlint.source.alignment import row_digests

VERSION: Final = 1
SHIPPED = Path(__file__).with_name("probe.schema.json")


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
    """That of the rule."""
    name: str
    """That of the rule."""
    message: str
    """What was found, with its figures."""
    severity: Literal["error", "warning", "info", "hint"]
    """As settings leave it."""
    filename: str | None
    """Absolute; null where no file is to blame."""
    location: PositionJson | None
    """Null where no row is."""
    evidence: list[MeasurementJson]
    """The figures by which it was found."""

    @classmethod
    def of(cls, finding: RuntimeFinding) -> Self:
        return cls.model_validate(
            {
                "code": finding.code,
                "name": finding.name,
                "message": finding.message,
                "severity": finding.severity.label,
                "filename": None if finding.path is None else text_of(finding.path),
                "location": None if finding.row is None else PositionJson(row=finding.row, column=1),
                "evidence": [MeasurementJson.of(one) for one in finding.evidence],
            }
        )

    def finding(self) -> RuntimeFinding:
        """The finding again, with its file as it was called where the job ran."""
        return RuntimeFinding(
            self.code,
            self.name,
            self.message,
            Severity[self.severity.upper()],
            None if self.filename is None else Path(self.filename),
            None if self.location is None else self.location.row,
            tuple(one.measurement() for one in self.evidence),
        )


class _Versioned(Model):
    """Comes first in the JSON, so that a reader knows what follows."""

    schema_version: Literal[1] = VERSION
    """Of what follows."""


class ProbeResult(Measured, _Versioned):
    """What `trainlint probe` measured, and what it says of each finding."""

    findings: list[FindingJson]
    """The linter's, each with its verdict, as `check --output-format json` prints them."""
    runtime_findings: list[RuntimeFindingJson]
    sources: list[SourceJson] = []
    """All files that something is said of."""

    @classmethod
    def of(cls, run: Measured, judged: Sequence[Reported], runtime: Sequence[RuntimeFinding], view: View) -> Self:
        """Join what was measured with the findings, each of which carries its verdict."""
        paths = {reported.path for reported in judged} | {Path(line.filename) for line in run.lines}
        paths |= {finding.path for finding in runtime if finding.path is not None}
        findings = [FindingJson.of(reported, view) for reported in judged]
        return cls.model_validate(
            {
                **{name: getattr(run, name) for name in Measured.model_fields},
                "bottleneck": _with_confirmed(run.bottleneck, findings),
                "findings": findings,
                "runtime_findings": [RuntimeFindingJson.of(finding) for finding in runtime],
                "sources": SourceJson.all(paths, view),
            }
        )

    def row_digests(self, filename: str) -> Sequence[str]:
        """The digest of each row of a file as it was when the job ran; empty where nobody has them."""
        return next((source.rows for source in self.sources if source.filename == filename), [])

    def row_digest(self, filename: str, row: int) -> str | None:
        """That of one row; None where nobody has it."""
        rows = self.row_digests(filename)
        return rows[row - 1] if 0 < row <= len(rows) else None


MOST_CONFIRMED = 5
"""Named in what to do next; more are counted."""


def _with_confirmed(bottleneck: Bottleneck, findings: Sequence[FindingJson]) -> Bottleneck:
    """What to do next, with the findings that the run confirmed, the dearest first."""
    confirmed = [
        (finding, verdict.share)
        for finding in findings
        if (verdict := finding.verdict) is not None and verdict.status == Status.CONFIRMED.value
    ]
    confirmed.sort(key=lambda one: -(one[1] or 0.0))
    told = [
        f"Mend {finding.code} {finding.name} at {finding.filename}:{finding.location.row}, which the run confirmed"
        + (f" ({percent(share)} of the step)" if share is not None else "")
        for finding, share in confirmed[:MOST_CONFIRMED]
    ]
    if len(confirmed) > MOST_CONFIRMED:
        told.append(f"Mend {counted(len(confirmed) - MOST_CONFIRMED, 'more finding')} that the run confirmed")
    if not told:
        return bottleneck
    advice = [line for line in bottleneck.next if line not in (AGAIN, NOTHING)]
    return bottleneck.model_copy(update={"next": [*advice, *told, AGAIN]})


def to_json(result: ProbeResult) -> str:
    """The text of a result file."""
    return result.model_dump_json(indent=2) + "\n"


def schema() -> str:
    """The text of the published schema."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"{DOCUMENTATION}probe.schema.json",
    }
    body = ProbeResult.model_json_schema()
    for model in _models(ProbeResult):
        described = body if model is ProbeResult else body["$defs"][model.__name__]
        for name, text in _field_docs(model).items():
            described["properties"][name]["description"] = text
    return json.dumps(head | body, indent=2, ensure_ascii=False) + "\n"


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a type, and those that they hold."""
    for part in get_args(annotation):
        yield from _models(part)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from _models(field.annotation)


def _field_docs(model: type[BaseModel]) -> dict[str, str]:
    """What the code says about the fields of a model, those of its bases included."""
    bases = [base for base in reversed(model.__mro__) if issubclass(base, BaseModel) and base is not BaseModel]
    texts = {name: text for base in bases for name, text in attribute_docs(base).items()}
    return {name: texts[name] for name in model.model_fields if name in texts}


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
