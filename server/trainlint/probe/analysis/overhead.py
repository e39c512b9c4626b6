"""What the probe itself cost the job and the machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from trainlint.agent import records
from trainlint.probe.analysis.observed import Observed, number, whole
from trainlint.probe.measured import Overhead

_Number = TypeVar("_Number", int, float)

RECORD_S = 1.5e-6
"""At most what the agent takes for a record: 0.33 us to write it, and the hook around it. `make bench-probe` holds the
figures of this file against a job."""
BATCH_S, UPDATE_S = 90e-6, 20e-6
"""Likewise for a batch, which is looked into, and for an optimizer's step, which finds the updates that belong
together."""
LOOKUP_S = 12e-6
"""Likewise for a record that names a line: 3.5 us for the hook, and up to 8.6 us to look through twenty frames."""
CORE_WAIT_S = 15e-6
"""Likewise for a record of how long a thread waited for a core, which opens and reads a file of the kernel's."""
DEAREST_S = {records.BATCH: BATCH_S, records.UPDATE: UPDATE_S, records.CORE_WAIT: CORE_WAIT_S}
NAMING_A_LINE = frozenset({records.SYNC, records.CALL, records.WAIT, records.LINE})


def overhead_of(observed: Observed) -> Overhead:
    """The agent's share of the clean steps from its number of records and the most that each costs; the probe's own
    processes by their CPU time."""
    manifest = observed.recording.manifest
    seconds = manifest.end.clock - manifest.clock if manifest.end is not None else 0.0
    cpu = manifest.probe_cpu_s
    windows = [note for steps in observed.ranks for note in steps.process.noted("window")]
    return Overhead(
        agent_share=_agent_share(observed),
        probe_core_share=cpu / seconds if cpu is not None and seconds > 0 else None,
        recording_bytes=observed.recording.size_bytes or None,
        window_s=_most(number(note.get("seconds")) for note in windows),
        window_memory_bytes=_most(whole(note.get("peak_bytes")) for note in windows),
    )


def _most(values: Iterable[_Number | None]) -> _Number | None:
    return max((value for value in values if value is not None), default=None)


def _agent_share(observed: Observed) -> float | None:
    shares = []
    for steps in observed.timed:
        found = steps.timed(*range(records.BATCH, records.CORE_WAIT + 1))
        cost = sum(_cost_s(one.kind) for one in found)
        shares.append(cost / steps.wall_s)
    return max(shares, default=None)


def _cost_s(kind: int) -> float:
    if kind in NAMING_A_LINE:
        return LOOKUP_S
    return DEAREST_S.get(kind, RECORD_S)
