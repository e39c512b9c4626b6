"""What the words of a command tell of the program that it trains with."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainlint.probe.command import may_run, program_of


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (["python", "train.py", "--x"], "train.py"),
        (["/venv/bin/python3.11", "-u", "/home/me/job/train.py"], "train.py"),
        (["torchrun", "--nproc-per-node", "2", "train.py"], "train.py"),
        (["python", "-m", "torch.distributed.run", "-m", "job.train"], "job.train"),
        (["python", "-m", "job.train", "data.pyx"], "job.train"),
        (["./run"], "./run"),
        ([], ""),
    ],
)
def test_a_command_is_known_by_the_program_that_trains(command: list[str], program: str) -> None:
    assert program_of(command) == program


ENTRIES = {
    "its script": (["python", "jobs/train.py", "--x"], "/job/train.py", True),
    "another script": (["torchrun", "train.py"], "/job/eval.py", False),
    "a script that another one runs": (["python", "launch.py", "train.py"], "/job/train.py", True),
    "its module": (["python", "-m", "job.train"], "/job/train.py", True),
    "its package": (["python", "-m", "torch.distributed.run", "-m", "job"], "/work/job/__main__.py", True),
    "another module": (["python", "-m", "job.train"], "/job/eval.py", False),
    "what nobody knows": (["accelerate", "launch"], "/job/train.py", True),
}


@pytest.mark.parametrize(("command", "entry", "runs"), ENTRIES.values(), ids=ENTRIES)
def test_a_command_runs_the_entry_points_that_it_names(command: list[str], entry: str, runs: bool) -> None:
    assert may_run(command, Path(entry)) is runs
