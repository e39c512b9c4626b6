"""From traces alone to figures and evidence, where nobody watched the job.

A trace holds few steps, all of them profiled, and nothing of what the device does not take part in: print, logging,
memory, power. What it cannot tell stays None, and `missing` says what would.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from trainlint.probe import thresholds
from trainlint.probe.analysis import cpu, traced
from trainlint.probe.analysis.diagnosis import Findings, diagnose
from trainlint.probe.analysis.line_costs import copy_costs, dearest, sync_costs
from trainlint.probe.analysis.percentile import percentile
from trainlint.probe.evidence import Evidence, RankEvidence
from trainlint.probe.measured import (
    Environment,
    Gpu,
    Job,
    Measured,
    Overhead,
    RankUse,
    Shares,
    Steps,
)
from trainlint.probe.traces import RankTrace, TraceAnalysis, analyse
from trainlint.probe.traces.trace_analysis import StepSource

_NEEDS_RUN = "a trace does not tell; run the job under trainlint probe"
_MISSING = {
    "gpu": "a trace holds no utilization, power or memory of a GPU; run the job under trainlint probe",
    "cpu": _NEEDS_RUN,
    "loader": "a trace holds no queue of a loader; run the job under trainlint probe",
    "steps.samples_per_s": _NEEDS_RUN,
    "steps.tokens_per_s": _NEEDS_RUN,
    "stacks": "no stack was sampled",
}
_LABELS = {
    StepSource.PROFILER: "from one mark of torch.profiler to the next",
    StepSource.OPTIMIZER: "from one step of the optimizer to the next",
    StepSource.UNKNOWN: "",
}
_NO_STEPS = "the trace marks no steps; call profiler.step() after each one"


def analyse_traces(paths: Sequence[Path], roots: Sequence[Path], command: list[str]) -> tuple[Measured, Evidence]:
    """What traces show that somebody recorded, one file for each rank.

    Args:
        paths: the trace files.
        roots: folders in which the relative names of the job's files are looked up.
        command: how the analysis was asked for, for the result.

    Raises:
        UnusableTraceError: none of the files is a trace that can be read.
    """
    alone = _TraceAlone(analyse(paths, roots), command)
    return alone.measured(), alone.evidence()


class _TraceAlone:
    def __init__(self, analysis: TraceAnalysis, command: list[str]) -> None:
        self._analysis = analysis
        self._command = command
        self._traced = traced.of_analysis(analysis)

    @cached_property
    def _shown(self) -> RankTrace:
        """The slowest rank, which the others wait for; the first where steps are not known."""
        return max(self._analysis.one_per_rank, key=lambda rank: rank.steps.median_s or 0.0)

    @property
    def _step_s(self) -> float:
        """The mean step; 0 where steps are not known."""
        return self._shown.steps.mean_s or 0.0

    def measured(self) -> Measured:
        kernels = traced.kernels_of(self._traced)
        shares, unknown = self._shares
        found = self._traced.lines
        lines = dearest([*sync_costs(found.syncs, self._step_s), *copy_costs(found.copies, self._step_s)])
        findings = Findings(
            regular_steps=self._shown.steps.count,
            missing=_NO_STEPS if not self._shown.steps.count else "",
            shares=shares,
            accelerator=self._analysis.has_device,
            kernels=kernels,
            memory_fill=None,
            loader=None,
            lines=tuple(lines),
            straggler=None,
            physical_cores=None,
            fewest=thresholds.FEWEST_TRACED_STEPS,
        )
        return Measured(
            command=self._command,
            started=_written(self._shown.path),
            environment=self._environment(unknown, traced_device=kernels is not None),
            steps=self._steps(),
            shares=shares,
            overlapping=traced.overlapping(kernels),
            gpu=[],
            cpu=cpu.NOTHING,
            kernels=kernels,
            loader=None,
            bottleneck=diagnose(findings),
            ranks=[_rank_use(number, rank) for number, rank in enumerate(self._analysis.one_per_rank)],
            job=Job(exit_code=None, signal=None, stopped_by_probe=False),
            overhead=Overhead(agent_share=None),
            lines=lines,
        )

    def evidence(self) -> Evidence:
        lines = self._traced.lines
        shares, _ = self._shares
        return Evidence(
            step_s=self._step_s,
            steps=self._shown.steps.count,
            accelerator=self._analysis.has_device,
            syncs=lines.syncs,
            copies=lines.copies,
            memsets=lines.memsets,
            ranks=tuple(_rank_evidence(number, rank) for number, rank in enumerate(self._analysis.one_per_rank)),
            shares={name: share for name, share in shares if share is not None},
            recompilations=traced.recompilations(self._traced),
        )

    def _environment(self, unknown: dict[str, str], *, traced_device: bool) -> Environment:
        missing = {**_MISSING, **unknown, **self._traced.missing}
        if not self._shown.steps.count:
            missing["steps"] = _NO_STEPS
        if not traced_device:
            missing["kernels"] = "the traces show no work of a device"
        if not any(rank.has_stacks for rank in self._analysis.ranks):
            missing["lines"] = "the traces hold no stacks; record with_stack=True to see which lines wait and copy"
        devices = {device.index: device for rank in self._analysis.ranks for device in rank.devices}
        return Environment(
            python=None,
            torch=None,
            cuda=None,
            gpus=[
                Gpu(index=one.index, name=one.name, memory_total_bytes=one.memory_bytes, power_limit_w=None)
                for _, one in sorted(devices.items())
            ],
            world_size=self._analysis.world_size,
            sources=["kineto"],
            missing=missing,
        )

    def _steps(self) -> Steps:
        steps = self._shown.steps
        return Steps(
            measured=steps.count,
            warmup=0,
            median_s=steps.median_s,
            p90_s=percentile(steps.durations_s, 90) if steps.count else None,
            mean_s=steps.mean_s,
            label=_LABELS[steps.source],
        )

    @cached_property
    def _shares(self) -> tuple[Shares, dict[str, str]]:
        """The shares of the shown rank's traced time, and why some are not known."""
        rank, parts = self._shown, self._shown.parts
        seconds = {
            "data_wait": parts.data_wait_s,
            "host_to_device": parts.copy_s,
            "forward": parts.forward_s,
            "backward": parts.backward_s,
            "optimizer": parts.optimizer_s,
            "sync_wait": parts.sync_wait_s,
        }
        if rank.span_s <= 0 or not rank.steps.count:
            return Shares(**dict.fromkeys(seconds), other=None), {"shares": _NO_STEPS}
        shares = {name: None if part is None else part / rank.span_s for name, part in seconds.items()}
        missing = {f"shares.{name}": "the trace shows nothing of it" for name, share in shares.items() if share is None}
        if shares["sync_wait"] is not None:
            missing["shares.sync_wait"] = "waits for the device only: a trace does not show print, logging and saving"
        other = max(0.0, 1.0 - sum(share for share in shares.values() if share is not None))
        return Shares(**shares, other=other), missing


def _rank_use(number: int, rank: RankTrace) -> RankUse:
    wait = rank.parts.data_wait_s
    share = wait / rank.span_s if wait is not None and rank.span_s > 0 and rank.steps.count else None
    return RankUse(rank=number if rank.rank is None else rank.rank, median_s=rank.steps.median_s, data_wait=share)


def _rank_evidence(number: int, rank: RankTrace) -> RankEvidence:
    return RankEvidence(
        rank=number if rank.rank is None else rank.rank,
        reductions_per_update=rank.reductions_per_update,
    )


def _written(path: Path) -> str:
    """When a file was written, in UTC."""
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
