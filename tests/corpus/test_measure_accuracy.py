"""`make corpus` fails below its bounds, and says what it misses before it starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from measure_accuracy import LABEL_FILES, missing_input, report_bounds


@pytest.mark.parametrize(
    ("precision", "recall", "exit_code", "said"),
    [
        (0.95, 0.90, 0, ""),
        (0.9499, 0.95, 1, "precision 95.0% is below the bound of 95%\n"),
        (0.95, 0.5, 1, "recall 50.0% is below the bound of 90%\n"),
        (None, 0.0, 1, "precision unknown is below the bound of 95%\nrecall 0.0% is below the bound of 90%\n"),
    ],
)
def test_bounds(
    precision: float | None, recall: float, exit_code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report_bounds(precision, recall) == exit_code
    assert capsys.readouterr().err == said


def test_missing_labels_are_named(tmp_path: Path) -> None:
    (tmp_path / "score.py").touch()
    assert "holds no labels.jsonl, no repos.json" in missing_input(tmp_path, tmp_path)


def test_missing_checkouts_are_named(tmp_path: Path) -> None:
    for name in LABEL_FILES:
        (tmp_path / name).write_text('{"owner/here": {}, "owner/away": {}}', encoding="utf-8")
    (tmp_path / "owner__here").mkdir()
    assert "no checkout of owner/away " in missing_input(tmp_path, tmp_path)
    (tmp_path / "owner__away").mkdir()
    assert missing_input(tmp_path, tmp_path) == ""
