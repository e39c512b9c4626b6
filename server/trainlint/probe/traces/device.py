"""The work of each device in a trace: how busy, with what, and how much of its communication nothing hides."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from trainlint.probe.traces.intervals import Span, overlap, total, union
from trainlint.probe.traces.reading import Event, Trace, whole
from trainlint.probe.traces.trace_analysis import DeviceUse, Direction, HostMemory

_COMMUNICATES = re.compile(r"^(?:void )?(?:nccl|rccl|hccl|oneccl|msccl)", re.IGNORECASE)
_COLLECTIVE_ARGUMENT = "Collective name"
_COPY = re.compile(r"(HtoD|DtoH|DtoD|PtoP|HtoH)(?:.*?\((\w+) -> (\w+)\))?")
_DIRECTIONS = {direction.value: direction for direction in Direction}
_MTIA_DIRECTIONS = {"HOST_TO_DEVICE": Direction.TO_DEVICE, "DEVICE_TO_HOST": Direction.TO_HOST}
TRANSFERS = frozenset({Direction.TO_DEVICE, Direction.TO_HOST})
"""Copies between host and device; those within a device, and from one to another, are not."""
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
    transferring = [copy for copy in copies if kind_of_copy(copy)[0] in TRANSFERS]
    busy, compute, communication, transfer = (
        union(((event.start, event.end) for event in events), window)
        for events in ([*kernels, *copies, *fills], computing, communicating, transferring)
    )
    return DeviceUse(
        index=index,
        name=name,
        span_s=window[1] - window[0],
        busy_s=total(busy),
        transfer_s=total(transfer),
        communication_s=total(communication),
        communication_exposed_s=total(communication) - overlap(communication, compute),
        kernels=len(computing),
        kernel_median_us=median(kernel.seconds for kernel in computing) * 1e6 if computing else None,
    )
