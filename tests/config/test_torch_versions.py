"""The newest torch release that a project admits."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainlint.config.versions import newest_torch
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.engine import check

REQUIREMENTS = {
    "torch==2.4.1+cu121": (2, 4),
    "torch===2.0": (2, 0),
    "torch==2": (2, 0),
    "torch==2.*": (2, 99),
    "torch==2.1.*": (2, 1),
    "torch==1.*": (1, 13),
    "torch<2.3": (2, 2),
    "torch<2.3.0": (2, 2),
    "torch<2.3.1": (2, 3),
    "torch<2.3.0a0": (2, 2),
    "torch<2.4.*": (2, 3),
    "torch<2": (1, 13),
    "torch<2.0.0": (1, 13),
    "torch<1": (0, 4),
    "torch<0": (0, 0),
    "torch<3": (2, 99),
    "torch<=2.3": (2, 3),
    "torch<=2.3.1": (2, 3),
    "torch<=2": (2, 0),
    "torch~=2.1": (2, 99),
    "torch~=2.1rc1": (2, 99),
    "torch~=1.8": (1, 13),
    "torch~=2.1.0": (2, 1),
    "torch >= 2.1.2, < 3": (2, 99),
    "torch<2.2,>=1.10": (2, 1),
    "torch>=1.13,!=2.0.0,<2.1": (2, 0),
    "torch<3,<2.2": (2, 1),
    "torch (>=1.9, <2.1)": (2, 0),
    "Torch[opt-einsum]<=2.3 ; python_version < '3.12'": (2, 3),
    "pytorch==1.13.1": (1, 13),
    "torch==2.1.0 --hash=sha256:00": (2, 1),
    "torch<2.1 -f https://download.pytorch.org/whl/cu118": (2, 0),
    "  torch==2.1  # pinned": (2, 1),
    "torch ^2.1": (2, 99),
    "torch ^2": (2, 99),
    "torch ^1.8.1": (1, 13),
    "torch ^0.4.1": (0, 4),
    "torch ~2.1": (2, 1),
    "torch ~2.1.2": (2, 1),
    "torch ~2": (2, 99),
    "torch 2.1": (2, 1),
    "torch 2.*": (2, 99),
    "torch =2.1": (2, 1),
    "torch >=1.8 <2.0": (1, 13),
    "torch ~1.13 || >=2.1,<2.3": (2, 2),
    "torch <1.13 | >=2.1": None,
    "torch *": None,
    "torch>=2.1": None,
    "torch>=1.8.0": None,
    "torch>=2.1 -f https://download.pytorch.org/whl/cu118": None,
    "torch>1.13": None,
    "torch": None,
    "torch!=2.0": None,
    "torch @ https://download.pytorch.org/whl/torch-2.1.0.whl": None,
    "torchvision<0.15": None,
    "torch-geometric<2.3": None,
    "torch_scatter==2.1": None,
    "torch.fx==1.0": None,
    "pytorch-lightning==1.9": None,
    "# torch==2.1": None,
    "": None,
}


@pytest.mark.parametrize(("requirement", "release"), REQUIREMENTS.items())
def test_a_requirement_bounds_torch_from_above(
    requirement: str, release: tuple[int, int] | None, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text(requirement, "utf-8")
    assert newest_torch(tmp_path) == release


PROJECTS = {
    "project dependencies": ({"pyproject.toml": '[project]\ndependencies = ["numpy", "torch<2.2"]'}, (2, 1)),
    "extras and groups": (
        {"pyproject.toml": '[project.optional-dependencies]\ntrain = ["torch==2.2"]\n'
         '[dependency-groups]\ndev = [{include-group = "x"}, "torch==2.3"]'},
        (2, 3),
    ),
    "poetry": ({"pyproject.toml": '[tool.poetry.dependencies]\npython = "^3.9"\ntorch = "~2.1"'}, (2, 1)),
    "poetry's tables, choices and groups": (
        {"pyproject.toml": '[tool.poetry.dependencies]\ntorch = [{version = "<2", python = "3"}, {version="2.2"}]\n'
         '[tool.poetry.group.x.dependencies]\ntorch = {version = "~2.0", extras = []}'},
        (2, 2),
    ),
    "poetry's choice of a file, which may hold any release": (
        {"pyproject.toml": '[tool.poetry.dependencies]\ntorch = [{version = "2.1"}, {url = "https://a.b/torch.whl"}]'},
        None,
    ),
    "setup.cfg": ({"setup.cfg": "[options]\ninstall_requires =\n    numpy\n    torch<=1.8\n"}, (1, 8)),
    "setup.cfg extras": ({"setup.cfg": "[options.extras_require]\ngpu =\n    torch<1.9\n"}, (1, 8)),
    "requirements": ({"requirements.txt": "-r other.txt\nnumpy\ntorch==2.0.1\n"}, (2, 0)),
    "other requirements": ({"requirements-dev.txt": "torch==2.1", "requirements/gpu.txt": "torch<1.12"}, (2, 1)),
    "the largest of several": (
        {"requirements.txt": "torch==2.3", "setup.cfg": "[options]\ninstall_requires=torch<1.10"},
        (2, 3),
    ),
    "several, one of them open": (
        {"requirements.txt": "torch==2.3", "setup.cfg": "[options]\ninstall_requires=torch>=1.10"},
        None,
    ),
    "nothing": ({}, None),
    "no bound": ({"requirements.txt": "torch\n"}, None),
    "broken files": ({"pyproject.toml": "torch = [", "setup.cfg": "torch\n[", "requirements.txt": "\0torch"}, None),
    "odd types": ({"pyproject.toml": 'tool = 1\nproject = "torch"\ndependency-groups = ["torch==1.8"]'}, None),
}  # fmt: skip


@pytest.mark.parametrize(("files", "release"), PROJECTS.values(), ids=PROJECTS)
def test_a_project_admits(files: dict[str, str], release: tuple[int, int] | None, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    assert newest_torch(tmp_path) == release


def test_the_setting_decides(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch<1.8")
    assert newest_torch(tmp_path, "2.10") == (2, 10)
    assert newest_torch(tmp_path, "2.4.1") == (2, 4)


PROGRAM = """
import torch
from torch import nn

model = nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for inputs in torch.randn(64, 8, 8):
    with torch.cuda.amp.autocast():
        loss = model(inputs.cuda()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
RULES = {
    "torch>=1.8.0": {"TL405"},
    "torch~=2.1": {"TL405"},
    "torch<2": {"TL211", "TL405"},
    "torch>=1.7,<1.10": {"TL211"},
    "torch==1.6": set(),
}


@pytest.mark.parametrize(("requirement", "codes"), RULES.items())
def test_rules_go_by_the_newest_release(requirement: str, codes: set[str], tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(requirement, "utf-8")
    (tmp_path / "train.py").write_text(PROGRAM, "utf-8")
    result = check([tmp_path], CheckOptions(cache=False, jobs=1))
    assert {reported.finding.code for reported in result.findings} & {"TL211", "TL405"} == codes
