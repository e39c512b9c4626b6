"""Every command of trainlint that a guide shows does what the guide says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.git_repository import git

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = ("ci.md", "adopting.md")
COMMAND = re.compile(r"^(?:\$ |\s*- (?:run: )?)(trainlint .*)$", re.MULTILINE)
FOUND = """import torch

model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1000):
    loss = model(torch.randn(8, 4, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = loss.item()
"""
SILENT = ("--exit-zero", "--add-suppressions", "--write-baseline", "--baseline", "--changed-since")
"""Options with which a run on a committed file, whose findings the baseline lists, ends with status 0."""


def commands(guide: str) -> list[str]:
    return COMMAND.findall((DOCS / guide).read_text(encoding="utf-8"))


CASES = [(guide, command) for guide in GUIDES for command in commands(guide)]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one finding, a baseline that lists it, and a branch `origin/main`."""
    (tmp_path / "train.py").write_text(FOUND)
    trainlint(tmp_path, "trainlint . --write-baseline trainlint-baseline.json")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    git(tmp_path, "update-ref", "refs/remotes/origin/main", "HEAD")
    return tmp_path


def trainlint(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    program = f"{shlex.quote(sys.executable)} -m {command}"
    environment = os.environ | {"GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    return subprocess.run(
        ["bash", "-c", program], cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
    )


@pytest.mark.parametrize(("guide", "command"), CASES)
def test_a_command_of_a_guide_works(guide: str, command: str, repository: Path) -> None:
    done = trainlint(repository, command)
    assert done.returncode == (0 if any(option in command for option in SILENT) else 1), done.stderr
    assert "error" not in done.stderr
    if named := re.search(r"--output-file (\S+)", command):
        assert "TL201" in (repository / named[1]).read_text(encoding="utf-8")


def test_guides_show_commands() -> None:
    assert {guide for guide, _ in CASES} == set(GUIDES)
