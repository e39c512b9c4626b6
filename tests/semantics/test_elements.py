"""Loops over the items of a tensor, and those that only look like them."""

from __future__ import annotations

import pytest

from trainlint.lint.analyze import analyze

HEAD = """
import torch
import torch.nn.functional as F
from torch import nn

from elsewhere import anything, sizes

memory = {}


class Counting(nn.Module):
    def forward(self, x):
        self.count = x.sum()
        return x


def one(x, y):
    return (x - y).square().sum()


def remembering(x):
    global memory
    memory = x
    return x.exp()


x = torch.randn(64, 8, device="cuda") * 2
y = torch.exp(x)
pair = y.chunk(2)
host = torch.randn(64, 8) * 2
index = torch.arange(64, device="cuda") * 1
layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(12)]).cuda()
parts = [x, y]
weight = nn.Parameter(torch.ones(64, device="cuda"))
linear, counting, criterion = nn.Linear(8, 8).cuda(), Counting().cuda(), nn.MSELoss()
out, total, state, rows = torch.zeros_like(x), 0, x[0], []
flag, setting = anything(), True
"""

OVER_ITEMS = {
    "the tensor itself": ("for row in x:\n    rows.append(row.exp())", "x"),
    "with its number": ("for i, row in enumerate(x):\n    rows.append(row * i)", "x"),
    "two of them": ("for a, b in zip(x, y):\n    total += (a - b).square().sum()", "x"),
    "by number": ("for i in range(x.size(0)):\n    total += x[i].square().sum()", "x"),
    "by number, along another dimension": (
        "for i in range(8):\n    pass\nfor i in range(x.shape[1]):\n    total += x[:, i].sum()",
        "x",
    ),
    "by a number from elsewhere": ("for i in range(anything):\n    total += x[i].sum()", "x"),
    "by way of a name": ("for i in range(64):\n    row = x[i]\n    scaled = row * 2\n    rows.append(scaled)", "x"),
    "written in place": ("for i in range(64):\n    out[i] = x[i] * y[i]", "x"),
    "changed in place": ("for i in range(64):\n    out[i] *= y[i]", "y"),
    "written by index": ("for i in range(64):\n    out[i] = x[index[i]].exp()", "index"),
    "a function of the project": ("for i in range(64):\n    total += one(x[i], y[i]) * x[i].sum()", "x"),
    "a layer": ("for row in x:\n    rows.append(linear(row))", "x"),
    "a loss": ("for i in range(64):\n    total += criterion(x[i], y[i])", "x"),
    "taken apart item by item": ("for column in x.unbind(1):\n    rows.append(column.exp())", "x.unbind(1)"),
    "taken apart into parts of one item": (
        "ones = x.split(1, 1)\nfor i in range(64):\n    total += ones[i].sum()",
        "ones",
    ),
    "under a setting": ("for row in x:\n    if setting:\n        row = row * 2\n    rows.append(row.exp())", "x"),
    "a comprehension": ("rows = [row.exp() for row in x]", "x"),
    "a comprehension by number": ("rows = torch.stack([torch.dot(x[i], y[i]) for i in range(64)])", "x"),
    "a generator": ("total = sum(F.mse_loss(a, b) for a, b in zip(x, y))", "x"),
}

OTHERWISE = {
    "a recurrence": "for row in x:\n    state = torch.tanh(row + state)",
    "a recurrence by way of what is collected": "for row in x:\n    rows.append(row + rows[-1])",
    "a recurrence by way of what is written": "for i in range(64):\n    out[i] = x[i] + out[i - 1]",
    "a running sum that is read": "for row in x:\n    total += row\n    rows.append(total * 2)",
    "a module that may keep a state": "for row in x:\n    rows.append(counting(row))",
    "a function that keeps a state": "for row in x:\n    rows.append(remembering(row) * row)",
    "an unknown function": "for row in x:\n    rows.append(anything(row.exp()))",
    "items of different sizes": "for i in range(64):\n    total += x[i, : sizes[i]].sum()",
    "parts by bounds": "for i in range(8):\n    pass\nfor i in range(16):\n    total += x[i * 4 : i * 4 + 4].sum()",
    "a condition that may be a tensor": "for row in x:\n    if flag:\n        rows.append(row.exp())",
    "a condition on the item": "for i, row in enumerate(x):\n    if i:\n        rows.append(row.exp())",
    "a condition that changes": "for row in x:\n    if setting:\n        row = row.exp()\n    setting = False",
    "a condition that is computed": "for row in x:\n    if sizes > 3:\n        rows.append(row.exp())",
    "an early end": "for row in x:\n    rows.append(row.exp())\n    break",
    "a filtered comprehension": "rows = [row.exp() for row in x if flag]",
    "a read at each turn": "for row in x:\n    total += row.exp().sum().item()",
    "layers": "for layer in layers:\n    x = layer(x)",
    "layers by number": "for i in range(12):\n    total += layers[i](x[i]).sum()",
    "a list of tensors": "for part in parts:\n    total += part.sum()",
    "a list of tensors by number": "for i in range(12):\n    total += (parts[i] * x[i]).sum()",
    "parts of a tensor": "for part in pair:\n    total += part.sum()",
    "parts of a tensor, at once": "for part in x.split(16):\n    total += part.sum()",
    "parameters": "for one in linear.parameters():\n    total += one.square().sum()",
    "items of a parameter": "for scale in weight:\n    total += scale * 2",
    "a few turns": "for i in range(3):\n    total += x[i].sum()",
    "on the host": "for row in host:\n    total += row.exp().sum()",
    "no work": "for row in x:\n    rows.append(row.view(-1))",
    "work without the item": "for row in x:\n    total += y.sum()",
    "a number alone": "for i in range(64):\n    total += x.sum() * i",
    "backward passes": "for row in x:\n    (row * weight[0]).sum().backward()",
}


def found(text: str) -> list[str]:
    return [loop.tensor for loop in analyze({"train.py": HEAD + text + "\n"}).element_loops]


@pytest.mark.parametrize(("text", "tensor"), OVER_ITEMS.values(), ids=OVER_ITEMS.keys())
def test_a_loop_over_the_items_of_a_tensor(text: str, tensor: str) -> None:
    assert found(text) == [tensor]


@pytest.mark.parametrize("text", OTHERWISE.values(), ids=OTHERWISE.keys())
def test_a_loop_that_only_looks_like_one(text: str) -> None:
    assert found(text) == []


def test_the_first_that_is_computed_is_named() -> None:
    (loop,) = analyze(
        {"train.py": HEAD + "for row in x:\n    half = row / 2\n    rows.append(half.exp())\n"}
    ).element_loops
    assert loop.operand == "row / 2"
    assert loop.work_site.row == loop.site.row + 1


def test_only_the_inner_one_of_two_loops_computes_with_items() -> None:
    (loop,) = analyze(
        {"train.py": HEAD + "for i in range(64):\n    for j in range(64):\n        total += x[i, j] * y[j, i]\n"}
    ).element_loops
    assert loop.text == "range(64)"
    assert loop.site.column == len("    for j in ")


def test_a_batch_may_be_a_list_unless_the_code_asks_for_what_a_tensor_has() -> None:
    source = """
import torch


def list_like(images):
    return [image.exp() for image in images]


def tensor_like(images):
    batch, *_ = images.shape
    return [images[i].exp() for i in range(batch)]


loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
for images in loader:
    images = images.cuda()
    list_like(images)
    tensor_like(images)
"""
    (loop,) = analyze({"train.py": source}).element_loops
    assert loop.site.symbol == "tensor_like"
