"""Which code `torch.compile` traces."""

from __future__ import annotations

import pytest

from trainlint.lint.analyze import analyze

PREPARED = """
import torch
from torch import nn

def helper(x):
    print(x)
    return x

class Model(nn.Module):
    def forward(self, x):
        return helper(x)

loader = torch.utils.data.DataLoader(torch.load("data.pt"))
"""
COMPILED = {
    "a decorator": "@torch.compile\ndef f(x):\n    return helper(x)",
    "a decorator with arguments": "@torch.compile(mode='max-autotune')\ndef f(x):\n    return helper(x)",
    "a function that is compiled": "f = torch.compile(helper)",
    "a model by its name": "f = Model()\nf = torch.compile(f)",
    "a model in place": "f = Model()\nf.compile()",
}
PLAIN = {
    "a function": "f = helper",
    "a model": "f = Model()",
    "a model beside the compiled one": "f = Model()\nother = torch.compile(f)",
    "switched off": "f = torch.compile(helper, disable=True)",
    "kept out": """
@torch.compiler.disable
def kept(x):
    return helper(x)

@torch.compile
def f(x):
    return kept(x)
""",
    "another decorator": "@torch.no_grad()\ndef f(x):\n    return helper(x)",
}


def compiled(source: str) -> bool:
    source = f"{PREPARED}{source}\nfor x in loader:\n    f(x).mean().backward()\n"
    reports = analyze({"train.py": source}).reports
    (traced,) = {report.context.compiled for report in reports if report.context.loop is not None}
    return traced


@pytest.mark.parametrize("source", COMPILED.values(), ids=COMPILED.keys())
def test_what_is_called_from_compiled_code_is_traced(source: str) -> None:
    assert compiled(source)


@pytest.mark.parametrize("source", PLAIN.values(), ids=PLAIN.keys())
def test_other_code_is_not(source: str) -> None:
    assert not compiled(source)
