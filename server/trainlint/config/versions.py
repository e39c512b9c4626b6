"""The lowest PyTorch release that a project admits, read from its dependencies."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from pathlib import Path
from typing import TypeAlias

Release: TypeAlias = tuple[int, int]
"""Major and minor version."""

_SIZE_LIMIT = 1024 * 1024
"""Bytes; what is larger is no hand-written list of dependencies."""
_REQUIREMENT = re.compile(r"\s*(?:pytorch|torch)\s*(?:\[[^\]]*\])?\s*(?P<specifiers>[^;#@]*)", re.IGNORECASE)
_NAME_END = re.compile(r"\s*(?:pytorch|torch)(?![\w.-])", re.IGNORECASE)
_SPECIFIER = re.compile(r"(?P<operator>===|==|>=|<=|~=|!=|\^|~|=|>|<)?\s*v?(?P<major>\d+)(?:\.(?P<minor>\d+))?")
_LOWER_BOUNDS = frozenset({"===", "==", ">=", "~=", "^", "~", "=", ">"})


def lowest_torch(root: Path, setting: str | None = None) -> Release | None:
    """The lowest torch release that a project admits: what the setting says, else the lowest that `pyproject.toml`,
    `setup.cfg` or a `requirements*.txt` in the folder admits; None where none of them says. Never fails on a file
    that is broken, since it may be another tool's."""
    if setting is not None:
        major, minor = setting.split(".")[:2]
        return int(major), int(minor)
    bounds = [bound for text in _requirements(root) if (bound := lower_bound(text)) is not None]
    return min(bounds, default=None)


def lower_bound(requirement: str) -> Release | None:
    """The lowest release that a requirement admits, if it is one of torch and bounds it from below."""
    if not _NAME_END.match(requirement):
        return None
    found = _REQUIREMENT.match(requirement)
    return _bound_of(found["specifiers"]) if found else None


def _bound_of(specifiers: str) -> Release | None:
    """The highest of the lower bounds in a list of specifiers such as `>=2.1,<3`."""
    bounds = []
    for part in specifiers.strip().strip("()").split(","):
        found = _SPECIFIER.match(part.strip())
        if found and (found["operator"] or "==") in _LOWER_BOUNDS:
            bounds.append((int(found["major"]), int(found["minor"] or 0)))
    return max(bounds, default=None)


def _requirements(root: Path) -> Iterator[str]:
    """Everything in the project's files that may be a requirement."""
    yield from _of_pyproject(_text(root / "pyproject.toml"))
    yield from _of_setup_cfg(_text(root / "setup.cfg"))
    for folder, pattern in ((root, "*requirements*.txt"), (root / "requirements", "*.txt")):
        for file in sorted(folder.glob(pattern)):
            yield from _text(file).splitlines()


def _text(file: Path) -> str:
    try:
        if not file.is_file() or file.stat().st_size > _SIZE_LIMIT:
            return ""
        return file.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _of_pyproject(text: str) -> Iterator[str]:
    if "torch" not in text:
        return
    try:
        document: object = tomllib.loads(text.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError):
        return
    project = _table(document, "project")
    yield from _strings(project.get("dependencies"))
    for group in (_table(project, "optional-dependencies"), _table(document, "dependency-groups")):
        for requirements in group.values():
            yield from _strings(requirements)
    poetry = _table(_table(document, "tool"), "poetry")
    yield from _of_poetry(_table(poetry, "dependencies"))
    for group_table in _table(poetry, "group").values():
        yield from _of_poetry(_table(group_table, "dependencies"))


def _of_poetry(dependencies: dict[str, object]) -> Iterator[str]:
    for name, constraint in dependencies.items():
        choices = constraint if isinstance(constraint, list) else [constraint]
        for choice in choices:
            version = choice.get("version") if isinstance(choice, dict) else choice
            if isinstance(version, str):
                yield f"{name} {version}"


def _of_setup_cfg(text: str) -> Iterator[str]:
    if "torch" not in text:
        return
    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except ConfigParserError:
        return
    yield from parser.get("options", "install_requires", fallback="").splitlines()
    if parser.has_section("options.extras_require"):
        for requirements in parser["options.extras_require"].values():
            yield from requirements.splitlines()


def _table(value: object, key: str) -> dict[str, object]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
