from __future__ import annotations

import re
from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, EnsureImport, Fix, GuardStatement
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.semantics.duties import Duty
from trainlint.semantics.project import Checkpoint, Context, Guard, Project
from trainlint.semantics.vocabulary import Framework, GuardKind, Known, Region
from trainlint_rules.distributed.first_rank import FIRST_RANK

ONE_WRITES = (
    GuardKind.RANK,
    GuardKind.OTHER_RANKS,
    GuardKind.NOT_DISTRIBUTED,
    GuardKind.NOT_DEVICE,
    GuardKind.EXCEPTIONAL,
    GuardKind.OFF,
    GuardKind.DEBUG,
)
"""Guards under which one rank writes, or under which no regular distributed run gets there."""

BEST = re.compile(r"(?:_|\b)best(?:_|\b)", re.I)
SHOULD = re.compile(r"should_|is_\w*(?:saver|writer|logger)", re.I)
"""How conditions are called that may ask for the rank, though they do not say so."""


class SaveOnEveryRank(Rule):
    """All ranks write the same checkpoint to the same file.

    ## What it does
    Reports `torch.save` of a model's state in data parallel training where no condition on the rank stands around it,
    and where the path is the same on all ranks.

    ## Why it is slow
    Each rank copies the whole state from its GPU and writes it: eight ranks write eight times as much, to one disk, at
    the same time. Their writes to one file may also overlap, and then no rank's file is left whole.

    ## When it is fine
    Files by rank; sharded checkpoints, such as those of torch.distributed.checkpoint; frameworks, which save on one
    rank or gather the shards themselves.

    ## Example
    ```python
    torch.save(model.module.state_dict(), "checkpoint.pt")
    ```

    ## Use instead
    ```python
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "checkpoint.pt")
    ```

    ## Fix safety
    Unsafe: where hosts share no file system, every host but the first is left without the file; ranks that read it
    right afterwards need a barrier behind the save. Advice only for FSDP, whose state has to be collected by all ranks.

    ## How the probe confirms it
    It does not: which rank wrote which file is not measured.

    ## References
    - What a checkpoint holds (article 003).
    - PyTorch, DistributedDataParallel: all processes start from the same parameters and apply the same gradients, so
      one process has all that there is to save:
      https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    - PyTorch, torch.distributed.checkpoint, where each rank saves its own shards:
      https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """

    code, name, family = "TL310", "save-on-every-rank", Family.DISTRIBUTED
    fix_class = Applicability.UNSAFE
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
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[rank])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(3):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                torch.save(model.module.state_dict(), f"model_{epoch}.pt")  # expect: TL310
            """,
            because="once per epoch, by each rank",
            fixed="""
            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            dist.init_process_group("nccl")
            rank = dist.get_rank()
            torch.cuda.set_device(rank)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[rank])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(3):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0:
                    torch.save(model.module.state_dict(), f"model_{epoch}.pt")
            """,
        ),
        invalid(
            """
            import os

            import torch


            def save_checkpoint(model, optimizer, folder, epoch):
                path = os.path.join(folder, f"checkpoint_{epoch}.pt")
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
                torch.save(state, path)  # expect: TL310
            """,
            because="written by a helper in another file, to a folder that is given on the command line",
            entry="checkpoints.py",
            others={
                "train.py": """
                import argparse
                import os

                import torch
                from torch import nn
                from torch.nn.parallel import DistributedDataParallel

                from checkpoints import save_checkpoint


                def main():
                    parser = argparse.ArgumentParser()
                    parser.add_argument("--output-dir", default="out")
                    args = parser.parse_args()
                    local_rank = int(os.environ["LOCAL_RANK"])
                    torch.cuda.set_device(local_rank)
                    torch.distributed.init_process_group("nccl")
                    model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[local_rank])
                    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                    for epoch in range(3):
                        for inputs in torch.randn(64, 8, 8):
                            loss = model(inputs.cuda()).mean()
                            optimizer.zero_grad()
                            loss.backward()
                            optimizer.step()
                        save_checkpoint(model, optimizer, args.output_dir, epoch)


                main()
                """
            },
            fixed="""
            import os

            import torch


            def save_checkpoint(model, optimizer, folder, epoch):
                path = os.path.join(folder, f"checkpoint_{epoch}.pt")
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
                if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0:
                    torch.save(state, path)
            """,
        ),
        invalid(
            """
            import torch
            import torch.distributed as dist
            import torch.multiprocessing as mp
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP


            def train(rank, world_size):
                dist.init_process_group("nccl", rank=rank, world_size=world_size)
                model = DDP(nn.Linear(8, 1).to(rank), device_ids=[rank])
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for _ in range(10):
                    loss = model(torch.randn(8, 8).to(rank)).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                torch.save(model.state_dict(), "final.pt")  # expect: TL310
                dist.destroy_process_group()


            if __name__ == "__main__":
                mp.spawn(train, args=(8,), nprocs=8)
            """,
            because="the weights at the end of the run",
            fixed="""
            import torch
            import torch.distributed as dist
            import torch.multiprocessing as mp
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP


            def train(rank, world_size):
                dist.init_process_group("nccl", rank=rank, world_size=world_size)
                model = DDP(nn.Linear(8, 1).to(rank), device_ids=[rank])
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for _ in range(10):
                    loss = model(torch.randn(8, 8).to(rank)).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0:
                    torch.save(model.state_dict(), "final.pt")
                dist.destroy_process_group()


            if __name__ == "__main__":
                mp.spawn(train, args=(8,), nprocs=8)
            """,
        ),
        invalid(
            """
            from pathlib import Path

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel


            class Trainer:
                def __init__(self, args):
                    self.args = args
                    self.best = 0.0
                    self.model = DistributedDataParallel(nn.Linear(8, 1).cuda())
                    self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

                def fit(self, loader):
                    for epoch in range(3):
                        for inputs in loader:
                            loss = self.model(inputs.cuda()).mean()
                            self.optimizer.zero_grad()
                            loss.backward()
                            self.optimizer.step()
                        accuracy = self.evaluate()
                        if accuracy > self.best:
                            torch.save({"model": self.model.state_dict()}, Path("out") / "best.pt")  # expect: TL310

                def evaluate(self):
                    return 1.0


            def main(args):
                dist.init_process_group("nccl")
                torch.cuda.set_device(dist.get_rank())
                Trainer(args).fit(torch.randn(64, 8, 8))
            """,
            because="a better score decides when, and not who",
            fixed="""
            from pathlib import Path

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel


            class Trainer:
                def __init__(self, args):
                    self.args = args
                    self.best = 0.0
                    self.model = DistributedDataParallel(nn.Linear(8, 1).cuda())
                    self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

                def fit(self, loader):
                    for epoch in range(3):
                        for inputs in loader:
                            loss = self.model(inputs.cuda()).mean()
                            self.optimizer.zero_grad()
                            loss.backward()
                            self.optimizer.step()
                        accuracy = self.evaluate()
                        if accuracy > self.best:
                            if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0:
                                torch.save({"model": self.model.state_dict()}, Path("out") / "best.pt")

                def evaluate(self):
                    return 1.0


            def main(args):
                dist.init_process_group("nccl")
                torch.cuda.set_device(dist.get_rank())
                Trainer(args).fit(torch.randn(64, 8, 8))
            """,
        ),
        *(
            valid(
                f"""
                import os

                import torch
                import torch.distributed as dist
                from torch import nn
                from torch.nn.parallel import DistributedDataParallel


                def is_main_process():
                    return dist.get_rank() == 0


                def save_on_main(*args):
                    if is_main_process():
                        torch.save(*args)


                def save(model, path):
                    torch.save(model.state_dict(), path)


                def main(args, writer=None):
                    dist.init_process_group("nccl")
                    rank = dist.get_rank()
                    torch.cuda.set_device(rank)
                    folder = os.path.join(args.output_dir, str(rank))
                    model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[rank])
                    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                    for epoch in range(3):
                        for inputs in torch.randn(64, 8, 8):
                            loss = model(inputs.cuda()).mean()
                            optimizer.zero_grad()
                            loss.backward()
                            optimizer.step()
                        {statement}
                """,
                because=because,
            )
            for statement, because in (
                ('torch.save(model.state_dict(), "model.pt") if rank == 0 else None', "one rank writes"),
                ('save_on_main(model.state_dict(), f"{epoch}.pt")', "a helper asks for the rank"),
                ('torch.save(model.state_dict(), f"model_{rank}.pt")', "each rank has a file of its own"),
                ('torch.save(model.state_dict(), f"{folder}/model.pt")', "each rank has a folder of its own"),
                ('save(model, os.path.join(folder, "model.pt"))', "likewise, through a helper"),
                (
                    'if writer is not None: torch.save(model.state_dict(), "model.pt")',
                    "only one rank may have a writer",
                ),
                ('if args.should_save: torch.save(model.state_dict(), "model.pt")', "a setting that may know the rank"),
                ('torch.save({"epoch": epoch}, f"{os.getpid()}.pt")', "a name by process, and no model"),
            )
        ),
        valid(
            """
            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel


            def train(model, optimizer):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            dist.init_process_group("nccl")
            torch.cuda.set_device(dist.get_rank())
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(3):
                train(model, optimizer)
                if dist.get_rank() != 0:
                    continue
                torch.save(model.state_dict(), "model.pt")
            """,
            because="the other ranks go on with the next epoch before",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            torch.save(model.state_dict(), "model.pt")
            """,
            because="there is one process",
        ),
        valid(
            """
            import torch
            import torch.distributed.checkpoint as dcp
            from torch import nn
            from torch.distributed.fsdp import FullyShardedDataParallel

            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(torch.distributed.get_rank())
            model = FullyShardedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            dcp.save({"model": model.state_dict()}, checkpoint_id="checkpoint")
            """,
            because="a sharded checkpoint, to which each rank adds its part",
        ),
        valid(
            """
            import argparse
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel


            SETUPS = {}


            def setup(function):
                SETUPS[function.__name__] = function
                return function


            @setup
            def folder_of_this_rank(options):
                options.output = os.path.join(options.output, f"rank{dist.get_rank()}")
                os.makedirs(options.output, exist_ok=True)


            def train(args):
                model = DistributedDataParallel(nn.Linear(8, 1).cuda())
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for epoch in range(3):
                    for inputs in torch.randn(64, 8, 8):
                        loss = model(inputs.cuda()).mean()
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                    torch.save(model.module.state_dict(), os.path.join(args.output, "model.pt"))


            def main():
                parser = argparse.ArgumentParser()
                parser.add_argument("--output", default="out")
                args = parser.parse_args()
                dist.init_process_group("nccl")
                torch.cuda.set_device(dist.get_rank())
                for prepare in SETUPS.values():
                    prepare(args)
                train(args)


            main()
            """,
            because="a setting that each rank has changed before, in a function that does not lead here",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for checkpoint in project.checkpoints:
            alike = checkpoint.holds_model and checkpoint.same_file and _ranks_are_alike(checkpoint.context)
            if alike and all(_leaves_all_ranks(guard) for guard in checkpoint.context.guards):
                yield self.finding(
                    checkpoint,
                    f"{quote(checkpoint.text)} runs on every rank, and all of them write to the same file",
                    help="Save on one rank: put it under `rank == 0`",
                )

    def fix(self, finding: Finding) -> Fix | None:
        checkpoint = finding.subject
        assert isinstance(checkpoint, Checkpoint)
        if checkpoint.context.entry.framework is Framework.FSDP or not checkpoint.stands_alone:
            return Fix(Applicability.DISPLAY, "Collect the state on all ranks, and save it on the first one only")
        return Fix(
            Applicability.UNSAFE,
            "Save on the first rank only",
            (GuardStatement(finding.site, FIRST_RANK), EnsureImport(finding.site, "torch")),
        )


def _ranks_are_alike(context: Context) -> bool:
    """Whether all ranks train the same model, by a loop of the script's own."""
    entry = context.entry
    return (
        entry.trains
        and not entry.spared(Duty.SAVE_ON_ONE_RANK)
        and entry.distributed is Known.YES
        and entry.data_parallel is Known.YES
        and context.region not in (Region.DATA, Region.COLLATE)
    )


def _leaves_all_ranks(guard: Guard) -> bool:
    """Whether a condition surely is the same on all ranks, or at least does not choose one of them."""
    if guard.kind in ONE_WRITES or guard.asked.mentions(SHOULD):
        return False
    if guard.kind is GuardKind.FLAG:
        return guard.asked.settings or guard.asked.mentions(BEST)
    return True
