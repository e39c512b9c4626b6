"""What the driver tells of a GPU that is known to be busy."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from trainlint.probe import attach, recording
from trainlint.probe.recording import GpuSample, Options

LOOKED_AT_S = 8.0
BUSY = """
import torch

one = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
for _ in range(20):
    one @ one
torch.cuda.synchronize()
print("ready", flush=True)
while True:
    for _ in range(20):
        one @ one
    torch.cuda.synchronize()
"""
"""Multiplies large matrices, one after the other."""


def disagreements_with_the_driver(folder: Path) -> list[str]:
    """Look at a program that keeps one GPU busy, and say what was not told of it, or cannot be true."""
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True) as busy:
        try:
            assert busy.stdout is not None
            if busy.stdout.readline() != "ready\n":
                return ["the program that keeps the GPU busy did not start"]
            manifest = attach.run(busy.pid, folder, Options(), duration_s=LOOKED_AT_S)
        finally:
            busy.kill()
    seen = recording.read(folder)
    used = [device for device in seen.devices if device.used_by_job]
    if len(used) != 1:
        return [f"{len(used)} GPUs are told to be the job's, not 1: {manifest.missing}"]
    limit = used[0].power_limit_w
    return list(about([sample for sample in seen.gpu if sample.uuid == used[0].uuid], limit, used[0].missing))


def about(samples: list[GpuSample], limit_w: float | None, missing: dict[str, str]) -> Iterator[str]:
    """What cannot be true of samples of a GPU that was busy all the time."""
    if len(samples) < LOOKED_AT_S:
        yield f"only {len(samples)} samples"
        return
    later = samples[len(samples) // 4 :]
    util = [sample.util for sample in later if sample.util is not None]
    if not util or statistics.median(util) < 0.9:
        yield f"utilization is {util}, of a GPU that is never idle for long"
    if not all(sample.memory_used_bytes for sample in later):
        yield "memory is not told"
    yield from _about_power(later, limit_w)
    if not any(sample.sm_clock_mhz for sample in later):
        yield "the SM clock is not told"
    if "pcie" not in missing and not any(sample.pcie_rx_bytes_per_s is not None for sample in later):
        yield "PCIe traffic is neither told nor missing"
    active = [sample.sm_active for sample in later if sample.sm_active is not None]
    if "gpm" not in missing and (not active or statistics.median(active) < 0.5):
        yield f"the performance monitor says that the SMs are active for {active}"


def _about_power(samples: list[GpuSample], limit_w: float | None) -> Iterator[str]:
    power = [sample.power_w for sample in samples if sample.power_w is not None]
    if not power or limit_w is None or not 0.3 * limit_w < statistics.mean(power) < 1.1 * limit_w:
        yield f"power is {power} W, of {limit_w} W"
        return
    first, last = samples[0], samples[-1]
    if first.energy_j is None or last.energy_j is None:
        return
    mean = (last.energy_j - first.energy_j) / (last.clock - first.clock)
    if abs(mean / statistics.mean(power) - 1) > 0.15:
        yield f"by its energy the GPU takes {mean:.0f} W, by its power {statistics.mean(power):.0f} W"
