"""How long the training thread was ready to run and waited for a core, in any stretch of time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from trainlint.agent import records
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
