"""NVIDIA's driver library (NVML) through nvidia-ml-py: opened, asked for its devices, its refusals put in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from trainlint.probe.extra import EXTRA

PCIE_TX, PCIE_RX = 197, 198
"""Field values: bytes that the GPU has sent and received. They may wrap around."""


class NvmlUnavailableError(Exception):
    """Nothing can be asked of the driver; the message says why, and what to do."""


def open_library() -> ModuleType:
    """nvidia-ml-py's module, with the driver's library ready to be asked.

    Raises:
        NvmlUnavailableError: the package, the library or the driver is missing, or refuses.
    """
    try:
        import pynvml
    except ImportError as error:
        raise NvmlUnavailableError(f"nvidia-ml-py cannot be imported ({error}): {EXTRA}") from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise NvmlUnavailableError(unavailable(pynvml, error)) from error
    library: ModuleType = pynvml
    return library


def unavailable(nvml: ModuleType, error: Any) -> str:
    """Why the library cannot be used at all, in words."""
    return {
        nvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver library (libnvidia-ml.so.1) here; where there is a GPU, "
        "install its driver, or start the container with --gpus all",
        nvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded: modprobe nvidia, or restart the machine",
        nvml.NVML_ERROR_NO_PERMISSION: "the NVIDIA driver refuses this user; have /dev/nvidiactl and /dev/nvidia* made "
        "readable and writable, or run as root",
        nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the NVIDIA library and the loaded driver are of different versions; "
        "restart the machine",
    }.get(error.value, f"the NVIDIA driver library cannot be used: {error}")


def refusal(nvml: ModuleType, error: Any, *, mig: bool = False) -> str:
    """Why one thing was not told, in words."""
    whole = "the driver tells it of whole GPUs, not of a MIG instance"
    return {
        nvml.NVML_ERROR_NOT_SUPPORTED: whole if mig else "this GPU or its driver does not tell it",
        nvml.NVML_ERROR_NO_PERMISSION: "the driver does not tell it to this user; run as root, or have the "
        "administrator allow it",
        nvml.NVML_ERROR_FUNCTION_NOT_FOUND: "the driver is too old to tell it",
        nvml.NVML_ERROR_GPU_IS_LOST: "the GPU is lost: it no longer answers its driver; look for Xid errors in the "
        "kernel's log (dmesg), then reset the GPU or restart the machine",
        nvml.NVML_ERROR_RESET_REQUIRED: "the GPU has to be reset (nvidia-smi --gpu-reset) before it works again",
    }.get(error.value, f"the driver says: {error}")


@dataclass(slots=True)
class Device:
    """A GPU, or one MIG instance of it, that the driver lists."""

    nvml: ModuleType
    index: int
    """Of the GPU, as `--gpu` and nvidia-smi count."""
    handle: Any
    uuid: str
    name: str
    parent: Any = None
    """The GPU of a MIG instance."""
    divided: bool = False
    """Whether it is a GPU divided into MIG instances, which jobs cannot use as a whole."""
    missing: dict[str, str] = field(default_factory=dict)
    lost: bool = False
    _told: set[str] = field(default_factory=set)
    _failed: dict[str, str] = field(default_factory=dict)

    def ask(self, metric: str, question: Callable[[], Any], *, tells: bool = True) -> Any:
        """What the driver answers; None where it does not, which is noted. What it never tells is not asked again.

        `tells` is whether an answer has the metric, rather than being a first step towards it.
        """
        if self.lost or metric in self.missing:
            return None
        nvml = self.nvml
        try:
            answer = question()
        except nvml.NVMLError as error:
            self._note(metric, error)
            return None
        if tells:
            self._told.add(metric)
        return answer

    def _note(self, metric: str, error: Any) -> None:
        nvml = self.nvml
        reason = refusal(nvml, error, mig=self.parent is not None)
        if error.value in (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED):
            self.lost = True
            self.missing["device"] = reason
        elif error.value in (
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_NO_PERMISSION,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        ):
            self.missing[metric] = reason
        else:
            self._failed[metric] = reason

    def settle(self) -> None:
        """Count as missing what the driver failed to tell each time."""
        self.missing.update((metric, why) for metric, why in self._failed.items() if metric not in self._told)

    def processes(self) -> set[int]:
        """Ids of the processes on the GPU; those of other containers, or ids of the host, may be among them."""
        found = self.ask("processes", lambda: self.nvml.nvmlDeviceGetComputeRunningProcesses(self.handle))
        return {int(process.pid) for process in found or ()}


def devices(nvml: ModuleType) -> Iterator[Device]:
    """The GPUs of the machine, each followed by its MIG instances.

    Raises:
        NvmlUnavailableError: the driver cannot even count them.
    """
    try:
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        raise NvmlUnavailableError(unavailable(nvml, error)) from error
    for index in range(count):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:
            yield Device(nvml, index, None, f"unknown-{index}", "", missing={"device": refusal(nvml, error)}, lost=True)
            continue
        gpu = _described(nvml, index, handle)
        instances = list(_instances(gpu))
        gpu.divided = bool(instances)
        yield gpu
        yield from instances


def _described(nvml: ModuleType, index: int, handle: Any, parent: Any = None) -> Device:
    device = Device(nvml, index, handle, f"unknown-{index}", "", parent)
    device.uuid = device.ask("uuid", lambda: nvml.nvmlDeviceGetUUID(handle)) or device.uuid
    device.name = device.ask("name", lambda: nvml.nvmlDeviceGetName(handle)) or ""
    return device


def _instances(gpu: Device) -> Iterator[Device]:
    nvml = gpu.nvml
    try:
        if nvml.nvmlDeviceGetMigMode(gpu.handle)[0] != nvml.NVML_DEVICE_MIG_ENABLE:
            return
        places = nvml.nvmlDeviceGetMaxMigDeviceCount(gpu.handle)
    except nvml.NVMLError:
        return  # before Ampere there is no such mode
    for place in range(places):
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu.handle, place)
        except nvml.NVMLError:
            continue  # nothing is at this place
        yield _described(nvml, gpu.index, handle, gpu.handle)
