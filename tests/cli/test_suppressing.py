"""`--add-suppressions`: all that was reported is silent afterwards, and nothing else has changed."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program import Program
from training_programs import HEAD, programs

from trainlint.cli.suppressing import suppress_all
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.engine import check
from trainlint.lint.result import Result

PRINTED = HEAD + "    print(loss.item())\n"
SILENT = HEAD + "    print(loss.item())  # trainlint: ignore[TL201, TL202] known\n"
BROKEN = "x = (\n"


@given(source=programs(), reason=st.sampled_from(["", "known"]))
@settings(max_examples=40, deadline=None)
def test_what_is_suppressed_is_silent(source: bytes, reason: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    # Not beside the files of all other tests, which would be linted with it.
    folder = tmp_path_factory.getbasetemp() / "suppressed"
    folder.mkdir(exist_ok=True)
    path = folder / "program.py"

    def lint(texts: Mapping[Path, bytes]) -> Result:
        return check([path], CheckOptions(texts=texts, cache=False, isolated=True, jobs=1))

    outcome = suppress_all(lint, {path: source}, reason)
    assert outcome.result.findings == lint(outcome.texts).findings == ()
    assert ast.dump(ast.parse(outcome.texts[path])) == ast.dump(ast.parse(source))
    assert suppress_all(lint, outcome.texts, reason).texts == outcome.texts


def test_comments_are_added_to_the_file(program: Program) -> None:
    program.write({"a.py": PRINTED})
    done = program("--add-suppressions=known", ".")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "Silenced 2 problems in 1 file.\n")
    assert program.read("a.py") == SILENT
    assert program(".").returncode == 0


def test_a_second_run_changes_nothing(program: Program) -> None:
    program.write({"a.py": SILENT})
    assert program(".", "--add-suppressions=other").stderr == "Silenced 0 problems in 0 files.\n"
    assert program.read("a.py") == SILENT


def test_the_path_after_the_option_is_no_reason(program: Program) -> None:
    program.write({"a.py": PRINTED})
    program("--add-suppressions", "a.py")
    assert program.read("a.py") == SILENT.replace(" known", "")


def test_only_what_is_reported_is_silenced(program: Program) -> None:
    program.write({"a.py": PRINTED})
    program(".", "--add-suppressions=known", "--select", "TL202")
    assert program.read("a.py") == SILENT.replace("TL201, ", "")


def test_a_difference_is_printed_and_nothing_written(program: Program) -> None:
    program.write({"a.py": PRINTED})
    done = program(".", "--add-suppressions=known", "--diff")
    assert done.returncode == 1
    assert "+    print(loss.item())  # trainlint: ignore[TL201, TL202] known\n" in done.stdout
    assert done.stderr == "Would silence 2 problems in 1 file.\n"
    assert program.read("a.py") == PRINTED


def test_standard_input_comes_out_with_comments(program: Program) -> None:
    assert program("-", "--add-suppressions=known", stdin=PRINTED).stdout == SILENT


def test_what_no_comment_can_silence_remains(program: Program) -> None:
    program.write({"a.py": PRINTED, "b.py": BROKEN})
    (program.folder / "c.py").write_bytes(b"\xff\n")
    done = program(".", "--add-suppressions=known", "--output-format", "concise")
    assert done.returncode == 1
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["b.py", "c.py"]
    assert done.stderr == "Silenced 2 problems in 1 file.\n2 problems remain.\n"
    assert program.read("b.py") == BROKEN


def test_a_file_whose_encoding_has_no_room_for_the_reason_is_left(program: Program) -> None:
    text = "# coding: latin-1\n" + PRINTED
    program.write({"a.py": text})
    done = program(".", "--add-suppressions=損失")
    assert done.returncode == 1
    assert "a.py is not changed: it declares the encoding iso8859-1, which cannot store '\\u640d'" in done.stderr
    assert program.read("a.py") == text


def test_a_missing_reason_that_the_configuration_asks_for_is_an_error(program: Program) -> None:
    program.write({"a.py": PRINTED, "trainlint.toml": "require-suppression-reason = true\n"})
    done = program(".", "--add-suppressions")
    assert done.returncode == 2
    assert "give a reason" in done.stderr
    assert program.read("a.py") == PRINTED
    assert program(".", "--add-suppressions=known").returncode == 0
    assert program.read("a.py") == SILENT


def test_a_reason_is_given_to_the_comments_that_lack_one(program: Program) -> None:
    program.write({"a.py": SILENT.replace(" known", ""), "trainlint.toml": "require-suppression-reason = true\n"})
    program(".", "--add-suppressions=known")
    assert program.read("a.py") == SILENT


@pytest.mark.parametrize("arguments", [["--add-suppressions=a # noqa"], ["--add-suppressions", "--fix"]])
def test_what_makes_no_sense_is_refused(program: Program, arguments: list[str]) -> None:
    program.write({"a.py": PRINTED})
    done = program(".", *arguments)
    assert done.returncode == 2
    assert "`--add-suppressions" in done.stderr
    assert program.read("a.py") == PRINTED
