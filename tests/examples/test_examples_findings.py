"""The linter reports the planted problems of the examples, on the marked lines and on no other."""

from __future__ import annotations

import pytest
from example_programs import EXAMPLES, FOLDERS, Report, lint, marks, reports

DATA = ("TL101", "TL102", "TL103", "TL104", "TL105", "TL108", "TL113")
STEP = ("TL201", "TL202", "TL203", "TL204", "TL205", "TL206", "TL209", "TL210", "TL211", "TL213", "TL216", "TL222")
DISTRIBUTED = ("TL301", "TL302", "TL303", "TL304", "TL305", "TL308")
COMPUTE_AND_CHECKPOINTS = ("TL402", "TL405", "TL407", "TL601")


@pytest.fixture(scope="module")
def found() -> set[Report]:
    """The findings on all of `examples/` at once."""
    return reports(lint(EXAMPLES), EXAMPLES)


def in_folder(all_reports: set[Report], folder: str) -> list[str]:
    return [str(report) for report in sorted(all_reports) if report.path.split("/")[0] == folder]


@pytest.mark.parametrize("folder", FOLDERS)
def test_findings_are_the_marks(folder: str, found: set[Report]) -> None:
    assert in_folder(found, folder) == in_folder(marks(EXAMPLES), folder)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_alone_gives_the_same_findings(folder: str, found: set[Report]) -> None:
    alone = reports(lint(EXAMPLES / folder), EXAMPLES)
    assert in_folder(alone, folder) == in_folder(found, folder)


def test_clean_twins_carry_no_mark() -> None:
    assert [str(mark) for mark in sorted(marks(EXAMPLES)) if "clean" in mark.path] == []


def test_every_rule_on_code_is_planted_somewhere() -> None:
    assert {mark.code for mark in marks(EXAMPLES)} == {*DATA, *STEP, *DISTRIBUTED, *COMPUTE_AND_CHECKPOINTS}
