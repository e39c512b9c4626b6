"""Batch normalization: whether a model that is made has any, and which convolutions it follows at once."""

from __future__ import annotations

import inspect
import textwrap

import pytest

from trainlint.lint.analyze import analyze
from trainlint.semantics.project import NormalizedConvolution
from trainlint.semantics.vocabulary import Known

MODELS = """
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(8)

    def forward(self, images):
        return self.norm(images)


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, images):
        for block in self.blocks:
            images = block(images)
        return images


class Shallow(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, images):
        return self.norm(images)
"""

SCRIPT = """
import torch
from torch import nn
from models import Deep, Shallow

model = {model}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images in torch.randn(64, 8, 8, 4, 4):
    model(images).mean().backward()
    optimizer.step()
"""

MADE = {
    "in a block of the model": ("Deep()", True),
    "in another model of the same file": ("Shallow()", False),
    "in a sequence": ("nn.Sequential(nn.BatchNorm2d(8), nn.Flatten())", True),
    "synchronized": ("nn.SyncBatchNorm.convert_sync_batchnorm(Deep())", False),
}


@pytest.mark.parametrize(("model", "expected"), MADE.values(), ids=MADE.keys())
def test_an_entry_point_tells_whether_a_model_that_it_makes_normalizes_batches(model: str, expected: bool) -> None:
    entries = analyze({"train.py": SCRIPT.format(model=model), "models.py": MODELS}).entries
    (entry,) = (one for one in entries if one.path.name == "train.py")
    assert entry.normalizes_batches is expected


NET = """
from collections import OrderedDict

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, bias=True, extra=False, **options):
        super().__init__()
{layers}

    def forward(self, x):
{forward}


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images in torch.randn(64, 8, 8, 4, 4):
    model(images.cuda()).mean().backward()
    optimizer.step()
"""
PAIR = """
self.conv = nn.Conv2d(8, 8, 3)
self.norm = nn.BatchNorm2d(8)
"""
SEQUENCE = "return self.layers(x)"


def convolutions(layers: str, forward: str, after: str = "") -> list[NormalizedConvolution]:
    body = {
        name: textwrap.indent(inspect.cleandoc(text), " " * 8)
        for name, text in (("layers", layers), ("forward", forward))
    }
    project = analyze({"train.py": NET.format(**body) + after})
    return list({one.site: one for one in project.normalized_convolutions}.values())


FOLLOWED = {
    "nested calls": (PAIR, "return torch.relu(self.norm(self.conv(x)))"),
    "one statement after the other": (
        PAIR,
        """
        x = self.conv(x)
        x = torch.relu(self.norm(x))
        return x
        """,
    ),
    "the last statement": (
        PAIR,
        """
        y = self.conv(x)
        return self.norm(y) + x
        """,
    ),
    "under another name": (
        PAIR,
        """
        y = self.conv(x)
        z = self.norm(y)
        return z + x
        """,
    ),
    "in a loop": (
        PAIR,
        """
        for _ in range(3):
            x = self.norm(self.conv(x))
        return x
        """,
    ),
    "a sequence": ("self.layers = nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8))", SEQUENCE),
    "a sequence with names": (
        "self.layers = nn.Sequential(OrderedDict([('a', nn.Conv1d(8, 8, 3)), ('b', nn.BatchNorm1d(8))]))",
        SEQUENCE,
    ),
    "a sequence of a list": (
        "self.layers = nn.Sequential(*[nn.ConvTranspose2d(8, 8, 3), nn.SyncBatchNorm(8)])",
        SEQUENCE,
    ),
    "a list that grows": (
        """
        layers = [nn.Flatten()]
        layers.append(nn.Conv3d(8, 8, 3))
        layers.append(nn.BatchNorm3d(8))
        if extra:
            layers += [nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        """,
        SEQUENCE,
    ),
}


@pytest.mark.parametrize(("layers", "forward"), FOLLOWED.values(), ids=FOLLOWED.keys())
def test_a_convolution_that_normalization_follows_is_known(layers: str, forward: str) -> None:
    assert len(convolutions(layers, forward)) == 1


NOT_FOLLOWED = {
    "something in between": (PAIR, "return self.norm(torch.relu(self.conv(x)))"),
    "the other way round": (PAIR, "return self.conv(self.norm(x))"),
    "an output that is used twice": (
        PAIR,
        """
        y = self.conv(x)
        z = self.norm(y)
        return z + y
        """,
    ),
    "an output that a later statement uses": (
        PAIR,
        """
        y = self.conv(x)
        x = x + 1
        return self.norm(y)
        """,
    ),
    "a convolution that is used elsewhere, too": (PAIR, "return self.norm(self.conv(x)) + self.conv(x)"),
    "a convolution that is handed out": (PAIR, "return self.norm(self.conv(x)) + self.look(self.conv)"),
    "a normalization that may be another": (
        PAIR + "if extra:\n    self.norm = nn.Identity()",
        "return self.norm(self.conv(x))",
    ),
    "a convolution that may be another": (
        PAIR + "if extra:\n    self.conv = nn.Identity()",
        "return self.norm(self.conv(x))",
    ),
    "a sequence with an activation in between": (
        "self.layers = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU(), nn.BatchNorm2d(8))",
        SEQUENCE,
    ),
    "a list with a branch in between": (
        """
        layers = [nn.Conv2d(8, 8, 3)]
        if extra:
            layers.append(nn.ReLU())
        layers.append(nn.BatchNorm2d(8))
        self.layers = nn.Sequential(*layers)
        """,
        SEQUENCE,
    ),
    "a list that is used otherwise": (
        """
        layers = [nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8)]
        layers.insert(1, nn.ReLU())
        self.layers = nn.Sequential(*layers)
        """,
        SEQUENCE,
    ),
    "layers of another library": (
        "self.layers = nn.Sequential(nn.Conv2d(8, 8, 3), other.BatchNorm2d(8))",
        SEQUENCE,
    ),
}


@pytest.mark.parametrize(("layers", "forward"), NOT_FOLLOWED.values(), ids=NOT_FOLLOWED.keys())
def test_other_convolutions_are_not(layers: str, forward: str) -> None:
    assert convolutions(layers, forward) == []


def test_a_class_that_derives_from_it_may_use_a_convolution_otherwise() -> None:
    derived = """
class Other(Net):
    def features(self, x):
        return self.conv(x)
"""
    forward = "return self.norm(self.conv(x))"
    assert len(convolutions(PAIR, forward)) == 1
    assert convolutions(PAIR, forward, derived) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("8, 8, 3", Known.YES),
        ("8, 8, 3, bias=True", Known.YES),
        ("8, 8, 3, bias=False", Known.NO),
        ("8, 8, 3, bias=bias", Known.UNKNOWN),
        ("8, 8, 3, **options", Known.UNKNOWN),
        ("8, 8, 3, 1, 1, 1, 1, False", Known.UNKNOWN),
    ],
)
def test_arguments_tell_whether_there_is_a_bias(arguments: str, expected: Known) -> None:
    layers = f"self.layers = nn.Sequential(nn.Conv2d({arguments}), nn.BatchNorm2d(8))"
    assert [one.bias for one in convolutions(layers, SEQUENCE)] == [expected]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("nn.init.zeros_(module.bias)", True),
        ("if isinstance(module, nn.Conv2d):\n    module.bias.data.zero_()", True),
        ("if isinstance(module, nn.Conv2d) and module.bias is not None:\n    module.bias.data.zero_()", False),
        ("if isinstance(module, (nn.BatchNorm2d, nn.Linear)):\n    module.bias.data.zero_()", False),
        ("if name.find('Conv') != -1:\n    nn.init.zeros_(module.bias)", True),
        ("if name.find('BatchNorm') != -1:\n    nn.init.zeros_(module.bias)", False),
        ("nn.init.kaiming_normal_(module.weight)", False),
    ],
)
def test_it_is_known_whether_code_needs_a_bias(start: str, expected: bool) -> None:
    after = "def start(module):\n" + textwrap.indent(start, " " * 4) + "\n"
    (convolution,) = convolutions(PAIR, "return self.norm(self.conv(x))", after)
    assert convolution.bias_needed is expected
