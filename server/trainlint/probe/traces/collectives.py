"""Collective operations in a trace, and the backward passes that reduce gradients over ranks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from trainlint.probe.traces.intervals import Span, union
from trainlint.probe.traces.operators import backward_operators, forward_operators
from trainlint.probe.traces.reading import Event, Trace
from trainlint.probe.traces.trace_analysis import Collectives

_ANNOTATION = re.compile(r"^(?P<backend>nccl|gloo|mpi|ucc|hccl|xccl|rccl):(?P<name>\w+)$")
_OPERATOR = re.compile(r"^c10d::_?(?P<name>\w+?)_*$")
_NAMES = {
    "_all_gather_base": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce_coalesced",
    "allgather": "all_gather",
    "allgather_base": "all_gather_into_tensor",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "reduce_scatter_base": "reduce_scatter_tensor",
}
"""The words of `torch.distributed` for the operators below it."""
_REDUCTION = re.compile(r"all_?reduce|reduce_?scatter", re.IGNORECASE)
_MICRO_BATCH = "DistributedDataParallel.forward"


def collectives_of(trace: Trace, window: Span) -> tuple[Collectives, ...]:
    """The collectives that the host issued within `window`, the most frequent first."""
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event, name, backend in _named(trace):
        if window[0] <= event.start < window[1]:
            groups[name, backend].append(event.seconds)
    found = [Collectives(*key, len(seconds), sum(seconds)) for key, seconds in groups.items()]
    return tuple(sorted(found, key=lambda one: (-one.count, one.name)))


def _named(trace: Trace) -> Iterator[tuple[Event, str, str]]:
    """Each collective with its name and backend: by the backend's annotations, or by the operators above them."""
    found = False
    for event in trace.annotations:
        if match := _ANNOTATION.match(event.name):
            found = True
            yield event, _NAMES.get(match["name"], match["name"]), match["backend"]
    if not found:
        for event in trace.operators:
            if match := _OPERATOR.match(event.name):
                yield event, _NAMES.get(match["name"], match["name"]), trace.backend


def reduction_rounds(trace: Trace, window: Span) -> int | None:
    """The backward passes within `window` in which gradients were reduced over ranks.

    None for a run on one rank, and where the trace shows no backward pass.
    """
    passes = _backward_passes(trace, window)
    issued = [event.start for event, name, _ in _named(trace) if _REDUCTION.search(name)]
    if not passes or not (issued or (trace.world_size or 1) > 1):
        return None
    return sum(1 for low, high in passes if any(low <= start < high for start in issued))


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
