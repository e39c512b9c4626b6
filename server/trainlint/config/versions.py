"""The PyTorch releases that a project admits, read from its dependencies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

from trainlint.source.dependencies import Dependencies, dependency_files

Release: TypeAlias = tuple[int, int]
"""Major and minor version."""

_LAST_MINOR = {0: 4, 1: 13}
"""By major version, the last minor release of a series that has ended."""
_MINOR_STILL_OPEN = 99
"""The last minor release of a series that still grows: above every minor that torch has had."""
_REQUIREMENT = re.compile(
    r"\s*(?:pytorch|torch)(?![\w.-])\s*(?:\[[^\]]*\])?\s*(?P<specifiers>[^;#@]*)",
    re.IGNORECASE,
)
_OPTION_OF_PIP = re.compile(r"\s-")
_SPECIFIER = re.compile(
    r"(?:(?P<operator>===|==|>=|<=|~=|!=|\^|~|=|>|<)\s*|(?<![\w.*+<>=~!^-]))"
    r"v?(?P<major>\d{1,9})(?:\.(?P<minor>\d{1,9}|\*)(?:\.(?P<patch>\d{1,9}|\*))?)?[\w.*+-]*"
)
_NO_UPPER_BOUND = frozenset({">", ">=", "!="})
_NO_LOWER_BOUND = frozenset({"<", "<=", "!="})
_ITEM_OF_YAML = re.compile(r"""\s*-\s+["']?(?:[\w./:-]+::)?(?P<requirement>[^"']*)""")
"""An item of a list, without the channel that conda may be told."""
_KEY_OF_YAML = re.compile(r"(?P<key>\w+)[ \t]*:")
_FUZZY = re.compile(r"(?<![=<>!~])=(?![=])")
"""How conda asks for any release that begins so: `pytorch=2.1`."""


class Admitted(NamedTuple):
    """The torch releases that a project may run with, as far as it says."""

    newest: Release | None = None
    """None where nothing bounds them from above."""
    oldest: Release | None = None
    """None where nothing bounds them from below."""
    said_by: str = ""
    """What says which is the newest: the setting, or files; empty where nothing does."""


def admitted_torch(root: Path, setting: str | None = None) -> Admitted:
    """The torch releases that a project may run with.

    The newest is what the setting says; else what the lock files of the folder pin; else the largest upper bound in
    `pyproject.toml`, `setup.cfg`, `setup.py`, the `requirements*.txt` and the `environment*.yml`, where none of their
    requirements on torch is open above. The oldest is what the setting says; else the smallest release that one of all
    these requirements begins with. Never fails on a file that is broken, since it may be another tool's.
    """
    if setting is not None:
        major, minor = setting.split(".")[:2]
        release = int(major), int(minor)
        return Admitted(release, release, "torch-version")
    found = [
        _Requirement(one.file.name, match["specifiers"], one.locked)
        for one in dependency_files(root)
        for text in _requirements(one)
        if (match := _REQUIREMENT.match(text))
    ]
    deciding = [one for one in found if one.locked] or found
    newest = _largest([_upper_bound(one.specifiers) for one in deciding])
    oldest = [bound for one in found if (bound := _lower_bound(one.specifiers)) is not None]
    said_by = ", ".join(dict.fromkeys(one.file for one in deciding)) if newest is not None else ""
    return Admitted(newest, min(oldest, default=None), said_by)


class _Requirement(NamedTuple):
    """What a file asks of torch."""

    file: str
    specifiers: str
    locked: bool


def _choices(specifiers: str) -> list[list[re.Match[str]]]:
    """The specifiers, such as `>=2.1` and `<3`, of each choice, as of Poetry's `^1.13 || ^2.1`."""
    before_options = _OPTION_OF_PIP.split(specifiers, maxsplit=1)[0]
    return [list(_SPECIFIER.finditer(choice)) for choice in before_options.replace("||", "|").split("|")]


def _upper_bound(specifiers: str) -> Release | None:
    """The newest release that specifiers admit; None where they are open above."""
    return _largest([min(filter(None, map(_bound_of, choice)), default=None) for choice in _choices(specifiers)])


def _lower_bound(specifiers: str) -> Release | None:
    """The oldest release that specifiers admit; None where they are open below."""
    bounds = [max(filter(None, map(_begin_of, choice)), default=None) for choice in _choices(specifiers)]
    known = [bound for bound in bounds if bound is not None]
    return min(known) if len(known) == len(bounds) else None


def _largest(bounds: list[Release | None]) -> Release | None:
    """The largest bound; None where one of them is open or there are none."""
    known = [bound for bound in bounds if bound is not None]
    return max(known, default=None) if len(known) == len(bounds) else None


def _begin_of(specifier: re.Match[str]) -> Release | None:
    """The oldest release that a specifier admits; None where it is open below."""
    if specifier["operator"] in _NO_LOWER_BOUND:
        return None
    return int(specifier["major"]), _number(specifier["minor"]) or 0


def _bound_of(specifier: re.Match[str]) -> Release | None:
    """The newest release that a specifier admits; None where it is open above."""
    operator = specifier["operator"] or "=="
    if operator in _NO_UPPER_BOUND:
        return None
    major, minor = int(specifier["major"]), _number(specifier["minor"])
    if operator == "<":
        return (major, minor or 0) if _number(specifier["patch"]) else _release_before(major, minor or 0)
    if specifier["minor"] == "*" or (minor is None and operator in ("~", "~=", "^")):
        return _last_of(major)
    if (operator == "^" and major > 0) or (operator == "~=" and specifier["patch"] is None):
        return _last_of(major)
    return major, minor or 0


def _number(part: str | None) -> int | None:
    """The number in a part of a version; None for one that is left out or `*`."""
    return None if part in (None, "*") else int(part)


def _release_before(major: int, minor: int) -> Release:
    """The last release below a version; the version itself where none is below."""
    if minor > 0:
        return major, minor - 1
    return _last_of(major - 1) if major > 0 else (major, minor)


def _last_of(major: int) -> Release:
    """The last minor release of a major version."""
    return major, _LAST_MINOR.get(major, _MINOR_STILL_OPEN)


def _requirements(dependencies: Dependencies) -> Iterator[str]:
    """Everything in one of the project's files that may be a requirement."""
    text, suffix = dependencies.data.decode("utf-8", "replace"), dependencies.file.suffix
    if dependencies.locked:
        yield from text.splitlines()
    elif suffix == ".toml":
        yield from _of_pyproject(text)
    elif suffix == ".cfg":
        yield from _of_setup_cfg(text)
    elif suffix == ".py":
        yield from _of_setup_py(text)
    elif suffix in (".yml", ".yaml"):
        yield from _of_conda(text)
    else:
        yield from text.splitlines()


def _of_conda(text: str) -> Iterator[str]:
    """The items of `dependencies`, and what pip is to install besides."""
    key = ""
    for line in text.splitlines():
        top = _KEY_OF_YAML.match(line)
        key = top["key"] if top is not None else key
        item = _ITEM_OF_YAML.match(line) if key == "dependencies" else None
        if item is not None:
            yield _FUZZY.sub("~", item["requirement"], count=1)


def _of_pyproject(text: str) -> Iterator[str]:
    if "torch" not in text:
        return
    import tomllib

    try:
        document: object = tomllib.loads(text.replace("\r\n", "\n"))
    except (ValueError, RecursionError):  # also for numbers that Python refuses to read
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
            yield f"{name} {version}" if isinstance(version, str) else name


def _of_setup_cfg(text: str) -> Iterator[str]:
    if "torch" not in text:
        return
    from configparser import ConfigParser
    from configparser import Error as ConfigParserError

    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except ConfigParserError:
        return
    yield from parser.get("options", "install_requires", fallback="").splitlines()
    if parser.has_section("options.extras_require"):
        for requirements in parser["options.extras_require"].values():
            yield from requirements.splitlines()


def _of_setup_py(text: str) -> Iterator[str]:
    """The strings that a script passes for `install_requires` and `extras_require`, and those of the variables that it
    names there."""
    if "torch" not in text:
        return
    import ast
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    passed = [
        keyword.value
        for node in nodes
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg in ("install_requires", "extras_require")
    ]
    named = {node.id for value in passed for node in ast.walk(value) if isinstance(node, ast.Name)}
    assigned = [
        node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id in named for target in node.targets)
    ]
    for value in (*passed, *assigned):
        for node in ast.walk(value):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _table(value: object, key: str) -> dict[str, object]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
