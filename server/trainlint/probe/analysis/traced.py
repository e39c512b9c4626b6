"""What the profiler window's traces add: the device's work, and what single lines make the host wait for."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trainlint.probe.evidence import Copies, Line, Memsets, Source, SyncCount
from trainlint.probe.measured import Kernels
from trainlint.probe.recording import Recording
from trainlint.probe.traces import RankTrace, TraceAnalysis, UnusableTraceError, analyse
from trainlint.probe.traces.trace_analysis import CodeSite, HostMemory


@dataclass(frozen=True, slots=True)
class Traced:
    """The traces of a run."""

    ranks: tuple[RankTrace, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def undisturbed(self) -> tuple[RankTrace, ...]:
        """Those for figures of the device: recording stacks slows the host, so without them where there are others."""
        plain = tuple(rank for rank in self.ranks if not rank.has_stacks)
        return plain or self.ranks

    @property
    def device(self) -> RankTrace | None:
        return next((rank for rank in self.undisturbed if rank.uses), None)


def traced(recording: Recording) -> Traced:
    """Analyse the traces that lie in a recording."""
    if not recording.traces:
        return Traced()
    try:
        found = analyse(recording.traces, (Path(recording.manifest.cwd),))
    except UnusableTraceError as error:
        return Traced(missing={"kineto": str(error)})
    return of_analysis(found)


def of_analysis(found: TraceAnalysis) -> Traced:
    unreadable = [f"{path.name}: {why}" for path, why in found.unreadable.items()]
    return Traced(found.ranks, {"kineto": "; ".join(unreadable)} if unreadable else {})


def kernels_of(found: Traced) -> Kernels | None:
    """The device's work per step on the first rank that shows any."""
    rank = found.device
    use = rank.main if rank is not None else None
    if rank is None or use is None or use.kernel_median_us is None:
        return None
    count = rank.per_step(use.kernels)
    return Kernels(
        count_per_step=float(use.kernels) if count is None else count,
        median_us=use.kernel_median_us,
        busy_share=use.share(use.busy_s),
        memcpy_share=use.share(use.copy_s),
        nccl_share=use.share(use.communication_s),
        nccl_exposed_share=use.share(use.communication_exposed_s),
    )


def waits_by_line(found: Traced) -> dict[Line, SyncCount]:
    """Waits of the host for the device, by lines that a trace with stacks names for certain."""
    counts: dict[Line, SyncCount] = {}
    for rank in found.ranks:
        own: dict[Line, SyncCount] = {}
        for wait in rank.waits:
            line = _line(wait.site)
            calls, seconds = rank.per_step(wait.count), rank.per_step(wait.seconds)
            if line is not None and calls is not None and seconds is not None:
                known = own.get(line, SyncCount(0.0, 0.0))
                waited = (known.wait_s_per_step or 0.0) + seconds
                own[line] = SyncCount(known.calls_per_step + calls, waited, Source.KINETO)
        for line, count in own.items():
            if line not in counts or (counts[line].wait_s_per_step or 0.0) < (count.wait_s_per_step or 0.0):
                counts[line] = count
    return counts


def copies_by_line(found: Traced) -> dict[Line, Copies]:
    copies: dict[Line, Copies] = {}
    for rank in found.ranks:
        own: dict[Line, Copies] = {}
        for copy in rank.copies:
            line = _line(copy.site)
            calls, seconds = rank.per_step(copy.count), rank.per_step(max(copy.seconds, copy.host_s))
            if line is None or calls is None or seconds is None:
                continue
            known = own.get(line, Copies(0.0, 0.0, 0.0, False))
            own[line] = Copies(
                known.calls_per_step + calls,
                known.seconds_per_step + seconds,
                known.bytes_per_step + (rank.per_step(copy.bytes) or 0.0),
                known.pageable or copy.host_memory is HostMemory.PAGEABLE,
            )
        copies |= {line: one for line, one in own.items() if _dearer(one, copies.get(line))}
    return copies


def _dearer(one: Copies, other: Copies | None) -> bool:
    return other is None or other.seconds_per_step < one.seconds_per_step


def memsets_by_line(found: Traced) -> dict[Line, Memsets]:
    fills: dict[Line, Memsets] = {}
    for rank in found.ranks:
        own: dict[Line, Memsets] = {}
        for fill in rank.fills:
            line = _line(fill.site)
            calls, seconds = rank.per_step(fill.count), rank.per_step(fill.seconds)
            if line is not None and calls is not None and seconds is not None:
                known = own.get(line, Memsets(0.0, 0.0))
                own[line] = Memsets(known.calls_per_step + calls, known.seconds_per_step + seconds)
        fills |= {line: one for line, one in own.items() if line not in fills}
    return fills


def reductions_by_rank(found: Traced) -> dict[int, float]:
    """Backward passes that reduce gradients per optimizer step, by rank."""
    return {
        rank.rank or 0: rank.reductions_per_update for rank in found.ranks if rank.reductions_per_update is not None
    }


def recompilations(found: Traced) -> int | None:
    counts = [rank.recompilations for rank in found.ranks if rank.recompilations is not None]
    return max(counts, default=None)


def _line(site: CodeSite | None) -> Line | None:
    return Line(site.path, site.row) if site is not None and site.exact else None
