from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, SetArgument
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.semantics.project import Call, Entry, Placement, Project, Wrapping
from trainlint.semantics.values import DeviceValue, Host, Instance, Object, Tuple
from trainlint.semantics.vocabulary import Confidence, GuardKind, Place

START = "torch.distributed.init_process_group"
NEW_GROUP = "torch.distributed.new_group"
GRADIENTS_BY_GROUP = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel",
)
"""Wrappers that reduce gradients through the default process group, unless they are given another one."""


class GlooForCuda(Rule):
    """Gradients of a model on CUDA are reduced by gloo, which takes them through the host.

    ## What it does
    Reports `init_process_group("gloo")` in a program whose model is wrapped in DDP or FSDP and lives on CUDA.

    ## Why it is slow
    Gloo runs on the CPU: each bucket of gradients is copied to host memory, reduced over sockets there, and copied
    back. NCCL reduces it in place on the GPUs, over NVLink, PCIe or InfiniBand, beside the backward pass.

    ## When it is fine
    Training on CPUs; a group for CPU tensors beside one for NCCL; systems without NCCL, such as Windows; a backend that
    is chosen by a test of the device.

    ## Example
    ```python
    dist.init_process_group("gloo")
    model = DistributedDataParallel(model.cuda(local_rank), device_ids=[local_rank])
    ```

    ## Use instead
    ```python
    dist.init_process_group("nccl")
    ```
    or, where the script also runs without GPUs, `"nccl" if torch.cuda.is_available() else "gloo"`. Collectives of CPU
    tensors, such as `all_gather_object` of large objects, can keep gloo beside it: `"cpu:gloo,cuda:nccl"`.

    ## Fix safety
    Unsafe: NCCL takes no CPU tensors, needs a GPU of its own for each rank, and adds numbers in another order.

    ## How the probe confirms it
    It does not: which backend carried a reduction is not measured. To see it, look for kernels that start with `nccl`
    in a profile of the step: there are none under gloo.

    ## References
    - Communication above 15 to 20 % of the step is the bottleneck; NVLink has about 600 GB/s on A100, PCIe about
      32 GB/s (articles 001 and 003).
    - PyTorch, torch.distributed, "Which backend to use?": NCCL for distributed training with CUDA GPUs:
      https://docs.pytorch.org/docs/stable/distributed.html
    """

    code, name, family = "TL307", "gloo-for-cuda", Family.DISTRIBUTED
    fix_class = Applicability.UNSAFE
    examples = (
        invalid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            dist.init_process_group("gloo")  # expect: TL307
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(local_rank), device_ids=[local_rank])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda(local_rank)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="one GPU for each process, and gloo between them",
            fixed="""
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            dist.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(local_rank), device_ids=[local_rank])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda(local_rank)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import os

            import torch
            import torch.distributed as dist
            import torch.multiprocessing as mp
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP


            def setup(rank, world_size):
                os.environ["MASTER_ADDR"] = "localhost"
                os.environ["MASTER_PORT"] = "12355"
                dist.init_process_group("gloo", rank=rank, world_size=world_size)  # expect: TL307


            def train(rank, world_size):
                setup(rank, world_size)
                model = nn.Linear(8, 1).to(rank)
                ddp_model = DDP(model, device_ids=[rank])
                optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.1)
                for _ in range(10):
                    loss = ddp_model(torch.randn(8, 8).to(rank)).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                dist.destroy_process_group()


            if __name__ == "__main__":
                count = torch.cuda.device_count()
                mp.spawn(train, args=(count,), nprocs=count, join=True)
            """,
            because="processes are spawned on one host, one for each GPU",
            fixed="""
            import os

            import torch
            import torch.distributed as dist
            import torch.multiprocessing as mp
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP


            def setup(rank, world_size):
                os.environ["MASTER_ADDR"] = "localhost"
                os.environ["MASTER_PORT"] = "12355"
                dist.init_process_group("nccl", rank=rank, world_size=world_size)


            def train(rank, world_size):
                setup(rank, world_size)
                model = nn.Linear(8, 1).to(rank)
                ddp_model = DDP(model, device_ids=[rank])
                optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.1)
                for _ in range(10):
                    loss = ddp_model(torch.randn(8, 8).to(rank)).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                dist.destroy_process_group()


            if __name__ == "__main__":
                count = torch.cuda.device_count()
                mp.spawn(train, args=(count,), nprocs=count, join=True)
            """,
        ),
        invalid(
            """
            import torch.distributed as dist


            def start(backend="gloo"):
                dist.init_process_group(backend=backend, init_method="env://")  # expect: TL307
                return dist.get_rank()
            """,
            because="the backend is a default of a helper in another file",
            entry="launch.py",
            others={
                "train.py": """
                import torch
                from torch import nn
                from torch.nn.parallel import DistributedDataParallel

                from launch import start

                rank = start()
                device = torch.device("cuda", rank)
                model = DistributedDataParallel(nn.Linear(8, 1).to(device), device_ids=[rank])
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.to(device)).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                """
            },
            fixed="""
            import torch.distributed as dist


            def start(backend="gloo"):
                dist.init_process_group(backend="nccl", init_method="env://")
                return dist.get_rank()
            """,
        ),
        invalid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            dist.init_process_group(backend="gloo")  # expect: TL307
            device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if torch.cuda.is_available() else "cpu")
            model = DistributedDataParallel(nn.Linear(8, 1).to(device))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.to(device)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the device depends on the machine, the backend does not",
            fixed="""
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            dist.init_process_group(backend="nccl" if torch.cuda.is_available() else "gloo")
            device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if torch.cuda.is_available() else "cpu")
            model = DistributedDataParallel(nn.Linear(8, 1).to(device))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.to(device)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        valid(
            """
            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            dist.init_process_group("gloo")
            model = DistributedDataParallel(nn.Linear(8, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the model stays on the CPU",
        ),
        valid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            use_cuda = torch.cuda.is_available()
            dist.init_process_group("nccl" if use_cuda else "gloo")
            local_rank = int(os.environ["LOCAL_RANK"])
            device = torch.device("cuda", local_rank) if use_cuda else torch.device("cpu")
            model = DistributedDataParallel(nn.Linear(8, 1).to(device))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.to(device)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the device decides on the backend",
        ),
        valid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            local_rank = int(os.environ["LOCAL_RANK"])
            if torch.cuda.is_available():
                torch.cuda.set_device(local_rank)
                dist.init_process_group(backend="nccl")
            else:
                dist.init_process_group(backend="gloo")
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            model = DistributedDataParallel(nn.Linear(8, 1).to(device))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.to(device)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="gloo is the branch without a GPU",
        ),
        valid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            dist.init_process_group("nccl")
            metrics = dist.new_group(backend="gloo")
            local_rank = int(os.environ["LOCAL_RANK"])
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(local_rank), device_ids=[local_rank])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda(local_rank)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            counts = [None] * dist.get_world_size()
            dist.all_gather_object(counts, {"samples": 512}, group=metrics)
            """,
            because="a group for CPU objects beside NCCL",
        ),
        valid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            dist.init_process_group("gloo")
            gradients = dist.new_group(backend="nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            model = nn.Linear(8, 1).cuda(local_rank)
            model = DistributedDataParallel(model, device_ids=[local_rank], process_group=gradients)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda(local_rank)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="gradients go through a group of NCCL's",
        ),
        valid(
            """
            import argparse
            import os
            import sys

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            parser = argparse.ArgumentParser()
            parser.add_argument("--backend", default="gloo")
            args = parser.parse_args()
            if sys.platform == "win32":
                dist.init_process_group("gloo", init_method="file:///c:/tmp/group")
            else:
                dist.init_process_group(args.backend)
            local_rank = int(os.environ["LOCAL_RANK"])
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(local_rank), device_ids=[local_rank])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda(local_rank)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="Windows has no NCCL, and elsewhere whoever starts the job decides",
        ),
        valid(
            """
            import torch
            import torch.distributed as dist
            from torch import nn

            dist.init_process_group("gloo")
            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            dist.barrier()
            """,
            because="nothing on the GPU goes through the group",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in project.calls_of(START):
            if _starts_gloo(call) and not _has_a_reason(call):
                entry = call.context.entry
                if entry.trains and not _has_nccl(project, entry) and _reduces_on_cuda(project, entry):
                    yield self.finding(
                        call,
                        f"{quote(call.text)} makes gloo reduce the gradients of a model on CUDA, through host memory",
                        help="Use the NCCL backend for CUDA",
                        confidence=Confidence.MEDIUM if _may_run_elsewhere(project, entry) else Confidence.HIGH,
                    )

    def fix(self, finding: Finding) -> Fix | None:
        certain = finding.confidence is Confidence.HIGH
        backend = '"nccl"' if certain else '"nccl" if torch.cuda.is_available() else "gloo"'
        recipe = SetArgument(finding.site, "backend", backend, position=0)
        return Fix(Applicability.UNSAFE, "Use NCCL", (recipe,))


def _starts_gloo(call: Call) -> bool:
    backend = call.arguments.constant("backend")
    return isinstance(backend, str) and backend.lower() == "gloo"


def _has_a_reason(call: Call) -> bool:
    """Whether gloo was picked for a reason: no GPU, NCCL that failed, an operating system without it."""
    return call.context.on_request or call.context.under(GuardKind.NOT_DEVICE, GuardKind.DATA)


def _has_nccl(project: Project, entry: Entry) -> bool:
    """Whether a process group of NCCL's is made as well, which may be the one that counts."""
    groups = (call for call in project.calls_of(START, NEW_GROUP) if call.context.entry is entry)
    return any("nccl" in str(call.arguments.constant("backend")).lower() for call in groups)


def _reduces_on_cuda(project: Project, entry: Entry) -> bool:
    """Whether gradients of a model on CUDA are reduced through the default process group."""
    return any(
        wrapping.context.entry is entry
        and wrapping.library in GRADIENTS_BY_GROUP
        and wrapping.arguments.absent("process_group")
        and not wrapping.context.under(GuardKind.NOT_DEVICE)
        and (_is_on_cuda(project, wrapping) or _is_put_on_cuda(wrapping))
        for wrapping in project.wrappings
    )


def _is_on_cuda(project: Project, wrapping: Wrapping) -> bool:
    """Whether the model was moved to CUDA before."""
    on_device = isinstance(wrapping.model, Object | Instance) and wrapping.model.place is Place.DEVICE
    return on_device and any(one.device.cuda for one in _placements(project, wrapping.context.entry))


def _is_put_on_cuda(wrapping: Wrapping) -> bool:
    """Whether the wrapper is told the GPU."""
    told = "device_id" if wrapping.library.endswith("FullyShardedDataParallel") else "device_ids"
    return isinstance(wrapping.arguments.value(told), Tuple | Host | DeviceValue)


def _may_run_elsewhere(project: Project, entry: Entry) -> bool:
    """Whether the device of a model may also turn out to be another one than CUDA."""
    return any(one.device.cpu or one.device.other or not one.device.proved for one in _placements(project, entry))


def _placements(project: Project, entry: Entry) -> Iterator[Placement]:
    return (one for one in project.placements if one.context.entry is entry)
