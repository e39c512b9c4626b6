"""Which lines git says changed: asked of real repositories."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.git_repository import git

from trainlint.source.changes import Changes, NoChanges, working_tree

ALL = None
TEXT = "".join(f"line {number}\n" for number in range(1, 9))


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all")


def write(path: Path, text: str) -> None:
    path.write_bytes(text.encode())


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    write(tmp_path / "a.py", TEXT)
    commit(tmp_path)
    return tmp_path


def changed(repository: Path, name: str, text: str | None = None) -> list[int] | None:
    on_disk = (repository / name).read_bytes().decode()
    rows = Changes.since("HEAD", repository).rows(name, on_disk, on_disk if text is None else text)
    return None if rows is None else sorted(rows)


EDITS = {
    "nothing": (TEXT, []),
    "a line": (TEXT.replace("line 3", "LINE 3"), [3]),
    "lines at two places": (TEXT.replace("line 3\n", "a\nb\n").replace("line 8", "c"), [3, 4, 9]),
    "added lines": ("a\nb\n" + TEXT, [1, 2]),
    "removed lines only": (TEXT.replace("line 3\nline 4\n", ""), []),
    "the line end of the last line": (TEXT.rstrip("\n"), [8]),
    "lines that look like a patch": (
        TEXT.replace("line 3\n", "++ b/x\n@@ -1 +1 @@\n").replace("line 8", "diff --git a/x b/x"),
        [3, 4, 9],
    ),
    "all": ("x\n", [1]),
    "carriage returns within a line": (TEXT.replace("line 3", "a\rb\rc"), [3, 4, 5]),
    "line ends of Windows": ("x\r\n" + TEXT, [1]),
}


@pytest.mark.parametrize(("text", "rows"), EDITS.values(), ids=EDITS)
def test_edited_rows_are_changed(repository: Path, text: str, rows: list[int]) -> None:
    write(repository / "a.py", text)
    assert changed(repository, "a.py") == rows


@pytest.mark.parametrize("name", ["b.py", "a b.py", "größe.py", 'a"b\\c.py', "a\tb.py", "a\nb.py", "dev/null.py"])
def test_files_of_any_name_are_told_apart(repository: Path, name: str) -> None:
    (repository / name).parent.mkdir(exist_ok=True)
    write(repository / name, TEXT)
    assert changed(repository, name) is ALL
    commit(repository)
    assert changed(repository, name) == []
    write(repository / name, TEXT.replace("line 2", "a"))
    write(repository / "a.py", TEXT.replace("line 4", "a"))
    assert (changed(repository, name), changed(repository, "a.py")) == ([2], [4])


def test_a_staged_file_is_new_line_by_line(repository: Path) -> None:
    write(repository / "b.py", "a\nb\n")
    git(repository, "add", "b.py")
    assert changed(repository, "b.py") == [1, 2]


def test_of_a_renamed_file_only_what_was_edited_is_changed(repository: Path) -> None:
    git(repository, "mv", "a.py", "b.py")
    assert changed(repository, "b.py") == []
    write(repository / "b.py", TEXT.replace("line 5", "a"))
    assert changed(repository, "b.py") == [5]


def test_a_binary_file_changed_as_a_whole(repository: Path) -> None:
    (repository / "b.py").write_bytes(b"\0a\n")
    commit(repository)
    assert changed(repository, "b.py") == []
    (repository / "b.py").write_bytes(b"\0b\n")
    assert changed(repository, "b.py") is ALL


def test_what_is_no_text_changed_as_a_whole_or_not_at_all(repository: Path) -> None:
    assert Changes.since("HEAD", repository).rows("a.py", "", None) == frozenset()
    write(repository / "a.py", "a\n")
    assert Changes.since("HEAD", repository).rows("a.py", "", None) is ALL


def test_changes_that_are_not_on_disk_count_as_well(repository: Path) -> None:
    write(repository / "a.py", TEXT.replace("line 3", "a"))
    assert changed(repository, "a.py", "new\n" + TEXT.replace("line 3", "a").replace("line 7", "b")) == [1, 4, 8]


def test_settings_of_the_user_change_nothing(repository: Path) -> None:
    for setting in ("diff.noprefix=true", "diff.context=5", "color.ui=always", "diff.external=false"):
        git(repository, "config", *setting.split("="))
    write(repository / "a.py", TEXT.replace("line 3", "a"))
    assert changed(repository, "a.py") == [3]


@pytest.mark.parametrize("revision", ["nowhere", "", "--all", "HEAD:a.py"])
def test_an_unknown_revision_is_named(repository: Path, revision: str) -> None:
    with pytest.raises(NoChanges, match=r"knows no revision|expected commit|the revision is empty"):
        Changes.since(revision, repository)


def test_a_folder_outside_of_repositories_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoChanges, match="is in no git repository"):
        working_tree(tmp_path)
