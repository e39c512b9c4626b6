"""Lets the probe read the stacks of a process where the system allows that to a process's ancestors only.

py-spy is started by the probe, beside the job, and not above it. Under `kernel.yama.ptrace_scope` 1, which is Ubuntu's
default, a process has to name whoever else may look. What it says counts for the probe and its children, and ends with
the probe.
"""

from __future__ import annotations

import ctypes
import sys

from .agent import Agent

PR_SET_PTRACER = 0x59616D61
"""Of linux/prctl.h."""


def install(agent: Agent) -> None:
    probe = agent.control.probe
    if not sys.platform.startswith("linux") or not probe:
        return
    # A system that does not ask for it refuses, and all is well.
    allow = ctypes.CDLL(None).prctl
    allow.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]

    def let_probe_look() -> None:
        allow(PR_SET_PTRACER, probe, 0, 0, 0)

    let_probe_look()
    agent.at_forks.append(let_probe_look)
