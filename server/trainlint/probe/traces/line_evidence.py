"""What traces say about lines of source, in the form in which rules ask for it.

Ranks run the same code, and the slowest one holds the others up: each line gets the figures of the rank on which it
costs the most. Only lines that are certain are named; what stays with a function, as `RankTrace.waits` has it, is no
evidence about one of its lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from trainlint.probe.evidence import Copies, Line, Memsets, SyncCount
from trainlint.probe.traces.device import TRANSFERS
from trainlint.probe.traces.trace_analysis import CodeSite, Direction, HostMemory, RankTrace
from trainlint.probe.verdict import Source


@dataclass(frozen=True, slots=True)
class LineEvidence:
    """Waits, copies and fills per step, by the line that asked for them."""

    syncs: Mapping[Line, SyncCount] = field(default_factory=dict)
    copies: Mapping[Line, Copies] = field(default_factory=dict)
    memsets: Mapping[Line, Memsets] = field(default_factory=dict)


@dataclass
class _Cost:
    """Totals of a line on one rank."""

    calls: float = 0.0
    seconds: float = 0.0
    pageable_s: float = 0.0

    def add(self, other: _Cost, weight: float) -> None:
        self.calls += other.calls * weight
        self.seconds += other.seconds * weight
        self.pageable_s += other.pageable_s * weight


_Costs = Iterator[tuple[CodeSite | None, _Cost]]


def line_evidence(ranks: Iterable[RankTrace]) -> LineEvidence:
    """The evidence about lines; empty where no trace with stacks tells what a step is."""
    ranks = [rank for rank in ranks if rank.steps.count and rank.has_stacks]
    return LineEvidence(
        syncs={line: SyncCount(one.calls, one.seconds, Source.KINETO) for line, one in _by_line(ranks, _waits).items()},
        copies={
            line: Copies(one.calls, one.seconds, pageable=2 * one.pageable_s > one.seconds)
            for line, one in _by_line(ranks, _copies).items()
        },
        memsets={line: Memsets(one.calls, one.seconds) for line, one in _by_line(ranks, _fills).items()},
    )


def _by_line(ranks: Iterable[RankTrace], costs: Callable[[RankTrace], _Costs]) -> Mapping[Line, _Cost]:
    """What each line costs per step, on the rank on which that is the most."""
    dearest: dict[Line, _Cost] = {}
    for rank in ranks:
        own: dict[Line, _Cost] = defaultdict(_Cost)
        for site, cost in costs(rank):
            if site is not None and site.exact:
                own[Line(site.path, site.row)].add(cost, 1.0 / rank.steps.count)
        dearest |= {line: cost for line, cost in own.items() if line not in dearest or _dearer(cost, dearest[line])}
    return dearest


def _dearer(one: _Cost, other: _Cost) -> bool:
    return one.seconds > other.seconds


def _waits(rank: RankTrace) -> _Costs:
    """The waits. One read of a value is a copy and a synchronization, so that calls are counted by their commonest."""
    counts: dict[CodeSite | None, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    seconds: dict[CodeSite | None, float] = defaultdict(float)
    for wait in rank.waits:
        counts[wait.site][wait.call] += wait.count
        seconds[wait.site] += wait.seconds
    for site, by_call in counts.items():
        yield site, _Cost(max(by_call.values()), seconds[site])


def _copies(rank: RankTrace) -> _Costs:
    """Copies between host and device. Out of pageable memory the host copies too, and that can take longer; into it the
    call waits for all that was queued before, which counts as a wait."""
    for copies in rank.copies:
        if copies.direction in TRANSFERS:
            to_device = copies.direction is Direction.TO_DEVICE
            seconds = max(copies.seconds, copies.host_s) if to_device else copies.seconds
            pageable = seconds if copies.host_memory is HostMemory.PAGEABLE else 0.0
            yield copies.site, _Cost(copies.count, seconds, pageable)


def _fills(rank: RankTrace) -> _Costs:
    for fills in rank.fills:
        yield fills.site, _Cost(fills.count, fills.seconds)
