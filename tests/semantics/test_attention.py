"""Attention that a model writes out: where it is one, and where something else needs the scores or the weights."""

from __future__ import annotations

import inspect
import textwrap

import pytest

from trainlint.lint.analyze import analyze

MODEL = """
import math

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.scale = width**-0.5
        self.over_rows = nn.Softmax(dim=-1)
        self.over_columns = nn.Softmax(dim=-2)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, mask=None, bias=None):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
{body}


model = Attention(64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(64, 8, 16, 64):
    model(x.cuda()).mean().backward()
    optimizer.step()
"""

WRITTEN_OUT = {
    "in one expression": "return (q @ k.mT * self.scale).softmax(dim=-1) @ v",
    "scaled before": "return F.softmax((q * self.scale) @ k.transpose(-2, -1), -1) @ v",
    "divided by a root": "return torch.softmax(torch.bmm(q, k.transpose(1, 2)) / math.sqrt(64), dim=-1).bmm(v)",
    "scaled in place": """
        scores = torch.matmul(q, k.transpose(-2, -1))
        scores *= self.scale
        return self.over_rows(scores).matmul(v)
    """,
    "masked": """
        scores = q @ k.transpose(-2, -1) * self.scale
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))
        return scores.softmax(-1) @ v
    """,
    "masked in place": """
        scores = q @ k.transpose(-2, -1) * self.scale
        scores[mask] = float("-inf")
        scores.masked_fill_(mask, -1e4)
        return scores.softmax(-1) @ v
    """,
    "masked by a choice": """
        scores = q @ k.transpose(-2, -1) * self.scale
        scores = torch.where(mask, scores, -1e9)
        return scores.softmax(-1) @ v
    """,
    "with a bias": "return (q @ k.transpose(-2, -1) * self.scale + bias).softmax(-1) @ v",
    "with dropout": """
        weights = nn.Softmax(dim=-1)(q @ k.transpose(-2, -1))
        weights = F.dropout(weights, 0.1, self.training) if self.training else weights
        return self.drop(weights) @ v
    """,
    "in another type": """
        weights = F.softmax((q @ k.transpose(-2, -1)).float(), dim=-1, dtype=torch.float32).to(q.dtype)
        return weights.type_as(v) @ v
    """,
    "by einsum": """
        scores = torch.einsum("b i d, b j d -> b i j", q, k) * self.scale
        return torch.einsum("b i j, b j d -> b i d", scores.softmax(dim=-1), v)
    """,
    "with the weights turned": "return v.mT @ (q @ k.mT).softmax(dim=-1).transpose(-2, -1)",
    "whose shape is told": """
        scores = q @ k.transpose(-2, -1)
        rows = scores.size(-1)
        assert scores.shape[-1] == rows
        return scores.softmax(-1) @ v
    """,
}

NOT_WRITTEN_OUT = {
    "over another dimension": "return (q @ k.mT).softmax(dim=-2) @ v",
    "a layer over another dimension": "return self.over_columns(q @ k.mT) @ v",
    "over a dimension that is not known": "return (q @ k.mT).softmax(dim=self.axis) @ v",
    "no product before": "return q.softmax(dim=-1) @ v.mT",
    "no product after": "return (q @ k.mT).softmax(dim=-1) * self.scale",
    "weights that are returned": """
        weights = (q @ k.mT).softmax(dim=-1)
        return weights @ v, weights
    """,
    "weights that are kept": """
        self.weights = (q @ k.mT).softmax(dim=-1)
        return self.weights @ v
    """,
    "weights that a function gets": """
        weights = (q @ k.mT).softmax(dim=-1)
        self.look(weights)
        return weights @ v
    """,
    "weights for two values": """
        weights = (q @ k.mT).softmax(dim=-1)
        return weights @ v + weights @ x
    """,
    "weights that are gated": "return ((q @ k.mT).softmax(dim=-1) * mask) @ v",
    "scores that are kept": """
        scores = q @ k.mT
        self.scores = scores
        return scores.softmax(dim=-1) @ v
    """,
    "scores that are capped": "return torch.tanh(q @ k.mT).softmax(dim=-1) @ v",
    "scores that are multiplied by a tensor": "return (q @ k.mT * mask).softmax(dim=-1) @ v",
    "scores that a branch changes": """
        scores = q @ k.mT
        if mask is not None:
            scores = self.mix(scores)
        return scores.softmax(dim=-1) @ v
    """,
    "weights of an earlier turn": """
        weights = (q @ k.mT).softmax(dim=-1)
        for _ in range(3):
            v = weights @ v
            weights = self.sharpen(weights)
        return v
    """,
    "beside a fused one": """
        if mask is None:
            return F.scaled_dot_product_attention(q, k, v)
        return (q @ k.mT + mask).softmax(dim=-1) @ v
    """,
}


def attentions(body: str) -> int:
    text = MODEL.format(body=textwrap.indent(inspect.cleandoc(body), " " * 8))
    return len(analyze({"train.py": text}).attentions)


@pytest.mark.parametrize("body", WRITTEN_OUT.values(), ids=WRITTEN_OUT.keys())
def test_attention_that_is_written_out_is_one(body: str) -> None:
    assert attentions(body) == 1


@pytest.mark.parametrize("body", NOT_WRITTEN_OUT.values(), ids=NOT_WRITTEN_OUT.keys())
def test_what_a_fused_attention_could_not_stand_for_is_none(body: str) -> None:
    assert attentions(body) == 0


def test_a_model_that_is_not_made_has_none() -> None:
    text = MODEL.format(body="        return (q @ k.mT).softmax(dim=-1) @ v")
    assert analyze({"train.py": text.replace("model = Attention(64)", "model = nn.Linear(64, 64)")}).attentions == []
