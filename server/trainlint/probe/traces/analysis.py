"""From trace files to what they show."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from trainlint.probe.traces.device import device_uses, device_work
from trainlint.probe.traces.host import host_requests
from trainlint.probe.traces.operators import host_parts, recompilations_of
from trainlint.probe.traces.reading import Trace, UnusableTraceError, read
from trainlint.probe.traces.reductions import reduction_rounds
from trainlint.probe.traces.sites import JobCode
from trainlint.probe.traces.steps import steps_of, updates_of, window_of
from trainlint.probe.traces.trace_analysis import RankTrace, TraceAnalysis


def analyse(paths: Sequence[Path], roots: Sequence[Path] = (), foreign: Sequence[Path] = ()) -> TraceAnalysis:
    """Analyse the traces of one run, one file after the other, so that only one is in memory.

    Args:
        paths: one file for each rank.
        roots: folders in which relative names of the job's files are looked up, such as its working directory.
        foreign: folders with code that ran in the job and is not its own, such as the probe's agent.

    Raises:
        UnusableTraceError: none of the files is a trace that can be read; the message says why of the first.
    """
    code = JobCode(roots, foreign)
    ranks: list[RankTrace] = []
    unreadable: dict[Path, str] = {}
    first: UnusableTraceError | None = None
    for path in paths:
        try:
            with _without_collection():
                ranks.append(_rank_trace(read(path), code))
        except UnusableTraceError as error:
            unreadable[path] = str(error)
            first = first or error
    if not ranks:
        raise first or UnusableTraceError("no trace was given")
    ranks.sort(key=lambda rank: (rank.rank is None, rank.rank or 0, rank.path))
    return TraceAnalysis(tuple(ranks), unreadable)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Without garbage collection, which finds nothing among hundreds of thousands of events and takes a quarter of the
    time (`tests.bench.probe_traces`)."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _rank_trace(trace: Trace, code: JobCode) -> RankTrace:
    steps = steps_of(trace)
    window = window_of(trace, steps)
    requests = host_requests(trace, window, steps, code)
    return RankTrace(
        path=trace.path,
        rank=trace.rank,
        world_size=trace.world_size,
        devices=trace.devices,
        span_s=window[1] - window[0],
        steps=steps,
        has_stacks=bool(trace.python),
        uses=device_uses(trace, device_work(trace, window), window),
        waits=requests.waits,
        copies=requests.copies,
        fills=requests.fills,
        reduction_rounds=reduction_rounds(trace, window),
        updates=sum(1 for update in updates_of(trace) if window[0] <= update.start < window[1]),
        parts=host_parts(trace, window, requests),
        recompilations=recompilations_of(trace, window),
        skipped=trace.skipped,
    )
