"""Which files matter to training code, and which belong together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from trainlint.lint.closure import Import, Outline, closure, imports_in

ROOT = Path("/project")

STATEMENTS: dict[str, tuple[str, list[tuple[str, int, tuple[str, ...]]]]] = {
    "import": ("import a.b", [("a.b", 0, ())]),
    "import as": ("import a.b as c, d", [("a.b", 0, ()), ("d", 0, ())]),
    "from": ("from a.b import c as d, e", [("a.b", 0, ("c", "e"))]),
    "from dots": ("from .. import x", [("", 2, ("x",))]),
    "from dots and a module": ("from ..a import x", [("a", 2, ("x",))]),
    "over lines in parentheses": ("from a import (  # why\n    b,  # more\n    c,\n)", [("a", 0, ("b", "c"))]),
    "over lines with backslashes": ("from a import b, \\\n    c", [("a", 0, ("b", "c"))]),
    "star": ("from a import *", [("a", 0, ("*",))]),
    "in a function": ("def f():\n    import a", [("a", 0, ())]),
    "after try on one line": ("try: import a\nexcept ImportError: pass", [("a", 0, ())]),
    "with a comment": ("import a  # noqa: F401", [("a", 0, ())]),
    "with Windows line ends": ("import a\r\nimport b\r\n", [("a", 0, ()), ("b", 0, ())]),
    "words that only start like one": ("importer = 1\nfrom_x = 2", []),
}


@pytest.mark.parametrize(("source", "expected"), STATEMENTS.values(), ids=STATEMENTS)
def test_imports_are_read_from_source(source: str, expected: list[Import]) -> None:
    assert list(imports_in(source.encode())) == expected


def grouped(files: Mapping[str, tuple[bool, str]]) -> list[list[str]]:
    outlines = {
        ROOT / path: Outline(relevant, tuple(imports_in(source.encode()))) for path, (relevant, source) in files.items()
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
