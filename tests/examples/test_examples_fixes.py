"""Safe fixes leave the losses as they are, bit by bit; all fixes together leave only advice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from example_programs import EXAMPLES, PLANTED, Program, lint, marks


def sources(folder: Path, program: Program) -> dict[str, str]:
    """The sources beside `program` in the copy of the examples in `folder`, by file name."""
    parent = (folder / program.script).parent
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(parent.glob("*.py"))}


@pytest.mark.torch
@pytest.mark.parametrize("program", PLANTED, ids=str)
def test_safe_fixes_keep_the_losses_bit_by_bit(
    program: Program, safely_fixed: Path, losses_of: Callable[[Program, Path], list[float]]
) -> None:
    assert sources(safely_fixed, program) != sources(EXAMPLES, program), "nothing was fixed, so nothing is compared"
    before, after = losses_of(program, EXAMPLES), losses_of(program, safely_fixed)
    assert [loss.hex() for loss in after] == [loss.hex() for loss in before]


@pytest.mark.torch
@pytest.mark.parametrize("program", PLANTED, ids=str)
def test_programs_run_after_all_fixes(
    program: Program, wholly_fixed: Path, losses_of: Callable[[Program, Path], list[float]]
) -> None:
    assert len(losses_of(program, wholly_fixed)) == len(losses_of(program, EXAMPLES))


def test_no_safe_fix_is_left_after_fixing(safely_fixed: Path) -> None:
    assert [finding for finding in lint(safely_fixed) if applicability(finding) == "safe"] == []


def test_all_fixes_leave_only_advice(wholly_fixed: Path) -> None:
    left = [finding for finding in lint(wholly_fixed) if applicability(finding) != "display"]
    assert [(finding["filename"], finding["location"], finding["code"]) for finding in left] == []


def test_files_without_marks_are_left_alone(wholly_fixed: Path) -> None:
    marked = {mark.path for mark in marks(EXAMPLES)}
    files = [path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*.py")]
    clean = [path for path in files if path.as_posix() not in marked]
    changed = [path for path in clean if (wholly_fixed / path).read_bytes() != (EXAMPLES / path).read_bytes()]
    assert any("clean" in path.as_posix() for path in clean)
    assert changed == []


def applicability(finding: dict[str, object]) -> object:
    """ "safe", "unsafe" or "display"; None where the finding has no fix."""
    fix = finding["fix"]
    return fix["applicability"] if isinstance(fix, dict) else None
