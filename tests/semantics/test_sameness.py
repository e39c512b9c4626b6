"""What is proved to be the same each time that a loop, or a loader that asks for items, comes back to it."""

from __future__ import annotations

import inspect

import pytest

from trainlint.lint.analyze import analyze

HEAD = """
import random
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset, Subset

class Rows(Dataset):
    def __init__(self, path):
        self.path = path

class Sampled(Dataset):
    def __init__(self, path):
        self.rows = random.sample(open(path).readlines(), 100)

class Trainer:
    def __init__(self, rows, lazily):
        self.rows, self.lazily = rows, lazily

    def refresh(self):
        self.lazily = 0

    def by_what_is_set_once(self):
        train(self.rows)

    def by_what_changes(self):
        train(self.lazily)

rows = Rows("train.csv")
trainer = Trainer(rows, rows)
model = nn.Linear(8, 1).cuda()
optimizer = optim.SGD(model.parameters(), lr=0.1)

def train(dataset, epoch=0, size=64):
    for batch in DataLoader(dataset, batch_size=size):
        model(batch.cuda()).mean().backward()
        optimizer.step()
"""

LOOPS = {
    "a global": ("train(rows)", True),
    "the epoch goes somewhere else": ("train(rows, epoch)", True),
    "made of the same": ("train(Rows('train.csv'))", True),
    "bound to the same": ("dataset = Rows('train.csv')\n    train(dataset, size=2 * 32)", True),
    "an attribute that the constructor sets": ("trainer.by_what_is_set_once()", True),
    "the epoch": ("train(rows, epoch, epoch + 1)", False),
    "made of the epoch": ("train(Rows(f'train-{epoch}.csv'))", False),
    "bound to what the epoch chooses": ("dataset = parts[epoch]\n    train(dataset)", False),
    "a part that is drawn anew": ("train(Subset(rows, random.sample(range(9), 3)))", False),
    "a constructor that draws": ("train(Sampled('train.csv'))", False),
    "what is changed for what it does": ("rows.resample()\n    train(rows)", False),
    "an attribute that another method sets": ("trainer.by_what_changes()", False),
    "under a condition": ("if epoch == warmup:\n        train(rows)", False),
    "an unknown function": ("train(load())", False),
}


@pytest.mark.parametrize(("body", "same"), LOOPS.values(), ids=LOOPS)
def test_what_a_loop_makes_again(body: str, same: bool) -> None:
    text = f"{inspect.cleandoc(HEAD)}\n\nfor epoch in range(3):\n    {body}\n"
    reached = [loader for loader in analyze({"train.py": text}).loaders if loader.context.loop is not None]
    assert [loader.same_each_time for loader in reached] == [same]
