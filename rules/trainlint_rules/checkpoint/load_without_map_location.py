from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, SetArgument
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_condition
from trainlint.probe.verdict import Verdict
from trainlint.semantics.context import Context
from trainlint.semantics.duties import Duty
from trainlint.semantics.project import Project
from trainlint.semantics.values import NONE, Const
from trainlint.semantics.vocabulary import Confidence, GuardKind, Known, Region

VISIBLE_DEVICES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
MAP_LOCATION_POSITION = 1


class LoadWithoutMapLocation(Rule):
    """Every rank reads a checkpoint into the memory of the GPU that wrote it.

    ## What it does
    Reports `torch.load` without `map_location`, in a distributed program on CUDA, of a file from which the optimizer
    takes its state.

    ## Why it is slow
    A tensor is read to the device that it was saved from, as a rule GPU 0. With eight ranks, that GPU then holds eight
    copies of model and optimizer beside its own and a context of each process: it runs out of memory where the others
    do not, or the batch has to be chosen for the fullest GPU.

    ## When it is fine
    One process; a load on one rank; processes that each see one GPU only; files that were written on a CPU.

    ## Example
    ```python
    state = torch.load("last.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    ```

    ## Use instead
    ```python
    state = torch.load("last.pt", map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    ```

    ## Fix safety
    Unsafe: `load_state_dict` copies to where the parameters are, but tensors that the script uses as they were read
    are then on the host, and host memory has to hold a copy for each rank.

    ## How the probe confirms it
    It leaves the verdict open: which process holds memory on which GPU is not recorded. `nvidia-smi` lists processes of
    other ranks on GPU 0.

    ## References
    - A checkpoint holds model and optimizer (article 003); training memory is 12 to 20 bytes a parameter (article 003).
    - PyTorch, torch.load, `map_location`: https://docs.pytorch.org/docs/stable/generated/torch.load.html
    - PyTorch, DistributedDataParallel tutorial, "Save and Load Checkpoints":
      https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html#save-and-load-checkpoints
    """

    code, name, family = "TL602", "load-without-map-location", Family.CHECKPOINT
    severity = Severity.INFO
    fix_class = Applicability.UNSAFE
    default = False
    confirmed_by = "memory on GPU 0"
    examples = (
        invalid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[local_rank])
            optimizer = torch.optim.AdamW(model.parameters())
            if os.path.exists("last.pt"):
                state = torch.load("last.pt")  # expect: TL602
                model.load_state_dict(state["model"])
                optimizer.load_state_dict(state["optimizer"])
            for epoch in range(10):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                if local_rank == 0:
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
            """,
            because="every rank reads what GPU 0 wrote",
            fixed="""
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[local_rank])
            optimizer = torch.optim.AdamW(model.parameters())
            if os.path.exists("last.pt"):
                state = torch.load("last.pt", map_location="cpu")
                model.load_state_dict(state["model"])
                optimizer.load_state_dict(state["optimizer"])
            for epoch in range(10):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                if local_rank == 0:
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
            """,
        ),
        invalid(
            """
            import torch


            def resume(path, model, optimizer):
                checkpoint = torch.load(path, weights_only=True)  # expect: TL602
                model.load_state_dict(checkpoint["model"])
                optimizer.load_state_dict(checkpoint["optimizer"])
                return checkpoint["epoch"]
            """,
            because="in a helper of another file",
            entry="restore.py",
            others={
                "train.py": """
                import os

                import torch
                from torch import nn
                from torch.nn.parallel import DistributedDataParallel

                from restore import resume

                torch.distributed.init_process_group("nccl")
                local_rank = int(os.environ["LOCAL_RANK"])
                torch.cuda.set_device(local_rank)
                model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[local_rank])
                optimizer = torch.optim.AdamW(model.parameters())
                start = resume("last.pt", model, optimizer)
                for epoch in range(10):
                    for inputs in torch.randn(64, 8, 8):
                        loss = model(inputs.cuda()).mean()
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                    if local_rank == 0:
                        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
                """
            },
            fixed="""
            import torch


            def resume(path, model, optimizer):
                checkpoint = torch.load(path, weights_only=True, map_location="cpu")
                model.load_state_dict(checkpoint["model"])
                optimizer.load_state_dict(checkpoint["optimizer"])
                return checkpoint["epoch"]
            """,
        ),
        invalid(
            """
            import os

            import torch
            from torch import nn
            from torch.distributed.fsdp import FullyShardedDataParallel


            class Trainer:
                def __init__(self, model, path):
                    self.model = FullyShardedDataParallel(model.cuda())
                    self.optimizer = torch.optim.AdamW(self.model.parameters())
                    if path and os.path.isfile(path):
                        self.restore(path)

                def restore(self, path):
                    state = torch.load(path, weights_only=False)  # expect: TL602
                    self.model.load_state_dict(state["model"])
                    self.optimizer.load_state_dict(state.get("optimizer"))

                def step(self, inputs):
                    loss = self.model(inputs.cuda()).mean()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()


            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            trainer = Trainer(nn.Linear(8, 1), "last.pt")
            for inputs in torch.randn(64, 8, 8):
                trainer.step(inputs)
            """,
            because="in a trainer that shards its model",
            fixed="""
            import os

            import torch
            from torch import nn
            from torch.distributed.fsdp import FullyShardedDataParallel


            class Trainer:
                def __init__(self, model, path):
                    self.model = FullyShardedDataParallel(model.cuda())
                    self.optimizer = torch.optim.AdamW(self.model.parameters())
                    if path and os.path.isfile(path):
                        self.restore(path)

                def restore(self, path):
                    state = torch.load(path, weights_only=False, map_location="cpu")
                    self.model.load_state_dict(state["model"])
                    self.optimizer.load_state_dict(state.get("optimizer"))

                def step(self, inputs):
                    loss = self.model(inputs.cuda()).mean()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()


            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            trainer = Trainer(nn.Linear(8, 1), "last.pt")
            for inputs in torch.randn(64, 8, 8):
                trainer.step(inputs)
            """,
        ),
        invalid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[local_rank])
            optimizer = torch.optim.AdamW(model.parameters())
            if os.path.exists("last.pt"):
                state = torch.load("last.pt", map_location=None)  # expect: TL602
                model.load_state_dict(state["model"])
                optimizer.load_state_dict(state["optimizer"])
            for epoch in range(10):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                if local_rank == 0:
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
            """,
            because="None means the same as nothing",
            fixed="""
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[local_rank])
            optimizer = torch.optim.AdamW(model.parameters())
            if os.path.exists("last.pt"):
                state = torch.load("last.pt", map_location="cpu")
                model.load_state_dict(state["model"])
                optimizer.load_state_dict(state["optimizer"])
            for epoch in range(10):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                if local_rank == 0:
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
            """,
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[local_rank])
            optimizer = torch.optim.AdamW(model.parameters())
            if os.path.exists("last.pt"):
                state = torch.load("last.pt", map_location="cpu")
                model.load_state_dict(state["model"])
                optimizer.load_state_dict(state["optimizer"])
            for epoch in range(10):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                if local_rank == 0:
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
            """,
            because="read to the host",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[local_rank])
            optimizer = torch.optim.AdamW(model.parameters())
            if os.path.exists("last.pt"):
                state = torch.load("last.pt", map_location=f"cuda:{local_rank}")
                model.load_state_dict(state["model"])
                optimizer.load_state_dict(state["optimizer"])
            for epoch in range(10):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                if local_rank == 0:
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
            """,
            because="read to the rank's own GPU",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[local_rank])
            optimizer = torch.optim.AdamW(model.parameters())
            if os.path.exists("last.pt"):
                state = torch.load("last.pt", map_location={"cuda:0": f"cuda:{local_rank}"})
                model.load_state_dict(state["model"])
                optimizer.load_state_dict(state["optimizer"])
            for epoch in range(10):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                if local_rank == 0:
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
            """,
            because="another rank's GPU mapped to the own",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[local_rank])
            optimizer = torch.optim.AdamW(model.parameters())
            model.module.load_state_dict(torch.load("pretrained.pt"))
            for epoch in range(10):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                if local_rank == 0:
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
            """,
            because="weights that may have been written on a CPU",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[local_rank])
            optimizer = torch.optim.AdamW(model.parameters())
            if local_rank == 0:
                state = torch.load("last.pt")
                model.load_state_dict(state["model"])
                optimizer.load_state_dict(state["optimizer"])
            for epoch in range(10):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                if local_rank == 0:
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
            """,
            because="on one rank",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            state = torch.load("last.pt")
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a single process, whose GPU it is",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[local_rank])
            optimizer = torch.optim.AdamW(model.parameters())
            statistics = torch.load("statistics.pt")
            for epoch in range(10):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                if local_rank == 0:
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
            """,
            because="data",
        ),
        valid(
            """
            import os

            os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[local_rank])
            optimizer = torch.optim.AdamW(model.parameters())
            if os.path.exists("last.pt"):
                state = torch.load("last.pt")
                model.load_state_dict(state["model"])
                optimizer.load_state_dict(state["optimizer"])
            for epoch in range(10):
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                if local_rank == 0:
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
            """,
            because="each process sees its own GPU only",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for load in project.file_loads:
            arguments = load.arguments
            unmapped = arguments.absent("map_location") or arguments.value("map_location") == NONE
            if load.restores_optimizer and unmapped and _runs_on_every_rank(project, load.context):
                yield self.finding(
                    load,
                    f"{quote(load.text)} reads the checkpoint to the GPU that wrote it, from every rank",
                    help='Pass map_location="cpu"',
                    confidence=Confidence.MEDIUM,
                )

    def fix(self, finding: Finding) -> Fix | None:
        recipe = SetArgument(finding.site, "map_location", '"cpu"', MAP_LOCATION_POSITION)
        return Fix(Applicability.UNSAFE, 'Pass map_location="cpu"', (recipe,))

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        unmeasured = "which process holds memory on which GPU is not recorded; nvidia-smi lists them"
        return judge_condition(evidence, None, None, unmeasured=unmeasured)


def _runs_on_every_rank(project: Project, context: Context) -> bool:
    """Whether several processes get there, with all GPUs in sight."""
    entry = context.entry
    apart = any(
        setting.name in VISIBLE_DEVICES and setting.context.entry is entry and not isinstance(setting.value, Const)
        for setting in project.environment
    )
    some_only = context.under(GuardKind.RANK, GuardKind.OTHER_RANKS, GuardKind.NOT_DISTRIBUTED, GuardKind.NOT_DEVICE)
    return (
        not entry.spared(Duty.MAP_CHECKPOINTS)
        and entry.distributed is Known.YES
        and entry.cuda is Known.YES
        and context.region is not Region.EVALUATION
        and not apart
        and not some_only
    )
