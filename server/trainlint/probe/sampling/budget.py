"""The CPU time that py-spy may take."""

from __future__ import annotations

CORE_SHARE = 0.025
"""Of one core, in the mean."""
IDLE_PART, LARGEST_CORE_SHARE = 0.25, 0.035
"""Where cores are idle beside the job, py-spy may take this part of what they leave, up to this share of one core: all
processes of the probe together stay below a twentieth of one."""
SAVED_OVER_S = 10.0
"""What was not spent is saved for no longer than this: a job that loads for minutes is not looked at harder than one
that loads for seconds."""
FIRST_CHUNK_S, SAVED_CHUNK_S, CHUNK_S = 1, 3, 30
"""How long py-spy runs before it is started anew: it writes at its end only, so what it has seen survives a killed
probe. The first time is short: its rate rests on a guess of what a sample costs, and which cores training leaves idle
is not known yet."""
LARGEST_SAVED_SHARE = 0.045
"""Of one core, while what was saved is spent."""


class Budget:
    """CPU time adds up while a job starts and nobody looks at it, and is spent when it trains: the steps of a short run
    last for a second or two, in which `CORE_SHARE` by itself pays for two dozen samples."""

    def __init__(self, clock: float) -> None:
        self._began = clock

    def saved_s(self, clock: float, used_s: float) -> float:
        """CPU time that py-spy was allowed until now and did not take."""
        return max(0.0, min(SAVED_OVER_S, clock - self._began) * CORE_SHARE - used_s)

    def chunk(self, clock: float, used_s: float, idle_cores: float | None) -> tuple[int, float]:
        """For how many seconds py-spy is to run now, and the share of one core that it may take.

        Args:
            clock: seconds, of the clock that told when the job began.
            used_s: CPU seconds that py-spy has taken so far; 0 before its first run has ended.
            idle_cores: how many cores have nothing to do; None where that is not known.
        """
        # cores that were idle before training began need not be so in it
        idle = idle_cores if idle_cores is not None and used_s else 0.0
        share = max(CORE_SHARE, min(LARGEST_CORE_SHARE, IDLE_PART * idle))
        saved_s = self.saved_s(clock, used_s)
        if used_s and saved_s < CORE_SHARE * SAVED_CHUNK_S:
            return CHUNK_S, share  # too little to start py-spy anew for
        seconds = SAVED_CHUNK_S if used_s else FIRST_CHUNK_S
        return seconds, max(share, min(LARGEST_SAVED_SHARE, CORE_SHARE + saved_s / seconds))
