"""The torch releases that a project admits."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainlint.config.versions import Admitted, admitted_torch
from trainlint.lint.cache import Cache
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.engine import check
from trainlint.lint.live import LiveEngine
from trainlint.lint.projects import ProjectFiles

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
    assert admitted_torch(tmp_path).newest == release


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
    "setup.py": ({"setup.py": "setuptools.setup(install_requires=['numpy', 'torch>=2.1,<2.3'])"}, (2, 2)),
    "setup.py extras": ({"setup.py": "setup(extras_require={'gpu': ['torch<1.9']}, keywords=['torch'])"}, (1, 8)),
    "setup.py by name": (
        {"setup.py": "needs = {'install': ['torch<2']}\nsetuptools.setup(install_requires=needs['install'])"},
        (1, 13),
    ),
    "setup.py open above": ({"setup.py": "setup(install_requires=['torch>=2.1', 'torch_complex<1'])"}, None),
    "setup.py that does not parse": ({"setup.py": "setup(install_requires=['torch<2'"}, None),
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
    assert admitted_torch(tmp_path).newest == release


OLDEST = {
    "torch==2.4.1+cu121": (2, 4),
    "torch==2.*": (2, 0),
    "torch>=1.8,<3": (1, 8),
    "torch>=2.1,!=2.2.0": (2, 1),
    "torch~=2.1": (2, 1),
    "torch ^1.13 || ^2.1": (1, 13),
    "torch>1.13": (1, 13),
    "torch >=1.8, >=2.0": (2, 0),
    "torch<2.3": None,
    "torch<1.13 | >=2.1": None,
    "torch!=2.0": None,
    "torch": None,
    "torch @ https://download.pytorch.org/whl/torch-2.1.0.whl": None,
    "torch>=2.4\ntorch>=1.9; python_version < '3.9'": (1, 9),
    "torch\ntorch>=1.9": (1, 9),
    "": None,
}


@pytest.mark.parametrize(("requirement", "release"), OLDEST.items())
def test_a_requirement_bounds_torch_from_below(
    requirement: str, release: tuple[int, int] | None, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text(requirement, "utf-8")
    assert admitted_torch(tmp_path).oldest == release


CONDA = {
    "pytorch=2.1": (2, 1),
    "pytorch=2": (2, 99),
    "pytorch==2.1.2": (2, 1),
    "pytorch=2.1.0=py3.11_cuda11.8_cudnn8.7.0_0": (2, 1),
    "pytorch 2.1.*": (2, 1),
    "pytorch>=1.12,<2": (1, 13),
    "'pytorch <2.3'": (2, 2),
    '"conda-forge::pytorch=2.3"': (2, 3),
    "pytorch::pytorch=2.3": (2, 3),
    "pytorch": None,
    "pytorch-cuda=11.8": None,
    "pytorch-lightning=2.1": None,
}


@pytest.mark.parametrize(("item", "release"), CONDA.items())
@pytest.mark.parametrize("name", ["environment.yml", "environment-gpu.yaml"])
def test_an_environment_of_conda_bounds_torch(
    name: str, item: str, release: tuple[int, int] | None, tmp_path: Path
) -> None:
    text = f"channels:\n  - pytorch\ndependencies:\n  - python=3.11\n  - {item}  # note\n  - pip:\n    - tqdm\n"
    (tmp_path / name).write_text(text, "utf-8")
    assert admitted_torch(tmp_path).newest == release


def test_an_environment_of_conda_may_leave_torch_to_pip(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text("dependencies:\n- pip:\n  - torch==2.2.0+cu118\n  - --pre\n")
    assert admitted_torch(tmp_path) == Admitted((2, 2), (2, 2), "environment.yml")


UV = """\
version = 1
requires-python = ">=3.9"

[[package]]
name = "acme"
source = { editable = "." }
dependencies = [
    { name = "torch", version = "2.9.0", source = { registry = "https://pypi.org/simple" } },
]

[[package]]
name = "torch"
version = "2.2.2"
source = { registry = "https://pypi.org/simple" }
dependencies = [
    { name = "filelock" },
]
wheels = [
    { url = "https://a.b/torch-2.2.2-cp310-none-macosx_10_9_x86_64.whl" },
]

[[package]]
name = "torch"
version = "2.4.1+cu121"

[[package]]
name = "torchvision"
version = "0.19.1"
"""
POETRY = """\
[[package]]
name = "accelerate"
version = "1.0.0"
optional = false

[package.dependencies]
torch = ">=1.10.0"

[[package]]
name = "torch"
version = "2.1.0"
description = "Tensors"
files = [
    {file = "torch-2.1.0.whl", hash = "sha256:00"},
]

[package.dependencies]
filelock = "*"

[metadata]
lock-version = "2.0"
"""
PDM = """
[metadata]
lock_version = "4.5"

[[package]]
name = "torch"
version = "2.3.1"
requires_python = ">=3.8"
"""
PYLOCK = """
lock-version = "1.0"
created-by = "pip"

[[packages]]
name = "torch"
index = "https://pypi.org/simple"
version = "2.6.0"
"""
PIPENV = """
{
    "_meta": {},
    "default": {"torch": {"hashes": [], "version": "==2.0.1"}},
    "develop": {"numpy": {"version": "1"}}
}
"""
LOCKS = {
    "uv": ("uv.lock", UV, (2, 4), (2, 2)),
    "uv, with line ends of Windows": ("uv.lock", UV.replace("\n", "\r\n"), (2, 4), (2, 2)),
    "poetry": ("poetry.lock", POETRY, (2, 1), (2, 1)),
    "pdm": ("pdm.lock", PDM, (2, 3), (2, 3)),
    "pip": ("pylock.toml", PYLOCK, (2, 6), (2, 6)),
    "pip, for one purpose": ("pylock.gpu.toml", PYLOCK, (2, 6), (2, 6)),
    "pipenv": ("Pipfile.lock", PIPENV, (2, 0), (2, 0)),
    "broken": ("Pipfile.lock", PIPENV[:-9], None, None),
    "without torch": ("uv.lock", UV.replace('name = "torch"', 'name = "torchaudio"'), None, None),
    "not text": ("uv.lock", "\0torch\n", None, None),
}


@pytest.mark.parametrize(("name", "text", "newest", "oldest"), LOCKS.values(), ids=LOCKS)
def test_a_lock_file_pins_torch(
    name: str, text: str, newest: tuple[int, int] | None, oldest: tuple[int, int] | None, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(text.encode())
    assert admitted_torch(tmp_path) == Admitted(newest, oldest, name if newest else "")


def test_a_lock_file_says_more_than_what_it_was_made_of(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["torch>=1.8"]')
    (tmp_path / "uv.lock").write_text(UV)
    assert admitted_torch(tmp_path) == Admitted((2, 4), (1, 8), "uv.lock")


def test_the_setting_decides(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch<1.8")
    assert admitted_torch(tmp_path, "2.10") == Admitted((2, 10), (2, 10), "torch-version")
    assert admitted_torch(tmp_path, "2.4.1") == Admitted((2, 4), (2, 4), "torch-version")


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


NEEDS = {
    "torch": ("safe", ""),
    "torch>=2.4": ("safe", ""),
    "torch>=1.10": ("safe", ""),
    "torch>=1.8": (
        "unsafe",
        "the fixed code is known to run with torch 1.10 and newer, and the project admits 1.8 as well",
    ),
}


@pytest.mark.parametrize(("requirement", "fix"), NEEDS.items())
def test_a_fix_that_older_releases_lack_is_no_safe_one(requirement: str, fix: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(requirement, "utf-8")
    (tmp_path / "train.py").write_text(PROGRAM, "utf-8")
    result = check([tmp_path], CheckOptions(cache=False, jobs=1))
    (found,) = (one.finding.fix for one in result.findings if one.finding.code == "TL405")
    assert found is not None
    assert (found.applicability.value, found.because) == fix


def locked(version: str) -> str:
    return f'[[package]]\nname = "torch"\nversion = "{version}"\n'


def test_a_changed_lock_file_changes_the_findings_warm_as_cold(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "train.py").write_text(PROGRAM, "utf-8")
    engine = LiveEngine(CheckOptions(jobs=1))

    def codes(*, cache: bool) -> set[str]:
        result = check([tmp_path], CheckOptions(cache=cache, jobs=1))
        return {one.finding.code for one in result.findings} & {"TL211", "TL405"}

    def live() -> set[str]:
        engine.forget([tmp_path / "uv.lock"])
        result = engine.check([tmp_path], {}).result
        return {one.finding.code for one in result.findings} & {"TL211", "TL405"}

    for version, expected in (("2.4.1", {"TL405"}), ("1.9.0", {"TL211"}), ("2.5.0", {"TL405"}), ("1.6.0", set())):
        (tmp_path / "uv.lock").write_text(locked(version))
        assert codes(cache=True) == codes(cache=True) == codes(cache=False) == live() == expected
    engine.close()


def test_what_a_lock_file_pins_besides_changes_nothing_in_the_cache(tmp_path: Path) -> None:
    def requirements(text: str) -> bytes:
        (tmp_path / "uv.lock").write_text(text)
        return ProjectFiles(tmp_path, {}, Cache(None), b"").requirements

    before = requirements(locked("2.4.1"))
    assert requirements(locked("2.4.1") + '[[package]]\nname = "numpy"\nversion = "2"\n') == before
    assert requirements(locked("2.4.2")) != before
