"""The files in which a project may say what it depends on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trainlint.source.documents import Unreadable, read_bytes

REQUIREMENTS = "requirements"
"""The folder of a project that may hold files of requirements."""
LOCK_FILES = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml")
"""Files that pin each package to one release; there may also be `pylock.NAME.toml`."""
_DECLARING = ("pyproject.toml", "setup.cfg", "setup.py")
_REQUIREMENT_FILES = ("*requirements*.txt", f"{REQUIREMENTS}/*.txt", "environment*.y*ml")
_NAMED_LOCKS = "pylock.*.toml"
_NAMED = frozenset({*_DECLARING, *LOCK_FILES})
_PATTERNS = (*_REQUIREMENT_FILES, _NAMED_LOCKS)
_HAND_WRITTEN = 1024 * 1024
"""Bytes; what is larger is no hand-written list of dependencies."""
_LOCKED = 64 * 1024 * 1024
"""Bytes; a lock file of a thousand packages has about five million."""
_QUOTED = re.compile(r"""torch["']""")
"""Begins with a literal, which makes the search several times as fast as one for lines that begin with `name`."""
_NAME = re.compile(r"""name[ \t]*=[ \t]*["']torch["'][ \t\r]*""")
_VERSION = re.compile(r"""^version[ \t]*=[ \t]*["']([^"'\n]+)["'][ \t\r]*$""", re.MULTILINE)
_TABLE = re.compile(r"^\[", re.MULTILINE)


class Dependencies(NamedTuple):
    """What one file says."""

    file: Path
    data: bytes
    """Its content; of a lock file, the requirements that it makes of torch, one a line, and nothing else: what it pins
    besides changes with each update, and decides nothing here."""
    locked: bool = False
    """Whether it is a lock file."""


def requirement_files(root: Path) -> Iterator[Path]:
    """The files of a project that list requirements for pip or conda."""
    for pattern in _REQUIREMENT_FILES:
        yield from sorted(root.glob(pattern))


def may_say_dependencies(file: Path) -> bool:
    """Whether a file's name is one of those by which `dependency_files` finds its files."""
    return file.name in _NAMED or any(file.match(pattern) for pattern in _PATTERNS)


def lock_files(root: Path) -> Iterator[Path]:
    """The lock files that a project has or may come to have."""
    yield from (root / name for name in LOCK_FILES)
    yield from sorted(root.glob(_NAMED_LOCKS))


def dependency_files(root: Path) -> Iterator[Dependencies]:
    """Yield what `pyproject.toml`, `setup.cfg`, `setup.py`, the files of requirements and the lock files of a project's
    folder say.

    What cannot be read, or is too large to be what its name says, is left out: it may be another tool's.
    """
    for file in (*(root / name for name in _DECLARING), *requirement_files(root)):
        data = _content(file, _HAND_WRITTEN)
        if data is not None:
            yield Dependencies(file, data)
    for file in lock_files(root):
        data = _content(file, _LOCKED)
        if data is not None and b"torch" in data:
            pinned = sorted(set(_pinned(file, data.decode("utf-8", "replace"))))
            yield Dependencies(file, "\n".join(f"torch=={version}" for version in pinned).encode(), locked=True)


def _content(file: Path, limit: int) -> bytes | None:
    try:
        return read_bytes(file, limit)
    except Unreadable:
        return None


def _pinned(file: Path, text: str) -> Iterator[str]:
    """The releases of torch that a lock file pins: several where they differ by platform.

    The tables of packages are searched rather than parsed: parsing a lock file takes longer than all the rest of a run
    on an unchanged project.
    """
    if file.suffix == ".lock" and file.stem == "Pipfile":
        yield from _pinned_by_pipenv(text)
        return
    for name in _QUOTED.finditer(text):
        end = text.find("\n", name.end())
        if _NAME.fullmatch(text, text.rfind("\n", 0, name.start()) + 1, end if end >= 0 else len(text)) is None:
            continue
        start = text.rfind("\n[[", 0, name.start()) + 1
        after = _TABLE.search(text, name.end())
        version = _VERSION.search(text, start, after.start() if after else len(text))
        if version is not None:
            yield version[1]


def _pinned_by_pipenv(text: str) -> Iterator[str]:
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError):
        return
    groups = document.values() if isinstance(document, dict) else ()
    for group in groups:
        package = group.get("torch") if isinstance(group, dict) else None
        version = package.get("version") if isinstance(package, dict) else None
        if isinstance(version, str):
            yield version.removeprefix("==")
