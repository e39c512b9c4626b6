"""Peak rates of devices, and the share of them that a model uses."""

from __future__ import annotations

import pytest

from trainlint.probe.peak_flops import PEAK_RATES, Precision, peak_rate, training_flops, utilization


@pytest.mark.parametrize(
    ("device", "tera"),
    [
        ("NVIDIA A100-SXM4-40GB", 312),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA A100-PCIE-40GB", 312),
        ("NVIDIA A100 80GB PCIe", 312),
        ("NVIDIA H100 80GB HBM3", 989.4),
        ("NVIDIA H200", 989.4),
        ("NVIDIA L40S", 362.05),
        ("NVIDIA L40", 181.05),
    ],
)
def test_a_listed_device_has_its_dense_rate(device: str, tera: float) -> None:
    row = peak_rate(device)
    assert row is not None
    assert row.rate(Precision.BFLOAT16) == row.rate(Precision.FLOAT16) == tera * 1e12


@pytest.mark.parametrize(
    "device",
    [
        "",
        "NVIDIA H100 PCIe",
        "NVIDIA H100 NVL",
        "NVIDIA H200 NVL",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA GeForce RTX 4090",
        "AMD Instinct MI300X",
        "H100",
    ],
)
def test_a_device_that_is_not_listed_has_no_rate(device: str) -> None:
    assert peak_rate(device) is None


def test_rates_are_dense_ordered_and_have_a_source() -> None:
    for row in PEAK_RATES:
        assert row.half / row.tf32 == pytest.approx(2, rel=0.02), (
            "with sparsity, one of them would be four times the other"
        )
        assert row.float32 is not None and row.float32 <= row.tf32
        assert row.source and row.address.startswith("https://")


def test_the_worked_example_of_article_000() -> None:
    flops = training_flops(7e9, 16_384)
    assert flops / 312e12 == pytest.approx(2.2, rel=0.01)
    assert utilization(flops, 5.5, 312e12) == pytest.approx(0.40, rel=0.01)


def test_devices_share_a_step() -> None:
    assert utilization(8e12, 1.0, 4e12, devices=8) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("flops", "step_s", "peak", "devices"), [(0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0)]
)
def test_without_a_figure_there_is_no_utilization(flops: float, step_s: float, peak: float, devices: int) -> None:
    assert utilization(flops, step_s, peak, devices) is None


@pytest.mark.parametrize(("parameters", "tokens"), [(0, 1), (1, 0), (-7e9, 10)])
def test_parameters_and_tokens_must_be_positive(parameters: float, tokens: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        training_flops(parameters, tokens)
