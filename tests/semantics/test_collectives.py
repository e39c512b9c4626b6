"""Collectives: what ranks exchange, and whether it is a figure that is only looked at."""

from __future__ import annotations

import pytest

from trainlint.lint.analyze import analyze
from trainlint.semantics.project import Collective
from trainlint.semantics.vocabulary import Confidence

PREPARED = """
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("nccl")
model = nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for inputs, labels in torch.utils.data.DataLoader(torch.load("data.pt")):
    outputs = model(inputs.cuda())
    loss = nn.functional.cross_entropy(outputs, labels.cuda())
    auxiliary = outputs.square().mean()
    loss.backward()
    optimizer.step()
"""


def collective(statement: str) -> Collective:
    (found,) = analyze({"train.py": f"{PREPARED}    {statement}\n"}).collectives
    return found


FIGURES = {
    "dist.all_reduce(loss)": Confidence.HIGH,
    "dist.all_reduce(loss.detach())": Confidence.HIGH,
    "dist.all_reduce(auxiliary.detach())": Confidence.HIGH,
    "dist.reduce(loss.data / 4, dst=0)": Confidence.HIGH,
    "dist.all_reduce(tensor=loss.detach().clone())": Confidence.HIGH,
    "dist.all_reduce(torch.stack([loss, auxiliary]).detach())": Confidence.HIGH,
    "dist.all_gather([None], loss.detach())": Confidence.HIGH,
    "accuracy = (outputs.argmax(1) == labels.cuda()).float().mean(); dist.all_reduce(accuracy)": Confidence.MEDIUM,
    "dist.all_reduce(auxiliary)": None,
    "dist.all_reduce(outputs)": None,
    "dist.all_reduce(outputs.detach())": None,
    "dist.all_reduce(outputs.detach().sum(0))": None,
    "dist.all_reduce(model.weight.grad)": None,
    "dist.all_reduce(model.weight.grad.norm())": None,
    "dist.all_reduce(loss.detach() * outputs)": None,
    "count = labels.sum(); dist.all_reduce(count)": None,
    "dist.all_reduce(unknown)": None,
}


@pytest.mark.parametrize(("statement", "figure"), FIGURES.items())
def test_what_is_exchanged_may_be_a_figure(statement: str, figure: Confidence | None) -> None:
    assert collective(statement).figure is figure


def test_a_barrier_exchanges_nothing() -> None:
    assert collective("dist.barrier()").is_barrier
    assert not collective("dist.all_reduce(loss)").is_barrier


def test_a_value_that_is_not_known_is_no_barrier() -> None:
    assert not collective("dist.all_reduce(unknown)").is_barrier
