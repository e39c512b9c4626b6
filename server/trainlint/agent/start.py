"""The agent's start in an interpreter: nothing happens until the job imports torch."""

from __future__ import annotations

import os
import sys

from .imports import when_loaded


def start() -> None:
    """Have the agent start once `torch` has been imported."""
    folder, cwd = os.environ["TRAINLINT_PROBE_DIR"], os.getcwd()
    if "torch" in sys.modules:
        _begin(folder, cwd)
    else:
        when_loaded("torch", lambda: _begin(folder, cwd))


def _begin(folder: str, cwd: str) -> None:
    from .agent import begin

    begin(folder, cwd)
