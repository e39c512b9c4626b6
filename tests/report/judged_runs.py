"""Results of a probe, made by hand: a run that waits for its data, and changes of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from desk import Desk

from trainlint.lint.finding import RuntimeFinding, Severity
from trainlint.lint.result import Reported
from trainlint.probe.measured import (
    Bottleneck,
    Cpu,
    Environment,
    Gpu,
    GpuPoint,
    GpuUse,
    Job,
    Kernels,
    LineCost,
    LoaderUse,
    Measured,
    Overhead,
    Overlapping,
    RankUse,
    Shares,
    StepPoint,
    Steps,
)
from trainlint.probe.verdict import Measurement, Source, Status, Verdict
from trainlint.report.probe_result import ProbeResult
from trainlint.report.sources import Sources
from trainlint.report.view import View

STEP_S = 0.05
JOB = Path("/job/train.py")
SOURCE_ROWS = {9: "    ids = tokenizer(row['text'])", 12: "    x = augment(x)", 40: "        total += loss.item()"}
SOURCE = "".join(f"{SOURCE_ROWS.get(row, f'# row {row}')}\n" for row in range(1, 51)).encode()
MOVED = Path("/moved/train.py")
"""The same file elsewhere, with rows before it."""
MOVED_BY = 21

CONFIRMED = Verdict(
    Status.CONFIRMED,
    12.34,
    0.2468,
    1.0,
    (Measurement("wait for the device", 12.34, "ms/step", Source.KINETO, 1.0),),
    "the wait is that of rank 0",
)
REFUTED = Verdict(Status.REFUTED, 0.02, 0.0004, 1.0)
NOT_EXERCISED = Verdict(Status.NOT_EXERCISED, note="the line did not run in the measured steps")
INCONCLUSIVE = Verdict(Status.INCONCLUSIVE, calls_per_step=2.0, note="probe on a GPU")


def timeline(count: int = 50, *, step_s: float = STEP_S, jitter: float = 0.02) -> list[StepPoint]:
    """Steps that follow one another; the jitter has a fixed pattern, and one step is irregular."""
    points, start = [], 0.0
    for index in range(count):
        duration = step_s * (1 + jitter * ((index * 7 % 11) - 5) / 5)
        wait = duration * 0.6
        points.append(
            StepPoint(
                start_s=start,
                duration_s=duration,
                data_wait_s=wait,
                sync_wait_s=duration * 0.1,
                regular=index != count // 2,
            )
        )
        start += duration
    return points


def measured(**changes: Any) -> Measured:
    """A run on the CPU that waits for its data."""
    fields: dict[str, Any] = {
        "command": ["python", "train.py", "--name", "two words"],
        "started": "2026-11-30T05:00:00Z",
        "environment": Environment(
            python="3.11.7",
            torch="2.13.0+cpu",
            cuda=None,
            gpus=[],
            world_size=1,
            sources=["agent", "stacks", "psutil"],
            missing={"nvml": "no NVIDIA driver library"},
            host="box",
            cores=2,
        ),
        "steps": Steps(
            measured=50,
            warmup=10,
            median_s=STEP_S,
            p90_s=0.061,
            mean_s=STEP_S,
            samples_per_s=640.0,
            irregular=1,
            label="a step ends with the update of SGD",
        ),
        "shares": Shares(
            data_wait=0.6014,
            host_to_device=None,
            forward=0.1213,
            backward=0.1447,
            optimizer=0.0113,
            sync_wait=0.1004,
            other=0.0209,
        ),
        "overlapping": Overlapping(evaluation=0.08),
        "gpu": [],
        "cpu": Cpu(util_mean=0.55, busiest_core_mean=0.97, rss_peak_bytes=3 << 30, io_wait_share=None),
        "kernels": None,
        "loader": LoaderUse(alone_batch_s=None, workers=2, queue_empty_share=0.45),
        "bottleneck": Bottleneck(
            kind="data",
            score=0.6014,
            why=["data wait is 60 % of the step (threshold 20 %)"],
            next=["Tokenize once, offline", "Give the loader more workers: the machine has 2 cores"],
        ),
        "ranks": [RankUse(rank=0, median_s=STEP_S, data_wait=0.6014)],
        "job": Job(exit_code=0, signal=None, stopped_by_probe=True),
        "overhead": Overhead(agent_share=0.0002, probe_core_share=0.03),
        "timeline": timeline(),
        "lines": [
            LineCost(
                filename=str(JOB),
                row=9,
                what="stack",
                ms_per_step=25.0,
                share=0.5,
                calls_per_step=None,
                in_workers=True,
                source="stacks",
            ),
            LineCost(
                filename=str(JOB),
                row=12,
                what="stack",
                ms_per_step=2.5,
                interval_ms=(1.5, 4.0),
                share=0.05,
                calls_per_step=None,
                in_workers=False,
                source="stacks",
            ),
            LineCost(
                filename=str(JOB),
                row=40,
                what="sync",
                ms_per_step=None,
                share=None,
                calls_per_step=2.0,
                in_workers=False,
                source="agent",
            ),
        ],
    }
    return Measured(**fields | changes)


def on_gpus(count: int = 2, *, points: int = 40) -> dict[str, Any]:
    """What changes where the run had GPUs."""
    return {
        "environment": measured().environment.model_copy(
            update={
                "cuda": "13.0",
                "gpus": [
                    Gpu(index=index, name="NVIDIA H100 80GB HBM3", memory_total_bytes=80 << 30, power_limit_w=700.0)
                    for index in range(count)
                ],
                "world_size": count,
                "sources": ["agent", "nvml", "psutil", "kineto", "stacks"],
                "missing": {},
            }
        ),
        "gpu": [
            GpuUse(
                index=index,
                util_mean=0.43,
                util_p10=0.05,
                memory_peak_bytes=18 << 30,
                power_mean_w=240.0,
                power_share=0.343,
                sm_clock_mean_mhz=1755.0,
                pcie_rx_bytes_per_s=1.5e9,
                pcie_tx_bytes_per_s=None,
                throttle_reasons=["sw_power_cap"] if index else [],
            )
            for index in range(count)
        ],
        "gpu_timeline": [
            GpuPoint(
                start_s=point * 0.25,
                index=index,
                util=None if point == 7 else (point * 13 % 10) / 10,
                power_w=180.0 + point,
                memory_used_bytes=(10 + point % 8) << 30,
            )
            for point in range(points)
            for index in range(count)
        ],
        "kernels": Kernels(
            count_per_step=812.0,
            median_us=14.2,
            busy_share=0.41,
            memcpy_share=0.05,
            nccl_share=0.12,
            nccl_exposed_share=0.04,
        ),
        "ranks": [
            RankUse(rank=index, median_s=STEP_S, data_wait=0.1 * (index + 1), own_s=0.03 + 0.01 * index)
            for index in range(count)
        ],
    }


@dataclass
class Run:
    """A result in the making: what was measured, and findings on a desk, each with its verdict."""

    desk: Desk
    measured: Measured = field(default_factory=measured)
    judged: list[Reported] = field(default_factory=list)
    runtime: list[RuntimeFinding] = field(default_factory=list)

    def judge(self, path: Path, verdict: Verdict | None, **about: Any) -> None:
        self.judged.append(replace(self.desk.report(path, **about), verdict=verdict))

    @property
    def view(self) -> View:
        return View(self.desk.root, Sources({JOB: SOURCE, MOVED: b"\n" * MOVED_BY + SOURCE}))

    def result(self) -> ProbeResult:
        return ProbeResult.of(self.measured, self.judged, self.runtime, self.view)


def judged_run(desk: Desk, **changes: Any) -> Run:
    """A run with a finding of each verdict, one without, and two about the run itself."""
    run = Run(desk, measured(**changes))
    path = desk.write("src/train.py")
    run.judge(path, REFUTED, place=(3, 10, 3, 35), code="TL103", name="prefetch", message="`DataLoader` prefetches 2")
    run.judge(path, CONFIRMED)
    run.judge(
        path, NOT_EXERCISED, place=(6, 5, 6, 20), code="TL204", name="branch-on-tensor", message="`if loss` waits"
    )
    run.judge(path, INCONCLUSIVE, place=(5, 5, 5, 20), code="TL202", name="print-in-step", message="`print` waits")
    run.judge(path, None, place=(1, 1, 1, 5), code="TL401", name="no-autocast", message="trains in float32")
    run.runtime += [
        RuntimeFinding(
            "TL901",
            "data-bound",
            "the step waits for data",
            Severity.WARNING,
            evidence=(Measurement("data wait", 0.6014, "share", Source.AGENT, 0.2),),
        ),
        RuntimeFinding("TL910", "unpredicted-sync", "a sync that no rule flagged", Severity.INFO, path, 7),
    ]
    return run
