"""Which files matter to training code, and which belong together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from trainlint.lint.closure import Outline, closure
from trainlint.semantics.prefilter import scan

ROOT = Path("/project")


def grouped(files: Mapping[str, tuple[bool, str]]) -> list[list[str]]:
    outlines = {
        ROOT / path: Outline(relevant, scan(source.encode()).imports) for path, (relevant, source) in files.items()
    }
    return [[str(path.relative_to(ROOT)) for path in component] for component in closure(outlines).components]


GROUPS: dict[str, tuple[dict[str, tuple[bool, str]], list[list[str]]]] = {
    "files that never meet a training library are left out": ({"a.py": (False, "import b"), "b.py": (False, "")}, []),
    "what a relevant file imports is relevant, at any depth": (
        {"train.py": (True, "import a"), "a.py": (False, "import b"), "b.py": (False, ""), "c.py": (False, "")},
        [["a.py", "b.py", "train.py"]],
    ),
    "importers are relevant, their other imports are not": (
        {
            "train.py": (True, ""),
            "main.py": (False, "import train\nimport web"),
            "run.py": (False, "import main"),
            "web.py": (False, ""),
        },
        [["main.py", "run.py", "train.py"]],
    ),
    "importers of what a relevant file merely imports are not": (
        {"train.py": (True, "import paths"), "paths.py": (False, ""), "web.py": (False, "import paths")},
        [["paths.py", "train.py"]],
    ),
    "files that do not import each other are apart": (
        {"a.py": (True, ""), "b.py": (True, "")},
        [["a.py"], ["b.py"]],
    ),
    "a shared module joins its importers": (
        {"a.py": (True, "import m"), "b.py": (True, "import m"), "m.py": (False, "")},
        [["a.py", "b.py", "m.py"]],
    ),
    "circles of imports end": ({"a.py": (True, "import b"), "b.py": (False, "import a")}, [["a.py", "b.py"]]),
}


@pytest.mark.parametrize(("files", "expected"), GROUPS.values(), ids=GROUPS)
def test_components(files: dict[str, tuple[bool, str]], expected: list[list[str]]) -> None:
    assert grouped(files) == expected
