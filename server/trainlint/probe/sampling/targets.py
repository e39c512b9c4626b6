"""Which processes of the job are looked into: ranks and their loader workers, no more than a bounded number at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from trainlint.probe.sampling.job import Job

MOST_AT_ONCE = 16

NEVER_TRAIN = ("resource_tracker", "semaphore_tracker", "multiprocessing.forkserver", "compile_worker")
"""Words in the command lines of helpers that Python and torch start beside a job."""


@dataclass(frozen=True, slots=True, order=True)
class Target:
    rank: int
    worker: int | None
    """Index of a loader worker; None for the rank itself."""
    pid: int
    name: str
    """How messages call it."""


def noted_targets(job: Job) -> list[Target]:
    """The living ranks and workers, by what the agents in them say."""
    found = []
    for pid, noted in job.noted.items():
        if not job.is_alive(pid):
            continue
        if noted.role == "rank":
            found.append(Target(noted.rank or 0, None, pid, f"rank {noted.rank or 0}"))
        elif noted.role == "worker":
            parent = job.noted.get(noted.parent)
            rank = (noted.rank if noted.rank is not None else parent.rank if parent is not None else None) or 0
            found.append(Target(rank, noted.worker or 0, pid, f"worker {noted.worker or 0} of rank {rank}"))
    return found


def running_targets(job: Job) -> list[Target]:
    """The Python processes of a job without agents. Those that another one of them has started count as its workers."""
    found: list[Target] = []
    python = {pid for pid, process in job.members.items() if is_python(process)}
    for pid in sorted(python):
        try:
            parent = job.members[pid].ppid()
        except psutil.Error:
            continue
        name = f"process {pid}"
        found.append(Target(parent, pid, pid, name) if parent in python else Target(pid, None, pid, name))
    return found


def is_python(process: psutil.Process) -> bool:
    """By its program: torch gives its processes names of their own."""
    try:
        return "python" in Path(process.exe()).name.lower() and not any(
            word in argument for argument in process.cmdline() for word in NEVER_TRAIN
        )
    except psutil.Error:
        return False


def chosen(targets: Sequence[Target], most: int = MOST_AT_ONCE) -> list[Target]:
    """At most so many of them, spread over the ranks: half for ranks and half for workers where both do not fit."""
    ranks = sorted(target for target in targets if target.worker is None)
    workers = [target for target in targets if target.worker is not None]
    if len(ranks) + len(workers) <= most:
        return sorted(targets, key=_order)
    places = min(len(ranks), max(most // 2, most - len(workers)))
    taken = [ranks[place * len(ranks) // places] for place in range(places)]
    near = {target.rank for target in taken}
    workers.sort(key=lambda target: (target.rank not in near, target.worker, target.rank))
    return [*taken, *workers[: most - len(taken)]]


def _order(target: Target) -> tuple[bool, Target]:
    return target.worker is not None, target
