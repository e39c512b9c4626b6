"""What this environment allows a probe to measure, and what in it makes training slow."""

from __future__ import annotations

import os
from collections.abc import Iterator

from trainlint.probe.doctor import gpus, system, training, variables
from trainlint.probe.doctor.check import Check


def examine(python: str | None = None) -> Iterator[Check]:
    """Look at everything, in the order in which it is reported; each check is made when it is asked for.

    Args:
        python: The interpreter of the training environment; by default the one that the search path finds.
    """
    interpreter = training.interpreter(python)
    yield from training.checks(interpreter)
    yield from gpus.checks()
    yield from system.checks(interpreter)
    yield from variables.checks(os.environ)
