"""Float64 that nobody asked for: from arrays of numpy, through tensors, to arithmetic on the device."""

from __future__ import annotations

import pytest

from trainlint.lint.analyze import analyze


def operands(made: str, used: str = "outputs * weights", before: str = "") -> list[str]:
    source = f"""
import numpy as np
import torch
from torch import nn
{before}
model = nn.Linear(8, 1).cuda()
weights = {made}
outputs = model(torch.randn(64, 8, device="cuda"))
result = {used}
"""
    return [one.operand for one in analyze({"train.py": source}).double_arithmetic]


DOUBLE = [
    "torch.from_numpy(np.zeros(8)).cuda()",
    "torch.tensor(np.ones((8, 1))).to('cuda')",
    "torch.tensor(np.linspace(0, 1, 8), device='cuda')",
    "torch.as_tensor(np.array([0.5, 1])).cuda(non_blocking=True)",
    "torch.from_numpy(np.array([[0.5], [1.0]])).cuda().view(1, 2)",
    "torch.from_numpy(np.random.randn(8)).cuda() * 0.1",
    "torch.from_numpy(np.zeros(8).reshape(2, 4)).cuda()",
]
NOT_DOUBLE = [
    "torch.from_numpy(np.zeros(8)).float().cuda()",
    "torch.from_numpy(np.zeros(8)).cuda().half()",
    "torch.from_numpy(np.zeros(8, dtype=np.float32)).cuda()",
    "torch.from_numpy(np.zeros(8, np.float32)).cuda()",
    "torch.from_numpy(np.zeros(8).astype('float32')).cuda()",
    "torch.tensor(np.zeros(8), dtype=torch.float32).cuda()",
    "torch.from_numpy(np.zeros(8)).to('cuda', torch.float32)",
    "torch.from_numpy(np.zeros(8)).to(device='cuda', dtype=torch.float32)",
    "torch.from_numpy(np.zeros(8)).to(outputs)",
    "torch.from_numpy(np.zeros(8)).type(torch.FloatTensor).cuda()",
    "torch.from_numpy(np.array([1, 2])).cuda()",
    "torch.from_numpy(np.arange(8)).cuda()",
    "torch.from_numpy(np.full(8, value)).cuda()",
    "torch.from_numpy(np.load('weights.npy')).cuda()",
    "torch.cuda.FloatTensor(np.zeros(8))",
    "torch.tensor([0.5, 1.0]).cuda()",
    "torch.from_numpy(np.zeros(8)).cuda()[0]",
    "torch.from_numpy(np.zeros(8)).cuda().sum()",
    "torch.from_numpy(np.zeros(8))",
]


@pytest.mark.parametrize("made", DOUBLE)
def test_numpy_makes_float64_of_it(made: str) -> None:
    assert operands(made) == ["weights"]


@pytest.mark.parametrize("made", NOT_DOUBLE)
def test_it_is_not_known_to_be_float64_or_has_another_type(made: str) -> None:
    assert operands(made) == []


def test_a_matrix_product_does_not_take_two_types() -> None:
    assert operands(DOUBLE[0], "outputs @ weights") == []


@pytest.mark.parametrize(
    "before", ["torch.set_default_dtype(torch.float32)", "exact = torch.float64", "def exact(model): model.double()"]
)
def test_a_program_that_chooses_its_types_is_left_alone(before: str) -> None:
    assert operands(DOUBLE[0], before=before) == []


RETURNED = {
    "what is returned while the model is traced": """
    if torch.jit.is_tracing():
        return tensor.max() + 1
    return tensor.size(0)
    """,
    "what a name holds while the model is compiled": """
    if torch.compiler.is_compiling():
        count = tensor.max() + 1
    else:
        count = tensor.size(0)
    return count
    """,
    "what it holds where the model is not scripted": """
    count = tensor.max() + 1
    if not torch.jit.is_scripting():
        count = tensor.size(0)
    return count
    """,
    "what an expression is while the model is traced": """
    return tensor.max() + 1 if torch.jit.is_tracing() else tensor.size(0)
    """,
    "what is returned unless the model runs as it is written": """
    if not torch.jit.is_tracing():
        return tensor.size(0)
    return tensor.max() + 1
    """,
    "what a class that derives from tensors tells of itself": """
    if isinstance(tensor, Edges):
        return max(tensor.get_sparse_size())
    return tensor.size(0)
    """,
    "what has another name than anything of torch": """
    return tensor.num_parts() if tensor.has_parts() else 1
    """,
}


@pytest.mark.parametrize("body", RETURNED.values(), ids=RETURNED.keys())
def test_a_number_is_no_tensor_for_the_way_that_it_came(body: str) -> None:
    project = analyze(
        {
            "train.py": f"""
import torch
from torch import nn
from edges import Edges

def size(tensor):
    {body.strip()}

model = nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for inputs in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
    outputs = model(inputs.cuda())
    outputs.mean().backward()
    optimizer.step()
    if size(outputs * 2) * size(outputs * 2) > 100:
        print("large")
"""
        }
    )
    assert project.syncs == []
