"""The script for a machine with an NVIDIA GPU: what can be tested of it where there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.gpu.__main__ import FIRST, cases
from tests.gpu.driver import about

from trainlint.probe.recording import GpuSample

SCRIPT = Path(__file__).with_name("run.sh")
REPOSITORY = Path(__file__).parents[2]


def test_all_planted_programs_are_cases_after_the_driver_itself() -> None:
    names = list(cases("gpu"))
    assert names[0] == "driver" and set(names[1 : len(FIRST) + 1]) == set(FIRST)
    assert names[1:] == list(cases("cpu"))


def test_the_script_needs_an_interpreter_with_a_gpu(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    done = subprocess.run(
        [SCRIPT, tmp_path], env=os.environ | {"PYTHON": str(python)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "a PyTorch that sees a CUDA GPU" in done.stderr and len(done.stderr.splitlines()) == 1


def test_the_script_says_how_it_is_used() -> None:
    done = subprocess.run([SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "usage: tests/gpu/run.sh WHEELS [RESULT]" in done.stderr


def test_what_there_is_no_time_for_is_listed_as_not_run(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "tests.gpu", result, "balanced", "--platform", "cpu", "--seconds", "1"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "0 of 0 right, 1 not run\n")
    report = json.loads(result.read_text())
    assert (report["platform"], report["cases"], report["not_run"]) == ("cpu", [], ["balanced"])
    assert {check["name"] for check in report["doctor"]} >= {"python", "torch", "nvml"}


BUSY = {"util": 1.0, "memory_used_bytes": 5 << 30, "power_w": 600.0, "sm_clock_mhz": 1900, "sm_active": 0.9}
CLAIMS = {
    "a busy GPU": ({}, {}, None),
    "idle": ({"util": 0.1}, {}, "utilization"),
    "power of an idle card": ({"power_w": 80.0}, {}, "power"),
    "power that contradicts the energy": ({"power_w": 400.0}, {}, "by its energy the GPU takes 600 W"),
    "no traffic": ({"pcie_rx_bytes_per_s": None}, {}, "neither told nor missing"),
    "no traffic, with a reason": ({"pcie_rx_bytes_per_s": None}, {"pcie": "not told"}, None),
    "no monitor": ({"sm_active": None}, {}, "performance monitor"),
    "no monitor, with a reason": ({"sm_active": None}, {"gpm": "before Hopper"}, None),
}


@pytest.mark.parametrize("case", CLAIMS)
def test_what_a_driver_tells_of_a_busy_gpu_is_doubted_where_it_cannot_be_true(case: str) -> None:
    claims, missing, doubt = CLAIMS[case]
    samples = [
        GpuSample.model_validate(
            {"clock": 0.2 * n, "uuid": "GPU-1", "energy_j": 600 * 0.2 * n, "pcie_rx_bytes_per_s": 1e6, **BUSY, **claims}
        )
        for n in range(40)
    ]
    wrong = list(about(samples, 700.0, missing))
    assert len(wrong) == (doubt is not None)
    assert doubt is None or doubt in wrong[0]
