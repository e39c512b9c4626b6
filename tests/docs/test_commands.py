"""Every command of trainlint that a guide shows does what the guide says."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tests.git_repository import git

from trainlint.cli.program import VERBS

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = ("ci.md", "adopting.md")
COMMAND = re.compile(r"^(?:\$ |\s*- (?:run: )?)(trainlint .*)$", re.MULTILINE)
FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
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


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one finding, a baseline that lists it, and a branch `origin/main`."""
    folder = tmp_path_factory.mktemp("committed")
    (folder / "train.py").write_text(FOUND)
    trainlint(folder, "trainlint . --write-baseline trainlint-baseline.json")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    return folder


@pytest.fixture
def repository(committed: Path, tmp_path: Path) -> Path:
    """A copy, since commands write and fix."""
    return Path(shutil.copytree(committed, tmp_path / "repository"))


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


NAMED = re.compile(r"(?:^\$ |`)trainlint ([a-z]+(?![\w/.-])(?: [^`\n#]*)?)", re.MULTILINE)
PAGES = (*sorted(DOCS.glob("*.md")), *sorted((DOCS / "reference").glob("*.md")), DOCS.parent / "README.md")
WRITTEN = [(page.name, words) for page in PAGES for words in NAMED.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "words"), WRITTEN)
def test_a_command_that_a_page_names_is_one_of_this_version(page: str, words: str) -> None:
    verb, *arguments = shlex.split(words.split(" | ")[0].split(" > ")[0])
    assert verb in VERBS
    parser = import_module(f"trainlint.cli.{verb}").parser()
    if arguments and not any(word.startswith("[") for word in arguments):  # else the verb is named, or its usage shown
        parser.parse(["CODE" if word == "CODE|NAME" else word for word in arguments])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_heading_is_empty(page: Path) -> None:
    lines = [line for line in FENCED.sub("code", page.read_text(encoding="utf-8")).splitlines() if line.strip()]
    levels = [len(line) - len(line.lstrip("#")) if re.match("#+ ", line) else 0 for line in lines] + [1]
    assert [line for line, level, after in zip(lines, levels, levels[1:], strict=False) if 0 < after <= level] == []


def test_samples_quote_what_is_printed(repository: Path) -> None:
    printed = trainlint(repository, "trainlint . --output-format json").stdout
    (message,) = {finding["message"] for finding in json.loads(printed)}
    for page in ("reference/cli.md", "adopting.md"):
        assert message in (DOCS / page).read_text(encoding="utf-8")


def test_guides_show_commands() -> None:
    assert {guide for guide, _ in CASES} == set(GUIDES)
