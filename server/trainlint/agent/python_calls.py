"""How many calls of Python a step makes, which is what recording its stacks would cost."""

from __future__ import annotations

import sys
from typing import Any


class PythonCalls:
    """Counts calls, of functions of Python and of C, by the interpreter's own profiler: that runs no code of Python,
    keeps nothing but a number for each function, and costs a call about what an empty one takes."""

    def __init__(self) -> None:
        self._profiler: Any = None

    def begin(self) -> None:
        """Count from now on, unless the job uses a profiler of Python calls itself."""
        import cProfile

        if sys.getprofile() is not None:
            return
        profiler = cProfile.Profile(subcalls=False)
        try:
            profiler.enable()
        except ValueError:  # since 3.12 the interpreter says that another one is active
            return
        self._profiler = profiler

    def end(self) -> int | None:
        """How many calls there were since `begin`; None where they were not counted."""
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return None
        profiler.disable()
        return sum(int(entry.callcount) for entry in profiler.getstats())
