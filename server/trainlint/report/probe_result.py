"""The JSON of a probe's result: what was measured, the findings with their verdicts, and what only a run shows."""

from __future__ import annotations

from typing import Literal

from trainlint.probe.measured import Measured, Model
from trainlint.report.json_model import FindingJson, MeasurementJson, PositionJson


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
    schema_version: Literal[1] = 1
    findings: list[FindingJson]
    runtime_findings: list[RuntimeFindingJson]
