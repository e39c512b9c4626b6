"""What traces say about lines of source, in the form in which rules ask for it.

Ranks run the same code: each line gets the mean over the ranks whose traces tell what a step is. Only lines that are
certain are named; what stays with a function, as `RankTrace.waits` has it, is no evidence about one of its lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from trainlint.probe.evidence import Copies, Line, Memsets, SyncCount
from trainlint.probe.traces.trace_analysis import (
    CodeSite,
    Direction,
    HostMemory,
    RankTrace,
    TraceAnalysis,
)


@dataclass(frozen=True, slots=True)
class LineEvidence:
    """Waits, copies and fills per step, by the line that asked for them."""

    syncs: Mapping[Line, SyncCount] = field(default_factory=dict)
    copies: Mapping[Line, Copies] = field(default_factory=dict)
    memsets: Mapping[Line, Memsets] = field(default_factory=dict)


@dataclass
class _Sum:
    """Totals over the ranks, of figures per step."""

    calls: float = 0.0
    seconds: float = 0.0
    bytes: float = 0.0
    pageable_s: float = 0.0


def line_evidence(analysis: TraceAnalysis) -> LineEvidence:
    """The evidence about lines; empty where no rank's trace tells what a step is."""
    ranks = [rank for rank in analysis.ranks if rank.steps.count]
    syncs = _by_line(ranks, _waits)
    copies = _by_line(ranks, _copies)
    fills = _by_line(ranks, _fills)
    return LineEvidence(
        syncs={line: SyncCount(one.calls, one.seconds) for line, one in syncs.items()},
        copies={
            line: Copies(one.calls, one.seconds, one.bytes, pageable=2 * one.pageable_s > one.seconds)
            for line, one in copies.items()
        },
        memsets={line: Memsets(one.calls, one.seconds) for line, one in fills.items()},
    )


_Costs = Iterator[tuple[CodeSite | None, _Sum]]


def _by_line(ranks: Iterable[RankTrace], costs: Callable[[RankTrace], _Costs]) -> Mapping[Line, _Sum]:
    """The costs of each line per step, as the mean over `ranks`."""
    sums: dict[Line, _Sum] = defaultdict(_Sum)
    ranks = list(ranks)
    for rank in ranks:
        weight = 1.0 / (rank.steps.count * len(ranks))
        for site, cost in costs(rank):
            if site is not None and site.exact:
                line = sums[Line(site.path, site.row)]
                line.calls += cost.calls * weight
                line.seconds += cost.seconds * weight
                line.bytes += cost.bytes * weight
                line.pageable_s += cost.pageable_s * weight
    return sums


def _waits(rank: RankTrace) -> _Costs:
    """The waits. One read of a value is a copy and a synchronization, so that calls are counted by their commonest."""
    counts: dict[CodeSite | None, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    seconds: dict[CodeSite | None, float] = defaultdict(float)
    for wait in rank.waits:
        counts[wait.site][wait.call] += wait.count
        seconds[wait.site] += wait.seconds
    for site, by_call in counts.items():
        yield site, _Sum(max(by_call.values()), seconds[site])


def _copies(rank: RankTrace) -> _Costs:
    for copies in rank.copies:
        if copies.direction in (Direction.TO_DEVICE, Direction.TO_HOST):
            pageable = copies.seconds if copies.host_memory is HostMemory.PAGEABLE else 0.0
            yield copies.site, _Sum(copies.count, copies.seconds, copies.bytes, pageable)


def _fills(rank: RankTrace) -> _Costs:
    for fills in rank.fills:
        yield fills.site, _Sum(fills.count, fills.seconds)
