"""Environment variables that a job would inherit from here, as far as they change how fast it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainlint.probe.doctor.check import Check, State

LAUNCHER = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK")
"""torchrun sets these for each process."""

SLOW = {
    "NCCL_P2P_DISABLE": "GPUs no longer copy to each other directly",
    "NCCL_SHM_DISABLE": "ranks of one machine talk through the network",
    "NCCL_IB_DISABLE": "InfiniBand is not used",
    "CUDA_LAUNCH_BLOCKING": "each kernel is waited for",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "each tensor is allocated by the driver",
}
"""What a variable costs that is set to anything but 0."""
WORDY = ("INFO", "TRACE")


def checks(environment: Mapping[str, str]) -> Iterator[Check]:
    yield _nccl(environment)
    yield _launcher(environment)
    others = [f"{name}={environment[name]} ({SLOW[name]})" for name in _slow(environment) if not _is_nccl(name)]
    if others:
        advice = "these are for looking for errors; unset them for training"
        yield Check("variables", State.LIMITED, ", ".join(others), advice)


def _nccl(environment: Mapping[str, str]) -> Check:
    told = [f"{name}={text}" for name, text in sorted(environment.items()) if _is_nccl(name)]
    slow = [f"{name}: {SLOW[name]}" for name in _slow(environment) if _is_nccl(name)]
    if environment.get("NCCL_DEBUG", "").upper() in WORDY:
        slow.append("NCCL_DEBUG: each rank writes what it does")
    if slow:
        advice = f"{'; '.join(slow)}. Such settings are for special cases; unset them where nobody knows the case"
        return Check("nccl", State.LIMITED, ", ".join(told), advice)
    return Check("nccl", State.OK, ", ".join(told) or "no NCCL_ variable is set")


def _launcher(environment: Mapping[str, str]) -> Check:
    told = [f"{name}={environment[name]}" for name in LAUNCHER if name in environment]
    if told:
        advice = "torchrun sets these for each process; set by hand, they make a process wait for others: unset them"
        return Check("launcher", State.LIMITED, ", ".join(told), advice)
    return Check("launcher", State.OK, "rank and master address are left to the launcher")


def _slow(environment: Mapping[str, str]) -> list[str]:
    return [name for name in SLOW if environment.get(name, "0") not in ("", "0")]


def _is_nccl(name: str) -> bool:
    return name.startswith("NCCL_")
