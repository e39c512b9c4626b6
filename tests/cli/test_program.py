"""Verbs, wrong usage, and what every verb does alike."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from program import PLAIN, Program

from trainlint import __version__
from trainlint.cli.program import LATER_VERBS

VERBS = ("check", "rules", "explain", "config", "clean", "doctor", "version")


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The program, each run with an interpreter that has imported nothing of it yet: every verb imports its own."""
    return Program(tmp_path)


@pytest.mark.parametrize("arguments", [["version"], ["--version"], ["-V"]], ids=" ".join)
def test_the_version_is_printed(program: Program, arguments: list[str]) -> None:
    done = program(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"trainlint {__version__}\n", "")


def test_the_version_as_json(program: Program) -> None:
    assert json.loads(program("version", "--output-format", "json").stdout) == {"version": __version__}


@pytest.mark.skipif(sys.platform == "win32", reason="needs the times of child processes")
def test_the_version_costs_at_most_50_ms_above_the_interpreter() -> None:
    import resource

    def fastest(*arguments: str) -> float:
        """Processor time, which other work on the machine disturbs less than the time on the clock."""
        times = []
        for _ in range(15):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(times)

    assert fastest("-m", "trainlint", "version") - fastest("-c", "pass") < 0.050


@pytest.mark.parametrize("heavy", ["click", "pydantic", "rich", "libcst", "trainlint.lint", "trainlint.semantics"])
def test_the_version_imports_nothing_heavy(heavy: str) -> None:
    script = (
        "import sys; from trainlint.__main__ import main; sys.argv = ['trainlint', 'version']; main(); "
        f"assert {heavy!r} not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_help_lists_the_verbs_of_this_version_only(program: Program) -> None:
    done = program("--help")
    assert done.returncode == 0
    for verb in VERBS:
        assert f"  {verb} " in done.stdout
    for later in LATER_VERBS:
        assert f"  {later} " not in done.stdout


def test_without_arguments_help_goes_to_standard_error(program: Program) -> None:
    done = program()
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: trainlint" in done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(program: Program, verb: str) -> None:
    done = program(verb, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: trainlint {verb}")


@pytest.mark.parametrize("verb", LATER_VERBS)
def test_a_verb_of_a_later_version_says_so(program: Program, verb: str) -> None:
    program.write({f"{verb}/train.py": "x = 1\n"})
    done = program(verb, "anything", "--at-all")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"`{verb}` is not available in this version" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_verb_wins_over_a_folder_of_its_name(program: Program) -> None:
    program.write({"rules/train.py": "x = (\n"})
    assert program("rules").returncode == 0
    assert program("./rules").returncode == 1


def test_a_misspelled_verb_gets_a_hint(program: Program) -> None:
    assert "did you mean the verb `explain`?" in program("explian", "TL201").stderr
    assert "did you mean the verb `check`?" in program("lint", ".").stderr
    program.write({"chekc": ""})
    assert "verb" not in program("chekc").stderr


USAGE_MISTAKES = [
    pytest.param(["check", "--sellect", "ALL"], "did you mean `--select`?", id="misspelled option"),
    pytest.param(["check", "--output-forma", "json"], "did you mean `--output-format`?", id="abbreviated option"),
    pytest.param(["check", "--format", "json"], "did you mean `--output-format`?", id="part of an option"),
    pytest.param(["check", "--bogus"], "error: unknown option `--bogus`\nTry", id="no option at all"),
    pytest.param(["check", "--config", "select='TL201'"], ": select: must be a list", id="setting of the wrong type"),
    pytest.param(["config", "--config", "plugins=['acme']"], 'no rule pack "acme"', id="unknown rule pack"),
    pytest.param(["check", "--output-format", "xml"], "invalid choice: 'xml'", id="unknown format"),
    pytest.param(["check", "--jobs", "0"], "expected a whole number from 1, got `0`", id="no jobs"),
    pytest.param(["check", "--min-confidence", "sure"], "invalid choice: 'sure'", id="unknown confidence"),
    pytest.param(["check", "-", "train.py"], "standard input", id="standard input beside a file"),
    pytest.param(["check", "--stdin-filename", "a.py", "."], "`--stdin-filename`", id="name without standard input"),
    pytest.param(["check", "--config", "gone.toml"], "gone.toml", id="missing configuration file"),
    pytest.param(["check", "--config", "device=cuda"], "device", id="setting that is not TOML"),
    pytest.param(["check", "--config", "devise='cuda'"], 'did you mean "device"?', id="unknown setting"),
    pytest.param(["check", "--config", "device='gpu'"], "gpu", id="wrong value"),
    pytest.param(["check", "--config", "trainlint.toml", "--isolated"], "--isolated", id="file, and no files"),
    pytest.param(["check", "--select", "TL2O1"], "TL2O1", id="unknown rule"),
    pytest.param(["check", "--output-file", "no/such/folder/report"], "no/such/folder/report", id="unwritable report"),
    pytest.param(
        ["check", "--watch", "-"], "`--watch` cannot be given together with `-`", id="watching standard input"
    ),
    pytest.param(
        ["check", "--watch", "--add-suppressions"],
        "`--watch` cannot be given together with `--add-suppressions`",
        id="watching and silencing",
    ),
    pytest.param(
        ["check", "--watch", "--write-baseline", "b.json"],
        "`--watch` cannot be given together with `--write-baseline`",
        id="watching and listing",
    ),
    pytest.param(["explain"], "CODE|NAME", id="explain without a rule"),
    pytest.param(["explain", "TL21"], "there is no rule `TL21`", id="explain an unknown rule"),
    pytest.param(["explain", "train.py:18-20"], "write a place as PATH:ROW", id="explain no single row"),
    pytest.param(["config", "gone"], "gone: no such file or folder", id="settings of a missing path"),
    pytest.param(["clean", "gone"], "gone: no such file or folder", id="caches of a missing path"),
    pytest.param(["version", "now"], "unexpected argument `now`", id="argument too much"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE_MISTAKES)
def test_a_mistake_ends_with_status_2_and_a_plain_message(program: Program, arguments: list[str], message: str) -> None:
    program.write({"trainlint.toml": "", "train.py": "x = 1\n"})
    done = program(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize("verb", ["check", "config"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("selct = []\n", "selct", id="unknown key"),
        pytest.param("min-confidence = 3\n", "min-confidence", id="wrong value"),
        pytest.param("select = [\n", "not valid TOML", id="wrong syntax"),
    ],
)
def test_a_broken_configuration_names_the_file_and_the_key(
    program: Program, verb: str, text: str, message: str
) -> None:
    program.write({"trainlint.toml": text, "train.py": "x = 1\n"})
    done = program(verb, ".", "--exit-zero") if verb == "check" else program(verb)
    assert (done.returncode, done.stdout) == (2, "")
    assert "trainlint.toml" in done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="pipes end differently")
def test_a_reader_that_goes_away_is_no_error(program: Program) -> None:
    program.write({f"train_{number}.py": "x = (\n" for number in range(40)})
    command = [sys.executable, "-m", "trainlint", "."]
    with subprocess.Popen(
        command, cwd=program.folder, env=PLAIN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert process.returncode in (0, 1)
    assert "Broken" not in errors and "Traceback" not in errors
