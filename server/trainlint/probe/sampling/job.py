"""The processes of the job: its tree by psutil, and what the agents note about themselves."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import psutil

from trainlint.agent import control
from trainlint.probe.sampling.pace import Pace

INTERVAL_S = 0.5

Role = Literal["rank", "worker", "other"]


@dataclass(slots=True)
class Noted:
    """What the agent of one process has noted so far."""

    path: Path
    pid: int = 0
    parent: int = 0
    role: Role | None = None
    rank: int | None = None
    local_rank: int | None = None
    worker: int | None = None
    cwd: str | None = None
    devices: tuple[str, ...] | None = None
    """Of each device that torch sees the UUID, or an empty text where torch does not tell; None before it has told."""
    read_bytes: int = 0
    rest: bytes = b""

    def state(self) -> tuple[int, int] | None:
        """Phase and complete steps, from the header of the ring; None where there is none."""
        try:
            with self.path.with_suffix(".ring").open("rb") as ring:
                header = ring.read(control.STATE_OFFSET + control.STATE.size)
            phase, steps, _, _ = control.STATE.unpack_from(header, control.STATE_OFFSET)
        except (OSError, struct.error):
            return None
        return int(phase), int(steps)


@dataclass(slots=True)
class Job:
    """Who belongs to the job; `refresh` looks again when that is due."""

    folder: Path
    pid: int
    members: dict[int, psutil.Process] = field(default_factory=dict)
    """The living processes of the job by id."""
    noted: dict[int, Noted] = field(default_factory=dict)
    """By process id, for those that an agent is in, the dead ones too."""
    is_over: bool = False
    """Whether the job's own process has ended; one that waits for its parent to take notice has."""
    pace: Pace = field(default_factory=lambda: Pace(INTERVAL_S))
    _extra: set[int] = field(default_factory=set)
    _files: dict[Path, Noted] = field(default_factory=dict)

    def follow(self, pids: Iterable[int]) -> None:
        self._extra.update(pids)

    def refresh(self) -> None:
        with self.pace.sampling():
            self.read_notes()
            found = {process.pid: process for process in self._living()}
            self.is_over = self.pid not in found
            # The same object is kept while it is the same process: psutil remembers what it has read of it.
            self.members = {
                pid: kept if (kept := self.members.get(pid)) is not None and kept == process else process
                for pid, process in found.items()
            }

    def read_notes(self) -> None:
        """Take what the agents have noted since; this is cheap, where a look at all processes of a machine is not."""
        for path in (self.folder / "processes").glob("*.notes"):
            _read(self._files.setdefault(path, Noted(path)))
        self.noted = {noted.pid: noted for noted in self._files.values() if noted.pid}

    def is_alive(self, pid: int) -> bool:
        """Whether a process of the job, which may have been noted a moment ago, is there."""
        return pid in self.members or psutil.pid_exists(pid)

    def _living(self) -> Iterator[psutil.Process]:
        found: dict[int, psutil.Process] = {}
        with suppress(psutil.Error):
            found.update((process.pid, process) for process in tree(self.pid))
        for pid in (self._extra | self.noted.keys()) - found.keys():
            with suppress(psutil.Error):
                found[pid] = psutil.Process(pid)
        for process in found.values():
            with suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE:
                    yield process


def tree(pid: int) -> list[psutil.Process]:
    """A process and all that it has started, itself or through others: without the probe, if that is among them, as it
    is where somebody looks at the shell that it was typed into.

    Raises:
        psutil.Error: the process is not there, or may not be looked at.
    """
    job = psutil.Process(pid)
    started = {process.pid: process for process in job.children(recursive=True)}
    # The samplers are a process of their own, which the probe has started.
    probe = next((started[own] for own in (os.getppid(), os.getpid()) if own in started), None)
    if probe is not None:
        for process in (probe, *probe.children(recursive=True)):
            started.pop(process.pid, None)
    return [job, *started.values()]


def _read(noted: Noted) -> None:
    """Read the notes that were added to a file; half a line waits for its other half."""
    try:
        with noted.path.open("rb") as file:
            file.seek(noted.read_bytes)
            added = file.read()
    except OSError:
        return
    noted.read_bytes += len(added)
    *lines, noted.rest = (noted.rest + added).split(b"\n")
    for line in lines:
        try:
            note = json.loads(line)
        except ValueError:
            continue
        if isinstance(note, dict):
            _take(noted, note)


def _take(noted: Noted, note: dict[str, object]) -> None:
    match note:
        case {"note": "process", "pid": int(pid)}:
            noted.pid = pid
            noted.parent = _number(note.get("parent"), 0) or 0
            cwd = note.get("cwd")
            noted.cwd = cwd if isinstance(cwd, str) else None
        case {"note": "role", "role": ("rank" | "worker" | "other") as role}:
            noted.role = role
            noted.rank = _number(note.get("rank"), noted.rank)
            noted.local_rank = _number(note.get("local_rank"), noted.local_rank)
            noted.worker = _number(note.get("worker"), noted.worker)
        case {"note": "torch", "devices": [*devices]}:
            noted.devices = tuple(str(one.get("uuid") or "") if isinstance(one, dict) else "" for one in devices)


def _number(value: object, otherwise: int | None) -> int | None:
    return value if isinstance(value, int) else otherwise
