"""The JSON of one finding: ruff's field names, and our own. Rows and columns start at 1, columns count characters."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

from trainlint.lint.finding import Fix
from trainlint.lint.result import Position, Reported
from trainlint.probe.verdict import Measurement, Source, Status, Verdict
from trainlint.report.paths import text_of
from trainlint.report.view import View
from trainlint.semantics.context import Context, Site
from trainlint.source.encodable import encodable


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PositionJson(_Model):
    row: int
    """From 1; in a notebook, within the cell."""
    column: int
    """From 1, in characters."""

    @classmethod
    def of(cls, position: Position) -> PositionJson:
        return cls(row=position.row, column=position.column)


class LoopJson(_Model):
    """The loop that makes a finding hot."""

    filename: str
    row: int
    cell: int | None = None
    """In a notebook only, as rows count within it."""

    @model_serializer(mode="wrap")
    def _without_cell(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out the cell where the loop is in no notebook."""
        return _without_empty_cell(self.cell, serialize(self))


def _without_empty_cell(cell: int | None, fields: dict[str, object]) -> dict[str, object]:
    return fields if cell is not None else {name: value for name, value in fields.items() if name != "cell"}


def _loop(site: Site) -> LoopJson:
    return LoopJson(filename=text_of(site.path), row=site.row, cell=site.cell)


class ContextJson(_Model):
    """When and where the flagged code runs."""

    frequency: Literal["once", "per-epoch", "per-n-steps", "per-step", "per-sample"]
    loop: LoopJson | None
    path: list[str]
    """Calls that lead to the code, from the entry point."""
    framework: Literal[
        "pytorch",
        "lightning",
        "fabric",
        "accelerate",
        "hf-trainer",
        "deepspeed",
        "fsdp",
        "ignite",
        "ray-train",
        "unknown",
    ]
    distributed: Literal["yes", "no", "unknown"]

    @classmethod
    def of(cls, context: Context) -> ContextJson:
        loop = context.loop
        return cls.model_validate(
            {
                "frequency": context.frequency.label,
                "loop": None if loop is None else _loop(loop),
                "path": [encodable(name) for name in context.path],
                "framework": context.entry.framework.value,
                "distributed": context.entry.distributed.value,
            }
        )


class EditJson(_Model):
    """Text that replaces what lies between two positions."""

    content: str
    location: PositionJson
    end_location: PositionJson
    cell: int | None = None
    """In a notebook only, as rows count within it."""

    @model_serializer(mode="wrap")
    def _without_cell(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out the cell where the file has none."""
        return _without_empty_cell(self.cell, serialize(self))


class FixJson(_Model):
    applicability: Literal["safe", "unsafe", "display"]
    message: str
    edits: list[EditJson]
    """Empty for advice, and where the file no longer has the text that the fix was made for."""

    @classmethod
    def of(cls, fix: Fix, reported: Reported, view: View) -> FixJson:
        edits = [
            EditJson(
                content=edit.content,
                location=PositionJson.of(edit.location),
                end_location=PositionJson.of(edit.end_location),
                cell=edit.cell,
            )
            for edit in view.sources.edits(reported)
        ]
        return cls.model_validate({"applicability": fix.applicability.value, "message": fix.message, "edits": edits})


class MeasurementJson(_Model):
    metric: str
    """What was measured, in words."""
    value: float
    """In `unit`."""
    unit: str
    """Such as `ms`, `share` (0 to 1), `GiB`."""
    threshold: float | None
    """That it is held against, in the same unit."""
    source: Literal["agent", "stacks", "kineto", "nvml", "psutil"]
    """Where it comes from, as in `environment.sources`."""

    @classmethod
    def of(cls, one: Measurement) -> MeasurementJson:
        return cls.model_validate(
            {
                "metric": one.metric,
                "value": one.value,
                "unit": one.unit,
                "threshold": one.threshold,
                "source": one.source.value,
            }
        )

    def measurement(self) -> Measurement:
        """The reverse."""
        return Measurement(self.metric, self.value, self.unit, Source(self.source), self.threshold)


class VerdictJson(_Model):
    """What a probe of the running job says about the finding."""

    status: Literal["confirmed", "refuted", "not-exercised", "inconclusive"]
    ms_per_step: float | None
    share: float | None
    calls_per_step: float | None
    evidence: list[MeasurementJson]
    note: str

    @classmethod
    def of(cls, verdict: Verdict) -> VerdictJson:
        return cls.model_validate(
            {
                "status": verdict.status.value,
                "ms_per_step": verdict.ms_per_step,
                "share": verdict.share,
                "calls_per_step": verdict.calls_per_step,
                "evidence": [MeasurementJson.of(one) for one in verdict.evidence],
                "note": verdict.note,
            }
        )

    def verdict(self) -> Verdict:
        """The reverse."""
        return Verdict(
            Status(self.status),
            self.ms_per_step,
            self.share,
            self.calls_per_step,
            tuple(one.measurement() for one in self.evidence),
            self.note,
        )


class FindingJson(_Model):
    code: str
    name: str
    message: str
    severity: Literal["error", "warning", "info", "hint"]
    confidence: Literal["high", "medium", "low"]
    filename: str
    """Absolute."""
    cell: int | None
    """Number of the notebook's cell, from 1; rows count within it."""
    location: PositionJson
    end_location: PositionJson
    context: ContextJson | None
    fix: FixJson | None
    verdict: VerdictJson | None
    noqa_row: int
    url: str | None
    """The page of the rule; null where its pack publishes none."""

    @classmethod
    def of(cls, reported: Reported, view: View) -> FindingJson:
        finding, verdict = reported.finding, reported.verdict
        return cls.model_validate(
            {
                "code": finding.code,
                "name": finding.name,
                "message": finding.message,
                "severity": reported.severity.label,
                "confidence": finding.confidence.label,
                "filename": text_of(reported.path),
                "cell": reported.cell,
                "location": PositionJson.of(reported.location),
                "end_location": PositionJson.of(reported.end_location),
                "context": None if finding.context is None else ContextJson.of(finding.context),
                "fix": None if finding.fix is None else FixJson.of(finding.fix, reported, view),
                "verdict": None if verdict is None else VerdictJson.of(verdict),
                "noqa_row": reported.noqa_row,
                "url": reported.url,
            }
        )
