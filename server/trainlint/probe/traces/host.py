"""What the host asks of the devices in a trace: waits, copies and fills, by the place that asked."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainlint.probe.traces.call_rows import with_rows
from trainlint.probe.traces.device import kind_of_copy
from trainlint.probe.traces.intervals import Span
from trainlint.probe.traces.reading import Event, Trace
from trainlint.probe.traces.sites import JobCode, Origin, origins
from trainlint.probe.traces.trace_analysis import (
    CodeSite,
    Direction,
    HostMemory,
    HostWait,
    SiteCopies,
    SiteFills,
    TracedSteps,
)

_WAIT = re.compile(r"synchroni[sz]e", re.IGNORECASE)
_GRAPH_LAUNCH = re.compile(r"GraphLaunch$")
"""One such call starts all the work of a CUDA graph, so that its time is that of no single copy."""
_BLOCKING_COPIES = {"cudaMemcpy", "hipMemcpy", "hipMemcpyWithStream"}
_WAIT_ON_DEVICE = "Stream Wait Event"
"""One stream waits for another; the host goes on."""
_BLOCKS_HOST = (Direction.TO_HOST, HostMemory.PAGEABLE)
"""The call for such a copy returns when it has ended, whatever its name (CUDA: API synchronization behavior)."""


@dataclass(frozen=True, slots=True)
class _Request:
    """A call of the host, and the work that it made the device do."""

    call: Event
    work: Event | None = None

    @property
    def is_issued(self) -> bool:
        """Whether the trace holds a call that did nothing but ask for this work."""
        return self.work is not None and self.work is not self.call and not _GRAPH_LAUNCH.search(self.call.name)


@dataclass(frozen=True, slots=True)
class HostRequests:
    """What the host asked for in the traced steps, by the place that asked; the longest first."""

    waits: tuple[HostWait, ...]
    copies: tuple[SiteCopies, ...]
    fills: tuple[SiteFills, ...]
    wait_spans: tuple[Span, ...]
    """When the host waited."""
    copy_spans: tuple[Span, ...]
    """When it was in calls that copy to a device."""


def host_requests(trace: Trace, window: Span, steps: TracedSteps, code: JobCode) -> HostRequests:
    """The requests that the host made within `window`, by places in the job's code."""
    calls = {call.correlation: call for call in trace.calls}
    copies = [request for request in _requests(calls, trace.copies) if _starts_in(request.call, window)]
    fills = [request for request in _requests(calls, trace.fills) if _starts_in(request.call, window)]
    waits = [request for request in _waits(trace, copies) if _starts_in(request.call, window)]
    to_device = [one for one in copies if one.work and kind_of_copy(one.work)[0] is Direction.TO_DEVICE]
    asked = [request.call for request in (*waits, *copies, *fills)]
    found = iter(with_rows(origins(trace, asked, code), steps.starts_s))
    return HostRequests(
        waits=_host_waits([(request, next(found)) for request in waits]),
        copies=_site_copies([(request, next(found)) for request in copies]),
        fills=_site_fills([(request, next(found)) for request in fills]),
        wait_spans=tuple((wait.call.start, wait.call.end) for wait in waits),
        copy_spans=tuple((copy.call.start, copy.call.end) for copy in to_device if copy.is_issued),
    )


def _starts_in(event: Event, window: Span) -> bool:
    return window[0] <= event.start < window[1]


def _requests(calls: Mapping[int | str | None, Event], works: Sequence[Event]) -> Iterator[_Request]:
    """Each work of a device with the call that issued it; with itself where the trace does not hold the call."""
    for work in works:
        call = None if work.correlation is None else calls.get(work.correlation)
        yield _Request(call or work, work)


def _waits(trace: Trace, copies: Sequence[_Request]) -> Iterator[_Request]:
    if not trace.calls:
        yield from (_Request(wait) for wait in trace.waits if wait.name != _WAIT_ON_DEVICE)
        return
    blocking = {id(copy.call) for copy in copies if copy.work and kind_of_copy(copy.work) == _BLOCKS_HOST}
    threads: dict[tuple[int | str, int | str], list[Event]] = defaultdict(list)
    for call in trace.calls:
        if _WAIT.search(call.name) or call.name in _BLOCKING_COPIES or id(call) in blocking:
            threads[call.process, call.thread].append(call)
    for calls in threads.values():
        over = -math.inf
        for call in sorted(calls, key=lambda one: one.start):
            if call.start >= over:  # a thread is in one wait at a time: what starts within another is a part of it
                over = call.end
                yield _Request(call)


def _host_waits(waits: Sequence[tuple[_Request, Origin]]) -> tuple[HostWait, ...]:
    groups: dict[tuple[CodeSite | None, str, str], list[float]] = defaultdict(list)
    for request, origin in waits:
        groups[origin.site, origin.operation, request.call.name].append(request.call.seconds)
    found = [HostWait(*key, len(seconds), sum(seconds)) for key, seconds in groups.items()]
    return tuple(sorted(found, key=lambda wait: -wait.seconds))


def _site_copies(copies: Sequence[tuple[_Request, Origin]]) -> tuple[SiteCopies, ...]:
    groups: dict[tuple[CodeSite | None, str, Direction, HostMemory], list[_Request]] = defaultdict(list)
    for request, origin in copies:
        groups[origin.site, origin.operation, *kind_of_copy(request.work or request.call)].append(request)
    found = [
        SiteCopies(*key, len(requests), _device_seconds(requests), _host_seconds(requests))
        for key, requests in groups.items()
    ]
    return tuple(sorted(found, key=lambda copies: -copies.seconds))


def _device_seconds(requests: Sequence[_Request]) -> float:
    return sum(request.work.seconds for request in requests if request.work)


def _host_seconds(requests: Sequence[_Request]) -> float:
    """In the calls that asked for nothing else, as far as the trace holds them."""
    return sum(request.call.seconds for request in requests if request.is_issued)


def _site_fills(fills: Sequence[tuple[_Request, Origin]]) -> tuple[SiteFills, ...]:
    groups: dict[tuple[CodeSite | None, str], list[_Request]] = defaultdict(list)
    for request, origin in fills:
        groups[origin.site, origin.operation].append(request)
    found = [SiteFills(*key, len(requests), _device_seconds(requests)) for key, requests in groups.items()]
    return tuple(sorted(found, key=lambda one: -one.seconds))
