"""The backward passes of a trace in which gradients were reduced over ranks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from trainlint.probe.traces.intervals import Span, union
from trainlint.probe.traces.operators import backward_operators, forward_operators
from trainlint.probe.traces.reading import Event, Trace

_ANNOTATION = re.compile(r"^(?:nccl|gloo|mpi|ucc|hccl|xccl|rccl):(?P<name>\w+)$")
_OPERATOR = re.compile(r"^c10d::(?P<name>\w+)$")
_REDUCTION = re.compile(r"all_?reduce|reduce_?scatter", re.IGNORECASE)
_MICRO_BATCH = "DistributedDataParallel.forward"


def reduction_rounds(trace: Trace, window: Span) -> int | None:
    """The backward passes within `window` in which gradients were reduced over ranks.

    None for a run on one rank, and where the trace shows no backward pass.
    """
    passes = _backward_passes(trace, window)
    issued = [start for start, name in _collectives(trace) if _REDUCTION.search(name)]
    if not passes or not (issued or (trace.world_size or 1) > 1):
        return None
    return sum(1 for low, high in passes if any(low <= start < high for start in issued))


def _collectives(trace: Trace) -> list[tuple[float, str]]:
    """When each collective was issued, and its name: by the backend's annotations, or by the operators above them."""
    return list(_named(trace.annotations, _ANNOTATION)) or list(_named(trace.operators, _OPERATOR))


def _named(events: Iterable[Event], pattern: re.Pattern[str]) -> Iterator[tuple[float, str]]:
    for event in events:
        if match := pattern.match(event.name):
            yield event.start, match["name"]


def _backward_passes(trace: Trace, window: Span) -> list[Span]:
    """From the first function of each backward pass to the beginning of the next forward pass."""
    backward = union(((event.start, event.end) for event in backward_operators(trace)), window)
    if not backward:
        return []
    marks = [event.start for event in trace.annotations if event.name == _MICRO_BATCH]
    forward = sorted(marks or [event.start for event in forward_operators(trace)])
    starts: list[float] = []
    upcoming = 0
    last_end = float("-inf")
    for low, high in backward:
        while upcoming < len(forward) and forward[upcoming] < last_end:
            upcoming += 1
        if not starts or (upcoming < len(forward) and forward[upcoming] < low):
            starts.append(low)
        last_end = high
    return list(zip(starts, [*starts[1:], window[1]], strict=True))
