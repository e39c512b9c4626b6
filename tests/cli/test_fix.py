"""`--fix` and `--diff`: what is changed, what is not, and what is said about it."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from program import Program

from trainlint.cli.drafts import write
from trainlint.cli.fixing import applicable_kinds, fix_until_stable
from trainlint.cli.outcome import Change, Outcome
from trainlint.cli.summary import fix_notes
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.engine import check
from trainlint.lint.result import Result
from trainlint.source.documents import Document

UNUSED = "x = 1  # one  # trainlint: ignore[TL201] an old reason\n"
FIXED = "x = 1  # one\n"
BROKEN = "x = (\n"


def test_a_safe_fix_is_written(program: Program) -> None:
    program.write({"a.py": UNUSED, "b.py": BROKEN})
    done = program(".", "--fix", "--output-format", "concise")
    assert program.read("a.py") == FIXED
    assert program.read("b.py") == BROKEN
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["b.py"]
    assert done.stderr == "Found 2 problems (1 fixed, 1 remaining).\n"


COUNTS = {
    "as many as offered": (3, 3, []),
    "nothing to say": (3, None, []),
    "more": (3, 2, ["1 of 3 fixes came up only once others had been applied."]),
    "fewer": (1, 3, ["2 of 3 fixes did not apply, or had nothing left to change after the others."]),
}


@pytest.mark.parametrize(("fixed", "offered", "notes"), COUNTS.values(), ids=COUNTS)
def test_a_number_of_fixes_that_is_not_the_one_offered_is_explained(
    tmp_path: Path, fixed: int, offered: int | None, notes: list[str]
) -> None:
    document = Document(tmp_path / "a.py", "x", "utf-8", bom=False, data=b"x")
    outcome = Outcome(Result((), 1), changes=(Change(document, "y", b"y", fixed),), offered=offered)
    assert list(fix_notes(outcome)) == notes


PRINTS = """import torch

model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1000):
    loss = model(torch.randn(8, 4, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())  # trainlint: ignore[TL201] printed
"""
"""Once the line is printed at some steps only, its suppression silences nothing."""


def test_fixes_that_others_make_possible_are_told_apart(program: Program) -> None:
    program.write({"a.py": PRINTS})
    assert "1 with `--fix --unsafe-fixes`" in program(".").stderr
    done = program(".", "--diff", "--unsafe-fixes")
    assert done.stderr.splitlines() == [
        "Would fix 2 problems in 1 file.",
        "1 of 2 fixes came up only once others had been applied.",
    ]


def test_a_comment_of_nothing_else_goes_with_the_space_before_it(program: Program) -> None:
    program.write({"a.py": "x = 1  # trainlint: ignore[TL201] an old reason\n"})
    program(".", "--fix")
    assert program.read("a.py") == "x = 1\n"


def test_without_fix_nothing_is_written(program: Program) -> None:
    program.write({"a.py": UNUSED})
    program(".", "--unsafe-fixes")
    assert program.read("a.py") == UNUSED


def test_fix_only_reports_nothing(program: Program) -> None:
    program.write({"a.py": UNUSED, "b.py": BROKEN})
    done = program(".", "--fix-only")
    assert program.read("a.py") == FIXED
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "Fixed 1 problem in 1 file.\n")


def test_a_diff_is_printed_and_nothing_written(program: Program) -> None:
    program.write({"src/a.py": UNUSED})
    done = program(".", "--diff")
    assert done.stdout == (
        "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n"
        "-x = 1  # one  # trainlint: ignore[TL201] an old reason\n+x = 1  # one\n"
    )
    assert done.stderr == "Would fix 1 problem in 1 file.\n"
    assert program.read("src/a.py") == UNUSED


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("y = 2\r\n" + UNUSED.replace("\n", "\r\n"), id="line ends of Windows"),
        pytest.param("\ufeff" + UNUSED, id="byte order mark"),
        pytest.param(UNUSED.rstrip("\n"), id="no line end at the end"),
        pytest.param("損失 = 1\n" + UNUSED, id="characters beyond ASCII"),
    ],
)
def test_what_is_not_fixed_stays_as_it_is(program: Program, text: str) -> None:
    program.write({"a.py": text})
    program(".", "--fix")
    assert program.read("a.py") == text.replace("  # trainlint: ignore[TL201] an old reason", "")


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_permissions_are_kept(program: Program) -> None:
    program.write({"a.py": UNUSED})
    (program.folder / "a.py").chmod(0o750)
    program(".", "--fix")
    assert stat.S_IMODE((program.folder / "a.py").stat().st_mode) == 0o750


def test_a_fixed_project_has_nothing_more_to_fix(program: Program) -> None:
    program.write({"a.py": UNUSED})
    program(".", "--fix")
    assert program(".", "--diff").stdout == ""


@pytest.mark.parametrize(
    ("stdin", "stdout", "status"),
    [
        pytest.param(UNUSED, FIXED, 0, id="fixed"),
        pytest.param(FIXED, FIXED, 0, id="nothing to fix"),
        pytest.param(BROKEN, BROKEN, 1, id="cannot be fixed"),
        pytest.param("", "", 0, id="empty"),
    ],
)
def test_standard_input_comes_out_fixed(program: Program, stdin: str, stdout: str, status: int) -> None:
    done = program("-", "--fix", stdin=stdin)
    assert (done.returncode, done.stdout) == (status, stdout)
    assert ("TL001" in done.stderr) == (status == 1)


def test_the_difference_of_standard_input(program: Program) -> None:
    done = program("-", "--diff", "--stdin-filename", "a.py", stdin=UNUSED)
    assert done.returncode == 1
    assert done.stdout.startswith("--- a/a.py\n+++ b/a.py\n")


def test_fixing_standard_input_leaves_the_named_file_alone(program: Program) -> None:
    program.write({"a.py": BROKEN})
    assert program("-", "--fix", "--stdin-filename", "a.py", stdin=UNUSED).stdout == FIXED
    assert program.read("a.py") == BROKEN


class Linter:
    """The engine on one folder, without a cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, texts: Mapping[Path, bytes]) -> Result:
        return check([self.folder], CheckOptions(texts=texts, cache=False, isolated=True))


def test_a_file_that_changed_in_between_is_left_and_named(tmp_path: Path) -> None:
    path, other = tmp_path / "a.py", tmp_path / "b.py"
    path.write_text(UNUSED)
    other.write_text(UNUSED)
    linter = Linter(tmp_path)
    outcome = fix_until_stable(linter, {}, applicable_kinds(unsafe_fixes=False))
    path.write_text("y = 2\n" + UNUSED)
    outcome = write(outcome, linter)
    assert path.read_text() == "y = 2\n" + UNUSED
    assert other.read_text() == FIXED
    assert [change.path for change in outcome.changes] == [other]
    assert [(reported.path, reported.location.row) for reported in outcome.result.findings] == [(path, 2)]
    assert len(outcome.problems) == 1
    assert str(path) in outcome.problems[0]


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="the superuser may write everything")
def test_a_file_that_may_not_be_written_is_named(program: Program) -> None:
    program.write({"a.py": UNUSED})
    (program.folder / "a.py").chmod(0o444)
    done = program(".", "--fix")
    assert done.returncode == 1
    assert "a.py" in done.stderr and "Traceback" not in done.stderr
