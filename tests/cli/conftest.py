"""What the tests of the command line share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from forks import Forks
from program import Program


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks | None]:
    """What runs of the program fork from, where processes can fork."""
    if not hasattr(os, "fork"):
        yield None
        return
    with Forks() as forks:
        yield forks


@pytest.fixture
def program(tmp_path: Path, forks: Forks | None) -> Program:
    """The program, whose runs fork from one process."""
    return Program(tmp_path, forks)
