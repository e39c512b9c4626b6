"""Models that ask for derivatives in their forward, and so need gradients wherever they are called."""

from __future__ import annotations

import pytest

from trainlint.lint.analyze import analyze

FORCES = {
    "forces by its energy": ("forces = torch.autograd.grad(energy, positions, create_graph=True)[0]", False),
    "in a method of its own": ("forces = self.differentiate(energy, positions)", False),
    "under autograd that it switches on": (
        "with torch.enable_grad():\n            forces = torch.autograd.grad(energy, positions)[0]",
        True,
    ),
    "nothing of the kind": ("forces = positions.grad", True),
}
ENERGIES = """
import torch
from torch import nn

class Energy(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, positions):
        energy = self.layer(positions).sum()
        {body}
        return energy, forces

    def differentiate(self, energy, positions):
        return torch.autograd.grad(energy, positions)[0]

class Layered(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.energy = Energy(config)

    def forward(self, positions):
        return self.energy(positions)

class Plain(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, positions):
        return self.layer(positions).sum(), None

KINDS = {{"energy": Energy, "plain": Plain}}

def evaluate(model, loader):
    model.cuda().eval()
    for batch in loader:
        energy, forces = model(batch)
        print(energy)

evaluate({model}(config), torch.utils.data.DataLoader(torch.load("data.pt")))
"""


@pytest.mark.parametrize(("body", "records"), FORCES.values(), ids=FORCES.keys())
@pytest.mark.parametrize("model", ["Energy", "Layered", "KINDS.get(config.kind)"])
def test_a_model_that_differentiates_needs_gradients_in_evaluation(body: str, records: bool, model: str) -> None:
    found = analyze({"evaluate.py": ENERGIES.format(body=body, model=model)}).evaluations
    assert bool(found) is records
