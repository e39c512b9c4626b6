"""All hooks, in the order in which they are installed."""

from __future__ import annotations

from . import (
    backward,
    calls,
    collections,
    compilers,
    core_waits,
    distributed,
    dynamo,
    evaluation,
    flagged_lines,
    loaders,
    memory,
    permission,
    processes,
    recompilations,
    scopes,
    syncs,
    window,
)
from .agent import Agent

SUBJECTS = (
    permission,
    dynamo,
    flagged_lines,
    processes,
    scopes,
    loaders,
    backward,
    syncs,
    calls,
    collections,
    memory,
    distributed,
    evaluation,
    recompilations,
    core_waits,
    window,
    compilers,
)


def install(agent: Agent) -> None:
    """Install the hooks in the process.

    Raises:
        Exception: whatever went wrong; the agent is to be turned off.
    """
    for subject in SUBJECTS:
        subject.install(agent)
