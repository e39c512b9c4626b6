"""Reading a Kineto trace: the JSON that `torch.profiler` exports, plain or gzipped, from any release since 1.8.

Only complete events (`ph` "X") are kept, sorted by what they are about. Times become seconds since a whole hour, which
keeps their digits. Accelerators that are not CUDA's have categories of their own with the same meaning (`xpu_runtime`,
`mtia_ccp_events`, `privateuse1_driver`); they are counted with CUDA's.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from trainlint.probe.traces.trace_analysis import TracedDevice

_GZIP_MAGIC = b"\x1f\x8b"
_RANK_IN_NAME = re.compile(r"rank[-_]?(\d+)", re.IGNORECASE)
_HOUR_US = 3600e6


class UnusableTraceError(Exception):
    """A file is no trace that can be read; the message is one line that names the file and says why."""


class Event(NamedTuple):
    """Something that took time, on a thread of the host or a stream of a device."""

    name: str
    start: float
    end: float
    process: int | str
    """Process of the host, or index of the device."""
    thread: int | str
    """Thread of the host, or stream."""
    arguments: Mapping[str, object]

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def correlation(self) -> int | str | None:
        """What a call and the work that it asked for have in common."""
        found = self.arguments.get("correlation")
        return found if isinstance(found, int | str) else None


@dataclass
class Trace:
    """The events of one file, in no order."""

    path: Path
    rank: int | None = None
    world_size: int | None = None
    devices: tuple[TracedDevice, ...] = ()
    operators: list[Event] = field(default_factory=list)
    annotations: list[Event] = field(default_factory=list)
    python: list[Event] = field(default_factory=list)
    """Calls of Python functions, where stacks were recorded."""
    calls: list[Event] = field(default_factory=list)
    """Calls into the driver and its runtime."""
    kernels: list[Event] = field(default_factory=list)
    copies: list[Event] = field(default_factory=list)
    fills: list[Event] = field(default_factory=list)
    waits: list[Event] = field(default_factory=list)
    """Synchronizations as the driver reports them, without the host's thread (`cuda_sync`)."""
    skipped: int = 0
    """Events with a time or a duration that is none."""

    @property
    def timed(self) -> Sequence[list[Event]]:
        """The lists of what took time on the host or a device."""
        return self.operators, self.annotations, self.python, self.calls, self.kernels, self.copies, self.fills


_LISTS = {
    "cpu_op": "operators",
    "operator": "operators",
    "user_annotation": "annotations",
    "python_function": "python",
    "runtime": "calls",
    "driver": "calls",
    "kernel": "kernels",
    "ccp_events": "kernels",
    "memcpy": "copies",
    "memset": "fills",
    "sync": "waits",
}
"""The list for a category without its accelerator; early releases wrote some of them with a capital and alone."""
_ACCELERATORS = ("cuda_", "gpu_", "xpu_", "mtia_", "privateuse1_", "hpu_")
_DEVICE_ANNOTATION = "gpu_user_annotation"
_MTIA_COPY, _MTIA_WAIT = "dma_request", "event_wait"


def read(path: Path) -> Trace:
    """Read one trace.

    Raises:
        UnusableTraceError: the file cannot be read, is cut off, or is no Kineto trace.
    """
    document = _document(path, _text(path))
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        raise UnusableTraceError(f"{path} is no trace of torch.profiler: it has no list of traceEvents")
    trace = Trace(path)
    if isinstance(document, dict):
        _read_header(trace, document)
    if trace.rank is None and (match := _RANK_IN_NAME.search(path.name)):
        trace.rank = int(match[1])
    _sort_events(trace, events)
    if not any(trace.timed):
        raise UnusableTraceError(f"{path} is no trace of torch.profiler: it holds no event that took time")
    return trace


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
        if content.startswith(_GZIP_MAGIC):
            content = gzip.decompress(content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UnusableTraceError(f"{path} is damaged or cut off: {str(error).rstrip('.').lower()}") from error
    except OSError as error:
        raise UnusableTraceError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from error
    return content.decode("utf-8", errors="replace").removeprefix("\ufeff")


def _document(path: Path, text: str) -> object:
    if not text.strip():
        raise UnusableTraceError(f"{path} is empty")
    try:
        return json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        ended = error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated string")
        cut = "is cut off" if ended else "is not JSON"
        raise UnusableTraceError(f"{path} {cut}: {error.msg} in line {error.lineno}, column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise UnusableTraceError(f"{path} is no trace of torch.profiler: {str(error).partition(':')[0]}") from error


def _read_header(trace: Trace, document: Mapping[str, object]) -> None:
    distributed = document.get("distributedInfo")
    if isinstance(distributed, dict):
        trace.rank = whole_number(distributed.get("rank"))
        trace.world_size = whole_number(distributed.get("world_size"))
    devices = document.get("deviceProperties")
    if isinstance(devices, list):
        trace.devices = tuple(
            TracedDevice(index, str(one.get("name") or ""), whole_number(one.get("totalGlobalMem")))
            for one in devices
            if isinstance(one, dict) and (index := whole_number(one.get("id"))) is not None
        )


def _sort_events(trace: Trace, events: list[object]) -> None:
    """Put the events into the lists of `trace`, emptying `events`."""
    lists: dict[str, list[Event] | None] = {}
    first = next((start for one in events if (start := _start(one)) is not None), 0.0)
    origin = first // _HOUR_US * _HOUR_US
    events.reverse()
    while events:
        raw = events.pop()
        if not isinstance(raw, dict) or raw.get("ph") != "X":
            continue
        category = raw.get("cat")
        if not isinstance(category, str):
            continue
        if category not in lists:
            lists[category] = _list_of(trace, category)
        chosen = lists[category]
        if chosen is None:
            continue
        event = _event(raw, origin)
        if event is None:
            trace.skipped += 1
        elif event.name == _MTIA_COPY:
            trace.copies.append(event)
        elif event.name != _MTIA_WAIT:
            chosen.append(event)


def _list_of(trace: Trace, category: str) -> list[Event] | None:
    name = category.lower()
    if name == _DEVICE_ANNOTATION:
        return None
    for accelerator in _ACCELERATORS:
        name = name.removeprefix(accelerator)
    attribute = _LISTS.get(name) or _LISTS.get(category.lower())
    return getattr(trace, attribute) if attribute else None


def _start(raw: object) -> float | None:
    if not isinstance(raw, dict) or raw.get("ph") != "X":
        return None
    return number(raw.get("ts"))


def _event(raw: Mapping[str, object], origin: float) -> Event | None:
    start, duration = number(raw.get("ts")), number(raw.get("dur"))
    name, process, thread, arguments = raw.get("name"), raw.get("pid"), raw.get("tid"), raw.get("args")
    if start is None or duration is None or duration < 0 or not isinstance(name, str):
        return None
    return Event(
        name,
        (start - origin) * 1e-6,
        (start - origin + duration) * 1e-6,
        process if isinstance(process, int | str) else "",
        thread if isinstance(thread, int | str) else "",
        arguments if isinstance(arguments, dict) else {},
    )


def number(value: object) -> float | None:
    """A finite number, also one that was written as text; None for anything else."""
    if type(value) is float:  # nearly all of them
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def whole_number(value: object) -> int | None:
    found = number(value)
    return None if found is None else int(found)


def whole(arguments: Mapping[str, object], *names: str) -> int | None:
    """The first of the named arguments that is a number."""
    return next((found for name in names if (found := whole_number(arguments.get(name))) is not None), None)
