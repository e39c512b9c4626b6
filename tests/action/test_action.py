"""The GitHub action: its scripts run as GitHub runs them, on a repository with a training script."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

if "CI" not in os.environ:
    pytest.importorskip("yaml", reason="PyYAML is not installed")

import yaml
from tests.git_repository import git

REPOSITORY = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((REPOSITORY / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")
SECONDS = 300
"""Limit for one script, which may install the package and what it depends on."""

TRAINING = """\
import torch

net = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(1000):
    loss = net(torch.randn(8, 4, device="cuda")).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
LINE = TRAINING.count("\n")
"""The one with the sync (TL201, a warning) and the print (TL202)."""


@dataclass(frozen=True)
class Finished:
    """What a step came to."""

    status: int
    log: str
    outputs: Mapping[str, str]
    summary: str


@dataclass
class Runner:
    """Stands in for GitHub: evaluates the expressions of a step and runs its script in the workspace."""

    workspace: Path
    temporary: Path
    steps: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """The outputs of earlier steps, by their ids."""

    def run(self, id: str, **inputs: str) -> Finished:
        step = next(step for step in STEPS if step.get("id") == id)
        assert step["shell"] == "bash"
        given = {name: str(value.get("default", "")) for name, value in ACTION["inputs"].items()}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        outputs, summary, script = (self.temporary / f"{id}.{name}" for name in ("outputs", "summary", "sh"))
        for file in (outputs, summary):
            file.write_bytes(b"")
        script.write_text(step["run"], encoding="utf-8")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", script],
            cwd=self.workspace,
            env=self.environment()
            | {"GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(summary)}
            | {name: self.evaluated(text, given) for name, text in step.get("env", {}).items()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
        pairs = (line.partition("=") for line in outputs.read_text(encoding="utf-8").splitlines())
        found = {name: value for name, _, value in pairs}
        self.steps[id] = found
        return Finished(done.returncode, done.stdout, found, summary.read_text(encoding="utf-8"))

    def environment(self) -> dict[str, str]:
        """The variables that GitHub sets, with the interpreter of the tests as the one that is set up."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "VIRTUAL_ENV"))}
        return plain | {
            "PATH": path,
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(REPOSITORY),
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(self.temporary),
        }

    def evaluated(self, text: str, inputs: Mapping[str, str]) -> str:
        def value(match: re.Match[str]) -> str:
            match match[1].split("."):
                case ["inputs", name]:
                    return inputs[name]
                case ["steps", id, "outputs", name]:
                    return self.steps[id][name]
            raise AssertionError(f"no value for {match[1]}")

        return EXPRESSION.sub(value, text)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The outputs of the step that installs."""
    folder = tmp_path_factory.mktemp("action")
    done = Runner(folder, folder).run("install")
    assert done.status == 0, done.log
    return done.outputs


@pytest.fixture
def runner(tmp_path: Path, installed: Mapping[str, str]) -> Runner:
    workspace, temporary = tmp_path / "workspace", tmp_path / "temporary"
    workspace.mkdir()
    temporary.mkdir()
    (workspace / "pyproject.toml").write_text("", encoding="utf-8")
    (workspace / "train.py").write_text(TRAINING, encoding="utf-8")
    return Runner(workspace, temporary, {"install": installed})


def annotations(log: str) -> list[str]:
    """The lines that GitHub turns into annotations."""
    return re.findall(r"^::(?:error|warning|notice) .+$", log, re.MULTILINE)


def test_lines_are_annotated_and_the_job_fails(runner: Runner) -> None:
    done = runner.run("lint")
    assert done.status == 1
    sync = next(line for line in annotations(done.log) if "TL201" in line)
    assert f"file={runner.workspace / 'train.py'},line={LINE}," in sync
    assert done.outputs == {"findings": str(len(annotations(done.log))), "exit-code": "1"}
    assert done.summary.startswith("## trainlint\n\n|")
    assert f"`train.py:{LINE}:11` | [TL201](https://" in done.summary


def test_nothing_found_passes(runner: Runner) -> None:
    (runner.workspace / "train.py").write_text("x = 1\n", encoding="utf-8")
    done = runner.run("lint")
    assert (done.status, annotations(done.log)) == (0, [])
    assert done.outputs == {"findings": "0", "exit-code": "0"}
    assert done.summary.startswith("## trainlint\n")
    assert "TL" not in done.summary


FAIL_ON = [("any", 1), ("hint", 1), ("warning", 1), ("error", 0), ("never", 0)]


@pytest.mark.parametrize(("level", "status"), FAIL_ON)
def test_the_level_decides_what_fails(runner: Runner, level: str, status: int) -> None:
    done = runner.run("lint", fail_on=level)
    assert (done.status, done.outputs["exit-code"]) == (status, str(status))
    assert annotations(done.log)


def test_a_sarif_report_is_written(runner: Runner) -> None:
    done = runner.run("lint", sarif_file="trainlint.sarif")
    assert done.outputs["sarif-file"] == "trainlint.sarif"
    report = json.loads((runner.workspace / "trainlint.sarif").read_text(encoding="utf-8"))
    assert report["version"] == "2.1.0"
    assert len(report["runs"][0]["results"]) == int(done.outputs["findings"])


def test_paths_and_options_choose(runner: Runner) -> None:
    for name in ("a b.py", "$(touch broken).py"):
        (runner.workspace / name).write_text("x = (\n", encoding="utf-8")
    (runner.workspace / "mine.toml").write_text("min-confidence = 'low'\n", encoding="utf-8")
    done = runner.run(
        "lint",
        paths="a b.py\n\n$(touch broken).py\n",
        args="--select 'TL0' --ignore=TL002",
        config="mine.toml",
        output_format="concise",
        summary="false",
    )
    assert done.log.splitlines()[:2] == [
        "$(touch broken).py:1:5: TL001 syntax-error '(' was never closed",
        "a b.py:1:5: TL001 syntax-error '(' was never closed",
    ]
    assert done.outputs["findings"] == "2"
    assert done.summary == ""


HOSTILE = "\"; touch broken; $(touch broken) `touch broken` ' #"


@pytest.mark.parametrize("name", ["paths", "args", "config", "output_format", "changed_since", "fail_on", "sarif_file"])
def test_nothing_in_an_input_is_run(runner: Runner, name: str) -> None:
    runner.run("lint", **{name: HOSTILE})
    assert not list(runner.workspace.glob("**/broken"))


MISTAKES = [
    pytest.param({"fail_on": "fatal"}, "fail-on must be any, error", id="level"),
    pytest.param({"summary": "yes"}, "summary must be true or false", id="summary"),
    pytest.param({"args": "--select 'TL0"}, "args has a quote that is not closed", id="quote"),
    pytest.param({"args": "--slect TL0"}, "did you mean `--select`?", id="option"),
    pytest.param({"config": "gone.toml"}, "gone.toml", id="configuration"),
    pytest.param({"output_format": "xml"}, "invalid choice: 'xml'", id="format"),
    pytest.param(
        {"changed_since": "--upload-pack=x"}, "changed-since cannot start with a hyphen", id="option as revision"
    ),
    pytest.param({"changed_since": "gone"}, "no revision gone to fetch", id="revision"),
    pytest.param(
        {"fail_on": "never", "config": "gone.toml"}, "gone.toml", id="configuration, where findings do not fail"
    ),
]


@pytest.mark.parametrize(("inputs", "message"), MISTAKES)
def test_a_mistake_fails_with_its_reason(runner: Runner, inputs: dict[str, str], message: str) -> None:
    done = runner.run("lint", **inputs)
    assert (done.status, done.outputs) == (2, {"exit-code": "2"})
    assert message in done.log
    assert "::error::trainlint: " in done.log


def test_a_pull_request_is_told_of_its_own_lines_only(runner: Runner, tmp_path: Path) -> None:
    """A shallow checkout of the merge, as actions/checkout makes it, has neither the branch nor its commits."""
    workspace = runner.workspace
    git(workspace, "init", "--quiet", "--initial-branch", "trunk")
    git(workspace, "add", ".")
    git(workspace, "commit", "--quiet", "--message", "train")
    base = git(workspace, "rev-parse", "HEAD")
    git(workspace, "checkout", "--quiet", "-b", "feature")
    (runner.workspace / "train.py").write_text(TRAINING + "    print(loss.cpu())\n", encoding="utf-8")
    git(workspace, "commit", "--quiet", "--all", "--message", "show more")
    checkout = tmp_path / "checkout"
    git(workspace, "clone", "--quiet", "--depth", "1", "--branch", "feature", runner.workspace.as_uri(), str(checkout))
    assert git(checkout, "branch", "--all").split()[-1] != "remotes/origin/trunk"
    shallow = Runner(checkout, runner.temporary, runner.steps)
    lines = {
        since: {int(line) for line in re.findall(r",line=(\d+),", shallow.run("lint", changed_since=since).log)}
        for since in ("", "trunk", base)
    }
    assert lines[""] >= {LINE, LINE + 1}
    assert lines["trunk"] == lines[base] == {LINE + 1}


def test_scripts_hold_no_expressions() -> None:
    assert [step["name"] for step in STEPS if "${{" in step.get("run", "")] == []


def test_every_input_is_used_and_every_output_is_set() -> None:
    used = set(re.findall(r"\binputs\.([\w-]+)", json.dumps(ACTION["runs"])))
    assert used == ACTION["inputs"].keys()
    (script,) = (step["run"] for step in STEPS if step.get("id") == "lint")
    for name, output in ACTION["outputs"].items():
        assert output["value"] == f"${{{{ steps.lint.outputs.{name} }}}}"
        assert f'"{name}=$' in script


def test_the_reference_describes_every_input_and_output() -> None:
    page = (REPOSITORY / "docs" / "github-action.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE))
    assert described == ACTION["inputs"].keys() | ACTION["outputs"].keys()
