"""The hooks work with the real pre-commit: it installs this repository and runs them on another one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("pre_commit", reason="pre-commit is not installed")

REPOSITORY = Path(__file__).parents[2]
HOOKS = ("trainlint", "trainlint-fix")
INSTALL_SECONDS = 300
"""Limit for one call of pre-commit, which may install the package and what it depends on."""

STALLING = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        return torch.rand(8).pow(2), index % 2


def main():
    device = torch.device("cuda")
    loader = DataLoader(Squares(), batch_size=10, shuffle=True, num_workers=2, pin_memory=True)
    model = nn.Linear(8, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in loader:
        inputs = inputs.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        with torch.cuda.amp.autocast(dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
"""
"""A training script with one problem, whose fix is safe: the deprecated autocast."""


def git_environment() -> dict[str, str]:
    """The environment, with what git needs to commit, and to clone a repository that another user owns.

    pre-commit hands these variables on to git; a configuration file named by GIT_CONFIG_GLOBAL it would drop.
    """
    settings = {
        "user.name": "Test",
        "user.email": "test@example.com",
        "init.defaultBranch": "main",
        "safe.directory": "*",
    }
    environment = os.environ | {"GIT_CONFIG_COUNT": str(len(settings))}
    for index, (key, value) in enumerate(settings.items()):
        environment |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return environment


class Sample:
    """A git repository with a training script, and a cache of pre-commit's own."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        self.script = folder / "train.py"
        self.environment: Mapping[str, str] = git_environment() | {"PRE_COMMIT_HOME": str(cache)}
        self.script.write_text(STALLING, encoding="utf-8")
        self.git("init", "--quiet")
        self.git("add", ".")

    def git(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self._run(["git", *arguments], check)

    def pre_commit(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._run([sys.executable, "-m", "pre_commit", *arguments], check=False)

    def _run(self, command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_SECONDS,
        )
        assert not check or done.returncode == 0, done.stdout
        return done


@pytest.fixture
def sample(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return Sample(tmp_path, tmp_path_factory.mktemp("pre-commit"))


def test_manifest_is_valid(sample: Sample) -> None:
    done = sample.pre_commit("validate-manifest", str(REPOSITORY / ".pre-commit-hooks.yaml"))
    assert done.returncode == 0, done.stdout


def test_try_repo_reports_and_fixes(sample: Sample) -> None:
    done = sample.pre_commit("try-repo", str(REPOSITORY), "--all-files", "--color", "never")
    assert done.returncode == 1, done.stdout
    report, fixing = done.stdout.split("trainlint (safe fixes)", 1)
    assert "Failed" in report and "TL405" in report, done.stdout
    assert "files were modified by this hook" in fixing, done.stdout
    assert "torch.cuda.amp" not in sample.script.read_text(encoding="utf-8")


def test_a_commit_is_blocked_until_it_is_fixed(sample: Sample) -> None:
    revision = sample.git("-C", str(REPOSITORY), "rev-parse", "HEAD").stdout.strip()
    hooks = "".join(f"      - id: {hook}\n" for hook in reversed(HOOKS))
    (sample.folder / ".pre-commit-config.yaml").write_text(
        f"repos:\n  - repo: {REPOSITORY}\n    rev: {revision}\n    hooks:\n{hooks}", encoding="utf-8"
    )
    sample.git("add", ".")
    installed = sample.pre_commit("install")
    assert installed.returncode == 0, installed.stdout

    blocked = sample.git("commit", "--message", "train", check=False)
    assert blocked.returncode == 1, blocked.stdout
    assert "TL405" in blocked.stdout or "files were modified by this hook" in blocked.stdout, blocked.stdout
    assert sample.git("rev-parse", "--verify", "--quiet", "HEAD", check=False).returncode != 0

    sample.git("add", ".")
    accepted = sample.git("commit", "--message", "train", check=False)
    assert accepted.returncode == 0, accepted.stdout
