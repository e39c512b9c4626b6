"""All hooks, in the order in which they are installed."""

from __future__ import annotations

from . import backward, loaders, processes, scopes
from .agent import Agent


def install(agent: Agent) -> None:
    """Install the hooks in the process.

    Raises:
        Exception: whatever went wrong; the agent is to be turned off.
    """
    for module in (processes, scopes, loaders, backward):
        module.install(agent)
