"""Processors and host memory, from psutil's samples."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter

from trainlint.probe.analysis.observed import Observed
from trainlint.probe.analysis.steps import Spans
from trainlint.probe.measured import Cpu
from trainlint.probe.recording import SystemSample

NOTHING = Cpu(util_mean=None, busiest_core_mean=None, rss_peak_bytes=None, io_wait_share=None)


def cpu_use(system: Sequence[SystemSample], spans: Spans) -> tuple[Cpu, str | None]:
    """The use of the machine's cores in some stretches of time, and why it is not known.

    Each sample speaks for the time since the one before.
    """
    if not system:
        return NOTHING, "the machine was not sampled"
    inside = [one for one in system if one.clock in spans]
    if not inside:
        return NOTHING, "no sample of the machine fell into the time that was measured"
    busy = [statistics.fmean(one.cores_busy) for one in inside if one.cores_busy]
    busiest = [max(one.cores_busy) for one in inside if one.cores_busy]
    waits = [one.io_wait for one in inside if one.io_wait is not None]
    resident = [sum(process.rss_bytes for process in one.processes) for one in inside if one.processes]
    return (
        Cpu(
            util_mean=statistics.fmean(busy) if busy else None,
            busiest_core_mean=statistics.fmean(busiest) if busiest else None,
            rss_peak_bytes=max(resident, default=None),
            io_wait_share=statistics.fmean(waits) if waits else None,
        ),
        None,
    )


def other_work(observed: Observed) -> float | None:
    """How many cores work outside the job kept busy in the clean steps, that of the probe left out; None where the
    samples do not tell. What a process did that ended and was not waited for counts as other work."""
    spans, system = list(observed.clean), sorted(observed.recording.system, key=attrgetter("clock"))
    if not spans or not all(sample.cores_busy for sample in system):
        return None
    # A sample speaks for the time since the one before.
    first = max((index for index, one in enumerate(system) if one.clock <= spans[0][0]), default=0)
    last = next((index for index, one in enumerate(system) if one.clock >= spans[-1][1]), len(system) - 1)
    if last <= first:
        return None
    busy = own = 0.0
    for before, after in pairwise(system[first : last + 1]):
        busy += sum(after.cores_busy) * (after.clock - before.clock)
        own += max(0.0, _cpu_s(after) - _cpu_s(before))
    manifest = observed.recording.manifest
    lived = manifest.end.clock - manifest.clock if manifest.end is not None else 0.0
    probe = manifest.probe_cpu_s / lived if manifest.probe_cpu_s is not None and lived > 0 else 0.0
    return max(0.0, (busy - own) / (system[last].clock - system[first].clock) - probe)


def _cpu_s(sample: SystemSample) -> float:
    """CPU time of the job so far: a process that ends leaves its own to the one that waits for it."""
    return sum(process.cpu_s + process.ended_children_cpu_s for process in sample.processes)
