"""A program that is edited in a real editor, and what there is to see in it after each step."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

PYTHON = sys.executable
"""The interpreter of the environment that trainlint is installed in."""
PATIENCE_S = 60
"""How long all steps may take together; they take about four seconds."""
Report = dict[str, dict[str, Any]]
"""What was seen, by step."""

TRAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from metrics import value_of

model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
samples = TensorDataset(torch.randn(1000, 4))
loader = DataLoader(samples, batch_size=8, num_workers=2, pin_memory=True, persistent_workers=True)
history = []
for (batch,) in loader:
    with torch.cuda.amp.autocast(dtype=torch.bfloat16):
        loss = model(batch.to("cuda", non_blocking=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(float(value_of(loss)))
"""
METRICS = """\
def value_of(tensor):
    return tensor.detach()
"""
FIXED = TRAIN.replace("torch.cuda.amp.autocast(", 'torch.amp.autocast("cuda", ')
DEPRECATED = ["TL405", 13, 10]
SYNC = ["TL201", 18, 20]
SYNC_BELOW = ["TL201", 2, 12]
MENU = [
    "Use torch.amp.autocast (TL405)",
    "Ignore TL405 on this line",
    "Ignore TL405 in this file",
    "Why is TL405 reported?",
    "Fix all safe problems (trainlint)",
]


WHY = "TL405 deprecated-amp: Mixed precision is asked for by names that torch has deprecated."


@dataclass(frozen=True)
class Step:
    """What is to be seen after a step."""

    name: str
    seen: dict[str, Any]


STEPS = [
    Step("opened", {"findings": [DEPRECATED, SYNC]}),
    Step("explained", {"name": "deprecated-amp"}),
    Step("fixed one", {"findings": [SYNC], "disk": FIXED}),
    Step("edited", {"findings": []}),
    Step("edited back", {"findings": [SYNC]}),
    Step("edited the other file", {"findings": [], "other": [SYNC_BELOW]}),
    Step("fixed all", {"applied": True, "findings": [], "disk": FIXED}),
]


def editor(name: str) -> str:
    """The path of an editor; the tests that need it are skipped where it is missing."""
    return shutil.which(name) or miss(name)


def miss(name: str) -> NoReturn:
    """Skip the tests that need something, but not in continuous integration."""
    assert "CI" not in os.environ, f"{name} is not installed"
    pytest.skip(f"{name} is not installed", allow_module_level=True)


def complaints(command: Sequence[str]) -> str:
    """What an editor says that does a thing which it says nothing about if all is well."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    said = (done.stdout + done.stderr).strip()
    return said or ("" if done.returncode == 0 else f"it ended with {done.returncode}")


def play(command: Sequence[str], snippet: str, folder: Path) -> Report:
    """Let an editor take all steps, with a configuration as the documentation has it.

    `command` runs a script that reads the environment and writes the report, as `neovim.lua` does.
    """
    program = folder / "program"
    program.mkdir()
    (program / "train.py").write_text(TRAIN, encoding="utf-8")
    (program / "metrics.py").write_text(METRICS, encoding="utf-8")
    (folder / "snippet").write_text(snippet, encoding="utf-8")
    environment = os.environ | {
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_STATE_HOME": str(folder / "state"),
        "PATH": os.pathsep.join([str(Path(PYTHON).parent), os.environ["PATH"]]),
        "TL_FOLDER": str(program),
        "TL_SNIPPET": str(folder / "snippet"),
        "TL_REPORT": str(folder / "report"),
    }
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    rows = (folder / "report").read_text(encoding="utf-8").splitlines() if (folder / "report").exists() else []
    report: Report = {seen.pop("step"): seen for seen in map(json.loads, rows)}
    assert "failed" not in report, f"{report['failed']}\n{done.stderr}"
    assert done.returncode == 0, done.stderr
    return report
