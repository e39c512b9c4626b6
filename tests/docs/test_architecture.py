"""Imports point one way, as the page about the architecture says."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SERVER, PACK = REPOSITORY / "server" / "trainlint", REPOSITORY / "rules" / "trainlint_rules"
MAY_SEE: dict[str, set[str]] = {
    "source": set(),
    "semantics": set(),
    "config": {"source"},
    "probe": {"agent", "semantics", "source"},
    "fixes": {"semantics", "source"},
    "lint": {"config", "fixes", "probe", "semantics", "source"},
    "report": {"fixes", "lint", "probe", "semantics", "source"},
    "cli": {"config", "fixes", "lint", "lsp", "probe", "report", "source"},
    "lsp": {"config", "fixes", "lint", "probe", "report", "semantics", "source"},
    "agent": set(),
}
"""For each package of `trainlint`, the others that it may import."""
PACK_MAY_SEE = {"lint", "semantics", "fixes", "probe"}


def imported(folder: Path) -> Iterator[tuple[str, str]]:
    """Each import below a folder: the file and the dotted name of what it imports."""
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(REPOSITORY).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                # The agent is loaded under another name, in a process that may have no trainlint.
                inside = folder == SERVER / "agent" and path.parent == folder
                assert node.level == int(inside and node.level > 0), f"{name} has a relative import"
                yield name, "trainlint.agent" if node.level else node.module or ""
            elif isinstance(node, ast.Import):
                yield from ((name, alias.name) for alias in node.names)


def packages_seen(folder: Path) -> set[tuple[str, str]]:
    """The packages of `trainlint` that the files of a folder import, and `trainlint_rules`, each with the file."""
    parts = [(name, module.split(".")) for name, module in imported(folder)]
    inner = {(name, words[1]) for name, words in parts if words[0] == "trainlint" and len(words) > 1}
    return inner | {(name, words[0]) for name, words in parts if words[0] == "trainlint_rules"}


def private_names_of_others(path: Path) -> Iterator[str]:
    """Private names of other modules that a file imports, or reads off a module that it imports."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trainlint")]
    names = {alias.asname or alias.name for node in froms for alias in node.names}
    reads = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    found = names | {node.attr for node in reads if isinstance(node.value, ast.Name) and node.value.id in names}
    yield from (name for name in sorted(found) if name.startswith("_") and not name.startswith("__"))


def test_every_package_has_its_place() -> None:
    assert {path.name for path in SERVER.iterdir() if (path / "__init__.py").exists()} == MAY_SEE.keys()


@pytest.mark.parametrize("package", MAY_SEE)
def test_a_package_sees_only_what_is_below_it(package: str) -> None:
    allowed = MAY_SEE[package] | {package}
    assert sorted(one for one in packages_seen(SERVER / package) if one[1] not in allowed) == []


def test_rules_see_the_contract_the_facts_and_the_fixes() -> None:
    seen = {(name, package) for name, package in packages_seen(PACK) if package != "trainlint_rules"}
    assert sorted(one for one in seen if one[1] not in PACK_MAY_SEE) == []


def test_rules_never_see_syntax() -> None:
    parsers = {"ast", "libcst", "tokenize", "parso"}
    assert [one for one in imported(PACK) if one[1].split(".")[0] in parsers] == []


def test_what_another_module_uses_is_public() -> None:
    files = [*SERVER.rglob("*.py"), *PACK.rglob("*.py")]
    assert [(path.name, name) for path in files for name in private_names_of_others(path)] == []


IMPORT_EACH_FIRST = """
import importlib, sys
for name in sys.argv[1:]:
    for loaded in [one for one in sys.modules if one.partition(".")[0] == "trainlint"]:
        del sys.modules[loaded]
    importlib.import_module(name)
"""


def test_modules_that_ask_each_other_can_be_imported_in_any_order() -> None:
    names = [f"trainlint.semantics.{path.stem}" for path in sorted((SERVER / "semantics").glob("*.py"))]
    subprocess.run([sys.executable, "-c", IMPORT_EACH_FIRST, *names], check=True)


def test_modules_of_tests_have_names_of_their_own() -> None:
    # pytest takes the second one of a name for the first, and only a run of all folders shows it.
    names = Counter(path.name for path in (REPOSITORY / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`([\w/]+\.py)`", PAGE))
"""The modules that the page names, with or without their folder."""


def test_the_page_names_every_module_of_the_model() -> None:
    modules = {path.name for path in (SERVER / "semantics").glob("*.py")} - {"__init__.py"}
    assert sorted(modules - {name.rpartition("/")[2] for name in NAMED}) == []


def test_the_page_names_no_module_that_does_not_exist() -> None:
    paths = [
        f"/{path.relative_to(REPOSITORY).as_posix()}" for folder in (SERVER, PACK) for path in folder.rglob("*.py")
    ]
    assert sorted(name for name in NAMED if not any(path.endswith(f"/{name}") for path in paths)) == []
