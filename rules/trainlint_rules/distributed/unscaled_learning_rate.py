from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, RelatedSite, Severity
from trainlint.lint.rule import Rule, invalid, valid
from trainlint.semantics.library import OPTIMIZERS
from trainlint.semantics.project import Arguments, Entry, Loader, Project
from trainlint.semantics.values import UNKNOWN, Const, Host, Listing, Option, Table, Tuple, Value
from trainlint.semantics.vocabulary import Confidence


class UnscaledLearningRate(Rule):
    """The batch grows with the number of GPUs, and the learning rate stays as it is.

    ## What it does
    Reports optimizers that are made with a fixed learning rate in scripts whose training loader takes a batch size that
    is multiplied by the number of processes or GPUs.

    ## Why it is slow
    A batch of eight times as many samples gives eight times fewer updates an epoch. With the learning rate of the small
    batch each of them is as short as before, so that training needs up to eight times the epochs, and what the other
    GPUs add in speed is lost again. By the linear scaling rule the learning rate grows with the batch.

    ## When it is fine
    A learning rate that was chosen for the largest number of GPUs; optimizers and batches for which another rule holds,
    such as the square root with Adam.

    ## Example
    ```python
    batch_size = args.batch_size * torch.cuda.device_count()
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ```

    ## Use instead
    ```python
    gpus = torch.cuda.device_count()
    loader = DataLoader(dataset, batch_size=args.batch_size * gpus, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * gpus)
    ```
    with a warm-up over the first epochs.

    ## Fix safety
    Advice without an edit: which learning rate trains best is for a trial to tell.

    ## How the probe confirms it
    It does not: the probe measures the time of steps, not how far each of them gets.

    ## References
    - The learning rate scales with the global batch, the linear scaling rule (article 003).
    - Lightning, "How should I adjust the learning rate when using multiple devices?":
      https://lightning.ai/docs/pytorch/latest/accelerators/gpu_faq.html
    """

    code, name, family = "TL315", "unscaled-learning-rate", Family.DISTRIBUTED
    severity = Severity.INFO
    fix_class = Applicability.DISPLAY
    default = False
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            gpus = torch.cuda.device_count()
            loader = DataLoader(torch.load("images.pt"), batch_size=256 * gpus, shuffle=True)
            model = nn.DataParallel(nn.Linear(32, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)  # expect: TL315
            for epoch in range(90):
                for images in loader:
                    loss = model(images.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="256 samples for each GPU, and one learning rate",
        ),
        invalid(
            """
            import argparse

            import torch
            from torch import nn
            from torch.optim.lr_scheduler import StepLR
            from torch.utils.data import DataLoader


            def main():
                parser = argparse.ArgumentParser()
                parser.add_argument("--per_gpu_batch_size", type=int, default=8)
                parser.add_argument("--learning_rate", type=float, default=5e-5)
                args = parser.parse_args()
                args.n_gpu = torch.cuda.device_count()
                args.train_batch_size = args.per_gpu_batch_size * max(1, args.n_gpu)
                loader = DataLoader(torch.load("tokens.pt"), batch_size=args.train_batch_size, shuffle=True)
                model = nn.DataParallel(nn.Linear(32, 10)).cuda()
                optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)  # expect: TL315
                schedule = StepLR(optimizer, step_size=30)
                for epoch in range(90):
                    for tokens in loader:
                        loss = model(tokens.cuda()).square().mean()
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                    schedule.step()


            main()
            """,
            because="options of the command line; the schedule starts from the learning rate that it is given",
        ),
        invalid(
            """
            import torch
            import torch.distributed as dist
            from torch import nn

            from data import make_loader

            dist.init_process_group("nccl")
            world_size = dist.get_world_size() if dist.is_initialized() else 1
            loader = make_loader(32, world_size)
            model = nn.parallel.DistributedDataParallel(nn.Linear(32, 10).cuda())
            optimizer = torch.optim.SGD(model.parameters(), 0.1)  # expect: TL315
            for images in loader:
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the loader in another file, the number of processes as a parameter",
            others={
                "data.py": """
                import torch
                from torch.utils.data import DataLoader


                def make_loader(per_rank, ranks):
                    batch_size = per_rank
                    batch_size *= ranks
                    return DataLoader(torch.load("images.pt"), batch_size=int(batch_size), shuffle=True)
                """
            },
        ),
        invalid(
            """
            import os

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            BATCH = 64
            LEARNING_RATE = 0.01
            world_size = int(os.environ.get("WORLD_SIZE", 1))
            torch.distributed.init_process_group("nccl")
            global_batch = BATCH * world_size
            loader = DataLoader(torch.load("images.pt"), batch_size=global_batch)
            model = nn.parallel.DistributedDataParallel(nn.Linear(32, 10).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)  # expect: TL315
            for images in loader:
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the number of processes from the launcher",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            gpus = torch.cuda.device_count()
            loader = DataLoader(torch.load("images.pt"), batch_size=256 * gpus, shuffle=True)
            model = nn.DataParallel(nn.Linear(32, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * gpus, momentum=0.9)
            for images in loader:
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="scaled by the linear rule",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            gpus = torch.cuda.device_count()
            lr = 0.1
            if gpus > 1:
                lr = lr * gpus**0.5
            loader = DataLoader(torch.load("images.pt"), batch_size=256 * gpus, shuffle=True)
            model = nn.DataParallel(nn.Linear(32, 10)).cuda()
            optimizer = torch.optim.Adam(model.parameters(), lr=lr)
            for images in loader:
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="scaled by the square root",
        ),
        valid(
            """
            import argparse

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.utils.data import DataLoader, DistributedSampler

            parser = argparse.ArgumentParser()
            parser.add_argument("--batch-size", type=int, default=256)
            parser.add_argument("--lr", type=float, default=0.1)
            args = parser.parse_args()
            dist.init_process_group("nccl")
            args.batch_size = int(args.batch_size / dist.get_world_size())
            dataset = torch.load("images.pt")
            loader = DataLoader(dataset, batch_size=args.batch_size, sampler=DistributedSampler(dataset))
            model = nn.parallel.DistributedDataParallel(nn.Linear(32, 10).cuda())
            optimizer = torch.optim.SGD(model.parameters(), args.lr)
            for images in loader:
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the batch of all ranks together stays the same",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            def adjust_learning_rate(optimizer, epoch, gpus):
                lr = 0.1 * gpus * 0.1 ** (epoch // 30)
                for group in optimizer.param_groups:
                    group["lr"] = lr


            gpus = torch.cuda.device_count()
            loader = DataLoader(torch.load("images.pt"), batch_size=256 * gpus, shuffle=True)
            model = nn.DataParallel(nn.Linear(32, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            for epoch in range(90):
                adjust_learning_rate(optimizer, epoch, gpus)
                for images in loader:
                    loss = model(images.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="a schedule of the script's own sets the learning rate",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.optim.lr_scheduler import LambdaLR
            from torch.utils.data import DataLoader

            gpus = torch.cuda.device_count()
            loader = DataLoader(torch.load("images.pt"), batch_size=256 * gpus, shuffle=True)
            model = nn.DataParallel(nn.Linear(32, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            schedule = LambdaLR(optimizer, lambda step: min(gpus, 1 + step / 1000))
            for images in loader:
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
            """,
            because="a warm-up to the scaled learning rate",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            gpus = torch.cuda.device_count()
            train_loader = DataLoader(torch.load("images.pt"), batch_size=256, shuffle=True)
            val_loader = DataLoader(torch.load("val.pt"), batch_size=256 * gpus)
            model = nn.DataParallel(nn.Linear(32, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            for epoch in range(90):
                for images in train_loader:
                    loss = model(images.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                with torch.no_grad():
                    for images in val_loader:
                        print(model(images.cuda()).mean().item())
            """,
            because="evaluation alone takes larger batches",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            gpus = torch.cuda.device_count()
            accumulate = 16 // gpus
            loader = DataLoader(torch.load("images.pt"), batch_size=16 * gpus, shuffle=True)
            model = nn.DataParallel(nn.Linear(32, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            for step, images in enumerate(loader):
                loss = model(images.cuda()).square().mean() / accumulate
                loss.backward()
                if (step + 1) % accumulate == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            because="fewer micro-batches are accumulated as each one grows",
        ),
        valid(
            """
            import torch
            from accelerate import Accelerator
            from torch import nn
            from torch.utils.data import DataLoader

            accelerator = Accelerator(split_batches=True)
            loader = DataLoader(torch.load("images.pt"), batch_size=32 * accelerator.num_processes, shuffle=True)
            model = nn.Linear(32, 10)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            for images in loader:
                loss = model(images).square().mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            """,
            because="Accelerate splits the batch among the processes",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        grown: dict[int, Loader] = {}
        for loader in project.loaders:
            if loader.trains and _grows(loader):
                grown.setdefault(id(loader.context.entry), loader)
        # micro-batches may get fewer as each of them grows
        shared = [loop.context.entry for loop in project.step_loops if loop.accumulates]
        balanced = {id(entry) for entry in shared if entry.divides_by_ranks}
        for optimizer in project.calls_of(*OPTIMIZERS):
            entry = optimizer.context.entry
            found = grown.get(id(entry))
            rate = _fixed_rate(optimizer.arguments)
            if found is not None and rate is not None and _decides(entry) and id(entry) not in balanced:
                yield self.finding(
                    optimizer,
                    f"the learning rate stays at {rate.text} while the batch grows with the number of GPUs",
                    help="Scale the learning rate with the batch, and warm it up over the first epochs",
                    confidence=Confidence.HIGH if rate.is_literal else Confidence.MEDIUM,
                    related=(RelatedSite(found.site, "the loader whose batch is multiplied by their number"),),
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, "Multiply the learning rate by the number of GPUs, and warm it up")


def _grows(loader: Loader) -> bool:
    size = loader.arguments.value("batch_size")
    return isinstance(size, Host) and size.ranks > 0


def _decides(entry: Entry) -> bool:
    """Whether what the optimizer is made with is the learning rate of the whole run."""
    return entry.on_its_own and entry.trains and not entry.resets_learning_rate


class _Rate(NamedTuple):
    """A learning rate that does not depend on the number of GPUs."""

    text: str
    is_literal: bool


def _fixed_rate(arguments: Arguments) -> _Rate | None:
    rate = arguments.value("lr")
    if any(group.get("lr") != UNKNOWN for group in _groups(arguments.value("params"))):
        return None
    if isinstance(rate, Const) and isinstance(rate.value, int | float):
        return _Rate(f"{rate.value:g}", is_literal=True)
    if isinstance(rate, Option) and isinstance(rate.default, int | float):
        return _Rate(f"the option `{rate.name}`", is_literal=False)
    return None


def _groups(parameters: Value | None) -> Iterator[Table]:
    """The parameter groups that an optimizer is given, as far as they are written out."""
    items = parameters.items if isinstance(parameters, Tuple) else ()
    listed = (parameters.item,) if isinstance(parameters, Listing) else ()
    return (item for item in (*items, *listed) if isinstance(item, Table))
