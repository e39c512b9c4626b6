"""Scripts that make one loader, and what they pass as its number of workers."""

from __future__ import annotations

import inspect

from trainlint.lint.analyze import analyze
from trainlint.semantics.values import Option, Unknown, Value

HEAD = """
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

images = datasets.CIFAR10("data", transform=transforms.ToTensor())
"""


def workers_of(script: str, others: dict[str, str] | None = None) -> Value:
    """What a script passes as `num_workers`."""
    text = HEAD + inspect.cleandoc(script) + "\n"
    files = {path: inspect.cleandoc(other) + "\n" for path, other in (others or {}).items()}
    (loader,) = analyze({"train.py": text, **files}).loaders
    return loader.arguments.value("num_workers") or Unknown()


def default_of(script: str, others: dict[str, str] | None = None) -> object:
    """The default of the option that a script passes as `num_workers`; "unknown" where there is none."""
    value = workers_of(script, others)
    return value.default if isinstance(value, Option) and value.has_default else "unknown"
