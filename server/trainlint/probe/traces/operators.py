"""What the host's own operators and annotations show: the parts of a step, compilations."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from operator import attrgetter

from trainlint.probe.traces.host import HostRequests
from trainlint.probe.traces.intervals import Span, total, union, without
from trainlint.probe.traces.reading import Event, Trace, number
from trainlint.probe.traces.steps import OPTIMIZER_STEP
from trainlint.probe.traces.trace_analysis import HostParts

CLOSE_S = 0.2e-3
"""Operators of one forward pass are not further apart where nothing but the model runs between them."""
BACKWARD = "autograd::engine::evaluate_function"
"""How autograd's engine names the operators around each function of a backward pass."""
_SEQUENCE, _FORWARD_THREAD = "Sequence number", "Fwd thread id"
_FORWARD = re.compile(r"^(?:#+ )?(?:DistributedDataParallel\.|\w+\.)?forward(?: #+)?$", re.IGNORECASE)
_MODULE = "nn.Module: "
_DATA = "enumerate(DataLoader)#"
_COMPILED = re.compile(r"TorchDynamo|Torch-Compiled|\(dynamo_timed\)")
_COMPILES = "entire_frame_compile (dynamo_timed)"


def host_parts(trace: Trace, window: Span, requests: HostRequests) -> HostParts:
    """The host's time in each part of the steps. Forward is what its annotations say, or else modules, or else the
    operators that autograd records; beside it stand the least and the most that can be the models' (`HostParts`)."""
    forward = (
        [event for event in trace.annotations if _FORWARD.match(event.name)]
        or [event for event in trace.python if event.name.startswith(_MODULE)]
        or list(forward_operators(trace))
    )
    optimizer = [event for event in trace.annotations if event.name.startswith(OPTIMIZER_STEP)]
    data = [event for event in trace.annotations if event.name.startswith(_DATA)]
    parts = {
        "data_wait_s": _spans(data),
        "sync_wait_s": requests.wait_spans,
        "copy_s": requests.copy_spans,
        "backward_s": _spans(backward_operators(trace)),
        "optimizer_s": _spans(optimizer),
        "forward_s": _spans(forward),
    }
    has_device = bool(trace.kernels or trace.copies)
    seconds: dict[str, float | None] = {}
    taken: list[Span] = []
    for name, spans in parts.items():
        own = union(spans, window)
        known = bool(own) or (has_device and name in ("sync_wait_s", "copy_s"))
        seconds[name] = total(without(own, taken)) if known else None
        if name == "forward_s":
            graph = union(_with_gaps(graph_operators(trace)), window)
            seconds["graph_s"] = total(without(graph, taken)) if graph else None
            operators = union([*own, *_with_gaps(trace.operators)], window)
            seconds["operators_s"] = total(without(operators, taken)) if operators else None
        taken = union([*taken, *own], window)
    return HostParts(**seconds)


def _spans(events: Iterable[Event]) -> list[Span]:
    return [(event.start, event.end) for event in events]


def _with_gaps(found: Iterable[Event]) -> Iterator[Span]:
    """The spans of operators, with what stands between two that follow each other closely: calls of modules, and
    functions that call operators."""
    threads: dict[tuple[int | str, int | str], list[Event]] = defaultdict(list)
    for event in found:
        threads[event.process, event.thread].append(event)
    for events in threads.values():
        events.sort(key=attrgetter("start"))
        yield from _spans(events)
        yield from ((one.end, two.start) for one, two in pairwise(events) if 0 < two.start - one.end <= CLOSE_S)


def forward_operators(trace: Trace) -> Iterator[Event]:
    """The operators that autograd recorded on their way forward."""
    for event in trace.operators:
        if _SEQUENCE in event.arguments and not number(event.arguments.get(_FORWARD_THREAD)):
            yield event


def graph_operators(trace: Trace) -> list[Event]:
    """The operators through which a backward pass went later. An operator bears the number that the graph's next node
    will get: of those with the same number the last one made the node, and the others need not be the model's."""
    passed = {(one.process, _sequence(one)) for one in backward_operators(trace)}
    last: dict[tuple[int | str, int | str, int], Event] = {}
    for event in forward_operators(trace):
        sequence = _sequence(event)
        if sequence is None or (event.process, sequence) not in passed:
            continue
        key = event.process, event.thread, sequence
        if key not in last or last[key].start < event.start:
            last[key] = event
    return list(last.values())


def _sequence(event: Event) -> int | None:
    found = event.arguments.get(_SEQUENCE)
    return found if isinstance(found, int) else None


def backward_operators(trace: Trace) -> list[Event]:
    """The operators around each function of the backward passes."""
    return [event for event in trace.operators if event.name.startswith(BACKWARD)]


def recompilations_of(trace: Trace, window: Span) -> int | None:
    """Frames that Dynamo compiled within `window`; None where the trace shows no compiled code."""
    low, high = window
    marks = [one for one in (*trace.operators, *trace.annotations) if _COMPILED.search(one.name)]
    if not marks:
        return None
    return sum(1 for mark in marks if mark.name == _COMPILES and low <= mark.start < high)
