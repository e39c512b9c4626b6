"""trainlint as a plugin of the real flake8: it says what `trainlint check` says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

if "CI" not in os.environ:
    pytest.importorskip("flake8", reason="flake8 is not installed")

TRAINING = """\
import torch
from model import Net, report

net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(1000):
    loss = net(torch.randn(8, 4, device="cuda")).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    report(loss)
    print("größe", loss.item())
"""
MODEL = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x


def report(loss):
    print(loss.item())
"""
PROJECT = {"pyproject.toml": "", "train.py": TRAINING, "model.py": MODEL, "plain.py": "x = 1\n"}
Line = tuple[str, int, int, str]


class Sample:
    """A project, and both programs to run on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(text.encode())

    def run(self, module: str, *arguments: str, stdin: str | bytes = b"") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=self.folder,
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            timeout=300,
            check=False,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def flake8(self, *arguments: str, stdin: str | bytes = b"") -> list[Line]:
        """What flake8 reports of trainlint: path, row, column, and code with message."""
        done = self.run("flake8", "--select", "TL", "--format", FORMAT, *arguments, stdin=stdin)
        assert done.stderr == ""
        assert done.returncode == bool(done.stdout)
        rows = [line.split("\t") for line in done.stdout.splitlines()]
        return sorted((os.path.normpath(path), int(row), int(column), text) for path, row, column, text in rows)

    def trainlint(self, *arguments: str, stdin: str | bytes = b"") -> list[Line]:
        """What trainlint reports, in the same form."""
        done = self.run("trainlint", "check", "--output-format", "json", *arguments, stdin=stdin)
        return sorted(
            (
                os.path.relpath(one["filename"], self.folder),
                one["location"]["row"],
                one["location"]["column"],
                f"{one['code']} {one['message']}",
            )
            for one in json.loads(done.stdout)
        )


FORMAT = "%(path)s\t%(row)d\t%(col)d\t%(code)s %(text)s"


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    sample = Sample(tmp_path)
    sample.write(PROJECT)
    return sample


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(
    "paths", [["."], ["train.py"], ["model.py"], ["model.py", "plain.py", "train.py"]], ids="_".join
)
def test_it_reports_what_trainlint_reports(sample: Sample, paths: list[str], jobs: str) -> None:
    found = sample.flake8("--jobs", jobs, *paths)
    assert found == sample.trainlint(*paths)
    assert {text.split()[0] for *_, text in found} >= {"TL201"}


def test_it_works_where_processes_start_afresh(sample: Sample) -> None:
    program = (
        "import multiprocessing, sys\n"
        "from flake8.main.cli import main\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.set_start_method('spawn')\n"
        f"    sys.exit(main(['--select', 'TL', '--jobs', '2', '--format', {FORMAT!r}, '.']))\n"
    )
    (sample.folder.with_name("spawning.py")).write_text(program)
    done = subprocess.run(
        [sys.executable, sample.folder.with_name("spawning.py")],
        cwd=sample.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert len(done.stdout.splitlines()) == len(sample.trainlint("."))


def test_findings_are_on_by_default_beside_those_of_flake8(sample: Sample) -> None:
    sample.write({"train.py": "import os\n" + TRAINING})
    done = sample.run("flake8", "train.py")
    assert "F401" in done.stdout
    assert "TL201" in done.stdout


STANDARD_INPUT = [
    pytest.param(TRAINING.encode(), id="as it is on disk"),
    pytest.param(("import os\n\n" + TRAINING).encode(), id="as an editor has it"),
    pytest.param(("# coding: latin-1\n" + TRAINING).encode("latin-1"), id="in another encoding"),
    pytest.param(b"\xef\xbb\xbf" + TRAINING.encode(), id="with a byte order mark"),
]


@pytest.mark.parametrize("text", STANDARD_INPUT)
def test_standard_input_is_linted_in_place_of_the_file(sample: Sample, text: bytes) -> None:
    found = sample.flake8("--stdin-display-name", "train.py", "-", stdin=text)
    assert found == sample.trainlint("--stdin-filename", "train.py", "-", stdin=text)
    assert found


def test_standard_input_needs_no_name(sample: Sample) -> None:
    assert sample.flake8("-", stdin="x = 1\n") == []


SUPPRESSIONS = [
    pytest.param("# noqa: TL", id="flake8's, by prefix"),
    pytest.param("# noqa: TL201, TL202", id="both programs', by code"),
    pytest.param("# noqa", id="flake8's, for everything"),
    pytest.param("# trainlint: ignore[TL201, TL202] wanted", id="trainlint's"),
]


@pytest.mark.parametrize("comment", SUPPRESSIONS)
def test_comments_silence_findings(sample: Sample, comment: str) -> None:
    row = TRAINING.count("\n")
    assert row in [line[1] for line in sample.flake8("train.py")]
    sample.write({"train.py": TRAINING.rstrip("\n") + f"  {comment}\n"})
    assert row not in [line[1] for line in sample.flake8("train.py", "--extend-ignore", "TL003")]


def test_the_configuration_of_trainlint_holds(sample: Sample) -> None:
    sample.write({"pyproject.toml": "[tool.trainlint]\nselect = ['TL202']\n"})
    assert {text.split()[0] for *_, text in sample.flake8(".")} == {"TL202"}
    sample.write({"pyproject.toml": "[tool.trainlint]\nextend-exclude = ['train.py']\n"})
    assert {path for path, *_ in sample.flake8(".", "train.py")} <= {"model.py"}


def test_files_that_only_flake8_takes_are_linted(sample: Sample) -> None:
    (sample.folder / "train.py").rename(sample.folder / "train.pyw")
    assert sample.flake8("--filename", "*.pyw", ".") == sample.trainlint("train.pyw") != []


@pytest.mark.parametrize("stdin", [False, True], ids=["files", "standard input"])
def test_a_broken_configuration_is_named_without_a_traceback(sample: Sample, stdin: bool) -> None:
    sample.write({"pyproject.toml": "[tool.trainlint]\nslect = ['TL202']\n"})
    done = sample.run("flake8", "-" if stdin else ".", stdin=TRAINING)
    assert done.returncode == 1
    assert 'slect: unknown setting; did you mean "select"?' in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_what_does_not_parse_is_left_to_flake8(sample: Sample) -> None:
    sample.write({"broken.py": "x = (\n"})
    done = sample.run("flake8", "broken.py")
    assert "E999" in done.stdout or "E902" in done.stdout
    assert "TL" not in done.stdout


def test_the_cache_is_that_of_trainlint(sample: Sample) -> None:
    sample.flake8(".")
    assert (sample.folder / ".trainlint_cache").is_dir()
    done = sample.run("trainlint", "check", "--verbose", ".")
    assert " took " not in done.stderr
