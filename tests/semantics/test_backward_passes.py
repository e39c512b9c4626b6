"""What a loop collects for a backward pass keeps the graph that the pass needs, wherever the pass is written."""

from __future__ import annotations

from textwrap import indent

import pytest

from trainlint.lint.analyze import analyze

PREPARED = """
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
"""
UPDATE = """
    if i % 4 == 3:
        optimizer.zero_grad()
        {0}
        optimizer.step()
        total = 0
"""

CLOSURE = """def closure():
            {0}.backward()
        optimizer.step(closure)"""

SUMS = {
    "from the sum": "total.backward()",
    "from the sum, scaled": "scaler.scale(total / 4).backward()",
    "from what is computed of it": "objective = loss + 0.1 * total\n        (objective * 2).backward()",
    "by autograd": "grads = torch.autograd.grad(total, model.parameters())",
    "by autograd's function of the name": "torch.autograd.backward([total])",
    "in a function that is given it": "differentiate(total)",
    "in a function that is given it by its name": "differentiate(objective=total / 4)",
    "two functions further": "pass_on(total)",
    "in a function of a package that trains": "engine.train_on(total)",
    "in a closure": CLOSURE.format("total"),
}
LISTS = {
    "from its sum": "sum(losses).backward()",
    "from all of it": "torch.autograd.backward(losses)",
    "from each of it": "for one in losses:\n            one.backward(retain_graph=True)",
    "from what a comprehension makes of it": "sum(w * one for w, one in zip(weights, losses)).backward()",
    "in a closure": CLOSURE.format("sum(losses)"),
    "in a function that is given it": "differentiate(torch.stack(losses).mean())",
}
TABLES = {
    "from an item": 'parts["loss"].backward()',
    "from all items": "sum(parts.values()).backward()",
}
NEEDED = {
    **{f"a sum, {name}": ("total = 0", "total += loss", update) for name, update in SUMS.items()},
    **{f"a list, {name}": ("losses = []", "losses.append(loss)", update) for name, update in LISTS.items()},
    **{f"a table, {name}": ('parts = {"loss": 0}', 'parts["loss"] += loss', update) for name, update in TABLES.items()},
}
NOT_NEEDED = {
    "only printed": ("total = 0", "total += loss", "loss.backward()\n        print(total / 4)"),
    "given to a function that runs no pass": ("total = 0", "total += loss", "loss.backward()\n        show(total)"),
    "given to a function that runs a pass from something else": (
        "total = 0",
        "total += loss",
        "differentiate(loss, total)",
    ),
    "watched by the schedule": (
        "losses = []",
        "losses.append(loss)",
        "loss.backward()\n        schedule.step(loss)",
    ),
}
FUNCTIONS = """
import torch
from torch import nn
import engine


def differentiate(objective, seen=None):
    objective.backward()


def pass_on(loss):
    differentiate(loss)


def show(value):
    print(value)
"""


def is_backpropagated(before: str, collect: str, update: str, *, in_function: bool) -> bool:
    loop = f"for i, inputs in enumerate(loader):\n    loss = model(inputs).pow(2).mean()\n    {collect}"
    trains = f"{PREPARED}{before}\n{loop}{UPDATE.format(update)}"
    source = f"{FUNCTIONS}\n\ndef main():\n{indent(trains, '    ')}\n\nmain()\n" if in_function else FUNCTIONS + trains
    (kept,) = analyze({"train.py": source}).kept_graphs
    return kept.backpropagated


@pytest.mark.parametrize("in_function", [False, True], ids=["in a module", "in a function"])
@pytest.mark.parametrize(("before", "collect", "update"), NEEDED.values(), ids=NEEDED)
def test_a_graph_that_a_backward_pass_goes_through_is_needed(
    before: str, collect: str, update: str, in_function: bool
) -> None:
    assert is_backpropagated(before, collect, update, in_function=in_function)


@pytest.mark.parametrize("in_function", [False, True], ids=["in a module", "in a function"])
@pytest.mark.parametrize(("before", "collect", "update"), NOT_NEEDED.values(), ids=NOT_NEEDED)
def test_a_graph_that_no_backward_pass_goes_through_is_not_needed(
    before: str, collect: str, update: str, in_function: bool
) -> None:
    assert not is_backpropagated(before, collect, update, in_function=in_function)


def test_a_function_may_run_the_pass_from_what_its_module_collects() -> None:
    source = f"""{FUNCTIONS}{PREPARED}
total = 0

def flush():
    global total
    total.backward()
    optimizer.step()
    total = 0

for i, inputs in enumerate(loader):
    total += model(inputs).pow(2).mean()
    if i % 4 == 3:
        flush()
"""
    (kept,) = analyze({"train.py": source}).kept_graphs
    assert kept.backpropagated


def test_a_variable_of_another_function_is_another_one() -> None:
    source = f"""{FUNCTIONS}{PREPARED}
total = 0

def penalize():
    total = model.weight.square().sum()
    total.backward()

for inputs in loader:
    loss = model(inputs).pow(2).mean()
    loss.backward()
    penalize()
    optimizer.step()
    total += loss
"""
    (kept,) = analyze({"train.py": source}).kept_graphs
    assert not kept.backpropagated


@pytest.mark.parametrize(
    ("method", "needed"),
    [
        ("self.total_loss.backward()", True),
        ("self.go(self.total_loss / 4)", True),
        ("differentiate(self.total_loss)", True),
        ("print(self.total_loss)", False),
    ],
)
def test_another_method_may_run_the_pass_from_an_attribute(method: str, needed: bool) -> None:
    source = f"""{FUNCTIONS}
class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.total_loss = 0

    def fit(self, loader):
        for i, inputs in enumerate(loader):
            loss = self.model(inputs).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward(retain_graph=True)
            self.total_loss += loss
            self.flush()
            self.optimizer.step()

    def flush(self):
        {method}

    def go(self, objective):
        objective.backward()


Trainer(nn.Linear(8, 1)).fit(torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8))
"""
    (kept,) = analyze({"train.py": source}).kept_graphs
    assert kept.backpropagated is needed
