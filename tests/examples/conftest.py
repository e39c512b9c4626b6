"""Runs of the examples, each made once for all tests that look at it."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from example_programs import EXAMPLES, Program, lint, run

WITHOUT_TORCH = pytest.mark.skip(reason="torch is not installed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of a program follow each other, so that the process that ran it has what the next ones look at."""
    places = [place for place, item in enumerate(items) if "losses_of" in getattr(item, "fixturenames", ())]
    by_program = sorted((items[place] for place in places), key=_program)
    for place, item in zip(places, by_program, strict=True):
        items[place] = item
    if importlib.util.find_spec("torch") is None:
        for item in items:
            if item.get_closest_marker("torch") is not None:
                item.add_marker(WITHOUT_TORCH)


def _program(item: pytest.Item) -> str:
    assert isinstance(item, pytest.Function)
    return str(item.callspec.params["program"])


@pytest.fixture(scope="session")
def losses_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Program, Path], list[float]]:
    """Losses of a program of the examples in a folder; the same program and folder run once."""
    known: dict[tuple[Program, Path], list[float]] = {}

    def losses(program: Program, folder: Path) -> list[float]:
        if (program, folder) not in known:
            known[program, folder] = run(program, folder, tmp_path_factory.mktemp("run"))
        return known[program, folder]

    return losses


def copy_and_fix(target: Path, *flags: str) -> Path:
    shutil.copytree(EXAMPLES, target, ignore=shutil.ignore_patterns("out", "__pycache__"))
    lint(target, "--fix", *flags)
    return target


@pytest.fixture(scope="session")
def safely_fixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the examples after `--fix`."""
    return copy_and_fix(tmp_path_factory.mktemp("safe") / "examples")


@pytest.fixture(scope="session")
def wholly_fixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the examples after `--fix --unsafe-fixes`."""
    return copy_and_fix(tmp_path_factory.mktemp("unsafe") / "examples", "--unsafe-fixes")
