"""Processors and host memory, from psutil's samples."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

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
