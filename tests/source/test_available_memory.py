"""As many processes as memory holds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainlint.source import memory

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """8 GiB available, 1 GiB taken, no container."""
    pages = GIB // os.sysconf("SC_PAGE_SIZE")
    (tmp_path / "meminfo").write_text(f"MemTotal:  999 kB\nMemAvailable:  {8 << 20} kB\nHugePages_Total:  0\n")
    (tmp_path / "statm").write_text(f"{4 * pages} {pages} 10 1 0 20 0\n")
    monkeypatch.setattr(memory, "MACHINE", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "OWN", tmp_path / "statm")
    monkeypatch.setattr(memory, "GROUP", tmp_path / "group")
    return tmp_path


@pytest.mark.parametrize(("wanted", "growth", "fits"), [(16, 2.0, 4), (2, 2.0, 2), (16, 100.0, 1)])
def test_processes_fit_into_what_is_available(machine: Path, wanted: int, growth: float, fits: int) -> None:
    assert memory.processes_that_fit(wanted, growth) == fits


def test_a_container_has_less(machine: Path) -> None:
    group = machine / "group"
    group.mkdir()
    (group / "memory.current").write_text(f"{3 * GIB}\n")
    (group / "memory.stat").write_text(f"anon 17\ninactive_file {GIB}\n")
    (group / "memory.max").write_text("max\n")
    assert memory.available_bytes() == 8 * GIB
    (group / "memory.max").write_text(f"{4 * GIB}\n")
    assert memory.available_bytes() == 2 * GIB
    (group / "memory.max").write_text(f"{GIB}\n")
    assert memory.available_bytes() == 0
    assert memory.processes_that_fit(8, 2.0) == 1


@pytest.mark.parametrize("missing", ["meminfo", "statm"])
def test_as_many_as_wanted_where_the_system_does_not_tell(machine: Path, missing: str) -> None:
    (machine / missing).unlink()
    assert memory.processes_that_fit(16, 2.0) == 16
    (machine / missing).write_text("nothing of use")
    assert memory.processes_that_fit(16, 2.0) == 16
