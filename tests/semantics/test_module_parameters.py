"""Modules of the project's own: which of them have parameters, so that their calls record gradients."""

from __future__ import annotations

import pytest

from trainlint.lint.analyze import analyze

MODULES = {
    "buffers alone": ("self.register_buffer('energies', energies)", False),
    "a parameter": ("self.energies = nn.Parameter(energies)", True),
    "a submodule": ("self.layer = nn.Linear(8, 1)", True),
    "two submodules": ("self.first, self.second = nn.Linear(8, 1), nn.Linear(8, 1)", True),
    "what it is given": ("self.energies = energies", True),
}


@pytest.mark.parametrize(("assignment", "records"), MODULES.values(), ids=MODULES.keys())
def test_a_module_without_parameters_records_no_gradients(assignment: str, records: bool) -> None:
    text = f"""
import torch
from torch import nn
from torch.utils.data import DataLoader

class Energies(nn.Module):
    def __init__(self, energies):
        super().__init__()
        {assignment}

    def forward(self, atoms):
        return torch.matmul(atoms, self.energies)

def evaluate(loader):
    energies = Energies(torch.ones(8))
    for atoms in loader:
        print(energies(atoms))

evaluate(DataLoader(torch.randn(64, 8), batch_size=8))
"""
    assert bool(analyze({"train.py": text}).evaluations) is records
