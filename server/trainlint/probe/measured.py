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
    """A GPU of the job; where the driver does not say which those are, one that torch sees."""

    index: int
    """As nvidia-smi counts them; as torch does where it names the GPUs."""
    name: str
    """As the driver or torch calls it."""
    memory_total_bytes: int | None
    """All of its memory."""
    power_limit_w: float | None
    """In watts, as the driver enforces it."""


class Environment(Model):
    """What the job ran on."""

    python: str | None
    """Release of the job's Python."""
    torch: str | None
    """Release of its torch."""
    cuda: str | None
    """Release of CUDA that its torch is built for."""
    gpus: list[Gpu]
    world_size: int
    """Number of ranks."""
    sources: list[Literal["agent", "nvml", "psutil", "kineto", "stacks"]]
    """Where figures come from: the agent in the job, the driver, the system, a trace, samples of stacks."""
    missing: dict[str, str]
    """Why what was not measured was not, by the name of the figure or of its source."""
    host: str | None = None
    """Name of the machine, by which a comparison knows whether two results are of the same one."""
    cores: int | None = None
    """Logical cores of the machine."""


class Steps(Model):
    """The clean steps, in seconds of the rank that is shown."""

    measured: int
    """Clean steps: after the warm-up, outside the profiler's window."""
    warmup: int
    """Steps before them that count for nothing."""
    median_s: float | None
    """Of the regular steps."""
    p90_s: float | None
    """The 90th percentile of the regular steps."""
    mean_s: float | None = None
    """Of the regular steps: two workers on two cores deliver in pairs, and the median of such steps is no rate."""
    samples_per_s: float | None = None
    """Of all ranks together."""
    tokens_per_s: float | None = None
    """Of all ranks together, padding included."""
    effective_tokens_per_s: float | None = None
    """The same without padding."""
    mfu: float | None = None
    """Model FLOPs utilization, 0 to 1: what the model needs to compute, over what its devices could have computed."""
    irregular: int = 0
    """Cycles with an evaluation or a new iterator in them, which are in no median."""
    label: str = ""
    """How a step was told: the update that ends it, in words."""


class Shares(Model):
    """Parts of a regular step, 0 to 1, as times of the host; they add up to 1."""

    data_wait: float | None
    """From the request of a batch to its arrival."""
    host_to_device: float | None
    """Copies to the device: 0 without one, and null with one, since the host does not see how long they take."""
    forward: float | None
    """What no record covers and a backward pass follows; with a device, the time to queue it."""
    backward: float | None
    """In calls of the backward pass."""
    optimizer: float | None
    """In steps of the optimizers."""
    sync_wait: float | None
    """All stalls of the host inside the step: device syncs, print, logging, trackers, saving, garbage collection."""
    other: float | None
    """The rest."""


class Overlapping(Model):
    """What overlaps the shares or stands beside the regular steps, as shares, 0 to 1."""

    communication_exposed: float | None = None
    """Of the profiled steps, in which the device only communicates."""
    gpu_idle: float | None = None
    """Of the profiled steps, in which the device has nothing to do."""
    evaluation: float | None = None
    """Of the clean steps, what evaluations took beyond a step."""


class GpuUse(Model):
    """A GPU while the job trained, outside the profiler's window, by samples of at least five seconds."""

    index: int
    """That of the GPU in `environment.gpus`."""
    util_mean: float | None
    """Share of time in which some kernel ran, 0 to 1."""
    util_p10: float | None
    """The 10th percentile of the same over the samples, 0 to 1."""
    memory_peak_bytes: int | None
    """Memory in use, that of other processes included."""
    power_mean_w: float | None
    """In watts."""
    power_share: float | None
    """Of the power limit, 0 to 1."""
    sm_clock_mean_mhz: float | None
    """Clock of the multiprocessors."""
    pcie_rx_bytes_per_s: float | None
    """What it received: the host's copies to it."""
    pcie_tx_bytes_per_s: float | None
    """What it sent."""
    throttle_reasons: list[str]
    """Why its clock was held down, as nvidia-smi spells it; `gpu_idle` among them."""


class Cpu(Model):
    """The machine's cores and the job's memory in the clean steps."""

    util_mean: float | None
    """Mean over all cores, 0 to 1."""
    busiest_core_mean: float | None
    """Mean of the core that was the busiest at each sample, 0 to 1."""
    rss_peak_bytes: int | None
    """Of all processes of the job together; memory that forked processes share counts in each of them."""
    io_wait_share: float | None
    """Share of time in which cores were idle and waited for a disk, 0 to 1."""
    core_wait_share: float | None = None
    """Share of the regular steps, 0 to 1, in which the training thread was ready to run and waited for a core."""
    other_work_cores: float | None = None
    """How many cores work outside the job kept busy in the clean steps, that of the probe left out."""


class Kernels(Model):
    """The device's work in the profiled steps; shares are of their time, 0 to 1."""

    count_per_step: float | None
    """Kernels that compute; null where the trace marks no steps."""
    median_us: float
    """Of their durations, in microseconds."""
    busy_share: float
    """In which it does anything."""
    memcpy_share: float
    """Copies between host and device."""
    nccl_share: float
    """In which it communicates."""
    nccl_exposed_share: float
    """In which it does nothing else meanwhile."""


class LoaderUse(Model):
    """The training loader."""

    alone_batch_s: float | None
    """Seconds per batch of the loader by itself; null, since this version does not run it by itself."""
    workers: int
    """Its worker processes, on each rank."""
    queue_empty_share: float | None
    """Share of the batches, 0 to 1, that were not ready when they were asked for."""


class Bottleneck(Model):
    """What holds the training up."""

    kind: Literal[
        "data", "sync", "transfer", "launch", "communication", "compute", "memory", "balanced", "insufficient"
    ]
    """"insufficient" where too few steps were timed to tell."""
    score: float
    """The share of the step that decided, or 0."""
    why: list[str]
    """Each reason with its figure and threshold."""
    next: list[str]
    """What to do, in order; never a gain that was not measured."""


class RankUse(Model):
    """One rank."""

    rank: int
    """Its number among all ranks."""
    median_s: float | None
    """Of its regular steps."""
    data_wait: float | None
    """Share of its regular steps, 0 to 1."""
    own_s: float | None = None
    """Median step without the time that it waits for other ranks, and for a core."""
    above_median: float | None = None
    """By how much its own time exceeds that of the median rank in the same step, as a share of that: 0.1 is 10 % more;
    the median over steps."""
    above_median_at_least: float | None = None
    """At least by how much, with 99 % confidence; null where there are too few steps to tell."""


class Job(Model):
    """How the job ended."""

    exit_code: int | None
    """Null where a signal ended it, or nobody saw its end."""
    signal: int | None
    """Number of the signal that ended it."""
    stopped_by_probe: bool
    """Whether the probe ended it, after the last step that it was to measure."""


class Overhead(Model):
    """What measuring cost."""

    agent_share: float | None
    """The agent's share of the clean steps, 0 to 1, from its number of events and what each costs."""
    probe_core_share: float | None = None
    """CPU of the probe and its samplers, as a share of one core: 0 to 1, or more."""
    recording_bytes: int | None = None
    """What the recording takes on disk."""
    window_s: float | None = None
    """Seconds that the profiler's window took on the slowest rank, its steps among them."""
    window_memory_bytes: int | None = None
    """By how much the window raised the peak of the host's memory, on the rank where that was the most."""


class StepPoint(Model):
    """One step on the time line of the report."""

    start_s: float
    """When it began, since the first clean step did."""
    duration_s: float
    """From the end of the step before to its own."""
    data_wait_s: float
    """Of it, as `shares.data_wait`."""
    sync_wait_s: float
    """Of it, as `shares.sync_wait`."""
    regular: bool
    """False with an evaluation or a new iterator in it."""


class GpuPoint(Model):
    """One sample of a GPU."""

    start_s: float
    """When it was taken, since the first clean step began."""
    index: int
    """That of the GPU in `environment.gpus`."""
    util: float | None
    """Share of time in which some kernel ran, 0 to 1."""
    power_w: float | None
    """In watts."""
    memory_used_bytes: int | None
    """That of other processes included."""


class LineCost(Model):
    """What one line of the job's own code was seen to cost."""

    filename: str
    """Absolute, as the job called it."""
    row: int
    """From 1."""
    what: Literal["data", "sync", "print", "logging", "tracker", "save", "collect", "stack", "copy", "call"]
    """What was timed: "collect" are garbage collections, "stack" is all that samples of stacks show on a line."""
    ms_per_step: float | None
    """Milliseconds; of loader workers, of all of them together."""
    interval_ms: tuple[float, float] | None = None
    """Between which that lies with 99 % confidence, where it rests on too few samples for a figure."""
    share: float | None
    """Of the mean clean step, 0 to 1, evaluation and new epochs included; null for the time of loader workers, which
    run beside it and beside each other. Where no steps are known, as with --pid, of the time that its process was
    looked at."""
    share_interval: tuple[float, float] | None = None
    """Between which the share lies with 99 % confidence, 0 to 1, where no steps are known, and it rests on too few
    samples for a figure."""
    calls_per_step: float | None
    """Null where calls were not counted."""
    in_workers: bool
    """Whether loader workers run it."""
    source: Literal["agent", "stacks", "kineto"]
    """Where the figure comes from."""


class Measured(Model):
    """All sections of a result but the findings."""

    command: list[str]
    """The job's command line."""
    started: str
    """When the job was started, in UTC, as ISO 8601; of a trace alone, when its file was written."""
    environment: Environment
    steps: Steps
    shares: Shares
    share_intervals: dict[str, tuple[float, float]] = {}
    """Of the shares that decide, by name: where each lies with 99 % confidence, 0 to 1, as the steps differ from each
    other."""
    overlapping: Overlapping
    gpu: list[GpuUse]
    cpu: Cpu
    kernels: Kernels | None
    """Null where no trace shows a device."""
    loader: LoaderUse | None
    """Null where no training loader was seen."""
    bottleneck: Bottleneck
    ranks: list[RankUse]
    job: Job
    overhead: Overhead
    timeline: list[StepPoint] = []
    """All clean steps that were timed."""
    gpu_timeline: list[GpuPoint] = []
    """All samples of the GPUs from the first clean step on."""
    lines: list[LineCost] = []
    """The dearest first."""
