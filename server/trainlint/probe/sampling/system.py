"""Cores, memory and the job's processes, by psutil."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from trainlint.probe.recording import ProcessSample, SystemSample
from trainlint.probe.sampling.job import Job
from trainlint.probe.sampling.lines import Lines
from trainlint.probe.sampling.pace import Pace

INTERVAL_S = 0.5
DELAY_ACCOUNTING = Path("/proc/sys/kernel/task_delayacct")
NO_DELAY_ACCOUNTING = (
    "the kernel does not count how long a process waits for its disk; root has it count that by: "
    "sysctl kernel.task_delayacct=1"
)


class SystemSampler:
    source = "psutil"

    def __init__(self, job: Job, folder: Path) -> None:
        self._job = job
        self._lines = Lines(folder / "system.jsonl")
        self._counts_waits = counts_waits()
        self._before = _core_times()
        self.pace = Pace(INTERVAL_S)

    @property
    def missing(self) -> dict[str, str]:
        found = {} if self._counts_waits else {"psutil.io_wait": NO_DELAY_ACCOUNTING}
        return found if self._lines.failure is None else found | {"psutil": self._lines.failure}

    def sample(self) -> None:
        before, self._before = self._before, _core_times()
        pairs = list(zip(before, self._before, strict=False))
        waits = [after.waiting_share(earlier) for earlier, after in pairs]
        self._lines.write(
            SystemSample(
                clock=time.perf_counter(),
                cores_busy=[after.busy_share(earlier) for earlier, after in pairs],
                io_wait=sum(waits) / len(waits) if waits else None,
                memory_available_bytes=psutil.virtual_memory().available,
                processes=list(_sampled(self._job.members.values(), self._counts_waits)),
            )
        )

    def close(self) -> None:
        """Take a last sample, so that the CPU time of the job's processes is known up to the end."""
        self.sample()


@dataclass(frozen=True, slots=True)
class _CoreTimes:
    """Seconds of one core since the machine started."""

    total: float
    busy: float
    waiting: float
    """Idle, with something waiting for a disk."""

    def busy_share(self, before: _CoreTimes) -> float:
        return _share(self.busy - before.busy, self.total - before.total)

    def waiting_share(self, before: _CoreTimes) -> float:
        return _share(self.waiting - before.waiting, self.total - before.total)


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole)) if whole > 0 else 0.0


def _core_times() -> list[_CoreTimes]:
    found = []
    for times in psutil.cpu_times(percpu=True):
        # What guests take is counted among the user's time already.
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        waiting = float(getattr(times, "iowait", 0.0))
        found.append(_CoreTimes(total, total - times.idle - waiting, waiting))
    return found


def counts_waits() -> bool:
    """Whether the kernel counts, for each process, how long it waits for its disk."""
    try:
        return DELAY_ACCOUNTING.read_text().strip() != "0"
    except OSError:
        # Before Linux 5.14 there is no such switch, and waits are counted.
        return Path("/proc/self/io").exists()


def _sampled(processes: Iterable[psutil.Process], counts_waits: bool) -> Iterator[ProcessSample]:
    for process in processes:
        try:
            with process.oneshot():
                times, memory = process.cpu_times(), process.memory_info()
            yield ProcessSample(
                pid=process.pid,
                cpu_s=times.user + times.system,
                ended_children_cpu_s=getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0),
                rss_bytes=memory.rss,
                read_bytes=_read_bytes(process),
                io_wait_s=getattr(times, "iowait", None) if counts_waits else None,
                core_wait_s=_core_wait_s(process.pid),
            )
        except psutil.Error:
            continue


def _read_bytes(process: psutil.Process) -> int | None:
    """Bytes read from storage; None where the system does not tell, as for a process of somebody else."""
    try:
        return int(process.io_counters().read_bytes)
    except (psutil.Error, OSError, AttributeError, NotImplementedError):
        return None


def _core_wait_s(pid: int) -> float | None:
    """How long a process's main thread has waited for a core; None where the kernel does not count it."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None
