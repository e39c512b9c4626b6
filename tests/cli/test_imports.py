"""What a run must not import: what costs start-up time is loaded by the runs that need it, and by no other."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = """
import torch
from model import Net
net = Net().cuda()
for batch in torch.utils.data.DataLoader([1.0], num_workers=2):
    print(net(batch.cuda()).item())
"""
PROGRAM = """
import sys
from trainlint.__main__ import main
sys.argv = ["trainlint", *sys.argv[1:]]
main()
print(*sys.modules, file=sys.stderr)
"""

PARSER = ("libcst", "trainlint.semantics.extract")
MODELS = ("pydantic",)
RULES = ("trainlint_rules", "trainlint.semantics.link", "trainlint.lint.rule", "trainlint.probe")
SEVERAL_PROCESSES = ("multiprocessing.connection",)
FOR_PEOPLE = ("click", "rich", "watchfiles")
LOOKED_UP_BEFORE = ("importlib.metadata", "configparser", "difflib")


def unchanged(root: Path) -> None:
    """Leave all as it is."""


def file_changed(root: Path) -> None:
    with (root / "model.py").open("a") as file:
        file.write("\n\ndef added(x):\n    return x\n")


def another_option(root: Path) -> None:
    (root / "trainlint.toml").write_text('min-confidence = "low"')


RUNS = {
    "nothing has changed": (unchanged, (*PARSER, *MODELS, *RULES, *SEVERAL_PROCESSES, *FOR_PEOPLE, *LOOKED_UP_BEFORE)),
    "a file has changed": (file_changed, (*MODELS, *SEVERAL_PROCESSES, *FOR_PEOPLE, *LOOKED_UP_BEFORE)),
    "the configuration has changed": (another_option, (*SEVERAL_PROCESSES, *FOR_PEOPLE)),
}
UNSET = {
    "no file of settings": {},
    "a project file that sets nothing here": {"pyproject.toml": '[project]\nname = "trainlint-user"\n'},
    "a table that sets nothing": {"pyproject.toml": "[tool.trainlint]\n"},
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "model.py").write_text("import torch\n\n\nclass Net(torch.nn.Module):\n    pass\n")
    return tmp_path


def imported(project: Path) -> set[str]:
    command = [sys.executable, "-c", PROGRAM, "check", "-j", "1", str(project)]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stderr.split())


@pytest.mark.parametrize(("change", "spared"), RUNS.values(), ids=RUNS)
def test_a_run_imports_only_what_it_needs(
    change: Callable[[Path], None], spared: tuple[str, ...], project: Path
) -> None:
    (project / "trainlint.toml").write_text('min-confidence = "medium"')
    assert "libcst" in imported(project)
    change(project)
    assert imported(project).isdisjoint(spared)


@pytest.mark.parametrize("files", UNSET.values(), ids=UNSET)
def test_a_first_run_imports_models_only_to_judge_what_is_set(files: dict[str, str], project: Path) -> None:
    for name, text in files.items():
        (project / name).write_text(text)
    loaded = imported(project)
    assert "libcst" in loaded
    assert loaded.isdisjoint(MODELS)
