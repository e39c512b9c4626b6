"""`--output-file` (a whole report or none), `--statistics`, `--exit-non-zero-on-fix`, `--force-exclude`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from program import PLAIN, Program

from trainlint.report.formats import FORMATS

BROKEN = "x = (\n"
CLEAN = "x = 1\n"
UNUSED = "x = 1  # one  # trainlint: ignore[TL201] an old reason\n"
"""A suppression that silences nothing: TL003, with a safe fix."""
OLD = "the report of an earlier run\n"
on_unix = pytest.mark.skipif(sys.platform == "win32", reason="needs devices as files")


SAME_AS_STANDARD_OUTPUT = [
    *(pytest.param(["--output-format", name], id=name) for name in FORMATS),
    pytest.param(["--statistics"], id="statistics"),
    pytest.param(["--statistics", "--output-format", "json"], id="statistics in JSON"),
    pytest.param(["--diff"], id="a difference"),
    pytest.param(["--diff", "--statistics"], id="a difference, which goes before statistics"),
]


@pytest.mark.parametrize("options", SAME_AS_STANDARD_OUTPUT)
def test_the_file_gets_what_standard_output_would(program: Program, options: list[str]) -> None:
    program.write({"a.py": BROKEN, "b.py": UNUSED, "report": OLD})
    direct = program(".", *options)
    done = program(".", *options, "--output-file", "report")
    assert (done.returncode, done.stdout, done.stderr) == (direct.returncode, "", direct.stderr)
    assert program.read("report") == direct.stdout != ""


def test_the_file_gets_what_remains_after_fixing(program: Program) -> None:
    program.write({"a.py": BROKEN, "b.py": UNUSED})
    assert program(".", "--fix", "-o", "report", "--output-format", "json").returncode == 1
    assert [finding["code"] for finding in json.loads(program.read("report"))] == ["TL001"]


def test_nothing_found_makes_an_empty_file(program: Program) -> None:
    program.write({"a.py": CLEAN, "report": OLD})
    assert program(".", "--output-file", "report").returncode == 0
    assert program.read("report") == ""


UNWRITABLE = [
    pytest.param("no/such/folder/report", "no such file or directory", id="folder that is not there"),
    pytest.param("folder", "is a directory", id="folder"),
    pytest.param("a.py/report", "not a directory", id="below a file"),
    pytest.param("", "is a directory", id="no name"),
    pytest.param("/dev/full", "no space left on device", id="full disk", marks=on_unix),
]


@pytest.mark.parametrize(("file", "reason"), UNWRITABLE)
@pytest.mark.parametrize("options", [[], ["--statistics"], ["--diff"], ["--output-format", "sarif"], ["--exit-zero"]])
def test_what_cannot_be_written_is_named(program: Program, options: list[str], file: str, reason: str) -> None:
    program.write({"a.py": BROKEN, "b.py": UNUSED, "folder/c.py": CLEAN})
    before = sorted(program.folder.rglob("*"))
    done = program("a.py", "b.py", "--no-cache", *options, "--output-file", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"trainlint: error: `--output-file {file or '.'}` cannot be written: {reason}\n"
    assert sorted(program.folder.rglob("*")) == before


READ = {
    "a linted file": ("a.py", [".", "-o", "a.py"]),
    "code that is not linted": ("other/b.py", ["a.py", "-o", "other/b.py"]),
    "a notebook": ("n.ipynb", ["a.py", "-o", "n.ipynb"]),
    "a named file without a suffix": ("script", ["script", "-o", "./script"]),
    "configuration": ("pyproject.toml", [".", "-o", "pyproject.toml"]),
    "configuration that is named": ("my.toml", [".", "--config", "my.toml", "-o", "my.toml"]),
    "the baseline": ("known", [".", "--baseline", "known", "-o", "known"]),
}


@pytest.mark.parametrize(("name", "arguments"), READ.values(), ids=READ)
def test_what_is_read_is_not_written_over(program: Program, name: str, arguments: list[str]) -> None:
    program.write({"a.py": CLEAN, name: ""})
    done = program(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--output-file" in done.stderr
    assert "would destroy" in done.stderr
    assert program.read(name) == ""


@on_unix
def test_a_full_disk_leaves_the_old_report(program: Program) -> None:
    """A limit on the size of files stands in for the disk."""
    program.write({"a.py": BROKEN * 200, "report": OLD})
    limited = (
        "import resource, signal, sys\n"
        "from trainlint.__main__ import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "sys.argv = ['trainlint', '.', '--no-cache', '-o', 'report']\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited], cwd=program.folder, env=PLAIN, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "trainlint: error: `--output-file report` cannot be written: file too large\n"
    assert program.read("report") == OLD
    assert sorted(path.name for path in program.folder.iterdir()) == ["a.py", "report"]


@on_unix
@pytest.mark.parametrize("arguments", [["check", "a.py"], ["check", "a.py", "--output-format", "json"], ["rules"]])
def test_a_full_disk_behind_standard_output_is_named(program: Program, arguments: list[str]) -> None:
    program.write({"a.py": BROKEN})
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "trainlint", *arguments],
            cwd=program.folder,
            env=PLAIN,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "trainlint: error: standard output cannot be written: no space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@on_unix
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o666])
def test_permissions_of_the_file_stay(program: Program, mode: int) -> None:
    program.write({"a.py": BROKEN, "report": OLD})
    (program.folder / "report").chmod(mode)
    program(".", "--output-file", "report")
    assert (program.folder / "report").stat().st_mode & 0o777 == mode


@on_unix
def test_a_new_file_has_the_permissions_of_any_new_file(program: Program) -> None:
    program.write({"a.py": BROKEN})
    program(".", "--output-file", "report")
    assert (program.folder / "report").stat().st_mode == (program.folder / "a.py").stat().st_mode


@on_unix
def test_a_link_stays_a_link(program: Program) -> None:
    program.write({"a.py": BROKEN, "real": OLD})
    (program.folder / "report").symlink_to("real")
    program(".", "--output-file", "report")
    assert (program.folder / "report").is_symlink()
    assert "TL001" in program.read("real")


@on_unix
def test_open_files_and_pipes_are_written_to(program: Program) -> None:
    program.write({"a.py": BROKEN})
    assert "TL001" in program(".", "--output-file", "/dev/stdout").stdout
    with (program.folder / "log").open("wb") as log:
        command = [sys.executable, "-m", "trainlint", ".", "-o", "/dev/stdout"]
        subprocess.run(command, cwd=program.folder, env=PLAIN, stdout=log, stderr=subprocess.DEVNULL, check=False)
        assert "TL001" in program.read("log")
        assert os.fstat(log.fileno()).st_ino == (program.folder / "log").stat().st_ino
    os.mkfifo(program.folder / "pipe")
    with subprocess.Popen(["cat", "pipe"], cwd=program.folder, stdout=subprocess.PIPE, text=True) as reader:
        assert program(".", "--output-file", "pipe").returncode == 1
        assert "TL001" in reader.communicate()[0]


STATISTICS = [
    pytest.param(
        [], "2  TL003  [*] unused-suppression\n1  TL001  [ ] syntax-error\n[*] fixable with `--fix`\n", id="all"
    ),
    pytest.param(["--select", "TL001"], "1  TL001  [ ] syntax-error\n", id="none fixable"),
    pytest.param(["--fix"], "1  TL001  [ ] syntax-error\n", id="after fixing"),
    pytest.param(["--min-severity", "error"], "1  TL001  [ ] syntax-error\n", id="severe ones"),
    pytest.param(["--select", "TL2"], "1  TL001  [ ] syntax-error\n", id="what cannot be linted is always said"),
    pytest.param(["--fix-only"], "", id="nothing is reported"),
]


@pytest.mark.parametrize(("options", "counts"), STATISTICS)
def test_statistics_count_what_would_be_reported(program: Program, options: list[str], counts: str) -> None:
    program.write({"a.py": BROKEN, "b.py": UNUSED, "c.py": UNUSED})
    assert program(".", "--statistics", *options).stdout == counts


@pytest.mark.parametrize(("select", "status"), [("TL", 1), ("TL2", 0)])
def test_statistics_leave_the_status_as_it_is(program: Program, select: str, status: int) -> None:
    program.write({"a.py": UNUSED})
    assert program(".", "--statistics", "--select", select).returncode == status


def test_statistics_of_nothing_are_an_empty_list(program: Program) -> None:
    program.write({"a.py": CLEAN})
    assert json.loads(program(".", "--statistics", "--output-format", "json").stdout) == []


EXIT_NON_ZERO_ON_FIX = [
    pytest.param({"a.py": UNUSED}, ["--fix"], 1, id="all fixed"),
    pytest.param({"a.py": UNUSED}, ["--fix-only"], 1, id="all fixed, and nothing reported"),
    pytest.param({"a.py": UNUSED}, ["--fix", "--exit-zero"], 0, id="`--exit-zero` goes first"),
    pytest.param({"a.py": CLEAN}, ["--fix"], 0, id="nothing to fix"),
    pytest.param({"a.py": BROKEN}, ["--fix-only"], 0, id="nothing that can be fixed"),
    pytest.param({"a.py": BROKEN, "b.py": UNUSED}, ["--fix"], 1, id="some fixed"),
    pytest.param({"a.py": UNUSED}, [], 1, id="not fixing, with a finding"),
    pytest.param({"a.py": CLEAN}, [], 0, id="not fixing, without a finding"),
    pytest.param({"a.py": UNUSED}, ["--diff"], 1, id="a difference"),
    pytest.param({"a.py": CLEAN}, ["--diff"], 0, id="no difference"),
]


@pytest.mark.parametrize(("files", "options", "status"), EXIT_NON_ZERO_ON_FIX)
def test_fixing_may_count_as_failure(program: Program, files: dict[str, str], options: list[str], status: int) -> None:
    program.write(files)
    assert program(".", "--exit-non-zero-on-fix", *options).returncode == status


def test_fixed_standard_input_may_count_as_failure(program: Program) -> None:
    done = program("-", "--fix", "--exit-non-zero-on-fix", stdin=UNUSED)
    assert (done.returncode, done.stdout) == (1, "x = 1  # one\n")


FORCE_EXCLUDE = [
    pytest.param(["build/a.py"], [], id="a file in an excluded folder"),
    pytest.param(["build"], [], id="an excluded folder"),
    pytest.param(["build", "b.py"], ["b.py"], id="an excluded folder beside a file"),
    pytest.param(["ours/a.py", "b.py"], ["b.py"], id="a file that the configuration excludes"),
    pytest.param(["ignored.py", "b.py"], ["b.py"], id="a file that .gitignore names"),
    pytest.param(["."], ["b.py"], id="a folder with excluded ones"),
]


@pytest.mark.parametrize(("paths", "linted"), FORCE_EXCLUDE)
def test_what_is_excluded_can_be_left_out_though_it_is_named(
    program: Program, paths: list[str], linted: list[str]
) -> None:
    files = ("build/a.py", "ours/a.py", "ignored.py", "b.py")
    program.write(dict.fromkeys(files, BROKEN) | {".gitignore": "ignored.py\n"})
    program.write({"trainlint.toml": "extend-exclude = ['ours']"})
    done = program(*paths, "--force-exclude", "--output-format", "concise")
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == linted
    assert done.returncode == bool(linted)
    named = program(*paths, "--output-format", "concise").stdout
    assert len(named.splitlines()) >= len(linted) + (paths != ["."])


def test_an_empty_selection_is_a_mistake_and_an_empty_list_of_exceptions_none(program: Program) -> None:
    program.write({"train.py": CLEAN})
    done = program("train.py", "--select", "")
    assert done.returncode == 2
    assert "argument --select: expected at least one name, got none" in done.stderr
    assert program("train.py", "--ignore", "").returncode == 0
