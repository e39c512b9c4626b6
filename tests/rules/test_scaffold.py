"""A scaffolded rule is complete from its first minute: it loads, it is formatted, and its page has all sections."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_pages import LEAST_INVALID, LEAST_VALID

LOAD = """
import json
from trainlint.lint.registry import load_registry
registry = load_registry()
rule = registry.rules.get("ACM001")
print(json.dumps([list(registry.warnings), rule and rule.name, rule and rule.summary()]))
"""


def scaffold(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trainlint.lint.scaffold", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def scaffold_pack(folder: Path) -> Path:
    """Write one rule into a new pack under `folder`, and install the pack there."""
    package = folder / "acme_trainlint"
    done = scaffold("--code", "ACM001", "--name", "wait-in-step", "--family", "step", "--package", str(package))
    assert done.returncode == 0, done.stderr
    metadata = folder / "acme_trainlint-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-trainlint\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[trainlint.rules]\nacme = acme_trainlint\n")
    return package / "wait_in_step.py"


def test_a_scaffolded_pack_is_found_by_its_entry_point_and_keeps_the_contract(tmp_path: Path) -> None:
    scaffold_pack(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, env=environment, check=True)
    warnings, name, summary = json.loads(done.stdout)
    assert warnings == []
    assert name == "wait-in-step"
    assert summary.endswith(".")


EXAMPLES = """
import json
from trainlint.lint.analyze import analyze
from trainlint.lint.registry import load_registry
rule = load_registry().rules["ACM001"]
def rows(example):
    marked = [row for row, line in enumerate(example.files["train.py"].splitlines(), 1) if "# expect: ACM001" in line]
    return marked, [finding.site.row for finding in rule().check(analyze(example.files))]
print(json.dumps([[example.valid, *rows(example)] for example in rule.examples]))
"""


def test_a_scaffolded_rule_has_the_examples_that_a_rule_needs_and_they_hold(tmp_path: Path) -> None:
    scaffold_pack(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", EXAMPLES], capture_output=True, text=True, env=environment, check=True)
    examples = json.loads(done.stdout)
    valid = [example for example in examples if example[0]]
    assert len(valid) >= LEAST_VALID
    assert len(examples) - len(valid) >= LEAST_INVALID
    assert [found for _, _, found in examples] == [marked for _, marked, _ in examples]


@pytest.mark.parametrize("check", [("format", "--check"), ("check",)], ids=["formatted", "free of lint"])
def test_a_scaffolded_rule_is(tmp_path: Path, check: tuple[str, ...]) -> None:
    path = scaffold_pack(tmp_path)
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "ruff", *check, "--config", str(root / "pyproject.toml"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--code", "acme1", "--name", "my-rule", "--package", "pack"), "no code"),
        (("--code", "ACM001", "--name", "My_Rule", "--package", "pack"), "no rule name"),
        (("--code", "TL999", "--name", "my-rule", "--package", "pack"), "trainlint's own rules"),
        (("--code", "ACM001", "--name", "my-rule"), "belong to the built-in pack"),
        (("--code", "TL301", "--name", "my-rule"), "the code TL301 is taken"),
        (("--code", "TL398", "--name", "data-parallel"), "taken by TL301"),
    ],
    ids=["malformed code", "malformed name", "reserved prefix", "foreign prefix", "taken code", "taken name"],
)
def test_it_refuses_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = scaffold(*arguments, "--family", "step")
    assert done.returncode == 2
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_it_never_overwrites_a_rule(tmp_path: Path) -> None:
    path = scaffold_pack(tmp_path)
    path.write_text("mine\n")
    package = str(path.parent)
    done = scaffold("--code", "ACM002", "--name", "wait-in-step", "--family", "step", "--package", package)
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert path.read_text() == "mine\n"
