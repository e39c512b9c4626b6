"""Transfers that a step loop repeats: what is moved was made before it, and nothing changes it."""

from __future__ import annotations

import pytest

from trainlint.lint.analyze import analyze
from trainlint.semantics.project import Transfer

PREPARED = """
import torch
from helpers import fill

model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
mask = torch.ones(8)
for batch in torch.utils.data.DataLoader(torch.load("data.pt")):
    model(batch.cuda()).mean().backward()
    optimizer.step()
"""


def moved(source: str) -> Transfer:
    found = [one for one in analyze({"train.py": source}).transfers if "mask" in one.text]
    return found[-1]


REPEATED = [
    "mask.cuda()",
    "mask.to('cuda')",
    "size = mask.shape[0]; mask.cuda()",
    "torch.add(batch, mask); mask.cuda()",
    "small = mask.sum(); mask.cuda()",
]
CHANGED = [
    "mask = mask.cuda()",
    "mask = torch.ones(8); mask.cuda()",
    "mask += 1; mask.cuda()",
    "mask[0] = 2; mask.cuda()",
    "mask.zero_(); mask.cuda()",
    "mask.data.copy_(batch); mask.cuda()",
    "mask, other = 1, 2; mask.cuda()",
    "other = mask; other.zero_(); mask.cuda()",
    "fill(mask); mask.cuda()",
    "torch.add(batch, 1, out=mask); mask.cuda()",
    "view = mask.numpy(); mask.cuda()",
    "fill(rows=[mask]); mask.cuda()",
]


@pytest.mark.parametrize("statements", REPEATED)
def test_the_same_tensor_is_moved_again(statements: str) -> None:
    assert moved(f"{PREPARED}    {statements}\n").repeated


@pytest.mark.parametrize("statements", CHANGED)
def test_a_tensor_that_may_have_changed_is_another_one(statements: str) -> None:
    found = [one for one in analyze({"train.py": f"{PREPARED}    {statements}\n"}).transfers if "mask" in one.text]
    assert not any(one.repeated for one in found)


CLASS = """
import torch
from torch import nn

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)
        self.mask = torch.ones(8)

    def forward(self, batch):
        return self.layer(batch * self.mask.cuda()).mean()

    def other(self, value):
        {method}

class Deeper(Network):
    pass

model = {cls}().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(torch.load("data.pt")):
    model(batch.cuda()).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("method", "cls", "repeated"),
    [
        ("return self.mask.sum()", "Network", True),
        ("return self.mask.sum()", "Deeper", True),
        ("self.mask = value", "Network", False),
        ("self.mask[value] = 0", "Network", False),
        ("self.mask = value", "Deeper", False),
    ],
)
def test_an_attribute_stays_the_same_if_only_constructors_set_it(method: str, cls: str, repeated: bool) -> None:
    assert moved(CLASS.format(method=method, cls=cls)).repeated is repeated


GLOBAL = """
import torch

mask = torch.ones(8)

def step(model, optimizer, batch):
    model(batch.cuda() * mask.cuda()).mean().backward()
    optimizer.step()

def other():
    {statement}

model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(torch.load("data.pt")):
    step(model, optimizer, batch)
"""


@pytest.mark.parametrize(
    ("statement", "repeated"),
    [("return mask", True), ("global mask; mask = None", False), ("mask[0] = 1", False)],
)
def test_a_global_stays_the_same_if_no_function_changes_it(statement: str, repeated: bool) -> None:
    assert moved(GLOBAL.format(statement=statement)).repeated is repeated


def test_a_variable_of_the_step_itself_is_made_anew() -> None:
    source = GLOBAL.replace("    model(batch", "    mask = torch.ones(8)\n    model(batch").format(statement="pass")
    assert not moved(source).repeated
