"""Backward passes that keep the graph, and whether it is certain that no step needs the graph of another."""

from __future__ import annotations

import pytest

from trainlint.lint.analyze import analyze
from trainlint.semantics.project import BackwardPass

PREPARED = """
import torch
from torch import nn
from torchvision import models
import unknown

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, batch):
        return self.layer(batch)

class Keeping(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)
        self.outputs = []

    def forward(self, batch):
        result = self.layer(batch)
        self.outputs.append(result)
        return result

loader = torch.utils.data.DataLoader(torch.load("data.pt"))
"""


KEEPING = "loss.backward(retain_graph=True)"


def backward(before: str, forward: str, after: str = "", call: str = KEEPING) -> BackwardPass:
    source = f"""{PREPARED}
model = nn.Linear(8, 1)
{before}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in loader:
    {forward}
    {call}
    optimizer.step()
    {after}
"""
    return analyze({"train.py": source}).backward_passes[-1]


ENDS = {
    "a layer": ("", "loss = model(batch).mean()", ""),
    "a model of a library": ("model = models.resnet18()", "loss = model(batch).mean()", ""),
    "a model of the project": ("model = Plain()", "loss = model(batch).mean()", ""),
    "tensors that were made before": ("scale = torch.ones(8)", "loss = (model(batch) * scale).mean()", ""),
    "numbers that are collected": ("seen = []", "loss = model(batch).mean()", "seen.append(loss.item())"),
    "a function of torch": ("", "loss = nn.functional.mse_loss(model(batch), batch)", "print(loss)"),
}
GOES_ON = {
    "an output of the step before": ("state = torch.zeros(1)", "state = model(batch + state); loss = state.mean()", ""),
    "computed from parameters before": ("norm = model.weight.norm()", "loss = model(batch).mean() * norm", ""),
    "a sum over steps": ("loss = 0", "loss = loss + model(batch).mean()", ""),
    "losses that are collected": ("seen = []", "loss = model(batch).mean()", "seen.append(loss)"),
    "a model that keeps outputs": ("model = Keeping()", "loss = model(batch).mean()", ""),
    "a model that is not known": ("model = unknown.build()", "loss = model(batch).mean()", ""),
    "a value that is not known": ("state = unknown.state()", "loss = model(batch + state).mean()", ""),
    "given to a library": ("", "loss = model(batch).mean()", "unknown.differentiate(loss)"),
}


@pytest.mark.parametrize(("before", "forward", "after"), ENDS.values(), ids=ENDS.keys())
def test_a_graph_ends_with_its_step(before: str, forward: str, after: str) -> None:
    assert backward(before, forward, after).graph_ends_with_step


@pytest.mark.parametrize(("before", "forward", "after"), GOES_ON.values(), ids=GOES_ON.keys())
def test_a_graph_may_go_on(before: str, forward: str, after: str) -> None:
    assert not backward(before, forward, after).graph_ends_with_step


CALLS = {
    "loss.backward(retain_graph=True)": True,
    "loss.backward()": False,
    "loss.backward(retain_graph=False)": False,
    "loss.backward(retain_graph=unknown.flag)": False,
    "loss.backward(retain_graph=True, create_graph=True)": False,
}


@pytest.mark.parametrize(("call", "retains"), CALLS.items())
def test_only_retain_graph_keeps_it(call: str, retains: bool) -> None:
    assert backward("", "loss = model(batch).mean()", call=call).retains_graph is retains
