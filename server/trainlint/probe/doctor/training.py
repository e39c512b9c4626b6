"""The training environment: its interpreter and torch, which are asked in a process of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ValidationError

from trainlint.agent.releases import OLDEST_TORCH
from trainlint.probe.doctor.check import Check, State
from trainlint.source.system_errors import reason_of

LONGEST_ANSWER_S = 120.0
"""Importing torch takes seconds, on a network drive a minute and more."""
OLDEST_PYTHON = (3, 9)
NAME_IT = "name the training environment's interpreter: trainlint doctor --python PATH"

QUESTION = """
import json, sys
sys.path = [place for place in sys.path if place]  # the working directory is not asked
told = {"python": sys.version.split()[0], "executable": sys.executable or ""}
try:
    import torch
except ImportError as error:
    told["error"] = str(error)
except Exception as error:
    told["error"] = type(error).__name__ + ": " + str(error)
else:
    told["torch"] = str(torch.__version__)
    told["cuda"] = torch.version.cuda
    told["hip"] = getattr(torch.version, "hip", None)
    told["threads"] = torch.get_num_threads()
    try:
        if torch.cuda.is_available():
            told["architectures"] = torch.cuda.get_arch_list()
            for index in range(torch.cuda.device_count()):
                major, minor = torch.cuda.get_device_capability(index)
                told.setdefault("devices", []).append([torch.cuda.get_device_name(index), major, minor])
        if torch.distributed.is_available() and torch.distributed.is_nccl_available():
            told["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    except Exception as error:
        told["cuda_error"] = type(error).__name__ + ": " + str(error)
sys.stdout.write("\\n" + json.dumps(told) + "\\n")
"""


class Answer(BaseModel):
    """What the interpreter says about itself and its torch."""

    python: str
    executable: str
    error: str | None = None
    """Why torch cannot be imported."""
    torch: str | None = None
    cuda: str | None = None
    hip: str | None = None
    threads: int | None = None
    architectures: list[str] = []
    devices: list[tuple[str, int, int]] = []
    """Name and compute capability of each GPU."""
    nccl: str | None = None
    cuda_error: str | None = None


class NoAnswerError(Exception):
    """The interpreter says nothing; the message says why."""


def interpreter(named: str | None) -> str:
    """The interpreter that is meant: the named one, or the first that the search path finds, or our own."""
    if named is not None:
        return shutil.which(named) or str(Path(named).absolute())
    return shutil.which("python") or shutil.which("python3") or sys.executable


def ask(python: str) -> Answer:
    """Ask an interpreter about itself.

    Raises:
        NoAnswerError: it cannot be run, is none, or takes too long.
    """
    try:
        done = subprocess.run(
            [python, "-c", QUESTION],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST_ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NoAnswerError(f"{python} did not answer within {LONGEST_ANSWER_S:g} s") from error
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise NoAnswerError(f"{python} cannot be run: {reason}") from error
    last = (done.stdout.decode(errors="replace").strip().splitlines() or [""])[-1]
    try:
        return Answer.model_validate(json.loads(last))
    except (ValueError, ValidationError) as error:
        raise NoAnswerError(f"{python} does not answer as a Python interpreter (status {done.returncode})") from error


def checks(python: str) -> Iterator[Check]:
    try:
        answer = ask(python)
    except NoAnswerError as error:
        yield Check("python", State.MISSING, str(error), NAME_IT)
        return
    yield _python(answer)
    yield _torch(answer)
    if answer.torch is not None:
        yield _cuda(answer)


def _python(answer: Answer) -> Check:
    found = f"{answer.python} ({answer.executable})"
    if _release(answer.python) < OLDEST_PYTHON:
        needed = ".".join(map(str, OLDEST_PYTHON))
        return Check("python", State.MISSING, found, f"the probe's agent needs Python {needed} or newer")
    return Check("python", State.OK, found)


def _torch(answer: Answer) -> Check:
    if answer.torch is None:
        return Check("torch", State.MISSING, f"cannot be imported: {answer.error}", f"install torch, or {NAME_IT}")
    if _release(answer.torch) < OLDEST_TORCH:
        needed = ".".join(map(str, OLDEST_TORCH))
        return Check("torch", State.MISSING, answer.torch, f"the probe's agent needs torch {needed} or newer")
    return Check("torch", State.OK, f"{answer.torch}, {answer.threads} threads within an operation")


def _cuda(answer: Answer) -> Check:
    if answer.cuda is None:
        if answer.hip is not None:
            return Check("cuda", State.MISSING, f"built for ROCm {answer.hip}", "the probe reads NVIDIA's GPUs only")
        advice = "on a machine with an NVIDIA GPU, install a build with CUDA: https://pytorch.org"
        return Check("cuda", State.MISSING, "torch is built without CUDA", advice)
    if answer.cuda_error is not None:
        return Check("cuda", State.LIMITED, f"CUDA {answer.cuda} fails: {answer.cuda_error}", "see the line about NVML")
    if not answer.devices:
        advice = "compare the driver's CUDA version (the line about NVML), and CUDA_VISIBLE_DEVICES"
        return Check("cuda", State.MISSING, f"CUDA {answer.cuda}, but torch can use no GPU", advice)
    found = f"CUDA {answer.cuda}, {len(answer.devices)} GPUs, NCCL {answer.nccl or 'not there'}"
    foreign = [name for name, major, minor in answer.devices if not _built_for(answer.architectures, major, minor)]
    if foreign:
        advice = "this build of torch has no code for it; install one that has: https://pytorch.org"
        return Check("cuda", State.LIMITED, f"{found}; {', '.join(foreign)} is not among what it was built for", advice)
    return Check("cuda", State.OK, found)


def _built_for(architectures: list[str], major: int, minor: int) -> bool:
    """Code runs on devices of the same major version from its minor one on; intermediate code on all newer ones."""
    for name in architectures:
        kind, _, digits = name.rstrip("af").partition("_")
        if not digits.isdecimal():
            continue
        built = divmod(int(digits), 10)
        if (kind == "sm" and built[0] == major and built[1] <= minor) or (
            kind == "compute" and built <= (major, minor)
        ):
            return True
    return not architectures


def _release(version: str) -> tuple[int, ...]:
    """The first two numbers of a version."""
    return tuple(int(part) if part.isdecimal() else 0 for part in version.split(".")[:2])
