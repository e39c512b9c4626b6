"""Model FLOPs utilization: the arithmetic that a model needs, over what its devices could do in the time.

Peak rates are dense ones. Datasheets of NVIDIA print the doubled rates of structured sparsity, which training does not
use; where they print only those, the row says so and the rate is half of it. A device that is not listed has no rate,
and a run on it no utilization: a guess would look like a measurement. Variants of one chip differ in clock and power
(H100 SXM, PCIe, NVL), so that each is a row of its own, and a part of a device (MIG) is none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

FLOPS_PER_PARAMETER_AND_TOKEN = 6
"""Two for the forward pass and four for the backward pass of a dense model; recomputed activations do not count."""


class Precision(StrEnum):
    """In what matrices are multiplied."""

    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    TF32 = "tf32"
    FLOAT32 = "float32"


@dataclass(frozen=True, slots=True)
class PeakRate:
    """What a datasheet promises for a device, in operations per second."""

    device: re.Pattern[str]
    """Names by which the driver knows the device."""
    half: float
    """bfloat16 and float16, accumulated in float32."""
    tf32: float
    float32: float | None
    source: str
    address: str

    def rate(self, precision: Precision) -> float | None:
        """The dense rate for a precision; None where the row does not have it."""
        return {Precision.TF32: self.tf32, Precision.FLOAT32: self.float32}.get(precision, self.half)


_TERA = 1e12
PEAK_RATES = (
    PeakRate(
        re.compile(r"NVIDIA A100(-SXM4|-PCIE)?-(40|80)GB|NVIDIA A100 80GB PCIe"),
        half=312 * _TERA,
        tf32=156 * _TERA,
        float32=19.5 * _TERA,
        source="NVIDIA A100 Tensor Core GPU datasheet: 312 TFLOPS, 624 with sparsity",
        address="https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf",
    ),
    PeakRate(
        re.compile(r"NVIDIA H100 80GB HBM3"),
        half=989.4 * _TERA,
        tf32=494.7 * _TERA,
        float32=66.9 * _TERA,
        source="NVIDIA H100 Tensor Core GPU datasheet, H100 SXM: 1,979 TFLOPS with sparsity, half of it dense",
        address="https://www.nvidia.com/en-us/data-center/h100/",
    ),
    PeakRate(
        re.compile(r"NVIDIA H200"),
        half=989.4 * _TERA,
        tf32=494.7 * _TERA,
        float32=66.9 * _TERA,
        source="NVIDIA H200 Tensor Core GPU datasheet, H200 SXM: the rates of H100 SXM, printed with sparsity",
        address="https://www.nvidia.com/en-us/data-center/h200/",
    ),
    PeakRate(
        re.compile(r"NVIDIA L40S"),
        half=362.05 * _TERA,
        tf32=183 * _TERA,
        float32=91.6 * _TERA,
        source="NVIDIA L40S GPU datasheet: 362.05 TFLOPS, 733 with sparsity",
        address="https://www.nvidia.com/en-us/data-center/l40s/",
    ),
    PeakRate(
        re.compile(r"NVIDIA L40"),
        half=181.05 * _TERA,
        tf32=90.5 * _TERA,
        float32=90.5 * _TERA,
        source="NVIDIA L40 GPU datasheet: 181.05 TFLOPS, 362.1 with sparsity",
        address="https://www.nvidia.com/en-us/data-center/l40/",
    ),
)


def peak_rate(device: str) -> PeakRate | None:
    """The row for a device, by the name that the driver gives it; None for one that is not listed."""
    return next((row for row in PEAK_RATES if row.device.fullmatch(device.strip())), None)


def training_flops(parameters: float, tokens: float) -> float:
    """The operations of one optimizer step over `tokens` by a dense model, without those of attention.

    Raises:
        ValueError: either is not positive.
    """
    if parameters <= 0 or tokens <= 0:
        raise ValueError("parameters and tokens per step must be positive")
    return FLOPS_PER_PARAMETER_AND_TOKEN * parameters * tokens


def utilization(flops_per_step: float, step_s: float, peak_flops_per_s: float, devices: int = 1) -> float | None:
    """Model FLOPs utilization, 0 to 1; None where a figure is not positive.

    Args:
        flops_per_step: operations of a step of the whole job.
        step_s: duration of a step.
        peak_flops_per_s: dense peak rate of one device.
        devices: devices that share the step.
    """
    if min(flops_per_step, step_s, peak_flops_per_s, devices) <= 0:
        return None
    return flops_per_step / step_s / (peak_flops_per_s * devices)
