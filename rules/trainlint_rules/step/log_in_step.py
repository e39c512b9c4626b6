from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainlint.fixes.recipe import Applicability, Fix, SetArgument
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_calls
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Project, Report, ReportKind
from trainlint.semantics.vocabulary import Confidence, Framework
from trainlint_rules.step.interval_guard import INTERVAL, OwnIntervals, report_at_interval


class LogInStep(Rule):
    """An experiment tracker is called at every training step.

    ## What it does
    Reports calls of wandb, TensorBoard, MLflow, Comet, Neptune and `accelerator.log` per training step. Lightning's
    `self.log` writes to the tracker at an interval; it is reported where it asks for a value per step in the progress
    bar (`on_step=True, prog_bar=True`), which reads the value from the GPU each time that the bar is drawn.

    ## Why it is slow
    A tracker converts, serializes and queues each value in the training thread, some of them send a request per call,
    and a device value makes the host wait for the GPU first. Curves do not get better from a point per step.

    ## When it is fine
    Every N steps; trackers that are told to wait (`wandb.log(…, commit=False)`, `mlflow.log_metric(…,
    synchronous=False)`); Lightning's `self.log`, also with `on_step=True`, which writes every `log_every_n_steps`
    (50 by default). A test for gradient accumulation or a feature flag (`if args.use_wandb:`) does not thin out.

    ## Example
    ```python
    for step, batch in enumerate(loader):
        loss = train_step(batch)
        wandb.log({"loss": loss.item()})
    ```

    ## Use instead
    ```python
    for step, batch in enumerate(loader):
        loss = train_step(batch)
        if step % 50 == 0:
            wandb.log({"loss": loss.item()}, step=step)
    ```

    ## Fix safety
    Unsafe: fewer points are logged. The fix needs a name that counts the steps; without one it is advice only, and so
    it is under a test for gradient accumulation, with which a second test of the same counter might never agree. For
    Lightning it asks for the mean of the epoch instead of a value per step.

    ## How the probe confirms it
    By the time spent in the call.

    ## References
    - Log every N steps, on rank 0 only; experiment trackers not committed every step (article 000).
    - Weights & Biases, log objects and media: https://docs.wandb.ai/guides/track/log
    - Lightning, logging: https://lightning.ai/docs/pytorch/stable/extensions/logging.html
    """

    code, name, family = "TL203", "log-in-step", Family.STEP
    fix_class = Applicability.UNSAFE
    confirmed_by = "time in the call"
    examples = (
        invalid(
            """
            import torch
            import wandb
            from torch import nn
            from torch.utils.data import DataLoader

            wandb.init(project="regression")
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                wandb.log({"loss": loss.item()})  # expect: TL203
            """,
            because="a record per step",
            fixed="""
            import torch
            import wandb
            from torch import nn
            from torch.utils.data import DataLoader

            wandb.init(project="regression")
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 50 == 0:
                    wandb.log({"loss": loss.item()})
            """,
        ),
        invalid(
            """
            import argparse

            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torch.utils.tensorboard import SummaryWriter

            parser = argparse.ArgumentParser()
            parser.add_argument("--accum_iter", type=int, default=1)
            parser.add_argument("--log_dir")
            args = parser.parse_args()
            writer = SummaryWriter(args.log_dir) if args.log_dir else None
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for data_iter_step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                (loss / args.accum_iter).backward()
                if (data_iter_step + 1) % args.accum_iter == 0:
                    optimizer.step()
                    optimizer.zero_grad()
                if writer is not None and (data_iter_step + 1) % args.accum_iter == 0:
                    writer.add_scalar("train_loss", loss, data_iter_step)  # expect: TL203
            """,
            because="the guard is gradient accumulation, which is 1 by default",
        ),
        invalid(
            """
            import lightning as L
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Regression(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.model = nn.Linear(32, 1)

                def training_step(self, batch, batch_idx):
                    loss = self.model(batch).square().mean()
                    self.log("train_loss", loss, on_step=True, prog_bar=True)  # expect: TL203
                    return loss

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(accelerator="gpu", max_epochs=3)
            trainer.fit(Regression(), DataLoader(torch.load("inputs.pt"), batch_size=64))
            """,
            because="a value per step in Lightning's progress bar is read at each step",
            fixed="""
            import lightning as L
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Regression(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.model = nn.Linear(32, 1)

                def training_step(self, batch, batch_idx):
                    loss = self.model(batch).square().mean()
                    self.log("train_loss", loss, on_step=False, prog_bar=True, on_epoch=True)
                    return loss

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(accelerator="gpu", max_epochs=3)
            trainer.fit(Regression(), DataLoader(torch.load("inputs.pt"), batch_size=64))
            """,
        ),
        invalid(
            """
            import torch
            from accelerate import Accelerator
            from torch import nn
            from torch.utils.data import DataLoader

            accelerator = Accelerator(log_with="wandb")
            accelerator.init_trackers("regression")
            model = nn.Linear(32, 1)
            optimizer = torch.optim.AdamW(model.parameters())
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            completed = 0
            for inputs in loader:
                with accelerator.accumulate(model):
                    loss = model(inputs).square().mean()
                    accelerator.backward(loss)
                    optimizer.step()
                    optimizer.zero_grad()
                completed += 1
                accelerator.log({"loss": loss.detach()}, step=completed)  # expect: TL203
            """,
            because="the framework passes every call on to the tracker",
            fixed="""
            import torch
            from accelerate import Accelerator
            from torch import nn
            from torch.utils.data import DataLoader

            accelerator = Accelerator(log_with="wandb")
            accelerator.init_trackers("regression")
            model = nn.Linear(32, 1)
            optimizer = torch.optim.AdamW(model.parameters())
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            completed = 0
            for inputs in loader:
                with accelerator.accumulate(model):
                    loss = model(inputs).square().mean()
                    accelerator.backward(loss)
                    optimizer.step()
                    optimizer.zero_grad()
                completed += 1
                if completed % 50 == 0:
                    accelerator.log({"loss": loss.detach()}, step=completed)
            """,
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torch.utils.tensorboard import SummaryWriter

            writer = SummaryWriter()
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            log_step = 1
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % log_step == 0:
                    writer.add_scalar("loss", loss.item(), step)
            """,
            because="a logging interval, even one that is 1",
        ),
        valid(
            """
            import torch
            import wandb
            from torch import nn
            from torch.utils.data import DataLoader

            wandb.init(project="regression")
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(10):
                total = torch.zeros((), device="cuda")
                for inputs in loader:
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    total += loss.detach()
                wandb.log({"loss": total.item() / len(loader), "epoch": epoch})
            """,
            because="once per epoch",
        ),
        valid(
            """
            import torch
            import wandb
            from torch import nn
            from torch.utils.data import DataLoader

            wandb.init(project="regression")
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                wandb.log({"samples": (step + 1) * 64}, commit=False)
            """,
            because="told not to commit: the values wait for a later call",
        ),
        valid(
            """
            import lightning as L
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Regression(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.model = nn.Linear(32, 1)

                def training_step(self, batch, batch_idx):
                    loss = self.model(batch).square().mean()
                    self.log("train_loss", loss)
                    self.log("train_loss_of_both", loss, on_step=True, on_epoch=True)
                    return loss

                def validation_step(self, batch, batch_idx):
                    self.log("val_loss", self.model(batch).square().mean(), on_step=True)

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(accelerator="gpu", max_epochs=3)
            trainer.fit(Regression(), DataLoader(torch.load("inputs.pt"), batch_size=64))
            """,
            because="Lightning writes every log_every_n_steps by itself, on_step=True or not; validation is evaluation",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        intervals = OwnIntervals(project)
        for report in project.reports:
            on_the_hot_path = report.context.hot and report.context.routine
            if report.kind is not ReportKind.TRACKER or not on_the_hot_path or report.batched:
                continue
            how_often = report.context.frequency.phrase
            if not _goes_through_lightning(report):
                found = self.finding(
                    report,
                    f"{quote(report.text)} calls the experiment tracker {how_often}",
                    help=f"Log every {INTERVAL} steps or so",
                )
                yield replace(found, fix=report_at_interval(report, "Log", intervals.test_for(report)))
            elif report.arguments.constant("prog_bar") is True:
                yield self.finding(
                    report,
                    f"{quote(report.text)} shows a value in the progress bar {how_often}",
                    help="Show the mean of the epoch, or leave the value to the tracker",
                    confidence=Confidence.MEDIUM,
                )

    def fix(self, finding: Finding) -> Fix | None:
        report = finding.subject
        if not isinstance(report, Report):
            return None
        if _goes_through_lightning(report):
            per_epoch = (
                SetArgument(report.site, "on_step", "False"),
                SetArgument(report.site, "on_epoch", "True"),
            )
            return Fix(Applicability.UNSAFE, "Log the mean of each epoch", per_epoch)
        return finding.fix  # `check` makes it, since it knows the intervals of the project

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_calls(evidence, finding.site)


def _goes_through_lightning(report: Report) -> bool:
    """Whether Lightning writes it, at an interval of its own."""
    through_module = report.name.endswith(("LightningModule.log", "LightningModule.log_dict"))
    return through_module and report.context.entry.framework is Framework.LIGHTNING
