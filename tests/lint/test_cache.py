"""The cache: what it keeps, and that nothing that is wrong with it matters."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trainlint.lint import cache as cache_module
from trainlint.lint.cache import FILE, Cache

KEY = b"key"


def saved(folder: Path, value: str = "value", key: bytes = KEY) -> None:
    cache = Cache(folder)
    cache.put("kind", key, value)
    cache.save()
    assert cache.warning is None


def test_entries_last(tmp_path: Path) -> None:
    saved(tmp_path)
    assert Cache(tmp_path).get("kind", KEY) == "value"
    assert Cache(tmp_path).get("other", KEY) is None
    assert Cache(tmp_path).holds("kind", [KEY, b"other"]) == {KEY}


def test_entries_of_the_run_are_there_before_they_are_saved(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("kind", KEY, "value")
    assert cache.get("kind", KEY) == "value"
    assert cache.holds("kind", [KEY]) == {KEY}
    assert not list(tmp_path.iterdir())


def test_without_a_folder_entries_last_for_the_run() -> None:
    cache = Cache(None)
    cache.put("kind", KEY, "value")
    assert cache.get("kind", KEY) == "value"
    cache.save()


def test_the_folder_is_marked_as_a_cache(tmp_path: Path) -> None:
    saved(tmp_path / "cache")
    assert (tmp_path / "cache/.gitignore").read_text() == "*\n"
    assert (tmp_path / "cache/CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_text_of_any_kind_survives(tmp_path: Path) -> None:
    for number, value in enumerate(["", "äöü\n\0", "\U0001f600" * 5000]):
        saved(tmp_path, value, bytes([number]))
        assert Cache(tmp_path).get("kind", bytes([number])) == value


def garbage(file: Path) -> None:
    file.write_bytes(b"not a database" * 100)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:5000])


def scribbled(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[4096:8192] = b"\xff" * 4096
    file.write_bytes(bytes(data))


def foreign(file: Path) -> None:
    file.unlink()
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE entries (something TEXT)")


def of_another_version(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 9999")


DAMAGES = [garbage, empty, cut, scribbled, foreign, of_another_version]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_replaced(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    saved(tmp_path)
    damage(tmp_path / FILE)
    cache = Cache(tmp_path)
    assert cache.get("kind", KEY) is None
    cache.put("kind", KEY, "again")
    cache.save()
    saved(tmp_path, "again")
    assert Cache(tmp_path).get("kind", KEY) == "again"


def test_a_changed_entry_is_not_read(tmp_path: Path) -> None:
    saved(tmp_path)
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE entries SET value = 'forged'")
    connection.close()
    assert Cache(tmp_path).get("kind", KEY) is None


def test_a_place_that_cannot_be_written_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file/cache")
    assert cache.get("kind", KEY) is None
    cache.put("kind", KEY, "value")
    cache.save()
    assert cache.warning is not None
    assert "--no-cache" in cache.warning


def test_a_locked_file_is_read_and_not_waited_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_BUSY_SECONDS", 0.05)
    saved(tmp_path)
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    cache = Cache(tmp_path)
    assert cache.get("kind", KEY) == "value"
    cache.put("kind", b"new", "value")
    cache.save()
    other.close()
    assert Cache(tmp_path).get("kind", b"new") is None


def test_processes_that_write_at_once_keep_all_entries(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from trainlint.lint.cache import Cache\n"
        "for number in range(20):\n"
        "    cache = Cache(Path(sys.argv[1])); cache.put('kind', f'{sys.argv[2]}-{number}'.encode(), 'x' * 1000)\n"
        "    cache.save()\n"
    )
    runs = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name]) for name in ("a", "b", "c")]
    assert [run.wait() for run in runs] == [0, 0, 0]
    keys = [f"{name}-{number}".encode() for name in ("a", "b", "c") for number in range(20)]
    assert Cache(tmp_path).holds("kind", keys) == set(keys)


def test_entries_that_no_run_uses_are_dropped_and_used_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "KEPT_RUNS", 6)
    monkeypatch.setattr(cache_module, "_TOUCH_EVERY", 2)
    saved(tmp_path, key=b"used")
    saved(tmp_path, key=b"noted")
    saved(tmp_path, key=b"unused")
    for number in range(20):
        cache = Cache(tmp_path)
        cache.get("kind", b"used")
        cache.note_use("kind", [b"noted"])
        cache.put("kind", str(number).encode(), "value")
        cache.save()
    assert Cache(tmp_path).holds("kind", [b"used", b"noted", b"unused"]) == {b"used", b"noted"}
