"""Real training jobs with the agent injected, as the launcher injects it, and what they leave."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainlint.probe import recording
from trainlint.probe.evidence import Line
from trainlint.probe.injection import Injection
from trainlint.probe.recording import ProcessRecording

BEGIN = """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
torch.set_num_threads(1)
"""


@dataclass(frozen=True)
class Job:
    """How a job ended, and what its processes recorded."""

    code: int
    out: str
    err: str
    processes: tuple[ProcessRecording, ...]
    folder: Path

    @property
    def streams(self) -> tuple[int, str, str]:
        """What a plain run is compared by."""
        return self.code, self.out, self.err

    def of_role(self, role: str) -> list[ProcessRecording]:
        return [process for process in self.processes if process.role == role]

    @property
    def rank(self) -> ProcessRecording:
        (found,) = self.of_role("rank")
        return found


def run_plain(folder: Path, source: str, *args: str, python: Sequence[str] = (sys.executable,)) -> tuple[int, str, str]:
    """Run a script without the agent: exit code, standard output and standard error."""
    done = run([*python, str(_script(folder, source)), *args], folder, dict(os.environ))
    return done.returncode, done.stdout, done.stderr


def run_job(
    folder: Path,
    source: str,
    *args: str,
    python: Sequence[str] = (sys.executable,),
    watch: bool = False,
    **options: object,
) -> Job:
    """Run a script with the agent in it; `python` is what stands before the script, `watch` has the agent say which
    lines of the folder's files run."""
    script = _script(folder, source)
    into = prepared(folder, all_lines(folder) if watch else (), **options)
    done = run([*python, str(script), *args], folder, environment(into))
    return Job(done.returncode, done.stdout, done.stderr, processes_of(into), into)


def all_lines(folder: Path) -> Iterator[Line]:
    """The lines of all files of a folder."""
    for file in folder.glob("*.py"):
        yield from (Line(file, row) for row, _ in enumerate(file.read_text(encoding="utf-8").splitlines(), 1))


def prepared(folder: Path, flagged: Iterable[Line] = (), **options: object) -> Path:
    """A new recording with the agent in it."""
    into = folder / "recording"
    shutil.rmtree(into, ignore_errors=True)
    return Injection.into(into, recording.Options.model_validate(options), flagged).folder


def environment(into: Path) -> dict[str, str]:
    """The environment of a job that records into a folder."""
    return Injection(into).environment(os.environ)


def processes_of(into: Path) -> tuple[ProcessRecording, ...]:
    """What the processes of a job left, in the order of their beginning."""
    if not (into / "manifest.json").exists():
        _write_manifest(into)
    found = recording.read(into)
    assert found.broken == ()
    return tuple(sorted(found.processes, key=lambda one: float(str(next(one.noted("process"), {}).get("clock", 0)))))


def _write_manifest(into: Path) -> None:
    options = recording.Options()
    told = {
        "command": [],
        "started": "",
        "clock": 0.0,
        "cwd": "",
        "probe_pid": 0,
        "host": "",
        "platform": "",
        "cores": 1,
    }
    manifest = recording.Manifest.model_validate({**told, "options": options})
    recording.write_manifest(into, manifest)


def _script(folder: Path, source: str) -> Path:
    script = folder / "job.py"
    script.write_text(source, encoding="utf-8")
    return script


def run(command: list[str], folder: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300, check=False)
