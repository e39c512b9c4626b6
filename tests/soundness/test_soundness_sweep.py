"""The sweep passes over sound code with fixes of every kind, and tells which promise is broken where one is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.soundness.fixing import rows_changed
from tests.soundness.planted import plant_fixes
from tests.soundness.tally import Kind, Tally, table
from tests.soundness.trees import copy_tree

ROOT = Path(__file__).parents[2]
TRAINING = """\
import torch
from torch import nn


def train(model: nn.Module, loader, device):
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        print("loss", loss.item())  # every step


if __name__ == "__main__":
    torch.autograd.set_detect_anomaly(True)
    data = torch.utils.data.DataLoader(list(range(10)), batch_size=2)
    train(nn.Linear(2, 2).cuda(), data, "cuda")
"""
"""Several fixes, some of which make room for others."""
OTHERS = {
    "broken.py": "def f(:\n",
    "plain.py": "class C:\n    def f(self):\n        return [print(a) for a in (1, 2)]\n",
    "pages.py": "def f():\n    a = g(1)\n\f    b = g(2)\n    return a, b\n",
}


def _tree(folder: Path) -> Path:
    for name, text in {"train.py": TRAINING, **OTHERS}.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    return folder


def test_a_small_tree_keeps_all_promises(tmp_path: Path) -> None:
    tree = _tree(tmp_path)
    command = [sys.executable, "-m", "tests.soundness", "--root", str(tree)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    header, row = (line.split() for line in done.stdout.splitlines())
    counts = dict(zip(header, row, strict=True))
    assert (done.returncode, counts["files"], counts["failures"]) == (0, "4", "0"), done.stderr
    assert int(counts["fixes"]) >= 3
    assert int(counts["planted"]) >= 10
    assert (tree / "train.py").read_text(encoding="utf-8") == TRAINING


def test_a_tree_without_code_is_no_success(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.soundness", "--root", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "holds no Python file" in done.stderr


def test_a_fix_that_changes_the_meaning_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.soundness.planted._Undo.visit_Import", lambda undo, node: node)
    (tmp_path / "code").mkdir()
    tally = Tally("code")
    plant_fixes(copy_tree(_tree(tmp_path / "code"), tmp_path / "copy"), tally)
    assert {failure.kind for failure in tally.failures} == {Kind.MEANING}
    assert "with EnsureImport" in str(tally.failures[0])


ROWS = {
    "nothing": ("a\nb\n", "a\nb\n", set()),
    "a row": ("a\nb\nc\n", "a\nx\nc\n", {2}),
    "its line end": ("a\r\nb\r\n", "a\nb\r\n", {1}),
    "a row goes": ("a\nb\nc\n", "a\nc\n", {2}),
    "a row comes": ("a\nb\n", "a\nx\nb\n", {2}),
    "a blank row goes": ("a\n\nb\n", "a\nb\n", set()),
}


@pytest.mark.parametrize(("before", "after", "rows"), ROWS.values(), ids=ROWS)
def test_rows_changed(before: str, after: str, rows: set[int]) -> None:
    assert set(rows_changed(before.encode(), after.encode())) == rows


def test_table_adds_up_trees_and_names_failures() -> None:
    one, two = Tally("one", files=1, lines=10), Tally("two", files=2, lines=5)
    two.fail(Kind.MODE, "a.py", "644 became 600")
    rows = [line.split(maxsplit=8) for line in table([one, two]).splitlines()]
    assert rows[2][8] == "1 (1 mode)"
    assert rows[3][:3] == ["all", "3", "15"]
