"""Where the steps of a trace begin and end, and how often optimizers stepped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from trainlint.probe.traces.intervals import Span
from trainlint.probe.traces.reading import Event, Trace
from trainlint.probe.traces.trace_analysis import StepSource, TracedSteps

PROFILER_STEP = "ProfilerStep#"
OPTIMIZER_STEP = "Optimizer.step#"
_FEWEST_UPDATES = 3
"""Ends of optimizer steps that make two whole steps; from fewer, no rhythm shows."""


def steps_of(trace: Trace) -> TracedSteps:
    """The steps by the profiler's marks, else by the optimizer that steps least often."""
    marks = outermost([event for event in trace.annotations if event.name.startswith(PROFILER_STEP)])
    if marks:
        return _steps(StepSource.PROFILER, [(mark.start, mark.end) for mark in marks])
    ends = [update.end for update in updates_of(trace)]
    if len(ends) >= _FEWEST_UPDATES:
        return _steps(StepSource.OPTIMIZER, list(pairwise(ends)))
    return TracedSteps(StepSource.UNKNOWN, (), ())


def _steps(source: StepSource, spans: Sequence[Span]) -> TracedSteps:
    return TracedSteps(source, tuple(start for start, _ in spans), tuple(end - start for start, end in spans))


def window_of(trace: Trace, steps: TracedSteps) -> Span:
    """The traced steps from the first one's start to the last one's end; all of the trace where steps are unknown."""
    if steps.count:
        return steps.starts_s[0], steps.starts_s[-1] + steps.durations_s[-1]
    starts = min(event.start for events in trace.timed for event in events)
    return starts, max(event.end for events in trace.timed for event in events)


def updates_of(trace: Trace) -> list[Event]:
    """The steps of the optimizer that steps least often; the last in a cycle where several do."""
    by_name: dict[str, list[Event]] = defaultdict(list)
    for event in outermost([event for event in trace.annotations if event.name.startswith(OPTIMIZER_STEP)]):
        by_name[event.name].append(event)
    return min(by_name.values(), key=lambda events: (len(events), -events[-1].end), default=[])


def outermost(events: list[Event]) -> list[Event]:
    """The events by their starts, without those within another one."""
    kept: list[Event] = []
    for event in sorted(events, key=lambda one: (one.start, -one.end)):
        if not kept or event.end > kept[-1].end:
            kept.append(event)
    return kept
