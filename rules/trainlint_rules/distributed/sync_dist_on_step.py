from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_stacks
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Project, Report
from trainlint.semantics.values import Table, Tensor, Value
from trainlint.semantics.vocabulary import Confidence, GuardKind, Known

LOG, LOG_DICT = "pytorch_lightning.LightningModule.log", "pytorch_lightning.LightningModule.log_dict"


class SyncDistOnStep(Rule):
    """Lightning's `self.log(…, sync_dist=True)` reduces a value over all ranks at every training step.

    ## What it does
    Reports `self.log` and `self.log_dict` with `sync_dist=True` in hooks that run at each training step, where the
    value is logged per step: by `on_step=True`, or because `on_step` is left out, which means True there.

    ## Why it is slow
    Each such call runs an all-reduce of one number, between the forward and the backward pass, and the ranks wait for
    each other before the gradients would make them. It does so at every step, though the logger is given a value only
    every `log_every_n_steps` steps (50 by default).

    ## When it is fine
    `on_step=False, on_epoch=True`, which is reduced once, at the end of the epoch, and the default in
    `validation_step`; one device; metrics of torchmetrics, which are synchronized by themselves when they are computed.

    ## Example
    ```python
    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("train_loss", loss, sync_dist=True)
        return loss
    ```

    ## Use instead
    ```python
    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("train_loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss
    ```
    or leave `sync_dist` out: the first rank's own loss is as good a curve.

    ## Fix safety
    Advice without an edit: the logged name, the number of points or their values change.

    ## How the probe confirms it
    By the stack samples under this line: the time in which the training thread runs or waits for the reduction.

    ## References
    - A collective at each step shows as communication; above 15 to 20 % of the step it is the bottleneck (articles 001
      and 003).
    - Lightning, logging, "sync_dist: reduces the metric across devices. Use with care as this may lead to a significant
      communication overhead": https://lightning.ai/docs/pytorch/stable/extensions/logging.html
    """

    code, name, family = "TL314", "sync-dist-on-step", Family.DISTRIBUTED
    fix_class = Applicability.DISPLAY
    confirmed_by = "stack samples under this line"
    examples = (
        invalid(
            """
            import torch
            from pytorch_lightning import LightningModule, Trainer
            from torch import nn
            from torch.utils.data import DataLoader


            class Net(LightningModule):
                def __init__(self):
                    super().__init__()
                    self.head = nn.Linear(8, 1)

                def training_step(self, batch, batch_idx):
                    loss = self.head(batch).square().mean()
                    self.log("loss", loss, on_step=True, on_epoch=True, sync_dist=True)  # expect: TL314
                    return loss

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            Trainer(devices=8, strategy="ddp").fit(Net(), DataLoader(torch.randn(64, 8), batch_size=8))
            """,
            because="asks for a value per step, reduced over eight processes",
        ),
        invalid(
            """
            import lightning as L
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Net(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.head = nn.Linear(8, 1)

                def training_step(self, batch, batch_idx):
                    loss = self.head(batch).square().mean()
                    self.log("loss", loss, prog_bar=True, sync_dist=True)  # expect: TL314
                    return loss

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            L.Trainer(accelerator="gpu", devices=4).fit(Net(), DataLoader(torch.randn(64, 8), batch_size=8))
            """,
            because="on_step is True in training_step unless it is set",
        ),
        invalid(
            """
            import torch
            from pytorch_lightning import LightningModule
            from torch import nn


            class Net(LightningModule):
                def __init__(self):
                    super().__init__()
                    self.encoder, self.head = nn.Linear(8, 8), nn.Linear(8, 1)

                def training_step(self, batch, batch_idx):
                    hidden = self.encoder(batch)
                    loss, penalty = self.head(hidden).square().mean(), hidden.abs().mean()
                    self.log_dict({"loss": loss, "penalty": penalty}, sync_dist=True)  # expect: TL314
                    return loss + 0.1 * penalty

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)
            """,
            because="several values at once, each with a reduction of its own; the Trainer is in another file",
            entry="net.py",
            others={
                "train.py": """
                import torch
                from pytorch_lightning import Trainer
                from torch.utils.data import DataLoader

                from net import Net

                Trainer(devices=-1, strategy="ddp_find_unused_parameters_false").fit(
                    Net(), DataLoader(torch.randn(64, 8), batch_size=8)
                )
                """
            },
        ),
        invalid(
            """
            import torch
            from pytorch_lightning import LightningModule
            from torch import nn


            class Net(LightningModule):
                def __init__(self):
                    super().__init__()
                    self.head = nn.Linear(8, 1)

                def report(self, name, value):
                    self.log(f"{name}/loss", value, sync_dist=True, on_step=True)  # expect: TL314

                def training_step(self, batch, batch_idx):
                    loss = self.head(batch).square().mean()
                    self.report("train", loss)
                    return loss
            """,
            because="through a method of the module; no Trainer is in sight",
        ),
        valid(
            """
            import torch
            from pytorch_lightning import LightningModule, Trainer
            from torch import nn
            from torch.utils.data import DataLoader


            class Net(LightningModule):
                def __init__(self):
                    super().__init__()
                    self.head = nn.Linear(8, 1)

                def training_step(self, batch, batch_idx):
                    loss = self.head(batch).square().mean()
                    self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
                    return loss

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            Trainer(devices=8, strategy="ddp").fit(Net(), DataLoader(torch.randn(64, 8), batch_size=8))
            """,
            because="reduced once per epoch",
        ),
        valid(
            """
            import torch
            from pytorch_lightning import LightningModule, Trainer
            from torch import nn
            from torch.utils.data import DataLoader


            class Net(LightningModule):
                def __init__(self):
                    super().__init__()
                    self.head = nn.Linear(8, 1)

                def training_step(self, batch, batch_idx):
                    loss = self.head(batch).square().mean()
                    self.log("loss", loss, on_step=True)
                    return loss

                def validation_step(self, batch, batch_idx):
                    self.log("val_loss", self.head(batch).square().mean(), sync_dist=True)

                def on_train_epoch_end(self):
                    self.log("norm", self.head.weight.norm(), sync_dist=True)

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            loader = DataLoader(torch.randn(64, 8), batch_size=8)
            Trainer(devices=8, strategy="ddp").fit(Net(), loader, loader)
            """,
            because="validation is reduced at its end, and so is an epoch",
        ),
        valid(
            """
            import torch
            from pytorch_lightning import LightningModule, Trainer
            from torch import nn
            from torch.utils.data import DataLoader


            class Net(LightningModule):
                def __init__(self):
                    super().__init__()
                    self.head = nn.Linear(8, 1)

                def training_step(self, batch, batch_idx):
                    loss = self.head(batch).square().mean()
                    self.log("loss", loss, on_step=True, sync_dist=True)
                    return loss

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            Trainer(accelerator="gpu", devices=1).fit(Net(), DataLoader(torch.randn(64, 8), batch_size=8))
            """,
            because="a single device has nobody to reduce with",
        ),
        valid(
            """
            import torch
            import torchmetrics
            from pytorch_lightning import LightningModule, Trainer
            from torch import nn
            from torch.utils.data import DataLoader


            class Net(LightningModule):
                def __init__(self):
                    super().__init__()
                    self.head = nn.Linear(8, 4)
                    self.accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=4)

                def training_step(self, batch, batch_idx):
                    inputs, labels = batch
                    outputs = self.head(inputs)
                    self.accuracy(outputs, labels)
                    self.log("accuracy", self.accuracy, on_step=True, sync_dist=True)
                    return nn.functional.cross_entropy(outputs, labels)

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            Trainer(devices=8, strategy="ddp").fit(Net(), DataLoader(torch.load("pairs.pt"), batch_size=8))
            """,
            because="a metric of torchmetrics, for which sync_dist says nothing",
        ),
        valid(
            """
            import torch
            from pytorch_lightning import LightningModule, Trainer
            from torch import nn
            from torch.utils.data import DataLoader


            class Net(LightningModule):
                def __init__(self, distributed):
                    super().__init__()
                    self.distributed = distributed
                    self.head = nn.Linear(8, 1)

                def training_step(self, batch, batch_idx):
                    loss = self.head(batch).square().mean()
                    self.log("loss", loss, sync_dist=self.distributed)
                    if batch_idx % 100 == 0:
                        self.log("norm", self.head.weight.norm(), sync_dist=True)
                    return loss

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            def main(args):
                trainer = Trainer(devices=8, strategy="ddp")
                trainer.fit(Net(args.distributed), DataLoader(torch.randn(64, 8), batch_size=8))
            """,
            because="whoever starts the job decides on the one, the other is reduced every 100 steps",
        ),
        valid(
            """
            import torch
            from lightning import Fabric
            from torch import nn

            fabric = Fabric(devices=8, strategy="ddp")
            fabric.launch()
            model = nn.Linear(8, 1)
            model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
            for step, inputs in enumerate(torch.randn(64, 8, 8)):
                loss = model(fabric.to_device(inputs)).square().mean()
                fabric.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                fabric.log("loss", loss, step=step)
            """,
            because="Fabric logs what it is given",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for report in project.reports:
            if report.context.hot and _reduces_per_step(report) and _of_tensors(report):
                several = report.context.entry.distributed
                if several is not Known.NO:
                    yield self.finding(
                        report,
                        f"{quote(report.text)} runs an all-reduce over all ranks {report.context.phrase}",
                        help="Log it per epoch (on_step=False, on_epoch=True), or leave sync_dist out",
                        confidence=Confidence.HIGH if several is Known.YES else Confidence.MEDIUM,
                    )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, "Pass on_step=False, on_epoch=True, so that it is reduced once per epoch")

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_stacks(evidence, finding.site)


def _reduces_per_step(report: Report) -> bool:
    arguments = report.arguments
    per_step = arguments.constant("on_step") is True or arguments.absent("on_step")
    guarded = report.context.under(GuardKind.RANK, GuardKind.OTHER_RANKS, GuardKind.NOT_DISTRIBUTED)
    return report.name in (LOG, LOG_DICT) and per_step and arguments.constant("sync_dist") is True and not guarded


def _of_tensors(report: Report) -> bool:
    """Whether what is logged surely is no metric, which would know when to synchronize."""
    position, name = (1, "value") if report.name == LOG else (0, "dictionary")
    positional = report.arguments.positional
    value = positional[position] if len(positional) > position else report.arguments.value(name)
    return _holds_tensor(value)


def _holds_tensor(value: Value | None) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, Table) and any(_holds_tensor(one) for _, one in value.items))
