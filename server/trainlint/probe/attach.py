"""Looks at a job that runs already: stacks by py-spy, GPUs by NVML, cores and processes by psutil.

The job is never signalled and nothing is put into it, so steps, syncs, loaders and shares cannot be seen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.probe import machine, recording, sampling
from trainlint.probe.extra import EXTRA
from trainlint.probe.recording import Manifest, Options
from trainlint.probe.sampling.pyspy import PySpyUnavailableError, first_look

if TYPE_CHECKING:
    import psutil

DURATION_S = 15.0
"""How long a job is looked at where nothing else is asked for: a GPU's figures need 5 s, a stack's 200 samples some 4 s
where one process takes them all."""
POLL_S = 0.1

NOT_SEEN = {
    "agent": "a running job cannot be given an agent: steps, shares of a step, syncs, waits for data and time inside "
    "calls are not known; start the job with trainlint probe to see them",
    "kineto": "a running job cannot be traced from outside; start it with trainlint probe",
}


class AttachError(Exception):
    """Nothing can be measured of this process; the message says why, and what to do."""


class NoSuchJobError(AttachError):
    """There is no such process, or it has ended."""


class ForeignJobError(AttachError):
    """The process belongs to somebody else."""


class RefusedError(AttachError):
    """The system, or the process itself, does not let us look."""


def run(
    pid: int,
    folder: Path,
    options: Options,
    *,
    duration_s: float | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Manifest:
    """Look at a job until the time is over, it ends, or `cancelled` says so; leave a recording in `folder`.

    Args:
        pid: Process of the job; those that it has started are looked at as well.
        duration_s: By default `options.timeout_s`, or else `DURATION_S`.

    Raises:
        AttachError: nothing can be measured.
    """
    manifest = _described(pid, options, folder)
    _require_sight(pid)
    recording.write_manifest(folder, manifest)
    seen = sampling.start(folder, pid, options, attached=True)
    until = time.perf_counter() + (duration_s or options.timeout_s or DURATION_S)
    while time.perf_counter() < until and seen.runs() and not (cancelled is not None and cancelled()):
        time.sleep(POLL_S)
    missing = NOT_SEEN | seen.stop()
    manifest = manifest.model_copy(update={"missing": missing, "probe_cpu_s": seen.cpu_s})
    recording.write_manifest(folder, manifest)
    return manifest


def _described(pid: int, options: Options, folder: Path) -> Manifest:
    """The manifest, from what the system says about the process.

    Raises:
        AttachError: it says nothing, or nothing good.
    """
    try:
        import psutil
    except ImportError as error:
        raise RefusedError(f"psutil, by which processes are followed, is not installed: {EXTRA}") from error
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            raise NoSuchJobError(f"process {pid} has ended already")
        owner = process.uids().effective
        if os.geteuid() not in (0, owner):
            user = process.username()
            raise ForeignJobError(f"process {pid} belongs to {user}: run the probe as {user}, or as root")
        return machine.manifest("attach", process.cmdline(), process.cwd(), options, folder, pid)
    except psutil.NoSuchProcess as error:
        raise NoSuchJobError(f"there is no process {pid}; if it runs in a container, run the probe there") from error
    except psutil.AccessDenied as error:
        advice = "" if os.geteuid() == 0 else "; run the probe as root"
        raise RefusedError(f"the system says nothing about process {pid}{advice}") from error


def _ends(job: psutil.Process) -> bool:
    """Whether a process has ended or is about to: while it gives back its memory, the system still calls it running but
    no longer knows its program and arguments."""
    import psutil

    try:
        return not job.is_running() or job.status() == psutil.STATUS_ZOMBIE or not (job.exe() or job.cmdline())
    except psutil.NoSuchProcess:
        return True


def _require_sight(pid: int) -> None:
    """Find out at once whether anything will come of it, rather than after all the time.

    Raises:
        RefusedError: stacks cannot be read, and there is no GPU to look at either.
    """
    import psutil

    from trainlint.probe.sampling.driver import NvmlUnavailableError, open_library
    from trainlint.probe.sampling.job import tree
    from trainlint.probe.sampling.targets import is_python

    job = psutil.Process(pid)
    try:
        python = [process.pid for process in tree(pid) if is_python(process)]
        reason = first_look(python[0]) if python else f"process {pid} is no Python program, nor has it started one"
    except PySpyUnavailableError as error:
        reason = str(error)
    except psutil.NoSuchProcess as error:
        raise NoSuchJobError(f"process {pid} has ended already") from error
    if reason is None:
        return
    if _ends(job):
        raise NoSuchJobError(f"process {pid} has ended already")
    try:
        open_library().nvmlShutdown()  # before the samplers are forked
    except NvmlUnavailableError as error:
        raise RefusedError(f"{reason}; nor is there a GPU to look at: {error}") from error
