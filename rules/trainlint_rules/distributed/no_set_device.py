from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, RelatedSite
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.semantics.duties import Duty
from trainlint.semantics.project import Call, Placement, Project
from trainlint.semantics.vocabulary import Confidence, GuardKind, Known

START = "torch.distributed.init_process_group"

NOT_ON_EVERY_RANK = (
    GuardKind.RANK,
    GuardKind.OTHER_RANKS,
    GuardKind.NOT_DISTRIBUTED,
    GuardKind.NOT_DEVICE,
    GuardKind.EXCEPTIONAL,
    GuardKind.FLAG,
    GuardKind.DEBUG,
    GuardKind.OFF,
    GuardKind.DATA,
)
"""Guards under which a model may be moved in runs, or on ranks, that have the GPU for themselves."""


class NoSetDevice(Rule):
    """Every process of a distributed job puts its model on the first GPU.

    ## What it does
    Reports a model that is moved to CUDA without a number (`.cuda()`, `.to("cuda")`) in a program that starts a process
    group and never tells its processes which GPU is theirs. The first such move of a program is reported.

    ## Why it is slow
    CUDA without a number is the process's current device, which is GPU 0 until `torch.cuda.set_device` says otherwise.
    All processes of a host then share GPU 0, its memory included, while the other GPUs stay idle. NCCL refuses to
    connect two ranks on one GPU; gloo lets them crawl.

    ## When it is fine
    One GPU to each host; launchers that show each process one GPU alone, as Slurm and MPI can be told to. Where the
    script reads their variables, sets CUDA_VISIBLE_DEVICES by rank, makes a device mesh, or passes `device_id` to the
    process group, the rule is silent. Lightning, Accelerate, HF Trainer, DeepSpeed and Ray Train choose the GPU
    themselves.

    ## Example
    ```python
    dist.init_process_group("nccl")
    model = DistributedDataParallel(model.cuda())
    ```

    ## Use instead
    ```python
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DistributedDataParallel(model.cuda(), device_ids=[local_rank])
    ```

    ## Fix safety
    Advice without an edit: only the author knows which variable or argument holds the local rank.

    ## How the probe confirms it
    It does not: which process uses which GPU is not part of the evidence. While the job runs, `nvidia-smi` lists all of
    its processes under GPU 0.

    ## References
    - One process for each GPU, started by torchrun, in place of DataParallel (article 003).
    - PyTorch, DistributedDataParallel: each process is to work on one GPU of its own, by `torch.cuda.set_device` or
      CUDA_VISIBLE_DEVICES:
      https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    """

    code, name, family = "TL306", "no-set-device", Family.DISTRIBUTED
    fix_class = Applicability.DISPLAY
    examples = (
        invalid(
            """
            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            dist.init_process_group("nccl")
            model = nn.Linear(8, 1).cuda()  # expect: TL306
            model = DistributedDataParallel(model)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="nothing says which GPU is meant",
        ),
        invalid(
            """
            import argparse

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.head = nn.Linear(8, 1)

                def forward(self, inputs):
                    return self.head(inputs)


            def main():
                parser = argparse.ArgumentParser()
                parser.add_argument("--distributed", action="store_true")
                args = parser.parse_args()
                device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
                if args.distributed:
                    dist.init_process_group(backend="nccl", init_method="env://")
                model = Net().to(device)  # expect: TL306
                if args.distributed:
                    model = DistributedDataParallel(model)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.to(device)).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            main()
            """,
            because="the device line of the script for one GPU was kept",
        ),
        invalid(
            """
            from torch import nn


            def build_model(device="cuda"):
                model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
                return model.to(device)  # expect: TL306
            """,
            because="moved by a helper that knows nothing of ranks",
            entry="model.py",
            others={
                "train.py": """
                import torch
                import torch.distributed as dist
                from torch.nn.parallel import DistributedDataParallel

                from model import build_model

                dist.init_process_group("nccl")
                model = DistributedDataParallel(build_model())
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                """
            },
        ),
        invalid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.distributed.fsdp import FullyShardedDataParallel

            os.environ["CUDA_VISIBLE_DEVICES"] = "0,1,2,3"
            dist.init_process_group("nccl")
            criterion = nn.CrossEntropyLoss().cuda()
            model = FullyShardedDataParallel(nn.Linear(8, 4).cuda())  # expect: TL306
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in torch.randn(64, 8, 8):
                loss = criterion(model(inputs.cuda()), torch.zeros(8, dtype=torch.long).cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="all processes see the same four GPUs; the loss has nothing to move",
        ),
        valid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            dist.init_process_group("nccl")
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[local_rank])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="set_device was called",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            from distributed import start

            start()
            model = DistributedDataParallel(nn.Linear(8, 1).to("cuda"))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.to("cuda")).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a helper in another file sets it",
            others={
                "distributed.py": """
                import os

                import torch
                import torch.distributed as dist


                def start():
                    dist.init_process_group("nccl")
                    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
                """
            },
        ),
        valid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            dist.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            device = torch.device("cuda", local_rank)
            model = DistributedDataParallel(nn.Linear(8, 1).to(device), device_ids=[local_rank])
            teacher = nn.Linear(8, 1).to(f"cuda:{local_rank}")
            student = nn.Linear(8, 1).cuda(local_rank)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.to(device)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the models are moved to a GPU by number",
        ),
        valid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]
            dist.init_process_group("nccl")
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="each process sees its own GPU alone",
        ),
        valid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            rank, world_size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
            dist.init_process_group("nccl", rank=rank, world_size=world_size)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="Slurm may give each task a GPU of its own",
        ),
        valid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            dist.init_process_group("nccl", device_id=device)
            with torch.cuda.device(device):
                model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.to(device)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the current device is chosen around the move",
        ),
        valid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            dist.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(local_rank), device_ids=[local_rank])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda(local_rank)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if dist.get_rank() == 0:
                reference = nn.Linear(8, 1).cuda()
                print(reference(torch.ones(8).cuda()))
            """,
            because="one rank alone moves a model to the first GPU",
        ),
        valid(
            """
            import torch
            from accelerate import Accelerator
            from torch import nn

            accelerator = Accelerator()
            model = nn.Linear(8, 1).to("cuda")
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model, optimizer = accelerator.prepare(model, optimizer)
            torch.distributed.init_process_group("nccl")
            for inputs in torch.randn(64, 8, 8):
                accelerator.backward(model(inputs.cuda()).mean())
                optimizer.step()
                optimizer.zero_grad()
            """,
            because="Accelerate has set the device",
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
            """,
            because="a single process has no other GPU",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for entry in project.entries:
            starts = [call for call in project.calls_of(START) if call.context.entry is entry]
            if not starts or not entry.trains or entry.chooses_device or entry.spared(Duty.CHOOSE_DEVICE):
                continue
            moved = (one for one in project.placements if one.context.entry is entry and _is_on_every_rank(one))
            first = next(moved, None)
            if entry.distributed is Known.YES and first is not None:
                yield self._report(first, starts[0])

    def _report(self, placement: Placement, start: Call) -> Finding:
        # that several processes share a host is the usual set-up, and no more than that
        return self.finding(
            placement,
            f"{quote(placement.text)} puts the model of each process on GPU 0, since none is told to use another",
            help="Call torch.cuda.set_device with the local rank before anything is moved to CUDA",
            confidence=Confidence.MEDIUM,
            related=(RelatedSite(start.site, "where the process group is started"),),
        )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.DISPLAY,
            'Call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) first; torchrun sets LOCAL_RANK',
        )


def _is_on_every_rank(placement: Placement) -> bool:
    return placement.device.bare and placement.device.proved and not placement.context.under(*NOT_ON_EVERY_RANK)
