"""`trainlint check`: exit statuses, what goes where, and the options that choose files and findings."""

from __future__ import annotations

import array
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
from program import PLAIN, Program

BROKEN = "x = (\n"
CLEAN = "x = 1\n"
UNUSED = "x = 1  # one  # trainlint: ignore[TL201] an old reason\n"
"""A suppression that silences nothing: TL003, with a safe fix."""
UNREADABLE = "# coding: no-such-codec\n"

EXIT_STATUSES = [
    pytest.param({"a.py": CLEAN}, ["."], 0, id="nothing found"),
    pytest.param({"a.py": BROKEN}, ["."], 1, id="findings"),
    pytest.param({"a.py": BROKEN}, ["check", "."], 1, id="findings, with the verb"),
    pytest.param({"a.py": BROKEN}, ["check"], 1, id="findings in the working directory"),
    pytest.param({"a.py": BROKEN}, [".", "--exit-zero"], 0, id="findings, and --exit-zero"),
    pytest.param({"a.py": UNREADABLE}, ["."], 1, id="a file that cannot be decoded"),
    pytest.param({"a.py": CLEAN}, ["gone.py"], 1, id="a file that is not there"),
    pytest.param({"a.py": CLEAN}, ["a.py", "--", "--gone.py"], 1, id="a file that looks like an option"),
    pytest.param({}, ["."], 0, id="an empty folder"),
    pytest.param({"a.py": UNUSED}, ["."], 1, id="a fixable finding"),
    pytest.param({"a.py": UNUSED}, [".", "--ignore", "TL003"], 0, id="ignored"),
    pytest.param({"a.py": UNUSED}, [".", "--select", "TL2"], 0, id="not selected"),
    pytest.param({"a.py": UNUSED}, [".", "--select", "unused-suppression,sync-in-step"], 1, id="selected by name"),
    pytest.param({"a.py": UNUSED}, [".", "--select", "TL2,TL003"], 1, id="selected in a list"),
    pytest.param({"a.py": UNUSED}, [".", "--select", "TL2", "--extend-select", "TL0"], 1, id="selected besides"),
    pytest.param({"a.py": UNUSED}, [".", "--min-severity", "error"], 0, id="not severe enough"),
    pytest.param({"a.py": BROKEN}, [".", "--min-severity", "error"], 1, id="severe enough"),
    pytest.param({"a.py": UNUSED}, [".", "--config", "ignore = ['TL003']"], 0, id="ignored by a setting"),
    pytest.param({"a.py": UNUSED, "t.toml": "ignore=['TL003']"}, [".", "--config", "t.toml"], 0, id="by a file"),
    pytest.param({"a.py": UNUSED, "trainlint.toml": "ignore=['TL003']"}, ["."], 0, id="ignored by the project"),
    pytest.param({"a.py": UNUSED, "trainlint.toml": "ignore=['TL003']"}, [".", "--isolated"], 1, id="isolated"),
    pytest.param({"a.py": UNUSED}, [".", "--fix"], 0, id="all fixed"),
    pytest.param({"a.py": UNUSED, "b.py": BROKEN}, [".", "--fix"], 1, id="some fixed"),
    pytest.param({"a.py": UNUSED}, [".", "--fix", "--exit-non-zero-on-fix"], 1, id="fixed, and that counts"),
    pytest.param({"a.py": CLEAN}, [".", "--fix", "--exit-non-zero-on-fix"], 0, id="nothing to fix"),
    pytest.param({"a.py": UNUSED, "b.py": BROKEN}, [".", "--fix-only"], 0, id="fixes only"),
    pytest.param({"a.py": UNUSED}, [".", "--diff"], 1, id="a fix would change something"),
    pytest.param({"a.py": UNUSED}, [".", "--diff", "--exit-zero"], 0, id="a difference, and --exit-zero"),
    pytest.param({"a.py": BROKEN}, [".", "--diff"], 0, id="no fix would change anything"),
    pytest.param({"build/a.py": BROKEN}, ["."], 0, id="excluded"),
    pytest.param({"build/a.py": BROKEN}, ["build/a.py"], 1, id="excluded, and named outright"),
    pytest.param({"build/a.py": BROKEN}, ["build/a.py", "--force-exclude"], 0, id="excluded though named"),
]


@pytest.mark.parametrize(("files", "arguments", "status"), EXIT_STATUSES)
def test_exit_statuses(program: Program, files: dict[str, str], arguments: list[str], status: int) -> None:
    program.write(files)
    done = program(*arguments)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_findings_go_to_standard_output_and_the_summary_to_standard_error(program: Program) -> None:
    program.write({"a.py": BROKEN, "b.py": UNUSED})
    done = program("--output-format", "concise", ".")
    lines = done.stdout.splitlines()
    assert [re.match(r"\w+\.py:\d+:\d+: TL\d+ [a-z-]+ .", line) is not None for line in lines] == [True, True]
    assert done.stderr.splitlines() == ["Found 2 problems in 2 of 2 files.", "1 fixable with `--fix`."]


def test_a_clean_run_says_so_on_standard_error(program: Program) -> None:
    program.write({"a.py": CLEAN})
    done = program(".")
    assert (done.stdout, done.stderr) == ("", "Found nothing in 1 file.\n")


UNCERTAIN = """import torch

def train(model, dataset, optimizer, workers):
    loader = torch.utils.data.DataLoader(dataset, num_workers=workers, pin_memory=True)
    model.cuda()
    for epoch in range(10):
        for inputs in loader:
            loss = model(inputs.cuda(non_blocking=True)).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
"""
"""Whether there are worker processes to keep is unknown: TL105 with low confidence, and severity warning."""
MORE = "1 more with `--min-confidence low`."
WITHHELD = [
    pytest.param([], ["Found nothing in 1 file.", MORE], id="by default"),
    pytest.param(["--fix"], ["Found nothing in 1 file.", MORE], id="with fixes"),
    pytest.param(["--min-confidence", "high"], ["Found nothing in 1 file.", MORE], id="only what is certain"),
    pytest.param(["--min-confidence", "low"], ["Found 1 problem in 1 of 1 file."], id="nothing withheld"),
    pytest.param(["--min-severity", "error"], ["Found nothing in 1 file."], id="not severe enough either"),
    pytest.param(["--ignore", "TL105"], ["Found nothing in 1 file."], id="ignored"),
    pytest.param(["--quiet"], [], id="quiet"),
    pytest.param(["--output-format", "json"], [], id="a format for programs"),
]


@pytest.mark.parametrize(("options", "summary"), WITHHELD)
def test_the_summary_says_what_is_withheld_for_want_of_confidence(
    program: Program, options: list[str], summary: list[str]
) -> None:
    program.write({"a.py": UNCERTAIN})
    for _ in range(2):
        lines = program(".", *options).stderr.splitlines()
        assert [line for line in lines if "fixable" not in line] == summary
    program.write({"a.py": UNCERTAIN.replace("True)\n    model", "True)  # noqa: TL105\n    model")})
    assert MORE not in program(".", *options).stderr


def test_quiet_leaves_the_findings_alone(program: Program) -> None:
    program.write({"a.py": BROKEN})
    done = program(".", "--quiet")
    assert done.stdout.startswith("TL001 syntax-error")
    assert done.stderr == ""


def test_verbose_says_how_long_it_took(program: Program) -> None:
    program.write({"a.py": CLEAN})
    assert re.search(r"Took \d+\.\d\d s", program(".", "--verbose").stderr)


@pytest.mark.parametrize("format", ["json", "json-lines", "sarif", "github", "gitlab", "junit", "markdown"])
def test_formats_for_programs_have_no_summary(program: Program, format: str) -> None:
    program.write({"a.py": BROKEN})
    done = program(".", "--output-format", format)
    assert (done.returncode, done.stderr) == (1, "")
    assert "TL001" in done.stdout


def test_every_format_can_be_parsed(program: Program) -> None:
    program.write({"a.py": BROKEN, "b.py": UNUSED})
    outputs = {
        format: program(".", "--output-format", format).stdout
        for format in ("json", "json-lines", "sarif", "gitlab", "junit")
    }
    assert [finding["code"] for finding in json.loads(outputs["json"])] == ["TL001", "TL003"]
    assert [json.loads(line)["code"] for line in outputs["json-lines"].splitlines()] == ["TL001", "TL003"]
    assert [result["ruleId"] for result in json.loads(outputs["sarif"])["runs"][0]["results"]] == ["TL001", "TL003"]
    assert [issue["check_name"] for issue in json.loads(outputs["gitlab"])] == ["TL001", "TL003"]
    assert len(ElementTree.fromstring(outputs["junit"])) == 2


def test_an_empty_run_prints_an_empty_list(program: Program) -> None:
    program.write({"a.py": CLEAN})
    assert program(".", "--output-format", "json").stdout == "[]\n"


def test_a_report_can_go_to_a_file(program: Program) -> None:
    program.write({"a.py": BROKEN})
    done = program(".", "--output-format", "json", "--output-file", "report.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert [finding["code"] for finding in json.loads(program.read("report.json"))] == ["TL001"]


def test_statistics_count_by_rule(program: Program) -> None:
    program.write({"a.py": BROKEN, "b.py": UNUSED, "c.py": UNUSED})
    assert program(".", "--statistics").stdout == (
        "2  TL003  [*] unused-suppression\n1  TL001  [ ] syntax-error\n[*] fixable with `--fix`\n"
    )
    as_json = program(".", "--statistics", "--output-format", "json").stdout
    assert json.loads(as_json)[0] == {
        "code": "TL003",
        "name": "unused-suppression",
        "count": 2,
        "fixable": True,
        "fixable_count": 2,
    }


def test_options_may_stand_between_paths(program: Program) -> None:
    program.write({"a.py": BROKEN, "b.py": BROKEN, "c.py": BROKEN})
    done = program("a.py", "--output-format", "concise", "b.py")
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["a.py", "b.py"]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_the_order_is_the_same_for_any_number_of_jobs(program: Program, jobs: str) -> None:
    program.write({f"{name}.py": f"{BROKEN}" for name in ("c", "a", "b/d", "b/a")})
    done = program(".", "--jobs", jobs, "--no-cache", "--output-format", "concise")
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["a.py", "b/a.py", "b/d.py", "c.py"]


def test_the_order_owes_nothing_to_the_order_of_sets() -> None:
    """Which Python seeds anew in each process."""
    examples = Program(Path(__file__).parents[2] / "examples")
    outputs = set()
    for seed in ("1", "2"):
        examples.environment = {"PYTHONHASHSEED": seed}
        outputs.add(examples("vision", "ddp", "--no-cache", "--isolated", "--output-format", "json").stdout)
    assert len(outputs) == 1
    assert outputs != {""}


def test_a_second_run_from_the_cache_says_the_same(program: Program) -> None:
    program.write({"pyproject.toml": "", "a.py": BROKEN, "b.py": UNUSED})
    first, second, uncached = program("."), program("."), program(".", "--no-cache")
    assert first.stdout == second.stdout == uncached.stdout


def test_no_cache_leaves_nothing_behind(program: Program) -> None:
    program.write({"pyproject.toml": "", "a.py": UNUSED})
    program(".", "--no-cache")
    assert sorted(path.name for path in program.folder.iterdir()) == ["a.py", "pyproject.toml"]


COLOUR = [
    pytest.param([], {}, False, id="not in a pipe"),
    pytest.param(["--color", "always"], {}, True, id="asked for"),
    pytest.param([], {"FORCE_COLOR": "1"}, True, id="forced by the environment"),
    pytest.param([], {"FORCE_COLOR": "0"}, False, id="not forced by the environment"),
    pytest.param([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, id="NO_COLOR wins over FORCE_COLOR"),
    pytest.param(["--color", "always"], {"NO_COLOR": "1"}, True, id="the option wins over NO_COLOR"),
    pytest.param(["--color", "never"], {"FORCE_COLOR": "1"}, False, id="the option wins over FORCE_COLOR"),
    pytest.param(["--output-format", "github"], {"FORCE_COLOR": "1"}, False, id="never in a format for programs"),
    pytest.param(["--output-file", "/dev/stdout"], {"FORCE_COLOR": "1"}, False, id="not in a file"),
]


@pytest.mark.parametrize(("arguments", "environment", "coloured"), COLOUR)
def test_colour(program: Program, arguments: list[str], environment: dict[str, str], coloured: bool) -> None:
    program.environment = environment
    program.write({"a.py": BROKEN})
    assert ("\x1b[" in program(".", *arguments).stdout) is coloured


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
def test_a_terminal_gets_colour() -> None:
    import os
    import pty

    main, side = pty.openpty()
    command = [sys.executable, "-m", "trainlint", "gone.py"]
    subprocess.run(command, stdout=side, stderr=side, env=PLAIN | {"TERM": "xterm"}, check=False)
    os.close(side)
    output = b""
    while True:
        try:
            piece = os.read(main, 4096)
        except OSError:
            break
        if not piece:
            break
        output += piece
    os.close(main)
    assert b"\x1b[" in output


# ------------------------------------------------------------------------------------------------- standard input


def test_standard_input_may_be_named_in_a_folder_that_is_not_there(program: Program) -> None:
    done = program("-", "--stdin-filename", "not/there/new.py", "--output-format", "concise", stdin=BROKEN)
    assert (done.returncode, "not/there/new.py:1" in done.stdout) == (1, True), done.stderr


def test_standard_input_is_linted_under_its_name(program: Program) -> None:
    done = program("-", "--stdin-filename", "src/new.py", "--output-format", "concise", stdin=BROKEN)
    assert done.returncode == 1
    assert done.stdout.startswith("src/new.py:1:")


def test_standard_input_needs_no_name(program: Program) -> None:
    assert program("-", stdin=CLEAN).returncode == 0
    assert program("-", stdin=BROKEN).returncode == 1


def test_the_settings_are_those_of_the_name(program: Program) -> None:
    program.write({"quiet/trainlint.toml": "ignore = ['TL003']\n"})
    assert program("-", "--stdin-filename", "quiet/a.py", stdin=UNUSED).returncode == 0
    assert program("-", "--stdin-filename", "a.py", stdin=UNUSED).returncode == 1


def test_an_excluded_name_is_left_out_on_demand(program: Program) -> None:
    assert program("-", "--stdin-filename", "build/a.py", stdin=BROKEN).returncode == 1
    assert program("-", "--stdin-filename", "build/a.py", "--force-exclude", stdin=BROKEN).returncode == 0


def _wait_until_read(process: subprocess.Popen[bytes], text: bytes) -> None:
    """Write to the standard input of a program, and return once the program has taken it."""
    import fcntl
    import termios

    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()
    left = array.array("i", [1])
    while left[0] and process.poll() is None:
        time.sleep(0.01)
        fcntl.ioctl(process.stdin, termios.FIONREAD, left)


@pytest.mark.skipif(sys.platform == "win32", reason="signals end processes differently")
def test_an_interrupt_ends_the_run_without_a_traceback(program: Program) -> None:
    command = [sys.executable, "-m", "trainlint", "-"]
    with subprocess.Popen(
        command, cwd=program.folder, env=PLAIN, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        _wait_until_read(process, b"# ")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (130, b"")


def test_a_path_that_is_not_there_is_told_though_the_status_is_0(program: Program) -> None:
    done = program("srcc", "--exit-zero")
    assert done.returncode == 0
    assert f"trainlint: warning: {program.folder / 'srcc'}: no such file or folder\n" in done.stderr


ONLY_RUNS = {
    "a code": ("TL905", "only a run shows TL905 memory-headroom: `trainlint probe` reports it"),
    "a name": ("memory-headroom", "only a run shows TL905 memory-headroom"),
    "a prefix": ("TL9", "only a run shows what TL901 to TL913 are about"),
}


@pytest.mark.parametrize("option", ["--select", "--extend-select"])
@pytest.mark.parametrize(("pattern", "said"), ONLY_RUNS.values(), ids=ONLY_RUNS)
def test_rules_about_runs_say_what_shows_them(option: str, pattern: str, said: str, program: Program) -> None:
    program.write({"a.py": "x = 1\n"})
    done = program("a.py", option, pattern)
    assert done.returncode == 0 and f"trainlint: warning: `{option} {pattern}`: {said}" in done.stderr
    assert "warning" not in program("a.py", option, "TL9,TL201", "--quiet").stderr
    assert "warning" not in program("a.py", option, "TL201").stderr
