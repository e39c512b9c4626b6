"""Batch normalization: whether a model that is made has any."""

from __future__ import annotations

import pytest

from trainlint.lint.analyze import analyze

MODELS = """
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(8)

    def forward(self, images):
        return self.norm(images)


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, images):
        for block in self.blocks:
            images = block(images)
        return images


class Shallow(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, images):
        return self.norm(images)
"""

SCRIPT = """
import torch
from torch import nn
from models import Deep, Shallow

model = {model}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images in torch.randn(64, 8, 8, 4, 4):
    model(images).mean().backward()
    optimizer.step()
"""

MADE = {
    "in a block of the model": ("Deep()", True),
    "in another model of the same file": ("Shallow()", False),
    "in a sequence": ("nn.Sequential(nn.BatchNorm2d(8), nn.Flatten())", True),
    "synchronized": ("nn.SyncBatchNorm.convert_sync_batchnorm(Deep())", False),
}


@pytest.mark.parametrize(("model", "expected"), MADE.values(), ids=MADE.keys())
def test_an_entry_point_tells_whether_a_model_that_it_makes_normalizes_batches(model: str, expected: bool) -> None:
    entries = analyze({"train.py": SCRIPT.format(model=model), "models.py": MODELS}).entries
    (entry,) = (one for one in entries if one.path.name == "train.py")
    assert entry.normalizes_batches is expected
