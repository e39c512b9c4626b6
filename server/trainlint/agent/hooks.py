"""All hooks, in the order in which they are installed."""

from __future__ import annotations

from . import (
    backward,
    calls,
    collections,
    compilers,
    cores,
    distributed,
    evaluation,
    loaders,
    memory,
    permission,
    processes,
    ran,
    recompilations,
    scopes,
    syncs,
    traced,
    window,
)
from .agent import Agent

SUBJECTS = (
    permission,
    traced,
    ran,
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
    cores,
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
