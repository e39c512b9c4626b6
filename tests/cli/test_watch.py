"""`trainlint check --watch`, with the real program and real changes of files."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from program import PLAIN, Program

from trainlint.cli.watching import CLEAR_SCREEN

BROKEN = "x = (\n"
CLEAN = "x = 1\n"
UNUSED = "x = 1  # one  # trainlint: ignore[TL201] an old reason\n"
"""A suppression that silences nothing: TL003, with a safe fix."""
START = "Linting now and after every change. Ctrl-C ends."
PATIENCE_S = 120
"""A busy machine may take that long; what is waited for comes within a second on an idle one."""


@dataclass
class Watching:
    """A program that watches, and what it has said so far."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    def stdout(self) -> str:
        return self.out.read_text(encoding="utf-8")

    def stderr(self) -> str:
        return self.err.read_text(encoding="utf-8")

    def runs(self) -> list[str]:
        """Why each run was started."""
        return re.findall(r"^\[\d\d:\d\d:\d\d\] (.+)$", self.stderr(), re.MULTILINE)

    def wait_for(self, what: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not what():
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.stderr()}"
            assert time.monotonic() < end, f"waited in vain; out:\n{self.stdout()}\nerr:\n{self.stderr()}"
            time.sleep(0.02)

    def wait_for_run(self, reason: str, says: str = "Found ") -> None:
        """Wait until a run for this reason is the last one, and has said this on standard error."""
        self.wait_for(lambda: self.runs()[-1:] == [reason] and says in self.stderr().rpartition(f"] {reason}\n")[2])

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_S)


@contextmanager
def watching(program: Program, *arguments: str) -> Iterator[Watching]:
    """Start the program in its folder; what it says goes to files beside the folder."""
    out, err = (program.folder.with_name(f"{program.folder.name}.{name}") for name in ("out", "err"))
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "trainlint", "check", "--watch", "--output-format", "concise", *arguments],
            cwd=program.folder,
            env=PLAIN | program.environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
        try:
            yield Watching(process, out, err)
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    folder = tmp_path / "project"
    folder.mkdir()
    return Program(folder)


def save(name: str, text: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")

    return change


def replace(name: str, text: str) -> Callable[[Path], None]:
    """As editors save that never leave half a file."""

    def change(folder: Path) -> None:
        (folder / f"{name}.tmp").write_text(text, encoding="utf-8")
        (folder / f"{name}.tmp").replace(folder / name)

    return change


def move(name: str, target: str) -> Callable[[Path], None]:
    return lambda folder: shutil.move(folder / name, folder / target) and None


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


IN_A_FOLDER = {
    "a file is saved": (save("a.py", BROKEN), "a.py"),
    "a file is replaced": (replace("b.py", BROKEN), "b.py"),
    "a file is added": (save("new.py", BROKEN), "new.py"),
    "a file is removed": (remove("c.py"), "c.py"),
    "a file deeper down is saved": (save("part/d.py", BROKEN), "part/d.py"),
    "a folder with a file is added": (save("made/now/e.py", BROKEN), "made/now/e.py"),
    "a folder is renamed": (move("part", "other"), "other/d.py and 1 more"),
    "a notebook is saved": (save("n.ipynb", "{}"), "n.ipynb"),
    "configuration that is extended is saved": (save("../base.toml", ""), "../base.toml"),
    "configuration is saved": (save("pyproject.toml", "[tool.trainlint]"), "pyproject.toml"),
    "configuration is added": (save("trainlint.toml", "select = ['TL0']"), "trainlint.toml"),
    "a file is ignored from now on": (save(".gitignore", "other/"), ".gitignore"),
    "requirements are saved": (save("requirements.txt", "torch<2"), "requirements.txt"),
    "an environment of conda is saved": (save("environment.yml", "- pytorch=2.1"), "environment.yml"),
    "a lock file is saved": (save("uv.lock", '[[package]]\nname = "torch"\nversion = "2.1"'), "uv.lock"),
}


def write_project(program: Program) -> None:
    program.write(
        {
            "pyproject.toml": "[tool.trainlint]\nextend = '../base.toml'\n",
            **dict.fromkeys(["a.py", "b.py", "c.py", "part/d.py", "build/f.py", ".venv/lib/g.py", "script"], CLEAN),
            "kept/.gitignore": "*.gen.py\n",
            "../own.toml": "select = ['ALL']",
            "../base.toml": "select = ['ALL']",
            "../base.json": '{"format": "trainlint-baseline", "version": 1, "findings": [] }',
        }
    )


def is_told(watch: Watching, named: str, folder: Path) -> bool:
    """Whether the last run was for this."""
    path = str((folder / named).resolve()) if named.startswith("..") else named
    return watch.runs()[-1] in (f"{named} changed.", f"{path} changed.")


def test_a_change_that_matters_starts_a_run(program: Program) -> None:
    write_project(program)
    with watching(program, ".") as watch:
        watch.wait_for_run(START)
        for change, named in IN_A_FOLDER.values():
            change(program.folder)
            watch.wait_for(lambda named=named: is_told(watch, named, program.folder))  # type: ignore[misc]


NAMED = [
    pytest.param(["part"], save("a.py", BROKEN), "a.py", id="a file of the project besides the linted folder"),
    pytest.param(["part/d.py"], save("a.py", BROKEN), "a.py", id="a file of the project besides the linted file"),
    pytest.param(["build"], save("build/f.py", BROKEN), "build/f.py", id="an excluded folder that is named"),
    pytest.param(["build/f.py"], replace("build/f.py", BROKEN), "build/f.py", id="an excluded file that is named"),
    pytest.param(["script"], save("script", BROKEN), "script", id="a named file without a suffix"),
    pytest.param(["later/h.py"], save("later/h.py", CLEAN), "later/h.py", id="a named file that was not there"),
    pytest.param(["--config", "../own.toml", "."], save("../own.toml", ""), "../own.toml", id="`--config FILE`"),
    pytest.param(
        ["--baseline", "../base.json", "."],
        save("../base.json", '{"format": "trainlint-baseline", "version": 1, "findings": []}'),
        "../base.json",
        id="a baseline",
    ),
]


@pytest.mark.parametrize(("arguments", "change", "named"), NAMED)
def test_what_is_named_decides_what_matters(
    program: Program, arguments: list[str], change: Callable[[Path], None], named: str
) -> None:
    write_project(program)
    with watching(program, *arguments) as watch:
        watch.wait_for_run(START)
        change(program.folder)
        watch.wait_for(lambda: is_told(watch, named, program.folder))


NAMING = """
import yaml
import torch
with open("conf/train.yaml") as file:
    config = yaml.safe_load(file)
"""
"""A script that names a configuration file."""


def test_a_configuration_file_that_code_names_matters(program: Program) -> None:
    program.write({"pyproject.toml": "", "train.py": NAMING, "conf/train.yaml": "a: 1", "conf/other.yaml": "a: 1"})
    with watching(program, ".") as watch:
        watch.wait_for_run(START)
        for text in ("a: 2", "a: 3"):
            count = len(watch.runs())
            save("conf/other.yaml", text)(program.folder)
            save("conf/train.yaml", text)(program.folder)
            watch.wait_for(lambda count=count: len(watch.runs()) > count)  # type: ignore[misc]
            assert is_told(watch, "conf/train.yaml", program.folder)
        save("train.py", NAMING.replace("train.yaml", "other.yaml"))(program.folder)
        watch.wait_for(lambda: is_told(watch, "train.py", program.folder))
        save("conf/other.yaml", "a: 4")(program.folder)
        watch.wait_for(lambda: is_told(watch, "conf/other.yaml", program.folder))


IRRELEVANT = {
    "an excluded folder": save("build/f.py", BROKEN),
    "an environment": save(".venv/lib/g.py", BROKEN),
    "a file that .gitignore names": save("kept/x.gen.py", BROKEN),
    "a log": save("train.log", "epoch 1"),
    "a text file": save("notes.txt", "hello"),
    "a configuration that nobody names": save("other.yaml", "a: 1"),
    "a folder without code": save("runs/1/checkpoint.pt", ""),
    "reading a file": lambda folder: folder.joinpath("a.py").read_bytes() and None,
}


def test_other_changes_start_none(program: Program) -> None:
    write_project(program)
    with watching(program, ".") as watch:
        watch.wait_for_run(START)
        for number, (name, change) in enumerate(IRRELEVANT.items()):
            change(program.folder)
            save("a.py", f"x = {number} +\n")(program.folder)  # starts a run, which names all that called for it
            watch.wait_for(lambda number=number: len(watch.runs()) > number + 1)  # type: ignore[misc]
            assert set(watch.runs()) == {START, "a.py changed."}, name


def test_files_that_are_saved_together_make_one_run(program: Program) -> None:
    program.write({"pyproject.toml": "", "a.py": CLEAN, "b.py": CLEAN, "c.py": CLEAN})
    with watching(program, ".") as watch:
        watch.wait_for_run(START)
        watch.process.send_signal(signal.SIGSTOP)  # What is saved meanwhile waits for the program to look at it.
        program.write({"a.py": BROKEN, "b.py": BROKEN, "c.py": BROKEN})
        watch.process.send_signal(signal.SIGCONT)
        watch.wait_for_run("a.py and 2 more changed.", "Found 3 problems")
        assert len(watch.runs()) == 2


def test_what_changes_during_a_run_starts_another(program: Program) -> None:
    program.write({"pyproject.toml": "", "a.py": CLEAN})
    with watching(program, ".") as watch:
        watch.wait_for(lambda: watch.runs() == [START])
        program.write({"a.py": BROKEN})
        watch.wait_for(lambda: "a.py:1:5: TL001" in watch.stdout())


def test_a_broken_configuration_is_shown_and_can_be_mended(program: Program) -> None:
    program.write({"pyproject.toml": "[tool.trainlint]\nslect = 1\n", "a.py": BROKEN})
    with watching(program, ".") as watch:
        watch.wait_for_run(START, 'slect: unknown setting; did you mean "select"?')
        program.write({"pyproject.toml": "[tool.trainlint]\n"})
        watch.wait_for_run("pyproject.toml changed.", "Found 1 problem")
        program.write({"pyproject.toml": "[tool.trainlint"})
        watch.wait_for_run("pyproject.toml changed.", "is not valid TOML")
        program.write({"pyproject.toml": ""})
        watch.wait_for_run("pyproject.toml changed.", "Found 1 problem")
        assert "Traceback" not in watch.stderr()


def test_what_a_run_fixes_starts_no_other(program: Program) -> None:
    program.write({"pyproject.toml": "", "a.py": UNUSED, "b.py": CLEAN})
    with watching(program, "--fix", ".") as watch:
        watch.wait_for_run(START, "1 fixed, 0 remaining")
        assert program.read("a.py") == "x = 1  # one\n"
        program.write({"b.py": UNUSED})
        watch.wait_for_run("b.py changed.", "1 fixed, 0 remaining")
        program.write({"b.py": BROKEN})
        watch.wait_for_run("b.py changed.", "Found 1 problem")
        assert set(watch.runs()) == {START, "b.py changed."}


def test_each_run_prints_a_report_of_its_own(program: Program) -> None:
    program.write({"pyproject.toml": "", "a.py": CLEAN})
    with watching(program, ".", "--output-format", "json", "--quiet") as watch:
        watch.wait_for(lambda: watch.stdout() == "[]\n")
        program.write({"a.py": BROKEN})
        watch.wait_for(lambda: '"TL001"' in watch.stdout() and watch.stdout().endswith("]\n"))
        assert watch.stderr() == ""


def test_the_report_file_is_that_of_the_last_run(program: Program) -> None:
    program.write({"pyproject.toml": "", "a.py": BROKEN})
    report = program.folder / "report"
    with watching(program, ".", "--output-file", "report") as watch:
        watch.wait_for(lambda: report.exists() and report.read_text() != "")
        program.write({"a.py": CLEAN})
        watch.wait_for(lambda: report.read_text() == "")
        assert watch.stdout() == ""


def test_what_has_not_changed_is_not_analysed_again(program: Program) -> None:
    program.write({"pyproject.toml": "", "train.py": "import torch\ntorch.nn.Linear(1, 1).cuda()\n", "a.py": CLEAN})
    with watching(program, ".", "--verbose", "--output-format", "full") as watch:
        watch.wait_for_run(START, "TL")
        assert re.search(r"^TL\d+ took", watch.stderr(), re.MULTILINE)
        before = len(watch.stderr())
        os.utime(program.folder / "train.py")
        watch.wait_for_run("train.py changed.", "Took ")
        assert " took" not in watch.stderr()[before:]


def test_ctrl_c_ends_with_the_status_of_an_interrupted_program(program: Program) -> None:
    program.write({"pyproject.toml": "", "a.py": BROKEN})
    with watching(program, ".") as watch:
        watch.wait_for_run(START)
        assert watch.interrupt() == 130
        assert "Traceback" not in watch.stderr()


def test_it_ends_without_a_word_when_nobody_reads_the_report_any_more(program: Program) -> None:
    program.write({"pyproject.toml": "", "a.py": CLEAN})
    command = [sys.executable, "-m", "trainlint", "--watch", "--output-format", "json-lines", "."]
    process = subprocess.Popen(
        command, cwd=program.folder, env=PLAIN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        assert START in process.stderr.readline()
        process.stdout.close()
        program.write({"a.py": BROKEN})
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read().splitlines()[1:] == []
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
def test_a_terminal_is_cleared_between_runs(program: Program) -> None:
    import pty

    program.write({"pyproject.toml": "", "a.py": BROKEN})
    main, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "trainlint", "--watch", "."],
        cwd=program.folder,
        env=PLAIN | {"TERM": "xterm", "COLUMNS": "80"},
        stdin=side,
        stdout=side,
        stderr=side,
    )
    os.close(side)
    try:
        first = read_until(main, "Found 1 problem in 1 of 1 file.")
        assert first.startswith(CLEAR_SCREEN)
        assert "was never closed" in first
        program.write({"a.py": CLEAN})
        second = read_until(main, "Found nothing in 1 file.")
        cleared, _, shown = second.rpartition(CLEAR_SCREEN)
        assert "Found" not in cleared
        assert re.match(r"\[\d\d:\d\d:\d\d\] a\.py changed\.", shown)
    finally:
        process.kill()
        process.wait()
        os.close(main)


def read_until(terminal: int, text: str) -> str:
    """Read what is shown up to and with the text, and the row that it stands in."""
    shown = b""
    end = time.monotonic() + PATIENCE_S
    while f"{text}\r\n".encode() not in shown:
        assert time.monotonic() < end, shown
        shown += os.read(terminal, 4096)
    return shown.decode()
