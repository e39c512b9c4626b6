"""What all renderings of a probe's result say, in the same words: facts, shares that add up, findings by verdict."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainlint.probe.figures import (
    NOT_MEASURED,
    adding_up,
    binary_size,
    counted,
    number,
    percent,
    seconds_text,
)
from trainlint.probe.measured import GpuUse, LineCost, RankUse
from trainlint.probe.verdict import Status
from trainlint.report.json_model import FindingJson
from trainlint.report.paths import shown, text_of
from trainlint.report.probe_result import ProbeResult, RuntimeFindingJson
from trainlint.report.style import printable
from trainlint.report.verdicts import ORDER, calls_text
from trainlint.report.view import View
from trainlint.report.width import expand_tabs
from trainlint.source.alignment import row_digest

SHARE_LABELS = {
    "data_wait": "data wait",
    "host_to_device": "host to device",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "sync_wait": "host stalls",
    "other": "other",
}
"""Host stalls are device syncs, print, logging, trackers, saving and garbage collection."""

BOTTLENECKS = {
    "data": "data supply: the step waits for the loader",
    "sync": "host stalls: syncs, printing, logging, saving or garbage collection",
    "transfer": "copies between host and device",
    "launch": "kernel launches: the device waits for the host to start small kernels",
    "communication": "communication between ranks",
    "compute": "compute: the model's own work takes the step, which is the good state",
    "memory": "memory headroom: nothing is in the way, and there is memory for a larger batch",
    "balanced": "none: no part of the step stands out",
    "insufficient": "not known: too little was measured",
}

LINE_COSTS = {
    "data": "wait for data",
    "sync": "read of a tensor",
    "print": "print",
    "logging": "logging",
    "tracker": "experiment tracker",
    "save": "saving",
    "collect": "garbage collection",
    "stack": "stack samples",
    "copy": "copy to or from the device",
    "call": "call",
}

LONGEST_LIST = 20
"""Findings of a verdict that asks for nothing to be done, in texts; more are counted. Confirmed ones are all shown."""
MOST_LINES = 10
"""Of those that cost something, in texts."""

DEVICE_WORK = "Work of the device in the profiled steps"
RANK_TITLES = ("rank", "median step", "without waiting for others", "data wait")

NO_VERDICT = "no verdict was reached"

GPU_NOTE = (
    "GPU-Util is the share of time in which at least one kernel ran; it does not say how full the GPU was. "
    "Power against its limit is the second witness."
)


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure that was measured, with its name."""

    name: str
    figure: str


@dataclass(frozen=True, slots=True)
class ShareRow:
    """A part of a regular step, rounded so that all parts add up."""

    field: str
    label: str
    share: float | None
    """As measured, for bars; None where it was not."""
    percent: str
    milliseconds: str
    """Of the mean step; empty where that is not known."""


def share_rows(result: ProbeResult) -> list[ShareRow]:
    """The parts of a regular step, in the order in which they happen."""
    measured = _measured_shares(result)
    percentages = _column([share * 100 for share in measured.values()], 1, "%")
    times = _times(result, list(measured.values()))
    figures = dict(zip(measured, zip(percentages, times, strict=True), strict=True))
    return [
        ShareRow(field, label, measured.get(field), *figures.get(field, ("not measured", "")))
        for field, label in SHARE_LABELS.items()
    ]


def share_total(result: ProbeResult) -> ShareRow | None:
    """The sum of the parts; None where none was measured."""
    shares = list(_measured_shares(result).values())
    if not shares:
        return None
    total = sum(shares)
    return ShareRow("total", "the step", total, *_column([total * 100], 1, "%"), *_times(result, [total]))


def _measured_shares(result: ProbeResult) -> dict[str, float]:
    shares = {field: getattr(result.shares, field) for field in SHARE_LABELS}
    return {field: share for field, share in shares.items() if share is not None}


def _times(result: ProbeResult, shares: list[float]) -> list[str]:
    mean = result.steps.mean_s
    if mean is None:
        return [""] * len(shares)
    digits = 0 if mean >= 1 else 1 if mean >= 0.01 else 2
    return _column([share * mean * 1e3 for share in shares], digits, "ms")


def _column(parts: list[float], digits: int, unit: str) -> list[str]:
    return [f"{part:.{digits}f} {unit}" for part in adding_up(parts, digits)]


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
        f"{environment.cores} cores" if environment.cores else "",
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


def step_facts(result: ProbeResult) -> Iterator[Fact]:
    """How long steps take and how much they do."""
    steps = result.steps
    yield from _known({"median": steps.median_s, "90th percentile": steps.p90_s, "mean": steps.mean_s}, seconds_text)
    rates = {
        "samples": steps.samples_per_s,
        "tokens": steps.tokens_per_s,
        "effective tokens (without padding)": steps.effective_tokens_per_s,
    }
    yield from _known(rates, lambda rate: f"{number(rate)} per second")
    yield from _known({"model FLOPs utilization": steps.mfu}, percent)


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


def beside_facts(result: ProbeResult) -> Iterator[Fact]:
    """What overlaps the shares, or stands beside the regular steps."""
    overlapping = result.overlapping
    figures = {
        "communication that nothing hides": overlapping.communication_exposed,
        "GPU idle": overlapping.gpu_idle,
        "evaluation": overlapping.evaluation,
    }
    yield from _known(figures, percent)


def _known(figures: Mapping[str, float | None], written: Callable[[float], str]) -> Iterator[Fact]:
    yield from (Fact(name, written(value)) for name, value in figures.items() if value is not None)


def facts_text(facts: Iterable[Fact]) -> str:
    """The facts on one line; empty without any."""
    return "; ".join(f"{fact.name} {fact.figure}" for fact in facts)


def machine_texts(result: ProbeResult) -> Iterator[tuple[str, str]]:
    """The title and the facts of each part of the machine that something was measured of."""
    groups = [("Loader", loader_facts(result)), ("CPU", cpu_facts(result))]
    groups += [(gpu_title(result, use), gpu_facts(result, use)) for use in result.gpu]
    groups.append((DEVICE_WORK, kernel_facts(result)))
    yield from ((title, text) for title, facts in groups if (text := facts_text(facts)))


def loader_facts(result: ProbeResult) -> Iterator[Fact]:
    loader = result.loader
    if loader is None:
        return
    yield Fact("workers", str(loader.workers))
    yield from _known({"queue found empty": loader.queue_empty_share}, percent)
    yield from _known({"loader alone": loader.alone_batch_s}, lambda seconds: f"{seconds_text(seconds)} per batch")


def cpu_facts(result: ProbeResult) -> Iterator[Fact]:
    cpu = result.cpu
    shares = {
        "all cores busy": cpu.util_mean,
        "busiest core": cpu.busiest_core_mean,
        "waiting for input and output": cpu.io_wait_share,
    }
    yield from _known(shares, percent)
    yield from _known({"peak memory": cpu.rss_peak_bytes}, binary_size)


def gpu_facts(result: ProbeResult, use: GpuUse) -> Iterator[Fact]:
    """What one GPU did."""
    device = next((gpu for gpu in result.environment.gpus if gpu.index == use.index), None)
    if use.util_mean is not None:
        low = "" if use.util_p10 is None else f" (10th percentile {percent(use.util_p10)})"
        yield Fact("GPU-Util", f"{percent(use.util_mean)}{low}")
    if use.power_mean_w is not None:
        share = "" if use.power_share is None else f" ({percent(use.power_share)} of the limit)"
        yield Fact("power", f"{number(use.power_mean_w)} W{share}")
    if use.memory_peak_bytes is not None:
        total = device.memory_total_bytes if device else None
        yield Fact("peak memory", binary_size(use.memory_peak_bytes) + (f" of {binary_size(total)}" if total else ""))
    yield from _known({"SM clock": use.sm_clock_mean_mhz}, lambda clock: f"{number(clock)} MHz")
    rates = {"PCIe in": use.pcie_rx_bytes_per_s, "PCIe out": use.pcie_tx_bytes_per_s}
    yield from _known(rates, lambda rate: f"{binary_size(rate)}/s")
    if use.throttle_reasons:
        yield Fact("throttled by", printable(", ".join(use.throttle_reasons)))


def gpu_title(result: ProbeResult, use: GpuUse) -> str:
    names = [gpu.name for gpu in result.environment.gpus if gpu.index == use.index]
    return printable(" ".join([f"GPU {use.index}", *names]))


def kernel_facts(result: ProbeResult) -> Iterator[Fact]:
    kernels = result.kernels
    if kernels is None:
        return
    count = "" if kernels.count_per_step is None else f"{number(kernels.count_per_step)} per step, "
    yield Fact("kernels", f"{count}median {number(kernels.median_us)} us")
    yield Fact("device busy", percent(kernels.busy_share))
    yield Fact("copies between host and device", percent(kernels.memcpy_share))
    yield Fact("NCCL", f"{percent(kernels.nccl_share)}, of which nothing hides {percent(kernels.nccl_exposed_share)}")


def rank_cells(rank: RankUse) -> tuple[str, ...]:
    """A row of the table of ranks, under `RANK_TITLES`."""
    times = (NOT_MEASURED if seconds is None else seconds_text(seconds) for seconds in (rank.median_s, rank.own_s))
    return (str(rank.rank), *times, NOT_MEASURED if rank.data_wait is None else percent(rank.data_wait))


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


def line_place(line: LineCost, view: View) -> str:
    return f"{file_name(line.filename, view)}:{line.row}"


def file_name(filename: str, view: View) -> str:
    return printable(shown(Path(filename), view.root))


def source_text(result: ProbeResult, filename: str, cell: int | None, row: int, view: View) -> str:
    """The source of a row, without its margins; empty where it is not what it was when the job ran."""
    return source_row(result, filename, cell, row, view).strip()


def source_row(result: ProbeResult, filename: str, cell: int | None, row: int, view: View) -> str:
    """Likewise, with its indentation."""
    text = view.sources.line(Path(filename), cell, row)
    recorded = result.row_digest(filename, row) if cell is None else None
    if recorded is not None and recorded != row_digest(text):
        return ""
    return printable(expand_tabs(text.rstrip(), 0)[0])


def line_cost(line: LineCost) -> str:
    """What the line costs at each step; an interval where there are few samples."""
    figure = line_figure(line)
    return f"{figure} ms" if figure else "cost not measured"


def line_figure(line: LineCost) -> str:
    """That without its unit; empty where it was not measured."""
    if line.interval_ms is not None:
        low, high = map(number, line.interval_ms)
        return low if low == high else f"{low} to {high}"
    return "" if line.ms_per_step is None else number(line.ms_per_step)


def line_share(line: LineCost) -> str:
    """That as a share of the step; empty where it is not known."""
    if line.share is None:
        return ""
    return percent(line.share) if line.interval_ms is None else f"about {percent(line.share)}"


def line_notes(line: LineCost) -> str:
    """What kind of cost it is, how often, and where."""
    parts = ["making batches" if line.what == "data" and line.in_workers else LINE_COSTS[line.what]]
    if line.calls_per_step is not None:
        parts.append(calls_text(line.calls_per_step))
    if line.in_workers:
        parts.append("in loader workers, beside the step")
    return ", ".join(parts)


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
    return f"Measuring took {' and '.join(parts)}." if parts else ""
