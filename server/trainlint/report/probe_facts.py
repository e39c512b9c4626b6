"""Figures of the steps, the machine and the ranks, each with its name, as all reports write them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from trainlint.probe.figures import NOT_MEASURED, binary_size, number, percent, seconds_text
from trainlint.probe.measured import GpuUse, RankUse
from trainlint.report.probe_result import ProbeResult
from trainlint.report.style import printable

DEVICE_WORK = "Work of the device in the profiled steps"

RANK_TITLES = ("rank", "median step", "without waiting for others", "data wait")

GPU_NOTE = (
    "GPU-Util is the share of time in which at least one kernel ran; it does not say how full the GPU was. "
    "Power against its limit is the second witness."
)


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure that was measured, with its name."""

    name: str
    figure: str


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
