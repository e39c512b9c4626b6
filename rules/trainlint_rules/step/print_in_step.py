from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_calls
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Project, ReportKind
from trainlint_rules.step.interval_guard import INTERVAL, OwnIntervals, report_at_interval


class PrintInStep(Rule):
    """A line is printed or logged at every training step.

    ## What it does
    Reports `print`, `tqdm.write`, writes to the standard streams and logging calls per training step, in the loop or in
    what it calls.

    ## Why it is slow
    Formatting and writing take host time in which no kernel is launched, and a terminal, a network file system or a
    log collector can hold the write up. A device value in the line adds a wait for the GPU. At thousands of steps an
    hour nobody reads the lines.

    ## When it is fine
    Every N steps, on one rank or not; in an error path that ends the run; under a debug flag; `logger.debug`, which is
    filtered out by default; progress bars, which limit how often they draw.

    ## Example
    ```python
    for step, batch in enumerate(loader):
        loss = train_step(batch)
        print(f"step {step}: loss {loss.item():.4f}")
    ```

    ## Use instead
    ```python
    for step, batch in enumerate(loader):
        loss = train_step(batch)
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    ```

    ## Fix safety
    Unsafe: fewer lines are printed. The fix needs a name that counts the steps; without one it is advice only, and so
    it is under a test for gradient accumulation, with which a second test of the same counter might never agree.

    ## How the probe confirms it
    By the time spent in the call.

    ## References
    - Print and log every N steps, on rank 0 only (article 000).
    - Many short stalls in the step come from print, .item(), logging (article 000).
    - PyTorch, avoid unnecessary CPU-GPU synchronization, `print(cuda_tensor)` among them:
      https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
    """

    code, name, family = "TL202", "print-in-step", Family.STEP
    fix_class = Applicability.UNSAFE
    confirmed_by = "time in the call"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(f"step {step}: loss {loss.item():.4f}")  # expect: TL202
            """,
            because="one line per step",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 50 == 0:
                    print(f"step {step}: loss {loss.item():.4f}")
            """,
        ),
        invalid(
            """
            import logging

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            logger = logging.getLogger(__name__)


            class Trainer:
                def __init__(self, model):
                    self.model = model
                    self.optimizer = torch.optim.AdamW(model.parameters())

                def step(self, inputs):
                    loss = self.model(inputs.cuda()).square().mean()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    logger.info("trained on %d samples", len(inputs))  # expect: TL202


            trainer = Trainer(nn.Linear(32, 1).cuda())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                trainer.step(inputs)
            """,
            because="a logger, in a method that the loop calls; nothing there counts the steps",
        ),
        invalid(
            """
            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.utils.data import DataLoader

            dist.init_process_group("nccl")
            rank = dist.get_rank()
            accumulate = 4
            model = nn.parallel.DistributedDataParallel(nn.Linear(32, 1).cuda(rank), device_ids=[rank])
            optimizer = torch.optim.AdamW(model.parameters())
            for i, inputs in enumerate(DataLoader(torch.load("inputs.pt"), batch_size=64)):
                loss = model(inputs.cuda(rank)).square().mean() / accumulate
                loss.backward()
                if (i + 1) % accumulate == 0:
                    optimizer.step()
                    optimizer.zero_grad()
                    if rank == 0:
                        print("updated at", i)  # expect: TL202
            """,
            because="neither a rank guard nor gradient accumulation thins out",
        ),
        invalid(
            """
            import argparse

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            parser = argparse.ArgumentParser()
            parser.add_argument("--log_every", type=int, default=10)
            args = parser.parse_args()
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(step, loss.item())  # expect: TL202
                if (step + 1) % args.log_every == 0:
                    print("rate", optimizer.param_groups[0]["lr"])
            """,
            because="the script has an interval, which this line does not keep",
            fixed="""
            import argparse

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            parser = argparse.ArgumentParser()
            parser.add_argument("--log_every", type=int, default=10)
            args = parser.parse_args()
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if (step + 1) % args.log_every == 0:
                    print(step, loss.item())
                    print("rate", optimizer.param_groups[0]["lr"])
            """,
        ),
        valid(
            """
            import logging

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            logger = logging.getLogger(__name__)
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                if inputs.size(0) < 64:
                    logger.warning("a batch of %d samples only", inputs.size(0))
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                if torch.isfinite(norm):
                    optimizer.step()
                else:
                    print("gradients are not finite, step skipped")
            """,
            because="a warning under a condition, and what is said of values that are not finite, tell of rare steps",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if (step + 1) % 100 == 0:
                    print(f"step {step}: loss {loss.item():.4f}")
            """,
            because="every hundred steps",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            print("parameters:", sum(p.numel() for p in model.parameters()))
            for epoch in range(10):
                print("epoch", epoch)
                for inputs in loader:
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                print("loss", loss.item())
            """,
            because="at start-up and once per epoch",
        ),
        valid(
            """
            import math
            import sys

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                if not math.isfinite(loss.item()):
                    print("the loss is not finite, stopping")
                    sys.exit(1)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the branch ends the run",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from tqdm import tqdm

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in tqdm(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a progress bar limits how often it draws",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            test_loader = DataLoader(torch.load("test.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda().eval()
            with torch.no_grad():
                for i, inputs in enumerate(test_loader):
                    print(i, model(inputs.cuda()).mean().item())
            """,
            because="evaluation",
        ),
        valid(
            """
            import logging

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            logger = logging.getLogger(__name__)
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                logger.debug("step %d", step)
            """,
            because="debug lines are filtered out unless someone asks for them",
        ),
        valid(
            """
            import logging

            import torch
            from torch import nn

            logger = logging.getLogger(__name__)


            class Detector(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.head = nn.Linear(8, 1)

                def forward(self, inputs, augment=False):
                    if augment:
                        return self.augmented(inputs)
                    return self.head(inputs)

                def augmented(self, inputs):
                    logger.warning("this model does not support augmented prediction")
                    return self.head(inputs)


            def train(optimizer, loader, augment):
                model = Detector().cuda()
                for inputs in loader:
                    loss = model(inputs.cuda(), augment).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="a warning behind a switch: it tells of what is out of the ordinary",
        ),
        valid(
            """
            import logging

            import torch
            from transformers import TrainerCallback

            logger = logging.getLogger(__name__)


            class Averaging(TrainerCallback):
                def __init__(self, average, update_freq=400, update_after=100):
                    self.average, self.update_freq, self.update_after = average, update_freq, update_after

                @torch.no_grad()
                def on_step_end(self, args, state, control, model, **kwargs):
                    step = state.global_step
                    if step < self.update_after:
                        return
                    if (step - self.update_after) % self.update_freq == 0:
                        self.average.update_parameters(model)
                        logger.info(f"updated the average at step {step}")
            """,
            because="an average of the weights that is updated every so many steps",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        intervals = OwnIntervals(project)
        for report in project.reports:
            on_the_hot_path = report.context.hot and report.context.routine and not report.warns
            if report.kind is not ReportKind.TRACKER and on_the_hot_path and not report.dropped:
                found = self.finding(
                    report,
                    f"{quote(report.text)} writes a line {report.context.frequency.phrase}",
                    help=f"Report every {INTERVAL} steps or so",
                )
                yield replace(found, fix=report_at_interval(report, "Report", intervals.test_for(report)))

    def fix(self, finding: Finding) -> Fix | None:
        return finding.fix  # `check` makes it, since it knows the intervals of the project

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_calls(evidence, finding.site)
