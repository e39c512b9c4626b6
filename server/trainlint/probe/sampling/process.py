"""The process of the samplers: takes samples as they fall due, until told to stop or the job is gone."""

from __future__ import annotations

import gc
import os
import signal
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trainlint.probe.extra import EXTRA
from trainlint.probe.forwarding import FORWARDED
from trainlint.probe.recording import Options
from trainlint.probe.sampling.messages import Ended, Follow, Stop
from trainlint.probe.sampling.pace import Pace

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from trainlint.probe.sampling.job import Job


class Sampler(Protocol):
    """Takes one kind of samples."""

    source: str
    """The key in `missing` under which it is told that all of them are."""

    @property
    def pace(self) -> Pace: ...

    @property
    def missing(self) -> dict[str, str]: ...

    def sample(self) -> None: ...

    def close(self) -> None: ...


def serve(connection: Connection, folder: Path, job_pid: int, options: Options, attached: bool) -> None:
    """Sample until the connection says `Stop`, or closes, or the job is gone; then say what is missing."""
    _stand_alone()
    missing: dict[str, str] = {}
    try:
        from trainlint.probe.sampling.job import Job
    except ImportError as error:
        reason = f"psutil, by which the job's processes are followed, cannot be imported ({error}): {EXTRA}"
        _say(connection, Ended(dict.fromkeys(("psutil", "nvml", "stacks"), reason), _cpu_s()))
        return
    job = Job(folder, job_pid)
    job.refresh()
    samplers = dict(_samplers(job, folder / "samples", options, attached, missing))
    while _heard(connection, job, min([job.pace.due, *(sampler.pace.due for sampler in samplers.values())])):
        if job.pace.due <= time.perf_counter():
            job.refresh()
        for source, sampler in list(samplers.items()):
            if sampler.pace.due <= time.perf_counter() and not _sampled(sampler, missing):
                del samplers[source]
    for sampler in samplers.values():
        _closed(sampler, missing)
    _say(connection, Ended(missing, _cpu_s()))


def _stand_alone() -> None:
    """What the probe does about signals, a forked process would do too: what is sent to all of the process group is for
    the job. The probe ends this process by SIGTERM."""
    for number in FORWARDED:
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    gc.freeze()


def _samplers(
    job: Job, folder: Path, options: Options, attached: bool, missing: dict[str, str]
) -> Iterator[tuple[str, Sampler]]:
    """The samplers that this machine has libraries for; `missing` gets the reasons for the others."""
    from trainlint.probe.sampling.driver import NvmlUnavailableError
    from trainlint.probe.sampling.nvml import GpuSampler
    from trainlint.probe.sampling.pyspy import PySpyUnavailableError
    from trainlint.probe.sampling.stacks import StackSampler
    from trainlint.probe.sampling.system import SystemSampler

    yield "psutil", SystemSampler(job, folder)
    try:
        yield "nvml", GpuSampler(job, folder, options.gpus)
    except NvmlUnavailableError as error:
        missing["nvml"] = str(error)
    try:
        yield "stacks", StackSampler(job, folder, attached=attached)
    except PySpyUnavailableError as error:
        missing["stacks"] = str(error)


def _heard(connection: Connection, job: Job, due: float) -> bool:
    """Wait until something is due, and take what the probe says meanwhile; False where it is time to end."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    ends = [] if parent is None else [parent.sentinel]
    while True:
        told = wait([connection, *ends], max(0.0, due - time.perf_counter()))
        if connection not in told:
            return not told and not job.is_over
        try:
            message = connection.recv()
        except (EOFError, OSError):
            return False
        if isinstance(message, Follow):
            job.follow(message.pids)
        elif isinstance(message, Stop):
            return False


def _sampled(sampler: Sampler, missing: dict[str, str]) -> bool:
    """Take a sample; False where the sampler is broken, which must not end the others."""
    try:
        with sampler.pace.sampling():
            sampler.sample()
    except Exception as error:
        _closed(sampler, missing)
        missing[sampler.source] = _defect(error)
        return False
    return True


def _closed(sampler: Sampler, missing: dict[str, str]) -> None:
    try:
        sampler.close()
        missing.update(sampler.missing)
    except Exception as error:
        missing[sampler.source] = _defect(error)


def _defect(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"sampling failed with {type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno}), "
        "a defect of trainlint; please report it"
    )


def _say(connection: Connection, ended: Ended) -> None:
    try:
        connection.send(ended)
    except OSError:
        """The probe is gone: nobody waits for it."""


def _cpu_s() -> float:
    """CPU time of this process and of the programs that it started."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
