"""Runs `trainlint probe` as a program, as users do."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from trainlint.report.probe_result import ProbeResult, read_result

PROBE = (sys.executable, "-m", "trainlint", "probe")
UNSEEN = ("--continue", "--quiet", "--output-file", "result.json")
"""With these nothing differs from a plain run."""
PLAIN = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "TERM")}
TIMEOUT_S = 300.0
"""Far above what a run takes, for machines that are busy."""

TRAIN = """\
import sys
import time

import torch
from torch import nn

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(100_000, 4), batch_size=4)
for batch in loader:
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.005)
    print("loss", loss.item())
"""
"""Trains for minutes, and prints in each step."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of the probe."""

    status: int
    out: str
    err: str
    folder: Path

    @property
    def result(self) -> ProbeResult:
        return read_result((self.folder / "result.json").read_bytes())

    @property
    def said(self) -> list[str]:
        """The lines of trainlint's own on standard error, other than the report."""
        own = ("trainlint: ", "trainlint probe: error: ")
        return [line for line in self.err.splitlines() if line.startswith(own)]


def start(folder: Path, *words: str, **how: Any) -> subprocess.Popen[str]:
    """Start a probe in a folder, with pipes for its streams where `how` says nothing else."""
    streams: dict[str, int | IO[str] | None] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([*PROBE, *words], **{"cwd": folder, "env": PLAIN, "encoding": "utf-8"} | streams | how)


def line_of(process: subprocess.Popen[Any]) -> Any:
    """The next line on the standard output of a probe that runs."""
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], TIMEOUT_S)[0]:
        raise TimeoutError("nothing was printed")
    return process.stdout.readline()


def ended(process: subprocess.Popen[str], folder: Path, stdin: str = "") -> Ran:
    """Wait for the end of a probe; one that takes too long is killed, with all that it started."""
    try:
        out, err = process.communicate(stdin or None, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        for one in (*psutil.Process(process.pid).children(recursive=True), process):
            one.kill()
        raise
    return Ran(process.returncode, out or "", err or "", folder)


def probe(folder: Path, *words: str, **how: Any) -> Ran:
    """Run a probe to its end."""
    return ended(start(folder, *words, **how), folder)


def script(folder: Path, text: str, name: str = "job.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def job(*words: str) -> Sequence[str]:
    """The words that run `job.py` with the interpreter of the tests."""
    return ("--", sys.executable, "job.py", *words)
