"""Projects on disk, and a way to check them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from pathlib import Path

from trainlint.lint.check_options import CheckOptions
from trainlint.lint.engine import check
from trainlint.lint.result import Result


def write(root: Path, files: Mapping[str, str]) -> Path:
    """Write files, by relative path and indented text, below a folder that a `pyproject.toml` makes a project."""
    for path, text in {"pyproject.toml": "", **files}.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(inspect.cleandoc(text) + "\n" if text else "", encoding="utf-8")
    return root


def lines(result: Result, root: Path) -> list[str]:
    """Each finding as `path:row:column code`, in the order of the report."""
    return [
        f"{os.path.relpath(one.path, root)}:{one.location.row}:{one.location.column} {one.finding.code}"
        for one in result.findings
    ]


def codes(result: Result) -> list[str]:
    return [one.finding.code for one in result.findings]


def run(*paths: Path, **options: object) -> Result:
    """Check without a cache and in one process, unless the options say otherwise."""
    return check(paths, CheckOptions(**{"cache": False, "jobs": 1, **options}))  # type: ignore[arg-type]


TRAINING = {
    "train.py": """
        import torch
        from lib.step import train_step
        from model import Net

        def main():
            model = Net().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(1000):
                loss = train_step(model, optimizer, torch.randn(8, 4, device="cuda"))

        main()
    """,
    "model.py": """
        import torch

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 2)

            def forward(self, x):
                return self.layer(x)
    """,
    "lib/step.py": """
        from lib.numbers import value_of

        def train_step(model, optimizer, batch):
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return value_of(loss)
    """,
    "lib/numbers.py": """
        def value_of(tensor):
            return tensor.item()
    """,
    "tools/rename.py": """
        import os

        os.rename("a", "b")
    """,
}
"""A training script whose one sync stands two files away, in a file that mentions no training library."""
