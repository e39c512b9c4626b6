"""GPUs as the driver sees them, and how they are connected."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from types import ModuleType
from typing import Any

from trainlint.probe.doctor.check import Check, State
from trainlint.probe.sampling.driver import (
    PCIE_RX,
    PCIE_TX,
    Device,
    NvmlUnavailableError,
    devices,
    open_library,
    refusal,
)

PATHS = {
    0: "the same board",
    10: "one PCIe switch",
    20: "several PCIe switches",
    30: "a PCIe host bridge",
    40: "the bridges of one NUMA node",
    50: "the link between NUMA nodes",
}
"""What connects two GPUs, from the nearest to the farthest (nvmlGpuTopologyLevel_t)."""
NUMA_LINK = 50
MOST_PAIRS = 8


def checks() -> Iterator[Check]:
    try:
        nvml = open_library()
        found = list(devices(nvml))
    except NvmlUnavailableError as error:
        reason, _, advice = str(error).partition("; ")
        yield Check("nvml", State.MISSING, reason, advice or None)
        return
    yield _driver(nvml, found)
    for device in found:
        yield _device(nvml, device)
    whole = [device for device in found if device.parent is None and not device.lost]
    if len(whole) > 1:
        yield _topology(nvml, whole)
    nvml.nvmlShutdown()


def _driver(nvml: ModuleType, found: list[Device]) -> Check:
    try:
        driver, cuda = nvml.nvmlSystemGetDriverVersion(), nvml.nvmlSystemGetCudaDriverVersion_v2()
    except nvml.NVMLError as error:
        return Check("nvml", State.LIMITED, f"the driver tells no version: {error}")
    text = f"driver {driver}, for CUDA up to {cuda // 1000}.{cuda % 1000 // 10}"
    if not found:
        return Check("nvml", State.MISSING, f"{text}, lists no GPU", "in a container, start it with --gpus all")
    return Check("nvml", State.OK, text)


def _device(nvml: ModuleType, device: Device) -> Check:
    name = f"gpu {device.index}"
    if device.lost:
        return Check(name, State.MISSING, device.missing["device"])
    memory = device.ask("memory", lambda: nvml.nvmlDeviceGetMemoryInfo(device.handle))
    limit = device.ask("power_limit", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(device.handle))
    parts = [f"{device.name or 'a GPU without a name'}"]
    parts += [] if memory is None else [f"{memory.total / (1 << 30):.0f} GiB"]
    parts += [] if limit is None else [f"{limit / 1000:.0f} W"]
    parts += ["divided into MIG instances"] if device.divided else []
    narrow = None if device.parent is not None else _narrow_link(nvml, device)
    unknown = [metric for metric in ("util", "power", "energy", "pcie") if _never_told(nvml, device, metric)]
    if unknown:
        parts.append(f"does not tell {', '.join(unknown)}")
    state = State.LIMITED if narrow or (unknown and device.parent is None) else State.OK
    return Check(name, state, ", ".join(parts + ([narrow] if narrow else [])), _link_advice(narrow))


def _never_told(nvml: ModuleType, device: Device, metric: str) -> bool:
    questions = {
        "util": lambda: nvml.nvmlDeviceGetUtilizationRates(device.handle),
        "power": lambda: nvml.nvmlDeviceGetPowerUsage(device.handle),
        "energy": lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(device.handle),
        "pcie": lambda: nvml.nvmlDeviceGetFieldValues(device.handle, [PCIE_TX, PCIE_RX]),
    }
    return device.ask(metric, questions[metric]) is None


def _narrow_link(nvml: ModuleType, device: Device) -> str | None:
    """A PCIe link that has fewer lanes than the GPU could use; idle links lower their speed, never their width."""
    now = device.ask("link", lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(device.handle))
    most = device.ask("link", lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(device.handle))
    return f"PCIe with {now} of {most} lanes" if now is not None and most is not None and now < most else None


def _link_advice(narrow: str | None) -> str | None:
    return None if narrow is None else "copies between host and GPU are slower than they could be; look at its slot"


def _topology(nvml: ModuleType, whole: list[Device]) -> Check:
    """What connects each two GPUs."""
    by_path: dict[str, list[str]] = {}
    far = False
    for one, other in combinations(whole, 2):
        path, is_far = _path(nvml, one, other)
        far = far or is_far
        by_path.setdefault(path, []).append(f"{one.index}-{other.index}")
    text = "; ".join(f"{path}: {_shortened(pairs)}" for path, pairs in by_path.items())
    advice = "between NUMA nodes, all-reduce goes through both processors; see nvidia-smi topo -m" if far else None
    return Check("gpu topology", State.LIMITED if far else State.OK, text, advice)


def _shortened(pairs: list[str]) -> str:
    rest = len(pairs) - MOST_PAIRS
    return ", ".join(pairs[:MOST_PAIRS]) + (f" and {rest} more" if rest > 0 else "")


def _path(nvml: ModuleType, one: Device, other: Device) -> tuple[str, bool]:
    """What connects two GPUs, and whether it leads from one NUMA node to another."""
    linked = one.ask("nvlink", lambda: _p2p(nvml, one, other))
    if linked == nvml.NVML_P2P_STATUS_OK:
        return "NVLink", False
    try:
        level = nvml.nvmlDeviceGetTopologyCommonAncestor(one.handle, other.handle)
    except nvml.NVMLError as error:
        return f"unknown ({refusal(nvml, error)})", False
    return PATHS.get(level, "unknown"), level >= NUMA_LINK


def _p2p(nvml: ModuleType, one: Device, other: Device) -> Any:
    return nvml.nvmlDeviceGetP2PStatus(one.handle, other.handle, nvml.NVML_P2P_CAPS_INDEX_NVLINK)
