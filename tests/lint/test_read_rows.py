"""What is stored about what a walk read costs little for each thing that it read."""

from __future__ import annotations

import json
from pathlib import Path

from tests.counted_calls import calls_of

from trainlint.lint.cache import Cache
from trainlint.lint.earlier import read_row
from trainlint.lint.projects import ProjectFiles
from trainlint.semantics.link import Read

MODULES = 500


def test_a_row_is_in_order_and_paths_are_not_compared_for_it(tmp_path: Path) -> None:
    paths = [tmp_path / f"module_{number}.py" for number in reversed(range(MODULES))]
    absent = frozenset((path, name) for path in paths for name in ("first", "second"))
    read = Read(frozenset((path, 1) for path in paths), {}, absent, frozenset(paths))
    files = ProjectFiles(tmp_path, {}, Cache(None), b"")
    rows: list[str] = []
    calls = calls_of(lambda: rows.append(read_row(read, files)))
    bodies, _, names, whole = json.loads(rows[0])
    assert list(bodies) == list(names) == whole == sorted(path.name for path in paths)
    assert set(map(tuple, names.values())) == {("first", "second")}
    assert calls < 20 * 4 * MODULES
