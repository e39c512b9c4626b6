"""Module names and files: what an import in real training code means."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainlint.semantics.modules import ModuleMap

ROOT = Path("/project")


def paths(names: str) -> list[Path]:
    return [ROOT / name for name in names.split()]


CASES = {
    "a module beside a script": ("train.py model.py", "train.py", ("model", 0, ()), "model.py"),
    "a package and its module": (
        "train.py lib/__init__.py lib/step.py",
        "train.py",
        ("lib", 0, ("step",)),
        "lib/__init__.py lib/step.py",
    ),
    "an imported name that is no module": (
        "train.py lib/__init__.py lib/step.py",
        "train.py",
        ("lib.step", 0, ("train_step",)),
        "lib/step.py",
    ),
    "a dotted import binds the packages on the way": (
        "train.py lib/__init__.py lib/step.py",
        "train.py",
        ("lib.step", 0, ()),
        "lib/__init__.py lib/step.py",
    ),
    "a folder without __init__.py is a namespace package": (
        "train.py lib/step.py",
        "train.py",
        ("lib.step", 0, ("f",)),
        "lib/step.py",
    ),
    "relative to the same package": (
        "lib/__init__.py lib/a.py lib/b.py",
        "lib/a.py",
        ("b", 1, ("f",)),
        "lib/b.py",
    ),
    "relative to the package above": (
        "lib/__init__.py lib/x/__init__.py lib/x/a.py lib/b.py",
        "lib/x/a.py",
        ("b", 2, ("f",)),
        "lib/b.py",
    ),
    "a submodule of the own package by a bare dot": (
        "lib/__init__.py lib/a.py lib/b.py",
        "lib/a.py",
        ("", 1, ("b",)),
        "lib/__init__.py lib/b.py",
    ),
    "relative beyond the project": ("a.py", "a.py", ("b", 3, ("f",)), ""),
    "the package itself from inside it": (
        "pkg/__init__.py pkg/a.py pkg/sub/__init__.py pkg/sub/b.py",
        "pkg/sub/b.py",
        ("pkg.a", 0, ("f",)),
        "pkg/a.py",
    ),
    "a src layout": ("src/pkg/__init__.py src/pkg/a.py tests/t.py", "tests/t.py", ("pkg.a", 0, ("f",)), "src/pkg/a.py"),
    "the project's root from a folder of scripts": (
        "tools/train.py lib/__init__.py lib/a.py",
        "tools/train.py",
        ("lib.a", 0, ("f",)),
        "lib/a.py",
    ),
    "a sibling goes before the root": (
        "tools/train.py tools/opts.py opts.py",
        "tools/train.py",
        ("opts", 0, ()),
        "tools/opts.py",
    ),
    "one file alone that fits": (
        "yolo/train.py yolo/utils/misc.py jobs/run.py",
        "jobs/run.py",
        ("utils.misc", 0, ("f",)),
        "yolo/utils/misc.py",
    ),
    "two files that fit are none": (
        "a/utils/misc.py b/utils/misc.py jobs/run.py",
        "jobs/run.py",
        ("utils.misc", 0, ("f",)),
        "",
    ),
    "a package deep in the project does not answer for an installed library": (
        "train.py utils/__init__.py utils/loggers/__init__.py utils/loggers/wandb/__init__.py",
        "train.py",
        ("wandb", 0, ()),
        "",
    ),
    "nor does it inside its own package": (
        "train.py utils/__init__.py utils/loggers/__init__.py utils/loggers/wandb/__init__.py",
        "utils/loggers/__init__.py",
        ("wandb", 0, ()),
        "",
    ),
    "a file beside a script shadows an installed library": (
        "train.py evaluate.py",
        "train.py",
        ("evaluate", 0, ()),
        "evaluate.py",
    ),
    "the standard library from afar": ("a/types.py b/run.py", "b/run.py", ("types", 0, ()), ""),
    "a script inside a package that imports its siblings": (
        "pkg/__init__.py pkg/train.py pkg/engine.py",
        "pkg/train.py",
        ("engine", 0, ("f",)),
        "pkg/engine.py",
    ),
    "a package goes before a module of its name": (
        "train.py lib.py lib/__init__.py",
        "train.py",
        ("lib", 0, ()),
        "lib/__init__.py",
    ),
    "everything from a package": ("train.py lib/__init__.py", "train.py", ("lib", 0, ("*",)), "lib/__init__.py"),
    "a library outside the project": ("train.py", "train.py", ("torch.nn", 0, ("functional",)), ""),
    "not the importing file itself": ("lib/__init__.py lib/a.py", "lib/__init__.py", ("", 1, ("a",)), "lib/a.py"),
}


@pytest.mark.parametrize(("files", "importer", "statement", "expected"), CASES.values(), ids=CASES)
def test_import_resolves_to(
    files: str, importer: str, statement: tuple[str, int, tuple[str, ...]], expected: str
) -> None:
    found = ModuleMap(paths(files)).resolve(ROOT / importer, *statement)
    assert sorted(found) == sorted(paths(expected))


NAMES = {
    "train.py": "train",
    "lib/__init__.py": "lib",
    "lib/step.py": "lib.step",
    "src/pkg/__init__.py": "pkg",
    "src/pkg/sub/__init__.py": "pkg.sub",
    "src/pkg/sub/a.py": "pkg.sub.a",
    "tools/train.py": "train",
}


@pytest.mark.parametrize(("path", "name"), NAMES.items())
def test_name_of_a_file(path: str, name: str) -> None:
    assert ModuleMap(ROOT / one for one in NAMES).module_name(ROOT / path) == name


def test_locate_returns_the_file_of_a_module() -> None:
    modules = ModuleMap(paths("train.py lib/__init__.py lib/step.py"))
    assert modules.locate(ROOT / "train.py", "lib.step") == ROOT / "lib/step.py"
    assert modules.locate(ROOT / "lib/step.py", "", 1) == ROOT / "lib/__init__.py"
    assert modules.locate(ROOT / "train.py", "torch") is None
