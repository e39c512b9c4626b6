"""Every example and every clean twin really trains, on a CPU, within seconds, the same way each time."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from example_programs import CLEAN, EXAMPLES, PLANTED, Program, run

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("program", PLANTED + CLEAN, ids=str)
def test_it_trains(program: Program, losses_of: Callable[[Program, Path], list[float]]) -> None:
    losses = losses_of(program, EXAMPLES)
    quarter = len(losses) // 4
    assert all(math.isfinite(loss) for loss in losses)
    assert sum(losses[-quarter:]) < sum(losses[:quarter]), "the loss does not fall"


@pytest.mark.parametrize("program", CLEAN[-1:], ids=str)
def test_arguments_decide_steps_and_seed(program: Program, tmp_path: Path) -> None:
    first = run(program, EXAMPLES, tmp_path, "--steps", "3", "--seed", "1")
    again = run(program, EXAMPLES, tmp_path, "--steps", "3", "--seed", "1")
    other = run(program, EXAMPLES, tmp_path, "--steps", "3", "--seed", "2")
    assert len(first) == 3
    assert first == again
    assert first != other
