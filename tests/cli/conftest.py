"""What the tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)
