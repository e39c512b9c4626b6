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

class Listed(Dataset):
    def __init__(self, path):
        self.rows = open(path).readlines()

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
    "a constructor that reads what may be written meanwhile": ("train(Listed('train.csv'))", False),
    "what is given to be filled": ("collect(model, rows)\n    train(rows)", False),
    "what is given to be evaluated": ("evaluate(model, rows)\n    train(rows)", True),
    "what is changed for what it does": ("rows.resample()\n    train(rows)", False),
    "an attribute that another method sets": ("trainer.by_what_changes()", False),
    "under a condition that holds or not": ("if trainer is not None:\n        train(rows)", True),
    "under a condition on what is built": ("if loader is None:\n        loader = train(rows)", False),
    "under a condition on what was built": ("if kept is None:\n        kept = Rows('a')\n        train(kept)", False),
    "under a condition": ("if epoch == warmup:\n        train(rows)", False),
    "an unknown function": ("train(load())", False),
}


@pytest.mark.parametrize(("body", "same"), LOOPS.values(), ids=LOOPS)
def test_what_a_loop_makes_again(body: str, same: bool) -> None:
    text = f"{inspect.cleandoc(HEAD)}\n\nfor epoch in range(3):\n    {body}\n"
    reached = [loader for loader in analyze({"train.py": text}).loaders if loader.context.loop is not None]
    assert [loader.same_each_time for loader in reached] == [same]


DATASET = """
import functools, os
import h5py
import numpy as np
import pandas as pd
from torch.utils.data import DataLoader, Dataset

ROOT = "data"

@functools.lru_cache
def kept(path):
    return pd.read_csv(path)

def read(path):
    return pd.read_csv(path)

class Rows(Dataset):
    def __init__(self, path, names):
        self.path, self.names, self.file = path, names, None

    def name(self, index):
        return os.path.join(ROOT, self.names[index])

    def __getitem__(self, index):
        ITEM

loader = DataLoader(Rows("rows.h5", names), num_workers=2)
"""

ITEMS = {
    "a path that the constructor sets": ("return h5py.File(self.path)", True),
    "a path made of constants": ("return np.load(os.path.join(ROOT, 'mean.npy'))", True),
    "handed to a helper": ("return read(self.path)", True),
    "a path of the item": ("return h5py.File(self.names[index])", False),
    "a path of the item, from a method": ("return read(self.name(index))", False),
    "formatted with the index": ("return np.load(f'{self.path}/{index}.npy')", False),
    "opened at the first item": (
        "self.file = self.file or None\n        if not self.file: h5py.File(self.path)",
        False,
    ),
    "kept by a cache": ("return kept(self.path)", False),
    "behind a switch of the constructor": ("if self.path.endswith('.h5'):\n            h5py.File(self.path)", False),
    "behind a setting of the constructor": ("if self.path != 'rows.h5':\n            h5py.File(self.path)", True),
    "behind a test of the caller": ("if index not in seen:\n            return read(self.path)", False),
    "behind a test of the item": ("if index > 3:\n            return read(self.path)", False),
}


@pytest.mark.parametrize(("item", "same"), ITEMS.values(), ids=ITEMS)
def test_what_a_dataset_asks_of_a_file_for_each_item(item: str, same: bool) -> None:
    calls = analyze({"train.py": DATASET.replace("ITEM", item)}).calls
    assert [call.same_each_time for call in calls if call.context.for_each_item] == [same]
