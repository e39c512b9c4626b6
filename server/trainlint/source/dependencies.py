"""The files in which a project may say what it depends on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trainlint.source.documents import Unreadable, read_bytes

REQUIREMENTS = "requirements"
"""The folder of a project that may hold files of requirements."""
SIZE_LIMIT = 1024 * 1024
"""Bytes; what is larger is no hand-written list of dependencies."""


def requirement_files(root: Path) -> Iterator[Path]:
    """The files of a project that list requirements for pip."""
    for folder, pattern in ((root, "*requirements*.txt"), (root / REQUIREMENTS, "*.txt")):
        yield from sorted(folder.glob(pattern))


def dependency_files(root: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield `pyproject.toml`, `setup.cfg` and the requirements files of a project's folder, with their content.

    What cannot be read, or is too large to be written by hand, is left out: it may be another tool's.
    """
    for file in (root / "pyproject.toml", root / "setup.cfg", *requirement_files(root)):
        try:
            yield file, read_bytes(file, SIZE_LIMIT)
        except Unreadable:
            continue
