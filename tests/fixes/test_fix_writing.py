"""Files are replaced whole or not at all; diffs are what git takes."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from trainlint.fixes.diff import unified
from trainlint.fixes.write import FileChanged, write_atomically


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_content_is_replaced_and_permissions_stay(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"old\r\n")
    path.chmod(0o751)
    write_atomically(path, b"new\r\n", b"old\r\n")
    assert path.read_bytes() == b"new\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert _names(tmp_path) == ["train.py"]


def test_of_a_symbolic_link_the_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "train.py"
    target.write_bytes(b"old")
    link = tmp_path / "link.py"
    link.symlink_to(Path("real") / "train.py")
    write_atomically(link, b"new", b"old")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"edited")
    with pytest.raises(FileChanged, match=r"train\.py changed on disk"):
        write_atomically(path, b"new", b"old")
    assert path.read_bytes() == b"edited"
    assert _names(tmp_path) == ["train.py"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new", b"old")
    assert path.read_bytes() == b"old"
    assert _names(tmp_path) == ["train.py"]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "train.py", b"new", b"old")
    assert _names(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(PermissionError, match="read-only"):
        write_atomically(path, b"new", b"old")


DIFFS = {
    "middle": ("a\nb\nc\n", "a\nx\nc\n"),
    "no final line end": ("a\nb", "a\nx"),
    "final line end added": ("a\nb", "a\nb\n"),
    "final line end removed": ("a\nb\n", "a\nb"),
    "CRLF": ("a\r\nb\r\nc\r\n", "a\r\nx\r\nc\r\n"),
    "mixed": ("a\r\nb\nc\r\n", "a\r\nb\nx\r\nc"),
    "carriage returns": ("a\rb\rc", "a\rx\rc"),
    "form feed and line separator": ("a\x0cb\u2028c\nd\n", "a\x0cb\u2028x\nd\n"),
    "emptied": ("a\n", ""),
    "filled": ("", "a\n"),
    "several places": ("".join(f"{n}\n" for n in range(50)), "x\n" + "".join(f"{n}\n" for n in range(1, 49)) + "y\n"),
}


@pytest.mark.parametrize("path", ["train.py", "my folder/tr ain.py", 'a/ü"\\.py'])
@pytest.mark.parametrize(("before", "after"), DIFFS.values(), ids=DIFFS)
def test_git_applies_the_diff(before: str, after: str, path: str, tmp_path: Path) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(before.encode())
    diff = unified(path, before, after).encode()
    command = ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", "-"]
    subprocess.run(command, cwd=tmp_path, input=diff, check=True)
    assert file.read_bytes() == after.encode()


def test_no_difference_is_no_diff() -> None:
    assert unified("train.py", "a\n", "a\n") == ""
