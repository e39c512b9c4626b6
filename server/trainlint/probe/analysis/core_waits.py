"""How long training threads and loader workers were ready to run and waited for a core that other work had."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from trainlint.agent import records
from trainlint.probe.analysis.observed import Observed
from trainlint.probe.analysis.steps import RankSteps
from trainlint.probe.traces.intervals import Span


class CoreWaits:
    """The kernel's count as the agent noted it from time to time; between two notes it is taken to grow evenly."""

    def __init__(self, steps: RankSteps) -> None:
        found = sorted(
            (one.start, one.value) for one in steps.process.records if one.kind == records.CORE_WAIT and one.thread == 0
        )
        self.known = len(found) > 1
        self._times = [time for time, _ in found]
        self._values = [value for _, value in found]

    def within(self, spans: Iterable[Span]) -> float:
        """Seconds of waiting for a core in these stretches; 0 where nothing was counted."""
        return sum(self._until(end) - self._until(start) for start, end in spans) if self.known else 0.0

    def _until(self, time: float) -> float:
        index = bisect_right(self._times, time)
        if index == 0:
            return self._values[0]
        if index == len(self._times):
            return self._values[-1]
        before, after = self._times[index - 1], self._times[index]
        part = (time - before) / (after - before)
        return self._values[index - 1] + part * (self._values[index] - self._values[index - 1])


@dataclass(frozen=True, slots=True)
class Workers:
    """The loader workers of a rank: what they did in a second, all of them together."""

    cpu_s: float
    core_wait_s: float


def workers_of(observed: Observed, steps: RankSteps) -> Workers | None:
    """In the clean steps, between the first and the last sample of each worker; None where there are too few."""
    if not steps.cycles:
        return None
    changes = _changes(observed, steps, (steps.cycles[0].start, steps.cycles[-1].end))
    longest = max((after - before for (before, after), _, _ in changes), default=0.0)
    if longest <= 0:
        return None
    return Workers(sum(cpu for _, cpu, _ in changes) / longest, sum(wait for _, _, wait in changes) / longest)


def seconds_per_batch(observed: Observed, steps: RankSteps) -> float | None:
    """What the loader workers of a rank compute, or wait for a core to compute on, for each batch that they deliver:
    between the first and the last sample of each worker while batches came, in whatever phase; None where there are
    too few."""
    batches = [one.end for one in steps.process.records if one.kind == records.BATCH and not one.flags & records.LAST]
    changes = _changes(observed, steps, (min(batches, default=0.0), max(batches, default=0.0)))
    longest = max((span for span, _, _ in changes), key=lambda span: span[1] - span[0], default=(0.0, 0.0))
    count = sum(longest[0] <= end < longest[1] for end in batches)
    return sum(cpu + wait for _, cpu, wait in changes) / count if count else None


def _changes(observed: Observed, steps: RankSteps, within: Span) -> list[tuple[Span, float, float]]:
    """From when to when each loader worker of a rank was sampled, and how long it computed and waited for a core in
    that time."""
    start, end = within
    seen: dict[int, list[tuple[float, float, float]]] = {}
    for sample in observed.recording.system:
        if start <= sample.clock <= end:
            for one in sample.processes:
                owner = observed.workers.get(one.pid)
                if owner is not None and owner.process.pid == steps.process.pid and one.core_wait_s is not None:
                    seen.setdefault(one.pid, []).append((sample.clock, one.cpu_s, one.core_wait_s))
    return [
        ((found[0][0], found[-1][0]), found[-1][1] - found[0][1], found[-1][2] - found[0][2])
        for found in seen.values()
        if len(found) > 1
    ]


def wait_for_others(core_wait_share: float | None, other_work: float | None) -> float:
    """The share of the steps in which the training thread can have waited for a core that other work had: no more than
    that worked."""
    waits = core_wait_share or 0.0
    return waits if other_work is None else min(waits, other_work)


def wait_for_data_at_least(
    least: float, share: float, core_wait_share: float, workers: Workers, count: int, cores: int
) -> float:
    """The least share of the step that is a wait for data if the job had its cores to itself.

    A worker that waits for a core makes the step wait no longer than that. And without such waits, the workers take the
    time that they compute, side by side, and the step what it takes besides the wait for data: the longer one decides.
    """
    without_waits = least - workers.core_wait_s / count
    data, rest = workers.cpu_s / min(count, cores), max(0.0, 1 - share - core_wait_share)
    alone = (data - rest) / max(data, rest) if max(data, rest) > 0 else 0.0
    return max(0.0, without_waits, min(least, alone))
