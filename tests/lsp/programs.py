"""Programs for the tests of the language server."""

from __future__ import annotations

TRAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

from utils import value_of

model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(torch.utils.data.TensorDataset(torch.randn(1000, 4)), batch_size=8)
history = []
for (batch,) in loader:
    batch = batch.to("cuda")
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(float(value_of(loss)))
"""
QUIET_UTILS = """\
def value_of(tensor):
    return tensor.detach()
"""
SYNCING_UTILS = """\
def value_of(tensor):
    return tensor.item()
"""
