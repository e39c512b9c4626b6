"""Measured facts, asked by line.

`probe.analysis` fills this from a recording; a rule's `judge` asks it about a finding's lines, mostly by the judges of
`probe.judges`. What was not measured is None, never zero. Times are seconds, shares are of the clean, timed steps' wall
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainlint.probe import thresholds
from trainlint.probe.verdict import Source
from trainlint.semantics.context import Site


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a source file of the job."""

    path: Path
    row: int


@dataclass(frozen=True, slots=True)
class StackSamples:
    """Samples with a line on the stack: in the ranks' training threads, and in loader workers."""

    seconds_per_step: float
    samples: int
    in_workers: bool
    """Worker time runs beside the step; it costs only as far as the step waits for data."""
    interval_s: tuple[float, float] | None = None
    """Where there are too few samples for a figure: between these seconds per step, with 99 % confidence."""


@dataclass(frozen=True, slots=True)
class TimedCalls:
    """Calls made from a line that the agent timed: prints, logging, trackers, saves, collections."""

    calls_per_step: float
    seconds_per_step: float
    longest_s_per_step: float = 0.0
    """What the longest of them adds."""
    slow_s_per_step: float = 0.0
    """What the slower half of them takes beyond the median call."""


@dataclass(frozen=True, slots=True)
class SyncCount:
    """Reads of tensor values from a line. `wait_s_per_step` is None where no accelerator made the host wait."""

    calls_per_step: float
    wait_s_per_step: float | None
    source: Source = Source.AGENT


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies between host and device issued from a line, from a trace."""

    calls_per_step: float
    seconds_per_step: float
    pageable: bool
    """Whether the host side was pageable memory, so that the copy could not overlap."""


@dataclass(frozen=True, slots=True)
class Memsets:
    """Device memory filled with a constant by calls from a line, from a trace."""

    calls_per_step: float
    seconds_per_step: float


@dataclass(frozen=True, slots=True)
class EpochStarts:
    """How the epochs of one loader began."""

    digests: tuple[str, ...]
    """Of the first batch of each epoch that was seen."""
    distributed_sampler: bool | None = None
    """Whether the loader draws from a `DistributedSampler`; None where that is not known."""
    line: Line | None = None
    """Where it was made or iterated over; None where that is not known."""


@dataclass(frozen=True, slots=True)
class RankEvidence:
    """What one rank shows, compared with the others."""

    rank: int
    epoch_starts: tuple[EpochStarts, ...] = ()
    """Of each training loader."""
    dataset_share: float | None = None
    """Length of the training loader's sampler over that of the dataset that the ranks have in common: 1 where the rank
    goes through all of it."""
    printed_lines: frozenset[Line] = frozenset()
    """Lines that printed on this rank."""
    ddp_unused_parameters: int | None = None
    """DDP's own count of parameters without a gradient in the measured steps."""
    reductions_per_update: float | None = None
    """Gradient reductions per optimizer step, counted in the profiler window."""

    @property
    def batch_digests(self) -> tuple[str, ...]:
        """Those of the first training loader."""
        return next((starts.digests for starts in self.epoch_starts), ())


@dataclass(frozen=True, slots=True)
class LoaderEvidence:
    """What the loaders show over the clean steps."""

    data_wait_share: float
    workers: int
    queue_empty_share: float | None = None
    epoch_start_s: float | None = None
    """Median time from a new iterator to its first batch; None if no epoch turned."""
    steps_per_epoch: float | None = None
    """Median number of steps between two new iterators; None if no epoch turned."""
    line: Line | None = None
    """Where it was made or iterated over; None where that is not known."""
    starved_share: float | None = None
    """The waits before which none of its batches stood ready; None where that was not counted."""
    explained_wait: float = 0.0
    """What of the waits can be other work's doing, that took cores from the job."""

    workers_busy: float | None = None
    """The share of the time in which a worker computed, or waited for a core to compute on; None where that is not
    known."""

    @property
    def waits_for_workers(self) -> tuple[float, float, float]:
        """The share of the step that is a wait for its workers: at least, most likely, and at most.

        A batch that stood ready was only handed over, unless another was due before it: they are delivered in order.
        But a batch is counted before a thread of its worker has written it to the pipe, and that thread waits for
        Python's lock while the worker computes: of a busy worker, all waits are waits for its work.
        """
        waits, ready_only = self.data_wait_share, self.starved_share
        if ready_only is None or (self.workers_busy is not None and self.workers_busy >= thresholds.WORKERS_BUSY.value):
            return max(0.0, waits - self.explained_wait), waits, waits
        likely = waits if self.workers_busy is None else ready_only
        most = likely if self.workers == 1 else waits
        return max(0.0, ready_only - self.explained_wait), likely, most


@dataclass(frozen=True, slots=True)
class MemoryPeak:
    """The most device memory of a process, as its allocator counts it, in bytes."""

    allocated: float
    reserved: float


@dataclass(frozen=True, slots=True)
class Barrier:
    """A rank that evaluates or saves alone, and how long the others wait for it."""

    rank: int
    what: str
    """`evaluates` or `saves`."""
    waiting_share: float
    """Of the clean steps' wall time of the rank that waits the longest."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was measured, asked by line."""

    step_s: float
    """Mean duration of a regular clean step, which shares are of; 0 where no step was timed."""
    steps: int
    accelerator: bool
    """Whether the job ran on a device the host can wait for."""
    ran: Mapping[Line, bool] = field(default_factory=dict)
    """Whether a line ran in the measured steps, where that is known; a line that is missing is not known."""
    unsure: frozenset[Line] = frozenset()
    """Lines that may have run unseen."""
    why_unknown: str = ""
    """Why it is not known of lines whether they ran; empty where they were watched."""
    stacks: Mapping[Line, StackSamples] = field(default_factory=dict)
    calls: Mapping[Line, TimedCalls] = field(default_factory=dict)
    syncs: Mapping[Line, SyncCount] = field(default_factory=dict)
    copies: Mapping[Line, Copies] = field(default_factory=dict)
    memsets: Mapping[Line, Memsets] = field(default_factory=dict)
    ranks: tuple[RankEvidence, ...] = ()
    loaders: tuple[LoaderEvidence, ...] = ()
    """All that delivered batches for training, those with the most first."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Shares of the step by name, as in the result: "data_wait", "host_to_device", "sync_wait", …"""
    memory_slope_bytes_per_step: float | None = None
    recompilations: int | None = None
    evaluation_records_graph: bool | None = None
    """Whether evaluation batches ran with gradients enabled and outputs that require them."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the live job, those that rules speak about; an unset one stands with an empty value."""
    data_parallel_share: float | None = None
    """Share of the step in which the host replicates, scatters and gathers for DataParallel."""
    anomaly_mode_share: float | None = None
    """Share of the step in which autograd's anomaly mode records stacks and checks gradients."""
    anomaly_passes_share: float | None = None
    """Share of the measured backward passes with anomaly mode on."""
    effective_token_share: float | None = None
    collection_share: float | None = None
    """Share of the clean steps in Python's garbage collection."""
    longest_collection_share: float = 0.0
    """Of the clean steps, in the longest one alone."""
    memory_peak: MemoryPeak | None = None
    barrier: Barrier | None = None
    """The rank that the others wait for while it alone evaluates or saves."""
    disturbed_share: float = 0.0
    """Of the steps, in which the training thread can have waited for a core that other work had."""
    files: frozenset[Path] | None = None
    """The source files that the job loaded; None where that is not known."""
    predicted: frozenset[Line] = frozenset()
    """The lines that static findings flag."""

    @property
    def loader(self) -> LoaderEvidence | None:
        """The training loader that delivered the most batches."""
        return next(iter(self.loaders), None)

    def lines(self, site: Site) -> Iterable[Line]:
        return (Line(site.path, row) for row in range(site.row, site.end_row + 1))

    def did_run(self, site: Site) -> bool | None:
        """Whether any line of `site` is known to have run; None where nothing tells."""
        known = [self.ran[line] for line in self.lines(site) if line in self.ran]
        recorded = any(
            line in table
            for line in self.lines(site)
            for table in (self.calls, self.syncs, self.copies, self.memsets, self.stacks)
        )
        if recorded or any(known):
            return True
        return False if known and self.unsure.isdisjoint(self.lines(site)) else None

    def loader_at(self, sites: Iterable[Site]) -> LoaderEvidence | None:
        """The training loader that was made, or iterated over, at one of `sites`; where none says so, the only one that
        there was."""
        lines = {line for site in sites for line in self.lines(site)}
        made = next((loader for loader in self.loaders if loader.line in lines), None)
        return made if made is not None or len(self.loaders) > 1 else self.loader
