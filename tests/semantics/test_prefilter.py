"""The scan of a file's bytes: it finds every import that the parser finds."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

import trainlint
from trainlint.semantics.extract import extract
from trainlint.semantics.prefilter import scan

REAL_FILES = (
    sorted(Path(trainlint.__file__).parent.rglob("*.py")) + sorted(Path(cst.__file__).parent.rglob("*.py"))[::40]
)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (b"import a.b as c, d\n", {("a.b", 0, ()), ("d", 0, ())}),
        (b"try: import x\nexcept E: pass; from y import z", {("x", 0, ()), ("y", 0, ("z",))}),
        (b"if TYPE_CHECKING:\n\tfrom a.b import c as d, e # f", {("a.b", 0, ("c", "e"))}),
        (b"from . import (a, # )\n b as c,\n)", {("", 1, ("a", "b"))}),
        (b"from .. x . y import *", {("x.y", 2, ("*",))}),
        (b"from \\\r\n  a.b import c, \\\r\n d; e", {("a.b", 0, ("c", "d"))}),
        (b"x = 1;import os;import sys", {("os", 0, ()), ("sys", 0, ())}),
        (b"importlib.import_module('.a.b', 'c'); x = __import__(\"q\")", {("a.b", 1, ()), ("q", 0, ())}),
        (b"\xef\xbb\xbfimport a\rfrom.import b\rfrom...c import(d)", {("a", 0, ()), ("", 1, ("b",)), ("c", 3, ("d",))}),
        ("import é.ü".encode(), {("é.ü", 0, ())}),
        (b"reimport(a)\nx.import_\nyield from x\nraise A from b", set()),
    ],
)
def test_imports(source: bytes, expected: set[tuple[str, int, tuple[str, ...]]]) -> None:
    assert {(one.module, one.level, one.names) for one in scan(source).imports} == expected


@pytest.mark.parametrize("path", REAL_FILES, ids=lambda path: path.name)
def test_no_import_of_a_real_file_is_missed(path: Path) -> None:
    source = path.read_bytes()
    assert set(extract(source.decode()).imports) <= set(scan(source).imports)


@pytest.mark.parametrize(
    ("source", "libraries"),
    [
        (b"import torch.nn as nn", {"torch"}),
        (b"from transformers import Trainer", {"transformers"}),
        (b"from .torch import x", set()),
        (b"import torchish  # trainlint: ignore[TL201]", set()),
    ],
)
def test_training_libraries(source: bytes, libraries: set[str]) -> None:
    assert scan(source).libraries == libraries
