"""What Kineto traces of a job show, rank by rank.

Durations are seconds unless a name ends in `_us`. Counts and durations are totals over the traced steps;
`RankTrace.per_step` turns them into figures per step where the trace tells what a step is. Figures of a device are None
where the trace holds no event of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from statistics import fmean, median


class Direction(StrEnum):
    """Which way a copy goes, in Kineto's letters."""

    TO_DEVICE = "HtoD"
    TO_HOST = "DtoH"
    ON_DEVICE = "DtoD"
    BETWEEN_DEVICES = "PtoP"
    OTHER = "other"


class HostMemory(StrEnum):
    """The kind of memory at the host's end of a copy."""

    PAGEABLE = "pageable"
    PINNED = "pinned"
    UNKNOWN = "unknown"
    """The driver does not say, as on AMD, or no end is on the host."""


class StepSource(StrEnum):
    """What tells where steps begin and end."""

    PROFILER = "profiler"
    """Marks of `torch.profiler`: `ProfilerStep#7`."""
    OPTIMIZER = "optimizer"
    """The ends of `Optimizer.step#…`, of the optimizer that steps least often."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CodeSite:
    """A place in the job's code, as far as a trace tells.

    Kineto records with a Python frame the row where the function begins, or, for functions that were running when
    profiling began, the row they were at. `exact` says that the row is the one that made the call.
    """

    path: Path
    row: int
    function: str
    exact: bool


@dataclass(frozen=True, slots=True)
class TracedSteps:
    source: StepSource
    starts_s: tuple[float, ...]
    """On the trace's own clock."""
    durations_s: tuple[float, ...]

    @property
    def count(self) -> int:
        return len(self.durations_s)

    @property
    def median_s(self) -> float | None:
        return median(self.durations_s) if self.durations_s else None

    @property
    def mean_s(self) -> float | None:
        return fmean(self.durations_s) if self.durations_s else None


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """The work of one device in the traced steps. Work that runs at the same time counts once in each figure."""

    index: int
    name: str
    span_s: float
    """From the start of the first traced step until the device is through with the last one."""
    busy_s: float
    """Time with any work at all."""
    transfer_s: float
    """Time with a copy between host and device."""
    communication_s: float
    communication_exposed_s: float
    """Time with communication and no kernel that computes."""
    kernels: int
    """Kernels that compute."""
    kernel_median_us: float | None

    def share(self, seconds: float) -> float:
        """Seconds as a share of the traced steps' time."""
        return seconds / self.span_s if self.span_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class HostWait:
    """Calls in which the host waited for the device, from one place."""

    site: CodeSite | None
    operation: str
    """The outermost operator around the calls, such as `aten::item`; empty if there is none."""
    call: str
    """The call that waited, such as `cudaStreamSynchronize`."""
    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SiteCopies:
    """Copies of one kind that were issued from one place."""

    site: CodeSite | None
    operation: str
    direction: Direction
    host_memory: HostMemory
    count: int
    seconds: float
    """On the device."""
    host_s: float
    """In the calls that asked for a copy and nothing else."""


@dataclass(frozen=True, slots=True)
class SiteFills:
    """Fills of device memory with a constant that were issued from one place."""

    site: CodeSite | None
    operation: str
    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class HostParts:
    """The host's time in each part of the steps; None where the trace shows nothing of a part.

    Each moment counts once: for data, a wait for the device, a copy to it, backward, optimizer or forward, the first of
    these that it belongs to.
    """

    data_wait_s: float | None
    sync_wait_s: float | None
    """None without a device."""
    copy_s: float | None
    """In calls that copy to a device; None without a device."""
    backward_s: float | None
    optimizer_s: float | None
    forward_s: float | None
    graph_s: float | None = None
    """Of `forward_s`, in the operators through which a backward pass went, and between those that follow each other
    closely: what is the model's for sure."""
    operators_s: float | None = None
    """Of what is none of the other parts, in any operators and between those that follow each other closely, recorded
    by autograd or not: the most that can be the models', frozen ones among them."""


@dataclass(frozen=True, slots=True)
class TracedDevice:
    index: int
    name: str
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class RankTrace:
    """One trace file: one rank."""

    path: Path
    rank: int | None
    world_size: int | None
    devices: tuple[TracedDevice, ...]
    span_s: float
    steps: TracedSteps
    has_stacks: bool
    uses: tuple[DeviceUse, ...]
    """The device with the most work first; empty if the trace holds no event of a device."""
    waits: tuple[HostWait, ...]
    """The longest first; likewise the next ones."""
    copies: tuple[SiteCopies, ...]
    fills: tuple[SiteFills, ...]
    reduction_rounds: int | None
    """Backward passes that reduced gradients over ranks; None if the trace shows neither."""
    updates: int
    """Steps of optimizers, of the one that steps least often."""
    parts: HostParts
    recompilations: int | None
    """Compilations by Dynamo within the traced steps; None if the trace shows no compiled code."""
    skipped: int
    """Events that could not be used: a duration or a time that is none."""

    @property
    def main(self) -> DeviceUse | None:
        """The device with the most work."""
        return self.uses[0] if self.uses else None

    @property
    def reductions_per_update(self) -> float | None:
        """Backward passes that reduce gradients, for each step of the optimizer."""
        if self.reduction_rounds is None or not self.updates:
            return None
        return self.reduction_rounds / self.updates

    def per_step(self, total: float | None) -> float | None:
        """A total as a figure per step; None where steps are not known."""
        return None if total is None or not self.steps.count else total / self.steps.count


@dataclass(frozen=True, slots=True)
class TraceAnalysis:
    """What the traces of one run show."""

    ranks: tuple[RankTrace, ...]
    """Each file, by rank; at least one."""
    unreadable: Mapping[Path, str] = field(default_factory=dict)
    """Files that could not be read, and why."""

    @property
    def world_size(self) -> int:
        return max([len(self.one_per_rank), *(rank.world_size or 1 for rank in self.ranks)])

    @property
    def one_per_rank(self) -> tuple[RankTrace, ...]:
        """One trace of each rank: of several, one without stacks, since recording them slows the host. A file that does
        not say its rank is one of its own."""
        kept: dict[int | Path, RankTrace] = {}
        for trace in self.ranks:
            key = trace.path if trace.rank is None else trace.rank
            if key not in kept or (kept[key].has_stacks and not trace.has_stacks):
                kept[key] = trace
        return tuple(kept.values())

    @property
    def has_device(self) -> bool:
        return any(rank.uses for rank in self.ranks)

    @property
    def step_s(self) -> float | None:
        """The median over ranks of a step's median duration."""
        known = [rank.steps.median_s for rank in self.ranks if rank.steps.median_s is not None]
        return median(known) if known else None
