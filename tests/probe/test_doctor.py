"""`trainlint doctor`: what it says of an environment, and how it says it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from gpu_driver import built, environment

from trainlint.probe.doctor import system, training, variables
from trainlint.probe.doctor.check import Check, State
from trainlint.probe.doctor.training import Answer
from trainlint.report.doctor import as_text
from trainlint.report.style import Style


def doctor(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trainlint", "doctor", *arguments], env=env, capture_output=True, text=True, check=False
    )


def told(*arguments: str, env: Mapping[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """The checks by name."""
    done = doctor("--output-format", "json", *arguments, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["schema_version"] == 1
    assert {tuple(check) for check in document["checks"]} == {("name", "state", "found", "advice")}
    return {check["name"]: check for check in document["checks"]}


def test_this_environment_is_told_line_by_line() -> None:
    checks = told("--python", sys.executable)
    assert list(checks)[:4] == ["python", "torch", "cuda", "nvml"]
    assert checks["python"]["found"].startswith(sys.version.split()[0])
    assert checks["torch"]["state"] in ("ok", "missing")
    assert checks["psutil"]["state"] == "ok"
    assert {"stacks", "attach", "cores", "recording", "nccl", "launcher"} <= checks.keys()
    assert all(check["advice"] for check in checks.values() if check["state"] == "missing")


def test_people_get_one_line_a_check_and_what_to_do_below() -> None:
    checks = [Check("nvml", State.MISSING, "no library", "install it"), Check("psutil", State.OK, "7.2\x1b[0m")]
    assert "".join(as_text(checks, Style(colour=False))) == (
        "missing  nvml           no library\n"
        "                        to do: install it\n"
        "ok       psutil         7.2␛[0m\n"
    )


INTERPRETERS = {
    "is not there": (None, "cannot be run: no such file or directory"),
    "may not be run": ("", "cannot be run: permission denied"),
    "is no interpreter": ("#!/bin/sh\necho hello\nexit 3\n", "does not answer as a Python interpreter (status 3)"),
}


@pytest.mark.parametrize("case", INTERPRETERS)
def test_an_interpreter_that_does_not_answer(tmp_path: Path, case: str) -> None:
    text, reason = INTERPRETERS[case]
    python = tmp_path / "python"
    if text is not None:
        python.write_text(text)
        python.chmod(stat.S_IRWXU if text else stat.S_IRUSR)
    (check,) = training.checks(str(python))
    assert (check.name, check.state) == ("python", State.MISSING)
    assert reason in check.found and "--python PATH" in (check.advice or "")


def test_the_working_directory_is_not_asked_for_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('not this one')\n")
    monkeypatch.chdir(tmp_path)
    assert training.ask(sys.executable).error != "not this one"


ANSWERS: dict[str, tuple[dict[str, Any], list[State], Sequence[str]]] = {
    "all is well": (
        {
            "torch": "2.13.0+cu130",
            "cuda": "13.0",
            "architectures": ["sm_90"],
            "devices": [("H100", 9, 0)],
            "nccl": "2.28.9",
        },
        [State.OK, State.OK, State.OK],
        ["1 GPUs", "NCCL 2.28.9"],
    ),
    "Python is too old": ({"python": "3.8.18", "torch": "2.4.1"}, [State.MISSING, State.OK, State.MISSING], ["3.9"]),
    "no torch": (
        {"error": "No module named 'torch'"},
        [State.OK, State.MISSING],
        ["No module named 'torch'", "--python"],
    ),
    "torch is too old": ({"torch": "2.3.1"}, [State.OK, State.MISSING, State.MISSING], ["torch 2.4 or newer"]),
    "built without CUDA": ({"torch": "2.13.0"}, [State.OK, State.OK, State.MISSING], ["without CUDA"]),
    "built for ROCm": ({"torch": "2.13.0", "hip": "7.0"}, [State.OK, State.OK, State.MISSING], ["ROCm 7.0"]),
    "no GPU to use": (
        {"torch": "2.13.0", "cuda": "13.0"},
        [State.OK, State.OK, State.MISSING],
        ["CUDA_VISIBLE_DEVICES"],
    ),
    "CUDA fails": (
        {"torch": "2.13.0", "cuda": "13.0", "cuda_error": "RuntimeError: no driver"},
        [State.OK, State.OK, State.LIMITED],
        ["no driver"],
    ),
    "no code for this GPU": (
        {"torch": "2.13.0", "cuda": "13.0", "architectures": ["sm_80", "sm_90"], "devices": [("V100", 7, 0)]},
        [State.OK, State.OK, State.LIMITED],
        ["V100 is not among what it was built for"],
    ),
    "a newer minor version": (
        {"torch": "2.13.0", "cuda": "13.0", "architectures": ["sm_80"], "devices": [("A10G", 8, 6)]},
        [State.OK, State.OK, State.OK],
        [],
    ),
    "intermediate code": (
        {"torch": "2.13.0", "cuda": "13.0", "architectures": ["sm_90a", "compute_90"], "devices": [("B200", 10, 0)]},
        [State.OK, State.OK, State.OK],
        [],
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_what_torch_says_is_judged(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    answer, states, words = ANSWERS[case]
    full = Answer.model_validate({"python": "3.12.1", "executable": "/env/bin/python", **answer})
    monkeypatch.setattr(training, "ask", lambda python: full)
    checks = list(training.checks("/env/bin/python"))
    assert [check.state for check in checks] == states
    text = " ".join(f"{check.found} {check.advice or ''}" for check in checks)
    assert [word for word in words if word not in text] == []


VARIABLES = {
    "none": ({}, []),
    "switched off": ({"NCCL_P2P_DISABLE": "0", "CUDA_LAUNCH_BLOCKING": ""}, []),
    "peer access": ({"NCCL_P2P_DISABLE": "1"}, ["nccl"]),
    "harmless": ({"NCCL_SOCKET_IFNAME": "eth0", "NCCL_DEBUG": "WARN"}, []),
    "wordy": ({"NCCL_DEBUG": "info"}, ["nccl"]),
    "set by hand": ({"MASTER_ADDR": "localhost", "WORLD_SIZE": "2"}, ["launcher"]),
    "blocking": ({"CUDA_LAUNCH_BLOCKING": "1"}, ["variables"]),
}


@pytest.mark.parametrize("case", VARIABLES)
def test_variables_that_slow_a_job_down_or_keep_it_waiting(case: str) -> None:
    values, limited = VARIABLES[case]
    checks = list(variables.checks(values))
    assert [check.name for check in checks if check.state is State.LIMITED] == limited
    assert all(check.advice for check in checks if check.state is State.LIMITED)
    assert all(name in check.found for check in checks for name in values if check.name in limited)


SCOPES = {"0": State.OK, "1": State.LIMITED, "3": State.LIMITED}


@pytest.mark.parametrize("scope", SCOPES)
def test_a_ptrace_scope_limits_looking_at_running_jobs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scope: str
) -> None:
    (tmp_path / "scope").write_text(f"{scope}\n")
    monkeypatch.setattr(system, "PTRACE_SCOPE", tmp_path / "scope")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (check,) = [check for check in system.checks(sys.executable) if check.name == "attach"]
    assert check.state is SCOPES[scope]
    assert check.state is State.OK or "SYS_PTRACE" in (check.advice or "")


def test_py_spy_that_is_refused_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refusing = tmp_path / "py-spy"
    refusing.write_text("#!/bin/sh\necho 'Permission Denied: Try running again' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setattr("trainlint.probe.sampling.pyspy.program", lambda: refusing)
    (check,) = [check for check in system.checks(sys.executable) if check.name == "stacks"]
    assert (check.state, "SYS_PTRACE" in (check.advice or "")) == (State.MISSING, True)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("driver"))


GPUS: dict[str, tuple[str, dict[str, str], Sequence[str]]] = {
    "one": ("", {"nvml": "ok", "gpu 0": "ok"}, ["driver 580.00.01, for CUDA up to 13.0", "80 GiB, 700 W"]),
    "some with NVLink": (
        "gpus 3\nnvlink 0 1\n",
        {"gpu 0": "ok", "gpu 1": "limited", "gpu topology": "ok"},
        ["PCIe with 8 of 16 lanes", "NVLink: 0-1; the bridges of one NUMA node: 0-2, 1-2"],
    ),
    "MIG": ("mig 0 2\n", {"gpu 0": "ok"}, ["MIG 1g.10gb"]),
    "a lost one": ("gpus 2\nlost 1 -1\n", {"gpu 0": "ok", "gpu 1": "missing"}, ["Xid"]),
    "without power": ("answer 0 nvmlDeviceGetPowerUsage 3\n", {"gpu 0": "limited"}, ["does not tell power"]),
    "refused": ("init 4\n", {"nvml": "missing"}, ["/dev/nvidiactl"]),
    "none": ("gpus 0\n", {"nvml": "missing"}, ["lists no GPU"]),
}


@pytest.mark.parametrize("case", GPUS)
def test_gpus_are_told_as_the_driver_sees_them(library: Path, tmp_path: Path, case: str) -> None:
    script, states, words = GPUS[case]
    (tmp_path / "script").write_text(script)
    checks = told("--python", "/gone", env=environment(library, tmp_path / "script"))
    assert {name: checks[name]["state"] for name in states} == states
    text = " ".join(f"{check['found']} {check['advice']}" for check in checks.values())
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize("arguments", [["--pythn", "x"], ["extra"], ["--output-format", "xml"]])
def test_wrong_usage_ends_with_status_2(arguments: list[str]) -> None:
    done = doctor(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "trainlint doctor: error:" in done.stderr
