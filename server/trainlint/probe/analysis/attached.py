"""What a look at a running job shows: lines by their share of the time, cores, memory and GPUs; nothing of steps."""

from __future__ import annotations

from collections.abc import Iterator

from trainlint.probe.analysis import cpu, environment, gpu, overhead
from trainlint.probe.analysis.line_costs import dearest
from trainlint.probe.analysis.lines import looked_at_lines
from trainlint.probe.analysis.observed import Observed
from trainlint.probe.analysis.steps import Spans
from trainlint.probe.measured import Bottleneck, Job, LineCost, Measured, Overlapping, Shares, Steps
from trainlint.probe.verdict import Source

NO_STEPS = "a running job cannot be given an agent, which tells its steps; start it with trainlint probe"
_NEEDS_STEPS = ("steps", "shares", "loader")


def attached_measured(observed: Observed) -> Measured:
    """The figures of a recording that was made by attaching to a job."""
    manifest = observed.recording.manifest
    spans = looked_at(observed)
    uses, missing = gpu.gpu_uses(observed, spans, "look for longer: --timeout")
    machine, no_cpu = cpu.cpu_use(observed.recording.system, spans)
    missing |= dict.fromkeys(_NEEDS_STEPS, NO_STEPS)
    missing["kernels"] = manifest.missing.get("kineto", NO_STEPS)
    if no_cpu is not None:
        missing["cpu"] = no_cpu
    return Measured(
        command=manifest.command,
        started=manifest.started,
        environment=environment.environment_of(observed, missing, traced=False),
        steps=Steps(measured=0, warmup=0, median_s=None, p90_s=None),
        shares=Shares.model_validate(dict.fromkeys(Shares.model_fields)),
        overlapping=Overlapping.model_validate(dict.fromkeys(Overlapping.model_fields)),
        gpu=uses,
        cpu=machine,
        kernels=None,
        loader=None,
        bottleneck=Bottleneck(
            kind="insufficient", score=0.0, why=[NO_STEPS], next=["Start the job with trainlint probe"]
        ),
        ranks=[],
        job=Job(exit_code=None, signal=None, stopped_by_probe=False),
        overhead=overhead.overhead_of(observed),
        gpu_timeline=gpu.gpu_points(observed, spans),
        lines=dearest(_line_costs(observed, spans)),
    )


def looked_at(observed: Observed) -> Spans:
    """From the beginning of the look to the last sample."""
    recording = observed.recording
    ends = [
        *(one.clock for one in recording.system),
        *(one.clock for one in recording.gpu),
        *(one.clock + one.weight_s for one in recording.stack_samples),
    ]
    start = recording.manifest.clock
    return Spans([(start, max(ends))] if ends and max(ends) > start else [])


def _line_costs(observed: Observed, spans: Spans) -> Iterator[LineCost]:
    for line, sampled in looked_at_lines(observed, spans).items():
        if sampled.itself_s > 0:
            between = sampled.itself_interval_s
            yield LineCost(
                filename=str(line.path),
                row=line.row,
                what=sampled.what,
                ms_per_step=None,
                share=min(1.0, sampled.itself_s / spans.total),
                share_interval=None
                if between is None
                else (between[0] / spans.total, min(1.0, between[1] / spans.total)),
                calls_per_step=None,
                in_workers=sampled.within.in_workers,
                source=Source.STACKS.value,
            )
