"""The work of each device in a trace: how busy, with what, and how much of its communication nothing hides."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from trainlint.probe.traces.intervals import Span, overlap, total, union
from trainlint.probe.traces.reading import Event, Trace, whole
from trainlint.probe.traces.trace_analysis import CopyTotal, DeviceUse, Direction, HostMemory

_COMMUNICATES = re.compile(r"^(?:void )?(?:nccl|rccl|hccl|oneccl|msccl)", re.IGNORECASE)
_COLLECTIVE_ARGUMENT = "Collective name"
_COPY = re.compile(r"(HtoD|DtoH|DtoD|PtoP|HtoH)(?:.*?\((\w+) -> (\w+)\))?")
_DIRECTIONS = {direction.value: direction for direction in Direction}
_MTIA_DIRECTIONS = {"HOST_TO_DEVICE": Direction.TO_DEVICE, "DEVICE_TO_HOST": Direction.TO_HOST}
_HOST_MEMORIES = {"Pageable": HostMemory.PAGEABLE, "Pinned": HostMemory.PINNED}


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """What devices did for the traced steps, whenever they came to it: a host may be steps ahead of its devices."""

    kernels: list[Event]
    copies: list[Event]
    fills: list[Event]


def device_work(trace: Trace, window: Span) -> DeviceWork:
    """The work that the host asked for within `window`; work without a call in the trace counts by its own start."""
    asked = {call.correlation: call.start for call in trace.calls}
    asked.pop(None, None)
    low, high = window

    def belongs(event: Event) -> bool:
        return low <= asked.get(event.correlation, event.start) < high

    return DeviceWork(*(list(filter(belongs, events)) for events in (trace.kernels, trace.copies, trace.fills)))


def device_uses(trace: Trace, work: DeviceWork, window: Span) -> tuple[DeviceUse, ...]:
    """The use of each device, the one with the most work first: from the start of `window` until the device is through
    with the steps."""
    names = {device.index: device.name for device in trace.devices}
    kernels, copies, fills = (_by_device(events) for events in (work.kernels, work.copies, work.fills))
    uses = []
    for device in sorted({*kernels, *copies, *fills}):
        parts = kernels[device], copies[device], fills[device]
        span = window[0], max(window[1], *(event.end for events in parts for event in events))
        uses.append(_use_of(device, names.get(device, ""), span, *parts))
    return tuple(sorted(uses, key=lambda use: -use.busy_s))


def communicates(kernel: Event) -> bool:
    """Whether a kernel moves data between devices rather than computes."""
    return _COLLECTIVE_ARGUMENT in kernel.arguments or _COMMUNICATES.match(kernel.name) is not None


def kind_of_copy(copy: Event) -> tuple[Direction, HostMemory]:
    """Direction and host memory of a copy, by its name as CUPTI writes it, or by MTIA's argument."""
    if match := _COPY.search(copy.name):
        source, target = match[2], match[3]
        direction = _DIRECTIONS.get(match[1], Direction.OTHER)
        host = {Direction.TO_DEVICE: source, Direction.TO_HOST: target}.get(direction, "")
        return direction, _HOST_MEMORIES.get(host or "", HostMemory.UNKNOWN)
    return _MTIA_DIRECTIONS.get(str(copy.arguments.get("direction")), Direction.OTHER), HostMemory.UNKNOWN


def bytes_of(event: Event) -> int:
    """How much a copy or a fill moved; 0 where the trace does not say."""
    return max(0, whole(event.arguments, "bytes", "size") or 0)


def _by_device(events: Iterable[Event]) -> Mapping[int, list[Event]]:
    found: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        index = whole(event.arguments, "device")
        if index is None:
            index = event.process if isinstance(event.process, int) else 0
        found[index].append(event)
    return found


def _use_of(
    index: int, name: str, window: Span, kernels: Sequence[Event], copies: Sequence[Event], fills: Sequence[Event]
) -> DeviceUse:
    computing = [kernel for kernel in kernels if not communicates(kernel)]
    communicating = [kernel for kernel in kernels if communicates(kernel)]
    compute, communication, copying, filling = (
        union(((event.start, event.end) for event in events), window)
        for events in (computing, communicating, copies, fills)
    )
    return DeviceUse(
        index=index,
        name=name,
        span_s=window[1] - window[0],
        busy_s=total(union([*compute, *communication, *copying, *filling], window)),
        compute_s=total(compute),
        copy_s=total(copying),
        fill_s=total(filling),
        communication_s=total(communication),
        communication_exposed_s=total(communication) - overlap(communication, compute),
        kernels=len(computing),
        kernel_median_us=median(kernel.seconds for kernel in computing) * 1e6 if computing else None,
        copies=_copy_totals(copies),
        fills=len(fills),
        filled_bytes=sum(map(bytes_of, fills)),
    )


def _copy_totals(copies: Iterable[Event]) -> tuple[CopyTotal, ...]:
    kinds: dict[tuple[Direction, HostMemory], list[Event]] = defaultdict(list)
    for copy in copies:
        kinds[kind_of_copy(copy)].append(copy)
    totals = [
        CopyTotal(*kind, len(events), sum(event.seconds for event in events), sum(map(bytes_of, events)))
        for kind, events in kinds.items()
    ]
    return tuple(sorted(totals, key=lambda one: -one.seconds))
