"""Which of the machine's GPUs the job uses.

By what torch reports and `CUDA_VISIBLE_DEVICES` it is known which GPUs the job sees; by process ids and local ranks,
which of these it uses. Process ids alone prove nothing: in a container they differ from the driver's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import psutil

from trainlint.probe.sampling.job import Job

VISIBLE = "CUDA_VISIBLE_DEVICES"


class Listed(Protocol):
    """A GPU, or a MIG instance, as the driver lists it."""

    @property
    def index(self) -> int: ...

    @property
    def uuid(self) -> str: ...

    @property
    def parent(self) -> object: ...

    @property
    def divided(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Claims:
    """What the person and the job say."""

    gpus: tuple[int, ...] | None = None
    """`--gpu`."""
    torch: tuple[str, ...] | None = None
    """UUIDs of the devices that torch sees, in its order, empty where it does not tell; None while it has not said."""
    visible: str | None = None
    """`CUDA_VISIBLE_DEVICES` of the job; None where it is not set."""
    pids: frozenset[int] = frozenset()
    local_ranks: tuple[int, ...] = ()
    """Of the ranks, as far as they are known."""

    @classmethod
    def of(cls, job: Job, gpus: Sequence[int] | None) -> Claims:
        ranks = [noted for noted in job.noted.values() if noted.role == "rank"]
        told = [noted.devices for noted in ranks or job.noted.values() if noted.devices is not None]
        return cls(
            gpus=None if gpus is None else tuple(gpus),
            # Ranks that see one GPU each see all of them together.
            torch=tuple(dict.fromkeys(uuid for devices in told for uuid in devices)) if told else None,
            visible=_visible(job),
            pids=frozenset(job.members),
            local_ranks=tuple(sorted(noted.local_rank for noted in ranks if noted.local_rank is not None)),
        )


@dataclass(frozen=True, slots=True)
class Match:
    uuids: frozenset[str]
    doubt: str | None = None
    """Why this may not be right, and what would make it so."""


def matched(devices: Sequence[Listed], claims: Claims, pids_on: Callable[[str], set[int]]) -> Match:
    """The devices that the job uses; `pids_on` tells the processes on the device with a UUID."""
    if claims.gpus is not None:
        absent = sorted(set(claims.gpus) - {device.index for device in devices})
        doubt = f"there is no GPU {', '.join(map(str, absent))} (--gpu); nvidia-smi lists them" if absent else None
        return Match(frozenset(device.uuid for device in devices if device.index in claims.gpus), doubt)
    seen = _seen([device for device in devices if not device.divided], claims)
    if len(seen) <= 1:
        return Match(frozenset(seen))
    used = [uuid for uuid in seen if pids_on(uuid) & claims.pids]
    if used:
        return Match(frozenset(used))
    if claims.local_ranks and len(seen) > len(claims.local_ranks):
        used = [seen[rank] for rank in claims.local_ranks if rank < len(seen)]
        doubt = "which GPU a rank uses is taken from its local rank; --gpu names them"
    else:
        used, doubt = seen, f"the job sees {len(seen)} GPUs, and may not use all of them; --gpu names them"
    return Match(frozenset(used), None if claims.local_ranks and len(seen) == len(claims.local_ranks) else doubt)


def _seen(devices: Sequence[Listed], claims: Claims) -> list[str]:
    """UUIDs of the devices that the job sees, in its order."""
    if claims.torch is not None:
        by_name = {_bare(device.uuid): device.uuid for device in devices}
        told = [by_name[_bare(uuid)] for uuid in claims.torch if _bare(uuid) in by_name]
        if told or not claims.torch:
            return told
    if claims.visible is None:
        return [device.uuid for device in devices]
    found = []
    for word in claims.visible.split(","):
        device = _named(word.strip(), devices)
        if device is None:
            break  # CUDA, too, leaves out all that stands behind what it does not know
        found.append(device.uuid)
    return found


def _named(word: str, devices: Sequence[Listed]) -> Listed | None:
    """A device by its number or the beginning of its UUID. CUDA counts the fastest first unless CUDA_DEVICE_ORDER says
    PCI_BUS_ID, so on a machine with different GPUs a number may mean another one than here."""
    if word.isdecimal():
        return next((device for device in devices if device.index == int(word)), None)
    if word.startswith(("GPU-", "MIG-")):
        return next((device for device in devices if device.uuid.startswith(word)), None)
    return None


def _bare(uuid: str) -> str:
    """Without the prefix that the driver writes and torch does not."""
    return uuid.removeprefix("GPU-").removeprefix("MIG-").lower()


def _visible(job: Job) -> str | None:
    """What a rank was started with, or else the job itself."""
    ranks = [pid for pid, noted in job.noted.items() if noted.role == "rank"]
    for pid in (*ranks, job.pid):
        process = job.members.get(pid)
        if process is None:
            continue
        try:
            visible: str | None = process.environ().get(VISIBLE)
        except (psutil.Error, OSError):
            continue
        return visible
    return None
