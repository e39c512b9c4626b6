"""`--changed-since`: only findings on lines that git says changed."""

from __future__ import annotations

import pytest
from program import Program
from tests.git_repository import git
from training_programs import HEAD

SYNC = "    total += loss.item()\n"
PRINT = "    print(total)\n"
USE = ("--changed-since", "HEAD", "--output-format", "concise")


@pytest.fixture
def repository(program: Program) -> Program:
    """A repository with a finding at row 11 of each of two files."""
    program.write({"a.py": HEAD + SYNC, "b.py": HEAD + SYNC, ".gitignore": ".trainlint_cache\n"})
    git(program.folder, "init", "--quiet")
    commit(program)
    return program


def commit(program: Program) -> None:
    git(program.folder, "add", "--all")
    git(program.folder, "commit", "--quiet", "--message", "all")


def found(program: Program, *arguments: str, stdin: str = "") -> list[str]:
    """Where something is reported."""
    done = program(*(arguments or (".",)), *USE, stdin=stdin)
    assert done.returncode == (1 if done.stdout else 0)
    return [":".join(line.split(":")[:2]) for line in done.stdout.splitlines()]


def test_unchanged_lines_are_silent(repository: Program) -> None:
    assert found(repository) == []
    repository.write({"a.py": "\n" + HEAD + SYNC})
    assert found(repository) == []


def test_changed_lines_are_reported(repository: Program) -> None:
    repository.write({"a.py": HEAD + SYNC + PRINT})
    assert found(repository) == ["a.py:12"]


def test_any_row_of_a_finding_counts(repository: Program) -> None:
    repository.write({"a.py": HEAD + "    total += loss.item(\n    )\n"})
    commit(repository)
    repository.write({"a.py": HEAD + "    total += loss.item(\n\n    )\n"})
    assert found(repository) == ["a.py:11"]


def test_new_files_are_reported_as_a_whole(repository: Program) -> None:
    repository.write({"c.py": HEAD + SYNC, "d.py": HEAD + SYNC})
    git(repository.folder, "add", "d.py")
    assert found(repository) == ["c.py:11", "d.py:11"]


def test_a_renamed_file_is_not_new(repository: Program) -> None:
    git(repository.folder, "mv", "b.py", "c.py")
    repository.write({"c.py": HEAD + SYNC + PRINT})
    assert found(repository) == ["c.py:12"]


def test_what_was_committed_since_is_changed(repository: Program) -> None:
    repository.write({"a.py": HEAD + SYNC + PRINT})
    commit(repository)
    assert found(repository) == []
    done = repository(".", "--changed-since", "HEAD~1", "--output-format", "concise")
    assert done.stdout.startswith("a.py:12:")


def test_dots_mean_the_commit_where_the_branch_left(repository: Program) -> None:
    git(repository.folder, "branch", "other")
    repository.write({"a.py": HEAD + SYNC + PRINT})
    commit(repository)
    git(repository.folder, "branch", "main-moved-on")
    git(repository.folder, "checkout", "--quiet", "other")
    repository.write({"b.py": HEAD + SYNC + PRINT})
    commit(repository)
    git(repository.folder, "checkout", "--quiet", "main-moved-on")
    repository.write({"b.py": HEAD})
    commit(repository)
    git(repository.folder, "checkout", "--quiet", "other")
    options = ("--output-format", "concise", "--changed-since")
    assert [line[:7] for line in repository(".", *options, "main-moved-on...").stdout.splitlines()] == ["b.py:12"]
    assert len(repository(".", *options, "main-moved-on").stdout.splitlines()) == 2


@pytest.mark.parametrize("revision", ["", "..."])
def test_an_empty_revision_is_an_error(repository: Program, revision: str) -> None:
    done = repository(".", "--changed-since", revision)
    assert (done.returncode, "the revision is empty" in done.stderr) == (2, True)


def test_standard_input_is_compared_by_its_name(repository: Program) -> None:
    arguments = ("-", "--stdin-filename", "a.py")
    assert found(repository, *arguments, stdin="\n" + HEAD + SYNC + PRINT) == ["a.py:13"]


def test_only_findings_on_changed_lines_are_fixed(repository: Program) -> None:
    old = "x = 1  # trainlint: ignore[TL201] old\n"
    repository.write({"c.py": old})
    commit(repository)
    repository.write({"c.py": old + old.replace("x", "y")})
    repository("c.py", "--changed-since", "HEAD", "--fix")
    assert repository.read("c.py") == old + "y = 1\n"


def test_only_findings_on_changed_lines_are_suppressed(repository: Program) -> None:
    repository.write({"a.py": HEAD + SYNC + SYNC.replace("+=", "-=")})
    repository(".", "--changed-since", "HEAD", "--add-suppressions=new")
    assert repository.read("a.py") == HEAD + SYNC + "    total -= loss.item()  # trainlint: ignore[TL201] new\n"


def test_outside_of_a_repository_it_is_an_error(program: Program) -> None:
    done = program(".", "--changed-since", "HEAD")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"trainlint: error: `--changed-since HEAD`: {program.folder} is in no git repository\n"


def test_an_unknown_revision_is_an_error(repository: Program) -> None:
    done = repository(".", "--changed-since", "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"the git repository {repository.folder} knows no revision `nowhere`" in done.stderr


def test_without_git_it_is_an_error(repository: Program) -> None:
    repository.environment["PATH"] = ""
    done = repository(".", "--changed-since", "HEAD")
    assert done.returncode == 2
    assert "git cannot be run" in done.stderr
