from __future__ import annotations

import re
from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.semantics.project import Call, Context, Guard, Project, Report
from trainlint.semantics.vocabulary import Confidence, GuardKind

SIDES = (GuardKind.RANK, GuardKind.OTHER_RANKS)
LIGHTNING_LOGS = ("pytorch_lightning.LightningModule.log", "pytorch_lightning.LightningModule.log_dict")

FEATURE = re.compile(r"fsdp|deepspeed|zero_?[123]\b", re.IGNORECASE)
"""A way to train that a program has among others: code under its test belongs to some of its runs only."""


class RankGuardedCollective(Rule):
    """A collective that only some ranks reach makes the others, or them, wait for ever.

    ## What it does
    Reports collectives of the default process group (barrier, all_reduce, gather, broadcast, …), `new_group`, those of
    Accelerate and Fabric, and Lightning's `log(…, sync_dist=True)`, under a condition that holds on one rank only, or
    on all but one, while the ranks on the other side run no such collective.

    ## Why it is slow
    A collective returns once every rank of its group has called it. The ranks that do call it hang until the timeout,
    10 minutes for NCCL and 30 minutes for gloo by default, and the job dies; or it is matched with a later collective
    of the other ranks, and both return wrong values.

    ## When it is fine
    Both sides of the condition call it, as in "the first rank downloads, the others wait"; a `group=` that holds just
    these ranks; ranks of a part of the processes, such as tensor parallel ones. The finding has low confidence where a
    switch stands inside the condition on the rank, since it may be off there.

    ## Example
    ```python
    if dist.get_rank() == 0:
        dist.all_reduce(loss)
        print(loss.item())
    ```

    ## Use instead
    ```python
    dist.all_reduce(loss)
    if dist.get_rank() == 0:
        print(loss.item())
    ```

    ## Fix safety
    Advice without an edit: whether the collective moves out of the condition, or the other ranks get one of their own,
    depends on what it is for.

    ## How the probe confirms it
    It does not: where ranks hang, no step comes to its end that could be measured.

    ## References
    - The start and the end of an evaluation on one rank are where ranks wait for each other (article 000).
    - PyTorch, torch.distributed: a collective is called by all processes of its group, `new_group` by all of the main
      group; init_process_group's `timeout`: https://docs.pytorch.org/docs/stable/distributed.html
    """

    code, name, family = "TL309", "rank-guarded-collective", Family.DISTRIBUTED
    severity = Severity.ERROR
    fix_class = Applicability.DISPLAY
    examples = (
        invalid(
            """
            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            dist.init_process_group("nccl")
            rank = dist.get_rank()
            torch.cuda.set_device(rank)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, inputs in enumerate(torch.randn(64, 8, 8)):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 10 == 0 and rank == 0:
                    total = loss.detach().clone()
                    dist.all_reduce(total)  # expect: TL309
                    print(total.item() / dist.get_world_size())
            """,
            because="the mean over all ranks, asked for by one of them",
        ),
        invalid(
            """
            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel


            def save(model, path):
                if dist.get_rank() != 0:
                    return
                torch.save(model.module.state_dict(), path)
                dist.barrier()  # expect: TL309


            dist.init_process_group("nccl")
            torch.cuda.set_device(dist.get_rank())
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(3):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                save(model, f"{epoch}.pt")
            """,
            because="the other ranks have returned before",
        ),
        invalid(
            """
            import torch
            import torch.distributed as dist


            def mean_over_ranks(value):
                total = torch.tensor(value, device="cuda")
                dist.all_reduce(total)  # expect: TL309
                return total.item() / dist.get_world_size()
            """,
            because="the condition stands in another file, around the evaluation that calls it",
            entry="metrics.py",
            others={
                "train.py": """
                import torch
                import torch.distributed as dist
                from torch import nn
                from torch.nn.parallel import DistributedDataParallel

                from metrics import mean_over_ranks


                def is_main_process():
                    return dist.get_rank() == 0


                def evaluate(model):
                    with torch.no_grad():
                        losses = [model(inputs.cuda()).mean().item() for inputs in torch.randn(8, 8, 8)]
                    return mean_over_ranks(sum(losses))


                dist.init_process_group("nccl")
                torch.cuda.set_device(dist.get_rank())
                model = DistributedDataParallel(nn.Linear(8, 1).cuda())
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for epoch in range(3):
                    for inputs in torch.randn(64, 8, 8):
                        loss = model(inputs.cuda()).mean()
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                    if is_main_process():
                        print(evaluate(model))
                """
            },
        ),
        invalid(
            """
            import torch
            from accelerate import Accelerator
            from torch import nn

            accelerator = Accelerator()
            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model, optimizer = accelerator.prepare(model, optimizer)
            for step, inputs in enumerate(torch.randn(64, 8, 8)):
                loss = model(inputs.to(accelerator.device)).mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                if step % 50 == 0 and accelerator.is_main_process:
                    print(accelerator.gather(loss.detach()).mean())  # expect: TL309
            """,
            because="Accelerate's gather, on the main process only",
        ),
        invalid(
            """
            import torch
            from pytorch_lightning import LightningModule, Trainer
            from torch import nn


            class Net(LightningModule):
                def __init__(self):
                    super().__init__()
                    self.head = nn.Linear(8, 1)

                def training_step(self, batch, batch_idx):
                    loss = self.head(batch).mean()
                    if self.trainer.is_global_zero:
                        self.log("loss", loss, sync_dist=True)  # expect: TL309
                    return loss

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            Trainer(devices=8).fit(Net(), torch.randn(64, 8, 8))
            """,
            because="Lightning reduces what it is to log over all ranks",
        ),
        valid(
            """
            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            dist.init_process_group("nccl")
            rank = dist.get_rank()
            torch.cuda.set_device(rank)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, inputs in enumerate(torch.randn(64, 8, 8)):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 10 == 0:
                    total = loss.detach().clone()
                    dist.all_reduce(total)
                    if rank == 0:
                        print(total.item() / dist.get_world_size())
            """,
            because="all ranks reduce, one prints",
        ),
        valid(
            """
            import argparse

            import torch
            from torchvision.datasets import CIFAR10

            parser = argparse.ArgumentParser()
            parser.add_argument("--local_rank", type=int, default=-1)
            args = parser.parse_args()
            torch.distributed.init_process_group("nccl")
            if args.local_rank not in [-1, 0]:
                torch.distributed.barrier()
            images = CIFAR10("data", download=True)
            if args.local_rank == 0:
                torch.distributed.barrier()
            """,
            because="the first process downloads while the others wait: each side has its barrier",
        ),
        valid(
            """
            from contextlib import contextmanager

            import torch.distributed as dist
            from torchvision.datasets import CIFAR10


            @contextmanager
            def first_rank_first(local_rank):
                if local_rank not in (-1, 0):
                    dist.barrier(device_ids=[local_rank])
                yield
                if local_rank == 0:
                    dist.barrier(device_ids=[0])


            def load(local_rank):
                with first_rank_first(local_rank):
                    return CIFAR10("data", download=True)
            """,
            because="likewise, as a context manager",
        ),
        valid(
            """
            import os

            import torch
            import torch.distributed as dist

            dist.init_process_group("nccl")
            rank, world_size = dist.get_rank(), dist.get_world_size()
            if rank == 0:
                plan = [torch.randperm(1024)]
                dist.broadcast_object_list(plan, src=0)
            else:
                plan = [None]
                dist.broadcast_object_list(plan, src=0)
            """,
            because="both branches broadcast",
        ),
        valid(
            """
            import os

            import torch
            import torch.distributed as dist

            dist.init_process_group("nccl")
            local_rank, per_node = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
            leaders = dist.new_group(list(range(0, dist.get_world_size(), per_node)))
            total = torch.ones(1, device=f"cuda:{local_rank}")
            if local_rank == 0:
                dist.all_reduce(total, group=leaders)
                dist.broadcast(total, 0, leaders)
                dist.barrier(leaders)
            """,
            because="a group of the ranks that get there",
        ),
        valid(
            """
            import torch
            import torch.distributed as dist

            from parallel import get_tensor_parallel_rank


            def sum_losses(loss):
                if get_tensor_parallel_rank() == 0:
                    dist.all_reduce(loss)
                return loss


            def average(value, mesh, args):
                if mesh.get_dp_rank() == 0:
                    dist.all_reduce(value)
                if dist.get_rank(mesh.get_group("tp")) == 0:
                    dist.all_reduce(value)
                if args.node_rank == 0:
                    dist.barrier()
                return value
            """,
            because="the rank within a part of the processes may be 0 on all of them",
        ),
        valid(
            """
            import torch
            import torch.distributed as dist


            def mean_over_ranks(value):
                if not dist.is_available() or not dist.is_initialized():
                    return value
                if dist.get_world_size() == 1:
                    return value
                dist.all_reduce(value)
                return value / dist.get_world_size()
            """,
            because="conditions on the job, not on the rank",
        ),
        valid(
            """
            import argparse

            import torch.distributed as dist

            from zero_shot import accuracy


            def evaluate(model, args):
                if dist.get_rank() != 0:
                    return None
                return accuracy(model, args)


            parser = argparse.ArgumentParser()
            parser.add_argument("--fsdp", action="store_true")
            args = parser.parse_args()
            dist.init_process_group("nccl")
            for epoch in range(3):
                evaluate(None, args)
            """,
            because="the switch around it may be off in programs that evaluate on one rank",
            others={
                "zero_shot.py": """
                import torch
                import torch.distributed as dist


                def accuracy(model, args):
                    if args.fsdp:
                        dist.broadcast(torch.zeros(1).cuda(), src=0)
                    return 0.5
                """
            },
        ),
        valid(
            """
            import os

            import torch.distributed as dist

            RANK = int(os.environ.get("RANK", -1))
            if RANK != -1:
                dist.init_process_group("nccl")
            stop = False
            for epoch in range(3):
                if RANK != -1:
                    told = [stop if RANK == 0 else None]
                    dist.broadcast_object_list(told, 0)
                    stop = told[0]
            """,
            because="a rank of -1 stands for a job without a process group",
        ),
        valid(
            """
            import torch
            import torch.distributed as dist

            dist.init_process_group("nccl")
            for turn in range(dist.get_world_size()):
                if dist.get_rank() == turn:
                    print("rank", turn, torch.cuda.memory_allocated())
                dist.barrier()
            for turn in range(dist.get_world_size()):
                if dist.get_rank() == turn:
                    dist.barrier()
            if dist.get_rank() == 0:
                dist.send(torch.ones(1).cuda(), dst=1)
                dist.destroy_process_group()
            """,
            because="each rank has its turn, behind a common barrier or at its own; sending is between two ranks",
        ),
        valid(
            """
            import contextlib
            import os
            import time

            import torch.distributed as dist


            @contextlib.contextmanager
            def rank_zero_download_and_wait(path):
                while dist.get_rank() != 0 and not os.path.exists(path):
                    time.sleep(0.1)
                yield


            class Tracker:
                def __init__(self, rank_zero_only=True):
                    self.rank_zero_only = rank_zero_only
                    self.run = "run" if dist.get_rank() == 0 else None

                def start(self):
                    if self.rank_zero_only:
                        told = [self.run]
                        dist.broadcast_object_list(told, src=0)
                        self.run = told[0]


            dist.init_process_group("nccl")
            tracker = Tracker()
            tracker.start()
            with rank_zero_download_and_wait("weights.done"):
                dist.barrier()
            """,
            because="a setting is the same on all ranks, and a context manager lets all of them into its block",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        calls = [call for call in project.calls if call.joins_all_ranks]
        sides = {(id(call.context.entry), call.name, kind) for call in calls for kind in _sides(call.context)}
        for call in calls:
            for kind in _sides(call.context):
                if (id(call.context.entry), call.name, _other(kind)) not in sides:
                    yield from self._report(call)
        for report in project.reports:
            if report.name in LIGHTNING_LOGS and report.arguments.constant("sync_dist") is True:
                yield from self._report(report)

    def _report(self, subject: Call | Report) -> Iterator[Finding]:
        guard = _rank_guard(subject.context)
        if guard is not None:
            yield self.finding(
                subject,
                f"{quote(subject.text)} waits for all ranks, and {quote(guard.text)} keeps some of them away",
                help="Let all ranks run it, or give both sides of the condition the same collective",
                confidence=Confidence.LOW if _may_be_off(subject.context, guard) else Confidence.HIGH,
            )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, "Move it out of the condition on the rank, so that all ranks run it")


def _rank_guard(context: Context) -> Guard | None:
    """The condition that leaves some ranks out, if it surely does."""
    guards = [guard for guard in context.guards if guard.kind in SIDES]
    if len({guard.kind for guard in guards}) != 1 or context.under(GuardKind.NOT_DISTRIBUTED):
        return None
    return next((guard for guard in guards if guard.asked.ranks_of_all), None)


def _may_be_off(context: Context, rank_guard: Guard) -> bool:
    """Whether a switch stands inside the condition on the rank, which may be off wherever one side alone gets there."""
    inside = context.guards[context.guards.index(rank_guard) + 1 :]
    return any(guard.kind is GuardKind.FLAG or guard.asked.mentions(FEATURE) for guard in inside)


def _sides(context: Context) -> tuple[GuardKind, ...]:
    """On which side of a condition on the rank code stands."""
    return tuple({guard.kind for guard in context.guards if guard.kind in SIDES})


def _other(kind: GuardKind) -> GuardKind:
    return GuardKind.OTHER_RANKS if kind is GuardKind.RANK else GuardKind.RANK
