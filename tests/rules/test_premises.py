"""What rules take for granted of torch, asked of the torch that is installed."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import Any

import pytest

SETTINGS = """
import os
import torch

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "garbage_collection_threshold:0.5"
first = torch._C._accelerator_getAllocatorSettings()
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "garbage_collection_threshold:0.8"
print(first, torch._C._accelerator_getAllocatorSettings())
"""


@pytest.fixture(scope="module")
def torch() -> Any:
    """The library; importing it takes seconds, so only where a test asks for it."""
    return pytest.importorskip("torch")


def test_the_allocator_reads_its_settings_when_it_is_first_asked_and_not_again(torch: Any) -> None:
    """TL503 reports what comes too late, and not what stands between the import of torch and the first tensor."""
    if not hasattr(torch._C, "_accelerator_getAllocatorSettings"):
        pytest.skip("this torch does not tell its settings")
    environment = {name: value for name, value in os.environ.items() if "ALLOC_CONF" not in name}
    done = subprocess.run([sys.executable, "-c", SETTINGS], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["garbage_collection_threshold:0.5"] * 2


def test_batch_normalization_subtracts_the_bias_of_a_convolution(torch: Any) -> None:
    """TL416: the bias changes nothing, and gets no gradient."""
    torch.manual_seed(0)
    convolution = torch.nn.Conv2d(3, 8, 3).double()
    norm = torch.nn.BatchNorm2d(8).double()
    images = torch.randn(16, 3, 12, 12, dtype=torch.float64)
    with_bias = norm(convolution(images))
    without = norm(torch.nn.functional.conv2d(images, convolution.weight))
    torch.testing.assert_close(with_bias, without)
    (with_bias * torch.randn_like(with_bias)).sum().backward()
    assert convolution.bias.grad.abs().max() < 1e-9 * convolution.weight.grad.abs().max()


def test_fused_attention_computes_what_is_written_out(torch: Any) -> None:
    """TL409: the example of its page, before and after."""
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 16, 8, dtype=torch.float64)
    mask = torch.ones(16, 16, dtype=torch.bool).triu(1)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    written_out = scores.masked_fill(mask, float("-inf")).softmax(dim=-1) @ v
    attend = torch.nn.functional.scaled_dot_product_attention
    torch.testing.assert_close(attend(q, k, v, attn_mask=~mask), written_out)
    torch.testing.assert_close(attend(q, k, v, is_causal=True), written_out)
