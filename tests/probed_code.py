"""Results of probes for tests: the findings that are there, with verdicts that a test makes up for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from trainlint.lint.check_options import CheckOptions
from trainlint.lint.engine import check
from trainlint.lint.finding import RuntimeFinding, Severity
from trainlint.probe.measured import (
    Bottleneck,
    Cpu,
    Environment,
    Job,
    LineCost,
    Overhead,
    Overlapping,
    Shares,
    Steps,
)
from trainlint.probe.verdict import Measurement, Source, Status, Verdict
from trainlint.report.json_model import FindingJson
from trainlint.report.probe_result import ProbeResult, RuntimeFindingJson, SourceJson
from trainlint.report.view import View

CONFIRMED = Verdict(
    Status.CONFIRMED,
    12.3,
    0.31,
    1.0,
    (Measurement("wait for the device", 12.3, "ms/step", Source.KINETO, 0.8),),
)
REFUTED = Verdict(Status.REFUTED, 0.1, 0.0025, 1.0, (Measurement("time in the call", 0.1, "ms/step", Source.AGENT),))
NOT_EXERCISED = Verdict(Status.NOT_EXERCISED, note="the line did not run in the measured steps")
INCONCLUSIVE = Verdict(Status.INCONCLUSIVE, note="probe on a GPU")


def unpredicted_sync(path: Path, row: int) -> RuntimeFinding:
    """What a run shows of a row that no rule flagged."""
    message = "The host waits 4.1 ms per step for the device here, and no rule predicted it"
    return RuntimeFinding("TL910", "unpredicted-sync", message, Severity.WARNING, path, row)


DATA_BOUND = RuntimeFinding("TL901", "data-bound", "The step waits 61 % of its time for data", Severity.WARNING)
"""What a run shows that is about no row."""


def result_of(
    folder: Path,
    verdicts: Mapping[str, Verdict],
    *,
    command: Sequence[str] = (),
    lines: Iterable[LineCost] = (),
    runtime: Iterable[RuntimeFinding] = (),
) -> ProbeResult:
    """The result of a probe of what lies in a folder, in which findings have verdicts, by `ROW CODE` or `CODE`."""
    view = View(folder)
    findings = check([folder], CheckOptions(cache=False, jobs=1, overrides={"min-confidence": "low"})).findings
    judged = [
        replace(one, verdict=verdicts.get(f"{one.location.row} {one.finding.code}", verdicts.get(one.finding.code)))
        for one in findings
    ]
    costs, shown = list(lines), list(runtime)
    paths = [*(one.path for one in judged), *(Path(cost.filename) for cost in costs)]
    paths += [one.path for one in shown if one.path is not None]
    return ProbeResult(
        command=list(command) or ["python", str(folder / "train.py")],
        started="2026-01-02T03:04:05+00:00",
        environment=Environment(
            python="3.11.7", torch="2.13.0", cuda=None, gpus=[], world_size=1, sources=["agent"], missing={}
        ),
        steps=Steps(measured=50, warmup=10, median_s=0.0397, p90_s=0.0412),
        shares=Shares(
            data_wait=0.61,
            host_to_device=0.0,
            forward=0.1,
            backward=0.2,
            optimizer=0.05,
            sync_wait=0.0,
            other=0.04,
        ),
        overlapping=Overlapping(),
        gpu=[],
        cpu=Cpu(util_mean=0.5, busiest_core_mean=0.9, rss_peak_bytes=1 << 29, io_wait_share=None),
        kernels=None,
        loader=None,
        bottleneck=Bottleneck(
            kind="data", score=0.61, why=["data wait is 61 % of the step (threshold 20 %)"], next=["more workers"]
        ),
        ranks=[],
        job=Job(exit_code=0, signal=None, stopped_by_probe=True),
        overhead=Overhead(agent_share=0.001),
        lines=costs,
        findings=[FindingJson.of(one, view) for one in judged if one.verdict is not None],
        runtime_findings=[RuntimeFindingJson.of(one) for one in shown],
        sources=SourceJson.all(paths, view),
    )


def write_result(file: Path, result: ProbeResult) -> Path:
    """Write a result as the probe does."""
    file.write_text(result.model_dump_json(indent=2))
    return file
