"""Expressions whose shape the values of a tensor on the device decide."""

from __future__ import annotations

import pytest

from trainlint.lint.analyze import analyze

DYNAMIC = [
    "x[x > 0]",
    "x[~(x > 0)]",
    "x[(x > 0) & (x < 1)]",
    "x[torch.isnan(x)]",
    "x[x.ne(0), :]",
    "x[torch.logical_not(mask)]",
    "x[mask]",
    "x[mask.view(-1)]",
    "x.nonzero()",
    "torch.nonzero(x, as_tuple=True)",
    "torch.argwhere(x)",
    "torch.masked_select(x, mask)",
    "x.unique()",
    "torch.where(mask)",
    "x.repeat_interleave(counts)",
    "torch.repeat_interleave(x, repeats=counts, dim=0)",
]
FIXED = [
    "x[0]",
    "x[1:3]",
    "x[indices]",
    "x[x.argmax(0)]",
    "x[mask.long()]",
    "x[mask.sum()]",
    "torch.where(mask, x, 0)",
    "x.masked_fill(mask, 0)",
    "x.repeat_interleave(2)",
    "x.repeat_interleave(counts, output_size=10)",
    "torch.nonzero_static(x, size=4)",
    "host[host > 0]",
    "host.nonzero()",
]


def found(statement: str) -> int:
    source = f"""
import torch
x = torch.randn(8, 8, device="cuda")
mask = x > 0
counts = torch.ones(8, dtype=torch.long, device="cuda")
indices = torch.randperm(8, device="cuda")
host = torch.randn(8)
{statement}
"""
    return len(analyze({"train.py": source}).dynamic_shapes)


@pytest.mark.parametrize("statement", DYNAMIC)
def test_values_decide_the_shape(statement: str) -> None:
    assert found(f"result = {statement}") == 1


@pytest.mark.parametrize("statement", FIXED)
def test_the_shape_is_known_or_nothing_waits(statement: str) -> None:
    assert found(f"result = {statement}") == 0


def test_a_masked_write_reads_nothing() -> None:
    assert found("x[mask] = 0") == 0
