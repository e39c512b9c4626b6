"""What all renderings of a probe's result say, in the same words: how it was made, what holds it up, its findings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from trainlint.probe.figures import binary_size, counted, percent
from trainlint.probe.measured import Overhead
from trainlint.probe.verdict import Status
from trainlint.report.json_model import FindingJson
from trainlint.report.paths import shown, text_of
from trainlint.report.probe_result import ProbeResult, RuntimeFindingJson
from trainlint.report.style import printable
from trainlint.report.verdicts import ORDER
from trainlint.report.view import View

BOTTLENECKS = {
    "data": "data supply: the step waits for the loader",
    "sync": "host stalls: syncs, printing, logging, saving or garbage collection",
    "transfer": "copies between host and device",
    "launch": "kernel launches: the device waits for the host to start small kernels",
    "communication": "communication between ranks",
    "compute": "compute: the step does what follows a batch: forward, backward and optimizer",
    "memory": "memory headroom: nothing is in the way, and there is memory for a larger batch",
    "balanced": "none: nothing that is known by name reaches its threshold",
    "insufficient": "not known: too little was measured",
}

LONGEST_LIST = 20
"""Findings of a verdict that asks for nothing to be done, in texts; more are counted. Confirmed ones are all shown."""

NO_VERDICT = "no verdict was reached"


def command_text(result: ProbeResult) -> str:
    """The command on one line, as a shell would read it."""
    from shlex import join

    return printable(join(result.command))


def environment_text(result: ProbeResult) -> str:
    environment = result.environment
    parts = [
        f"Python {environment.python}" if environment.python else "",
        f"torch {environment.torch}" if environment.torch else "",
        f"CUDA {environment.cuda}" if environment.cuda else "",
        gpus_text(result),
        counted(environment.world_size, "rank"),
        counted(environment.cores, "core") if environment.cores else "",
        f"on {environment.host}" if environment.host else "",
    ]
    return printable(", ".join(part for part in parts if part))


def gpus_text(result: ProbeResult) -> str:
    """The devices, equal ones counted."""
    names = [gpu.name for gpu in result.environment.gpus]
    counts = {name: names.count(name) for name in names}
    return " and ".join(f"{count} x {name}" if count > 1 else name for name, count in counts.items()) or "no GPU"


def sources_text(result: ProbeResult) -> str:
    return ", ".join(result.environment.sources) or "nothing"


def bottleneck_text(result: ProbeResult) -> str:
    bottleneck = result.bottleneck
    held_up = bottleneck.score > 0 and bottleneck.kind not in ("compute", "memory")
    score = f" ({percent(bottleneck.score)} of the step)" if held_up else ""
    return f"{BOTTLENECKS[bottleneck.kind]}{score}"


def advice(result: ProbeResult, view: View) -> Iterator[str]:
    """What to do next; files below the folder of the report are named as everywhere in it."""
    folder = f"{text_of(view.root)}{os.sep}"
    yield from (printable(line.replace(folder, "")) for line in result.bottleneck.next)


def steps_text(result: ProbeResult) -> str:
    """How many steps the figures rest on, and what a step is."""
    steps = result.steps
    parts = [f"{counted(steps.measured, 'step')} measured after {steps.warmup} to warm up"]
    if steps.irregular:
        cycles = counted(steps.irregular, "irregular cycle")
        parts.append(f"{cycles} (evaluation, a new epoch) in no median")
    if steps.label:
        parts.append(steps.label)
    return printable("; ".join(parts))


def groups(result: ProbeResult) -> Iterator[tuple[Status | None, list[FindingJson]]]:
    """The findings by verdict, the dearest first; those that nothing was said about come last, without a status."""
    by_status: dict[Status | None, list[FindingJson]] = {}
    for finding in result.findings:
        status = None if finding.verdict is None else Status(finding.verdict.status)
        by_status.setdefault(status, []).append(finding)
    for status in (*ORDER, None):
        if status in by_status:
            yield status, sorted(by_status[status], key=_dearest_first)


def _dearest_first(finding: FindingJson) -> float:
    cost = None if finding.verdict is None else finding.verdict.ms_per_step
    return 0.0 if cost is None else -cost


_ADDRESS = re.compile(r"https?://[^\s<>()|\"'`\\]+")


def address(finding: FindingJson) -> str | None:
    """The page of the rule; None where what the result holds is no address that a report may link to."""
    return finding.url if finding.url and _ADDRESS.fullmatch(finding.url) else None


def status_word(status: Status | None) -> str:
    return "without a verdict" if status is None else status.value.replace("-", " ")


def place(finding: FindingJson, view: View) -> str:
    """Return `path:row`, in a notebook `path:cell N:row`."""
    cell = "" if finding.cell is None else f"cell {finding.cell}:"
    return f"{file_name(finding.filename, view)}:{cell}{finding.location.row}"


def runtime_place(finding: RuntimeFindingJson, view: View) -> str:
    """Return `path:row` where the finding is about a line, else nothing."""
    if finding.filename is None:
        return ""
    row = "" if finding.location is None else f":{finding.location.row}"
    return f"{file_name(finding.filename, view)}{row}"


def file_name(filename: str, view: View) -> str:
    return printable(shown(Path(filename), view.root))


def job_text(result: ProbeResult) -> str:
    """How the job ended."""
    job = result.job
    if job.signal is not None:
        ended = f"ended by signal {job.signal}"
    elif job.exit_code is not None:
        ended = f"ended with status {job.exit_code}"
    else:
        return "The job was still running."
    return f"The job {ended}{', stopped by the probe after the last step' if job.stopped_by_probe else ''}."


def overhead_text(result: ProbeResult) -> str:
    """What measuring cost; empty where that is not known."""
    overhead = result.overhead
    parts = []
    if overhead.agent_share is not None:
        parts.append(f"{percent(overhead.agent_share)} of the steps")
    if overhead.probe_core_share is not None:
        parts.append(f"{percent(overhead.probe_core_share)} of one core beside the job")
    measuring = f"Measuring took {' and '.join(parts)}." if parts else ""
    return f"{measuring} {_window_text(overhead)}".strip()


def _window_text(overhead: Overhead) -> str:
    """What the profiler's window cost; empty where there was none."""
    if overhead.window_s is None:
        return ""
    took = f"The profiled steps took {overhead.window_s:.1f} s"
    memory = overhead.window_memory_bytes
    return f"{took} and {binary_size(memory)} of memory more than before." if memory else f"{took}."
