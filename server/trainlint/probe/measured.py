"""What a probe measured, in the form of its result file; analysis fills it, reports show it.

What was not measured is None, and `Environment.missing` says why. Shares are of the clean steps' wall time, 0 to 1.
"""

from __future__ import annotations

from typing import Literal

from trainlint.probe.model import Model

MEASURE_AGAIN = (
    "Measure again while nothing else runs: other work took cores from the job, and may be what the figures show"
)
"""The first advice where a machine was too busy."""


class Gpu(Model):
    index: int
    name: str
    memory_total_bytes: int | None
    power_limit_w: float | None


class Environment(Model):
    python: str | None
    torch: str | None
    cuda: str | None
    gpus: list[Gpu]
    world_size: int
    sources: list[Literal["agent", "nvml", "psutil", "kineto", "stacks"]]
    missing: dict[str, str]
    host: str | None = None
    """Name of the machine, by which a comparison knows whether two results are of the same one."""
    cores: int | None = None
    """Logical cores of the machine."""


class Steps(Model):
    measured: int
    warmup: int
    median_s: float | None
    p90_s: float | None
    mean_s: float | None = None
    """Two workers on two cores deliver in pairs, so that step times have two humps: the mean rate beside the median."""
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    effective_tokens_per_s: float | None = None
    mfu: float | None = None
    irregular: int = 0
    """Cycles with an evaluation or a new iterator in them, which are in no median."""
    label: str = ""
    """How a step was told: the update that ends it, in words."""


class Shares(Model):
    """Parts of a regular step; they add up to 1."""

    data_wait: float | None
    host_to_device: float | None
    forward: float | None
    backward: float | None
    optimizer: float | None
    sync_wait: float | None
    """All stalls of the host inside the step: device syncs, print, logging, trackers, saving, garbage collection."""
    other: float | None


class Overlapping(Model):
    """What overlaps the shares or stands beside the regular steps."""

    communication_exposed: float | None = None
    gpu_idle: float | None = None
    evaluation: float | None = None


class GpuUse(Model):
    index: int
    util_mean: float | None
    util_p10: float | None
    memory_peak_bytes: int | None
    power_mean_w: float | None
    power_share: float | None
    sm_clock_mean_mhz: float | None
    pcie_rx_bytes_per_s: float | None
    pcie_tx_bytes_per_s: float | None
    throttle_reasons: list[str]


class Cpu(Model):
    util_mean: float | None
    """Mean over all cores, 0 to 1."""
    busiest_core_mean: float | None
    rss_peak_bytes: int | None
    """Of all processes of the job together; memory that forked processes share counts in each of them."""
    io_wait_share: float | None
    core_wait_share: float | None = None
    """Of the regular steps, in which the training thread was ready to run and waited for a core."""
    other_work_cores: float | None = None
    """How many cores work outside the job kept busy in the clean steps, that of the probe left out."""


class Kernels(Model):
    """The device's work in the profiled steps."""

    count_per_step: float | None
    """Those that compute; None where the trace marks no steps."""
    median_us: float
    busy_share: float
    memcpy_share: float
    """Copies between host and device."""
    nccl_share: float
    nccl_exposed_share: float


class LoaderUse(Model):
    alone_batch_s: float | None
    workers: int
    queue_empty_share: float | None


class Bottleneck(Model):
    kind: Literal[
        "data", "sync", "transfer", "launch", "communication", "compute", "memory", "balanced", "insufficient"
    ]
    score: float
    """The share of the step that decided, or 0."""
    why: list[str]
    """Each reason with its figure and threshold."""
    next: list[str]
    """What to do, in order; never a gain that was not measured."""


class RankUse(Model):
    rank: int
    median_s: float | None
    data_wait: float | None
    own_s: float | None = None
    """Median step without the time that it waits for other ranks, and for a core."""
    above_median: float | None = None
    """By how much its own time exceeds that of the median rank in the same step, as a share; the median over steps."""
    above_median_at_least: float | None = None
    """At least by how much, with 99 % confidence; None where there are too few steps to tell."""


class Job(Model):
    exit_code: int | None
    signal: int | None
    stopped_by_probe: bool


class Overhead(Model):
    agent_share: float | None
    """The agent's share of the clean steps, from its number of events and what each costs."""
    probe_core_share: float | None = None
    """CPU of the probe and its samplers, of one core."""
    recording_bytes: int | None = None
    window_s: float | None = None
    """What the profiler's window took on the slowest rank, its steps among them."""
    window_memory_bytes: int | None = None
    """By how much the window raised the peak of the host's memory, on the rank where that was the most."""


class StepPoint(Model):
    """One step on the time line of the report."""

    start_s: float
    """Since the first clean step."""
    duration_s: float
    data_wait_s: float
    sync_wait_s: float
    regular: bool


class GpuPoint(Model):
    start_s: float
    index: int
    util: float | None
    power_w: float | None
    memory_used_bytes: int | None


class LineCost(Model):
    """What one line of the job's own code was seen to cost."""

    filename: str
    row: int
    what: Literal["data", "sync", "print", "logging", "tracker", "save", "collect", "stack", "copy", "call"]
    ms_per_step: float | None
    interval_ms: tuple[float, float] | None = None
    """Where it rests on too few samples for a figure."""
    share: float | None
    """Of the mean clean step, evaluation and new epochs included; None for the time of loader workers, which run beside
    it and beside each other. Where no steps are known, as with --pid, of the time that its process was looked at."""
    share_interval: tuple[float, float] | None = None
    """Where no steps are known, and that rests on too few samples for a figure."""
    calls_per_step: float | None
    in_workers: bool
    source: Literal["agent", "stacks", "kineto"]


class Measured(Model):
    """All sections of a result but the findings."""

    command: list[str]
    started: str
    environment: Environment
    steps: Steps
    shares: Shares
    share_intervals: dict[str, tuple[float, float]] = {}
    """Of the shares that decide: where each lies with 99 % confidence, as the steps differ from each other."""
    overlapping: Overlapping
    gpu: list[GpuUse]
    cpu: Cpu
    kernels: Kernels | None
    loader: LoaderUse | None
    bottleneck: Bottleneck
    ranks: list[RankUse]
    job: Job
    overhead: Overhead
    timeline: list[StepPoint] = []
    gpu_timeline: list[GpuPoint] = []
    lines: list[LineCost] = []
    """The dearest first."""
