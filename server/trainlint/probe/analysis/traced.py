"""What the profiler window's traces add: the device's work, and what single lines make the host wait for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from trainlint.probe.analysis.observed import own_code
from trainlint.probe.figures import counted
from trainlint.probe.measured import Kernels, Overlapping
from trainlint.probe.recording import Recording
from trainlint.probe.traces import (
    LineEvidence,
    RankTrace,
    TraceAnalysis,
    UnusableTraceError,
    analyse,
    line_evidence,
)


@dataclass(frozen=True)
class Traced:
    """The traces of a run."""

    ranks: tuple[RankTrace, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def undisturbed(self) -> tuple[RankTrace, ...]:
        """Those for figures of the device: recording stacks slows the host, so without them where there are others."""
        plain = tuple(rank for rank in self.ranks if not rank.has_stacks)
        return plain or self.ranks

    @cached_property
    def lines(self) -> LineEvidence:
        """What lines wait for, copy and fill."""
        return line_evidence(self.ranks)

    @property
    def device(self) -> RankTrace | None:
        return next((rank for rank in self.undisturbed if rank.uses), None)


def forward_share(found: Traced) -> float | None:
    """The share of the profiled steps in which models can have been on their way forward, on the rank where it is
    largest, at most: a frozen model leaves operators that no graph records, and a closure's way forward is within its
    optimizer's step. None without a trace that shows operators."""

    shares = (
        (rank.parts.operators_s + (rank.parts.optimizer_s or 0.0)) / whole
        for rank in found.undisturbed
        if rank.parts.operators_s is not None and (whole := sum(rank.steps.durations_s)) > 0
    )
    return max(shares, default=None)


def graph_per_backward(found: Traced) -> float | None:
    """The time in operators through which a backward pass went, what of the forward pass is the model's for sure, over
    that of the backward passes, on the rank where it is least. A profiler slows both alike, and other steps less or
    more than the whole step: so it is told of the backward pass, and not of the step. None without a trace that shows
    both."""
    ratios = (
        rank.parts.graph_s / rank.parts.backward_s
        for rank in found.undisturbed
        if rank.parts.graph_s is not None and rank.parts.backward_s
    )
    return min(ratios, default=None)


def traced(recording: Recording) -> Traced:
    """Analyse the traces that lie in a recording."""
    if not recording.traces:
        return Traced()
    try:
        code = own_code(recording)
        found = analyse(recording.traces, code.roots, code.foreign)
    except UnusableTraceError as error:
        return Traced(missing={"kineto": str(error)})
    return of_analysis(found)


def of_analysis(found: TraceAnalysis) -> Traced:
    faults = [*found.unreadable.values(), *(_skipped(rank) for rank in found.ranks if rank.skipped)]
    return Traced(found.ranks, {"kineto": "; ".join(faults)} if faults else {})


def _skipped(rank: RankTrace) -> str:
    return f"{counted(rank.skipped, 'event')} of {rank.path} {'has' if rank.skipped == 1 else 'have'} no usable time"


def kernels_of(found: Traced) -> Kernels | None:
    """The device's work per step on the first rank that shows any."""
    rank = found.device
    use = rank.main if rank is not None else None
    if rank is None or use is None or use.kernel_median_us is None:
        return None
    return Kernels(
        count_per_step=rank.per_step(use.kernels),
        median_us=use.kernel_median_us,
        busy_share=use.share(use.busy_s),
        memcpy_share=use.share(use.transfer_s),
        nccl_share=use.share(use.communication_s),
        nccl_exposed_share=use.share(use.communication_exposed_s),
    )


def overlapping(kernels: Kernels | None, evaluation: float | None = None) -> Overlapping:
    """What the device does beside the host's shares of the step, and `evaluation`, as a share of the clean steps."""
    if kernels is None:
        return Overlapping(evaluation=evaluation)
    return Overlapping(
        communication_exposed=kernels.nccl_exposed_share,
        gpu_idle=max(0.0, 1.0 - kernels.busy_share),
        evaluation=evaluation,
    )


def reductions_by_rank(found: Traced) -> dict[int, float]:
    """Backward passes that reduce gradients per optimizer step, by rank."""
    return {
        rank.rank or 0: rank.reductions_per_update for rank in found.ranks if rank.reductions_per_update is not None
    }


def recompilations(found: Traced) -> int | None:
    counts = [rank.recompilations for rank in found.ranks if rank.recompilations is not None]
    return max(counts, default=None)
