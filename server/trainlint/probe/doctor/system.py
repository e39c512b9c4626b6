"""What the system gives a job and allows the probe: cores, shared memory, reading another process's stacks."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from trainlint.probe import machine
from trainlint.probe.doctor.check import Check, State
from trainlint.probe.extra import EXTRA
from trainlint.probe.figures import counted
from trainlint.probe.sampling.pyspy import PTRACE_SCOPE, TO_BE_ALLOWED, PySpyUnavailableError, first_look

SHARED_MEMORY = Path("/dev/shm")
CONTAINER_SHARED_BYTES = 64 << 20
"""What Docker gives a container that asks for no more (`docker run --shm-size`)."""
RECORDING_BYTES = 50 << 20
"""What a recording of 50 steps may take."""
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")

SLEEPER = """
import ctypes, os, sys, time
ctypes.CDLL(None).prctl(0x59616D61, os.getppid(), 0, 0, 0)  # PR_SET_PTRACER, as the agent does in a job
print("ready")
sys.stdout.flush()
time.sleep(60)
"""


def checks(python: str) -> Iterator[Check]:
    yield _psutil()
    yield _stacks(python)
    yield _attaching()
    yield _cores()
    yield from _shared_memory()
    yield _room()


def _psutil() -> Check:
    try:
        return Check("psutil", State.OK, metadata.version("psutil"))
    except metadata.PackageNotFoundError:
        return Check("psutil", State.MISSING, "not installed, so that no job can be followed", EXTRA)


def _stacks(python: str) -> Check:
    """Really look into a process, which the training interpreter runs."""
    try:
        with subprocess.Popen(
            [python, "-c", SLEEPER], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as sleeper:
            try:
                assert sleeper.stdout is not None
                sleeper.stdout.readline()
                reason = first_look(sleeper.pid)
            finally:
                sleeper.kill()
    except (OSError, ValueError):
        return Check("stacks", State.MISSING, f"{python} cannot be run, so that it is not known")
    except PySpyUnavailableError as error:
        return Check("stacks", State.MISSING, str(error))
    if reason is not None:
        found, _, advice = reason.partition("; ")
        return Check("stacks", State.MISSING, found, advice or "lines in loader workers get no figures without")
    return Check("stacks", State.OK, f"py-spy {metadata.version('py-spy')} can read the stacks of a job")


def _attaching() -> Check:
    """Whether a job that somebody else has started, such as a shell, can be looked into."""
    if os.name == "posix" and os.geteuid() == 0:
        return Check("attach", State.OK, "root may look into running jobs (--pid)")
    try:
        scope = PTRACE_SCOPE.read_text().strip()
    except OSError:
        return Check("attach", State.OK, "this user's running jobs can be looked into (--pid)")
    if scope == "0":
        return Check("attach", State.OK, "kernel.yama.ptrace_scope is 0: this user's jobs can be looked into (--pid)")
    found = f"kernel.yama.ptrace_scope is {scope}: only jobs that the probe starts itself can be looked into"
    return Check("attach", State.LIMITED, found, f"for --pid, {TO_BE_ALLOWED}")


def _cores() -> Check:
    usable, all_cores = machine.usable_cores(), os.cpu_count() or 1
    physical = machine.physical_cores()
    found = f"{usable} of {counted(all_cores, 'core')} can be used"
    found += "" if physical is None else f", {physical} without hyper-threads"
    quota = _quota()
    if quota is not None and quota < usable:
        advice = "give the container more (--cpus), or start fewer loader workers than that"
        return Check("cores", State.LIMITED, f"{found}, but only {quota:g} cores' time", advice)
    if usable < all_cores:
        advice = "an affinity (taskset, Slurm, Kubernetes) holds the job to some; loader workers share these"
        return Check("cores", State.LIMITED, found, advice)
    return Check("cores", State.OK, found)


def _quota() -> float | None:
    """Cores' worth of time that the control group may use; None where it is not bounded."""
    try:
        quota, period = CPU_QUOTA.read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError):
        return None


def _shared_memory() -> Iterator[Check]:
    """Loader workers hand their batches over through it."""
    try:
        usage = shutil.disk_usage(SHARED_MEMORY)
    except OSError:
        return
    found = f"{SHARED_MEMORY} has {usage.free / (1 << 20):,.0f} of {usage.total / (1 << 20):,.0f} MiB free"
    found += ", in a container" if in_container() else ""
    if min(usage.total, usage.free) <= CONTAINER_SHARED_BYTES:
        advice = "loader workers hand batches over through it, and end with a bus error where it is full; "
        advice += "start the container with a larger --shm-size, or --ipc=host" if in_container() else "free some"
        yield Check("shared memory", State.LIMITED, found, advice)
    else:
        yield Check("shared memory", State.OK, found)


def in_container() -> bool:
    """Whether this looks like a container: Docker, Podman or Kubernetes."""
    marks = (Path("/.dockerenv"), Path("/run/.containerenv"))
    return any(mark.exists() for mark in marks) or "KUBERNETES_SERVICE_HOST" in os.environ


def _room() -> Check:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    found = f"{folder} has {free / (1 << 30):,.1f} GiB free"
    if free < RECORDING_BYTES:
        return Check("recording", State.LIMITED, found, "a recording takes up to 50 MB; point TMPDIR to a larger disk")
    return Check("recording", State.OK, found)
