"""A tree of real code, copied to where it may be changed, and what Python itself thinks of its files."""

from __future__ import annotations

import os
import shutil
import stat
import warnings
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import libcst as cst

from trainlint.semantics.nesting import too_deep
from trainlint.source.discovery import ROOT_MARKERS
from trainlint.source.documents import Unreadable, decode

MODES = (0o644, 0o755, 0o600)
"""Permissions that the files of a copy are given in turn."""
_NOT_COPIED = shutil.ignore_patterns("site-packages", "__pycache__", "*.pyc", "*.so", ".git", ".trainlint_cache")


@dataclass(frozen=True)
class Copy:
    """A copy of a tree, and how its files were before anything was done to them."""

    root: Path
    files: dict[Path, bytes]
    """The Python files, by absolute path."""
    modes: dict[Path, int]
    """The permissions that they were given."""

    @property
    def lines(self) -> int:
        return sum(data.count(b"\n") for data in self.files.values())

    def name(self, path: Path) -> str:
        return str(path.relative_to(self.root))


def copy_tree(source: Path, target: Path) -> Copy:
    """Copy what is in `source`, so that it is a project of its own and all files may be written."""
    shutil.copytree(source, target, ignore=_NOT_COPIED, ignore_dangling_symlinks=True)
    if not any((target / marker).exists() for marker in ROOT_MARKERS):
        (target / "setup.cfg").touch()
    files = {path: path.read_bytes() for path in sorted(target.rglob("*.py")) if path.is_file()}
    modes = dict(zip(files, cycle(MODES)))
    for path, mode in modes.items():
        path.chmod(mode)
    return Copy(target, files, modes)


def permissions(path: Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)  # noqa: PTH116


def compiles(path: Path, data: bytes) -> bool:
    """Whether Python compiles the file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(data, str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def parses(path: Path, data: bytes) -> bool:
    """Whether libcst parses the file, in the encoding that it declares."""
    try:
        text = decode(path, data).text
        if too_deep(text) is not None:
            return False
        cst.parse_module(text)
    except (Unreadable, cst.ParserSyntaxError, RecursionError):
        return False
    return True
