"""What findings say fits the code that they are about."""

from __future__ import annotations

import pytest

from trainlint.fixes.recipe import Applicability
from trainlint.lint.analyze import analyze
from trainlint.lint.finding import Finding
from trainlint.lint.registry import load_registry

TRAIN = """\
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter
from torchvision import datasets, transforms

writer = SummaryWriter()
images = datasets.CIFAR10("data", transform=transforms.ToTensor())
loader = DataLoader(images, batch_size=64)
model = nn.Linear(32, 1).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step, (inputs, labels) in enumerate(loader):
    inputs, labels = inputs.cuda(), labels.cuda()
    loss = model(inputs).square().mean()
    loss.backward()
    optimizer.step()
    {statement}
"""
MODULE = """\
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class Regression(L.LightningModule):
    def training_step(self, batch, batch_idx):
        loss = self.model(batch).square().mean()
        {statement}
        return loss


trainer = L.Trainer(accelerator="gpu")
trainer.fit(Regression(), DataLoader(datasets.CIFAR10("data", transform=transforms.ToTensor()), batch_size=64))
"""


def found(code: str, program: str, statement: str = "pass") -> list[Finding]:
    rule = load_registry().rules[code]()
    return list(rule.check(analyze({"train.py": program.replace("{statement}", statement)})))


def test_a_tracker_copies_a_tensor_and_a_print_formats_it() -> None:
    (tracked,) = found("TL201", TRAIN, 'writer.add_scalar("loss", loss, step)')
    (printed,) = found("TL201", TRAIN, "print(loss)")
    assert "copies a GPU tensor to the host" in tracked.message
    assert "formats a GPU tensor" in printed.message


def test_lightning_is_to_be_given_the_tensor() -> None:
    (read,) = found("TL201", MODULE, 'self.log("loss", loss.item())')
    assert "the tensor" in read.help
    assert read.fix is not None
    assert read.fix.applicability is Applicability.DISPLAY
    assert "the tensor" in read.fix.message


@pytest.mark.parametrize("statement", ["losses.append(loss.item())", "total += loss.item()"])
def test_the_fix_speaks_of_no_total_where_there_may_be_none(statement: str) -> None:
    (read,) = found("TL201", TRAIN, statement)
    fix = load_registry().rules["TL201"]().fix(read)
    assert fix is not None
    assert "total" not in fix.message


def test_a_place_is_named_once_however_often_it_is_meant() -> None:
    (loader,) = found("TL104", TRAIN)
    assert [related.site.row for related in loader.related] == [14]


def test_a_finding_does_not_refer_to_its_own_row() -> None:
    (loader,) = found("TL103", MODULE)
    assert loader.related == ()


INITIALIZED = {"a process group is started": ("dist.init_process_group()", "high"), "nothing tells": ("pass", "medium")}


@pytest.mark.parametrize(("start", "confidence"), INITIALIZED.values(), ids=INITIALIZED.keys())
def test_a_barrier_is_sure_to_join_ranks_where_there_are_several(start: str, confidence: str) -> None:
    program = f"""
import torch
import torch.distributed as dist
from accelerate import Accelerator

{start}
accelerator = Accelerator()
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
for batch in torch.utils.data.DataLoader(torch.randn(64, 8)):
    accelerator.backward(model(batch).mean())
    optimizer.step()
    accelerator.wait_for_everyone()
"""
    (finding,) = found("TL214", program)
    assert finding.confidence.name.lower() == confidence
