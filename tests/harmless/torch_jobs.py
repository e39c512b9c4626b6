"""Cases of jobs with torch, run plainly and under the probe, and what differs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from trainlint.agent import records
from trainlint.probe import recording
from trainlint.probe.recording import ProcessRecording

JOBS = Path(__file__).with_name("jobs")
SHORT = ("--warmup", "2", "--steps", "5", "--profile-steps", "2")
"""A measurement that is complete, window and all, within `cases.STEPS`."""


@dataclass(frozen=True)
class Ended:
    """How a case ended, and what it said."""

    status: str
    out: str
    err: str


@dataclass(frozen=True)
class Probed:
    """Cases under the probe."""

    ended: dict[str, Ended]
    processes: dict[str, ProcessRecording]
    """What the process of each case recorded."""
    broken: tuple[str, ...]
    """Files that cannot be read, or parts of them."""

    @property
    def faults(self) -> dict[str, object]:
        """Of the agent, by the case."""
        return {name: note["traceback"] for name, one in self.processes.items() for note in one.noted("fault")}

    @property
    def missing(self) -> dict[str, set[object]]:
        """What cases say that they could not measure."""
        said = {name: {note["what"] for note in one.noted("missing")} for name, one in self.processes.items()}
        return {name: what for name, what in said.items() if what}

    @property
    def unmeasured(self) -> set[str]:
        """Cases that were not measured to the end."""
        return {
            name
            for name in self.ended
            if name not in self.processes
            or not any(
                one.kind == records.PHASE and one.value == records.DETACHED for one in self.processes[name].records
            )
        }


def differences(plain: dict[str, Ended], probed: dict[str, Ended]) -> dict[str, tuple[Ended | None, Ended | None]]:
    """Cases that are not as in a plain run."""
    pairs = {name: (plain.get(name), probed.get(name)) for name in {**plain, **probed}}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def run_plainly(file: str, folder: Path, *names: str) -> dict[str, Ended]:
    """Run the cases of a file of `jobs/`, all or those named."""
    return _ended([sys.executable, str(JOBS / file), "cases", *names], folder / "plain")


def run_probed(file: str, folder: Path, *names: str) -> Probed:
    """Run them under the probe."""
    kept = folder / "recording"
    probe = [sys.executable, "-m", "trainlint", "probe", "--continue", "--quiet", *SHORT]
    probe += ["--output-file", str(folder / "result.json"), "--recording", str(kept), "--"]
    ended = _ended([*probe, sys.executable, str(JOBS / file), "cases", *names], folder / "probed")
    pids = {int((folder / "probed" / "cases" / name / "pid").read_text()): name for name in ended}
    read = recording.read(kept)
    return Probed(ended, {pids[one.pid]: one for one in read.processes if one.pid in pids}, read.broken)


def _ended(command: list[str], folder: Path) -> dict[str, Ended]:
    folder.mkdir()
    # The one variable set by the probe that shows: Kineto says nothing of the job's own profilers either.
    variables = {**os.environ, "KINETO_LOG_LEVEL": "6"}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=900, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    cases = (line.split() for line in done.stdout.splitlines())
    return {name: Ended(status, *_said(folder / "cases" / name)) for name, status in cases}


def _said(folder: Path) -> tuple[str, str]:
    """Standard output and error of a case, but for what no two runs share."""
    texts = (folder.joinpath(stream).read_text("utf-8", "backslashreplace") for stream in ("out", "err"))
    out, err = (re.sub(r"0x[0-9a-f]+|(?<=[Pp]rocess\W)\d+|(?<=pid\W)\d+", "_", text) for text in texts)
    return out, err
