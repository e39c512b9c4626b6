"""The programs in `examples/`, and how they are started, linted and read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
MARK = re.compile(r"# expect: (TL\d{3}(?:, TL\d{3})*)$")
RUN_SECONDS = 120
"""Limit for one run; far above the seconds that a run takes, for machines that are busy."""


@dataclass(frozen=True, slots=True)
class Program:
    """A training script of `examples/`."""

    script: str
    """Relative to `examples/`."""
    processes: int = 0
    """How many processes torchrun starts; 0 starts the script by itself."""
    clean: bool = False

    def __str__(self) -> str:
        return self.script if not self.processes else f"{self.script} on {self.processes} processes"

    def command(self, folder: Path, *arguments: str) -> list[str]:
        launcher = [sys.executable]
        if self.processes:
            launcher += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.processes}"]
        return [*launcher, str(folder / self.script), "--device", "cpu", *arguments]


PLANTED = (
    Program("vision/train.py"),
    Program("text/train.py"),
    Program("gan/train.py"),
    Program("ddp/train.py", processes=2),
    Program("accumulation/train.py"),
    Program("accumulation/train.py", processes=2),
    Program("trainer/train.py"),
)
CLEAN = (
    Program("vision/train_clean.py", clean=True),
    Program("text/train_clean.py", clean=True),
    Program("gan/train_clean.py", clean=True),
    Program("ddp/train_clean.py", processes=2, clean=True),
    Program("accumulation/train_clean.py", clean=True),
    Program("accumulation/train_clean.py", processes=2, clean=True),
    Program("trainer_clean/train.py", clean=True),
)

FOLDERS = tuple(sorted({Path(program.script).parts[0] for program in PLANTED + CLEAN}))


@dataclass(frozen=True, slots=True, order=True)
class Report:
    """A finding, or a mark that asks for one."""

    path: str
    row: int
    code: str

    def __str__(self) -> str:
        return f"{self.path}:{self.row} {self.code}"


def run(program: Program, folder: Path, scratch: Path, *arguments: str) -> list[float]:
    """Train with `program` of the examples in `folder`, started in `scratch`, and return the loss of each step.

    One thread per process, so that sums are made in the same order in every run.
    """
    done = subprocess.run(
        program.command(folder, *arguments),
        cwd=scratch,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    assert done.returncode == 0, f"{program} ended with {done.returncode}:\n{done.stderr[-4000:]}"
    losses = json.loads(done.stdout.splitlines()[-1])["losses"]
    assert isinstance(losses, list)
    return [float(loss) for loss in losses]


def lint(folder: Path, *arguments: str) -> list[dict[str, object]]:
    """Findings of `trainlint check` on `folder`, as its JSON output gives them."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "trainlint", "check", str(folder)),
            *("--output-format", "json", "--no-cache", "--isolated", *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    assert done.returncode in (0, 1), f"trainlint ended with {done.returncode}:\n{done.stderr[-4000:]}"
    findings = json.loads(done.stdout)
    assert isinstance(findings, list)
    return findings


def reports(findings: list[dict[str, object]], folder: Path) -> set[Report]:
    """The findings by path relative to `folder`, row and code."""
    found = set()
    for finding in findings:
        location = finding["location"]
        assert isinstance(location, dict)
        path = Path(str(finding["filename"])).relative_to(folder.resolve())
        found.add(Report(path.as_posix(), int(location["row"]), str(finding["code"])))
    return found


def marks(folder: Path) -> set[Report]:
    """The reports that the marks in the sources of `folder` ask for."""
    asked = set()
    for path in sorted(folder.rglob("*.py")):
        for row, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if match := MARK.search(line):
                asked |= {Report(path.relative_to(folder).as_posix(), row, code) for code in match[1].split(", ")}
    return asked
