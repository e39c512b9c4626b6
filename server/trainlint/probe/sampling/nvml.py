"""The state of the job's GPUs, as their driver tells it.

NVML's utilization covers 1/6 to 1 s and its power on newer cards is a mean over one second, so sampling faster would
tell no more. PCIe traffic comes from counters, because `nvmlDeviceGetPcieThroughput` blocks for 20 ms at each call.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainlint.probe.recording import DEVICES_IN_DOUBT, GpuDevice, GpuSample
from trainlint.probe.sampling.driver import PCIE_RX, PCIE_TX, Device, NvmlUnavailableError, devices, open_library
from trainlint.probe.sampling.job import Job
from trainlint.probe.sampling.lines import Lines
from trainlint.probe.sampling.matching import Claims, Match, matched
from trainlint.probe.sampling.pace import Pace

INTERVAL_S = 0.2
MATCH_S = 2.0
"""How often it is looked anew which GPUs the job uses."""

GPM_METRICS = {"sm_active": 2, "tensor_active": 5, "dram_active": 10}
"""Fields of a sample by metric of the GPU performance monitor, which tells per cent."""

THROTTLE_REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""Names of the bits, as nvidia-smi spells them (`nvml.h`, nvmlClocksEventReasons)."""


class GpuSampler:
    source = "nvml"

    def __init__(self, job: Job, folder: Path, gpus: list[int] | None) -> None:
        """Look for the GPUs.

        Raises:
            NvmlUnavailableError: there is no driver to ask.
        """
        self._nvml = open_library()
        self._job = job
        self._lines = Lines(folder / "gpu.jsonl")
        self._gpus = gpus
        self._watched = [_Watched(device) for device in devices(self._nvml)]
        self._match = Match(frozenset())
        self._match_due = 0.0
        self._written: dict[str, GpuDevice] = {}
        self.pace = Pace(INTERVAL_S)
        if not self._watched:
            raise NvmlUnavailableError("the NVIDIA driver lists no GPU; in a container, start it with --gpus all")

    @property
    def missing(self) -> dict[str, str]:
        found = {}
        for watched in self._watched:
            if watched.device.uuid in self._match.uuids:
                found.update({f"nvml.{metric}": reason for metric, reason in watched.device.missing.items()})
        if self._match.doubt is not None:
            found[DEVICES_IN_DOUBT] = self._match.doubt
        return found if self._lines.failure is None else found | {"nvml": self._lines.failure}

    def sample(self) -> None:
        if time.perf_counter() >= self._match_due:
            self._match_due = time.perf_counter() + MATCH_S
            self._match = matched(
                [watched.device for watched in self._watched], Claims.of(self._job, self._gpus), self._watched_pids
            )
        samples = [watched.sample() for watched in self._wanted()]
        self._write_devices()
        self._lines.write(*(sample for sample in samples if sample is not None))

    def close(self) -> None:
        for watched in self._watched:
            watched.device.settle()
        self._write_devices()

    def _watched_pids(self, uuid: str) -> set[int]:
        (found,) = [watched for watched in self._watched if watched.device.uuid == uuid]
        return found.device.processes()

    def _wanted(self) -> list[_Watched]:
        """The job's GPUs; all, as long as it is not known which these are."""
        used = [watched for watched in self._watched if watched.device.uuid in self._match.uuids]
        return used or self._watched

    def _write_devices(self) -> None:
        """Write each device anew when something about it has changed; the last line counts."""
        for watched in self._watched:
            line = watched.line(watched.device.uuid in self._match.uuids)
            if self._written.get(line.uuid) != line:
                self._written[line.uuid] = line
                self._lines.write(line)


@dataclass(frozen=True, slots=True)
class _Counter:
    """Reading of a counter that may wrap around."""

    clock: float
    count: int
    bits: int

    def per_second(self, before: _Counter) -> float | None:
        counted = self.count - before.count
        if counted < 0 and self.bits == 32:
            counted += 1 << 32
        return counted / (self.clock - before.clock) if counted >= 0 and self.clock > before.clock else None


class _Watched:
    """One device, with what has to be kept from one sample to the next."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._nvml = device.nvml
        self._counters: dict[int, _Counter] = {}
        self._monitor: list[Any] = []
        self._limit = self._asked("power_limit", "nvmlDeviceGetEnforcedPowerLimit")
        self._fastest = self._asked("sm_clock_max", "nvmlDeviceGetMaxClockInfo", self._nvml.NVML_CLOCK_SM)
        self._memory = self._asked_memory()
        self._monitored = self._can_monitor()

    def _asked(self, metric: str, function: str, *arguments: object) -> Any:
        return self.device.ask(metric, lambda: getattr(self._nvml, function)(self.device.handle, *arguments))

    def line(self, used: bool) -> GpuDevice:
        return GpuDevice(
            index=self.device.index,
            uuid=self.device.uuid,
            name=self.device.name,
            memory_total_bytes=None if self._memory is None else int(self._memory.total),
            power_limit_w=None if self._limit is None else self._limit / 1e3,
            sm_clock_max_mhz=self._fastest,
            used_by_job=used,
            missing=dict(self.device.missing),
        )

    def sample(self) -> GpuSample | None:
        """The device's state now; None where it is lost."""
        clock = time.perf_counter()
        util = self._asked("util", "nvmlDeviceGetUtilizationRates")
        memory = self._asked_memory()
        power = self._asked("power", "nvmlDeviceGetPowerUsage")
        energy = self._asked("energy", "nvmlDeviceGetTotalEnergyConsumption")
        sent, received = self._traffic()
        shares = self._monitor_shares()
        sample = GpuSample(
            clock=clock,
            uuid=self.device.uuid,
            util=None if util is None else util.gpu / 100,
            memory_used_bytes=None if memory is None else int(memory.used),
            power_w=None if power is None else power / 1e3,
            energy_j=None if energy is None else energy / 1e3,
            sm_clock_mhz=self._asked("sm_clock", "nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM),
            pcie_rx_bytes_per_s=received,
            pcie_tx_bytes_per_s=sent,
            throttle_reasons=self._throttled(),
            sm_active=shares.get("sm_active"),
            tensor_active=shares.get("tensor_active"),
            dram_active=shares.get("dram_active"),
        )
        return None if self.device.lost else sample

    def _asked_memory(self) -> Any:
        """The second version leaves out what the driver keeps for itself; older drivers have the first only."""
        nvml, handle = self._nvml, self.device.handle

        def question() -> Any:
            try:
                return nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
            except nvml.NVMLError as error:
                if error.value == nvml.NVML_ERROR_GPU_IS_LOST:
                    raise
                return nvml.nvmlDeviceGetMemoryInfo(handle)

        return self.device.ask("memory", question)

    def _traffic(self) -> tuple[float | None, float | None]:
        """Bytes per second that the GPU sent and received over PCIe since the sample before."""
        nvml, handle = self._nvml, self.device.handle
        found = self.device.ask("pcie", lambda: nvml.nvmlDeviceGetFieldValues(handle, [PCIE_TX, PCIE_RX]), tells=False)
        if found is None:
            return None, None
        sent, received = found
        return (
            self.device.ask("pcie", lambda: self._per_second(sent)),
            self.device.ask("pcie", lambda: self._per_second(received)),
        )

    def _per_second(self, value: Any) -> float | None:
        nvml = self._nvml
        if value.nvmlReturn != nvml.NVML_SUCCESS:
            raise nvml.NVMLError(value.nvmlReturn)
        short = value.valueType == nvml.NVML_VALUE_TYPE_UNSIGNED_INT
        count = value.value.uiVal if short else value.value.ullVal
        now = _Counter(time.perf_counter(), int(count), 32 if short else 64)
        before = self._counters.get(value.fieldId)
        self._counters[value.fieldId] = now
        return None if before is None else now.per_second(before)

    def _throttled(self) -> list[str]:
        newer = hasattr(self._nvml, "nvmlDeviceGetCurrentClocksEventReasons")
        name = "nvmlDeviceGetCurrentClocksEventReasons" if newer else "nvmlDeviceGetCurrentClocksThrottleReasons"
        bits = self._asked("throttle_reasons", name)
        return [reason for bit, reason in THROTTLE_REASONS.items() if bits is not None and bits & bit]

    def _can_monitor(self) -> bool:
        """Whether there is a GPU performance monitor: Hopper and newer."""
        whole = self.device.parent or self.device.handle
        found = self.device.ask("gpm", lambda: self._nvml.nvmlGpmQueryDeviceSupport(whole), tells=False)
        if found is not None and not found.isSupportedDevice:
            self.device.missing["gpm"] = "the GPU has no performance monitor; Hopper and newer GPUs do"
        return found is not None and bool(found.isSupportedDevice)

    def _monitor_shares(self) -> dict[str, float]:
        if not self._monitored or self.device.lost:
            return {}
        return self.device.ask("gpm", self._compared) or {}

    def _compared(self) -> dict[str, float]:
        """What the monitor counted between the sample before and now."""
        nvml = self._nvml
        now = self._monitor.pop(0) if len(self._monitor) > 1 else nvml.nvmlGpmSampleAlloc()
        self._monitor.append(now)
        if self.device.parent is None:
            nvml.nvmlGpmSampleGet(self.device.handle, now)
        else:
            instance = nvml.nvmlDeviceGetGpuInstanceId(self.device.handle)
            nvml.nvmlGpmMigSampleGet(self.device.parent, instance, now)
        if len(self._monitor) < 2:
            return {}
        question = nvml.c_nvmlGpmMetricsGet_t()
        question.version = nvml.NVML_GPM_METRICS_GET_VERSION
        question.numMetrics = len(GPM_METRICS)
        question.sample1, question.sample2 = self._monitor
        for place, metric in enumerate(GPM_METRICS.values()):
            question.metrics[place].metricId = metric
        nvml.nvmlGpmMetricsGet(question)
        answers: Iterable[Any] = question.metrics[: len(GPM_METRICS)]
        return {
            name: answer.value / 100
            for name, answer in zip(GPM_METRICS, answers, strict=True)
            if answer.nvmlReturn == nvml.NVML_SUCCESS
        }
