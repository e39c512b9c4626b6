from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, valid
from trainlint.semantics.project import Entry, EnvironmentSetting, Project
from trainlint.semantics.values import Const
from trainlint.semantics.vocabulary import GuardKind, Known

VARIABLES = {
    "MASTER_ADDR": "the host of rank 0",
    "MASTER_PORT": "a port on the host of rank 0",
    "RANK": "the rank of one process",
    "WORLD_SIZE": "the number of processes",
}
"""What the processes of a job find each other by, and what each of them stands for."""

SOMETIMES = (
    GuardKind.FLAG,
    GuardKind.NOT_DISTRIBUTED,
    GuardKind.EXCEPTIONAL,
    GuardKind.DEBUG,
    GuardKind.OFF,
    GuardKind.DATA,
    GuardKind.NOT_DEVICE,
)
"""Guards under which the variable may be missing, as in a start without a launcher."""


class HandSetRendezvous(Rule):
    """The code sets the address by which the processes of a job find each other.

    ## What it does
    Reports MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE that a training program sets to a literal in its own
    environment before it starts a process group.

    ## Why it is slow
    It stalls rather than slows: a second job on the host meets the first one's port, and a job on other hosts, or with
    another number of processes, waits for ranks that never come. What torchrun, or a cluster's launcher, has set is
    overwritten.

    ## When it is fine
    A group of one process; tests; values that are set only where the variable is missing.

    ## Example
    ```python
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12355"
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    ```

    ## Use instead
    ```python
    dist.init_process_group("nccl")
    ```
    and `torchrun --nproc-per-node=8 train.py`, which sets them, and LOCAL_RANK, for each process.

    ## Fix safety
    Advice without an edit: the way in which the processes are started changes with it.

    ## How the probe confirms it
    It does not: the probe sees a job that has found its ranks.

    ## References
    - Start-up hangs: WORLD_SIZE, RANK, MASTER_ADDR and MASTER_PORT are set by torchrun, not by hand (article 003).
    - PyTorch, torchrun, the environment variables that it sets: https://docs.pytorch.org/docs/stable/elastic/run.html
    """

    code, name, family = "TL316", "hand-set-rendezvous", Family.DISTRIBUTED
    severity = Severity.INFO
    default = False
    fix_class = Applicability.DISPLAY
    examples = (
        invalid(
            """
            import os

            import torch
            import torch.distributed as dist
            import torch.multiprocessing as mp
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel


            def train(rank, world_size):
                os.environ["MASTER_ADDR"] = "localhost"  # expect: TL316
                os.environ["MASTER_PORT"] = "12355"  # expect: TL316
                dist.init_process_group("nccl", rank=rank, world_size=world_size)
                torch.cuda.set_device(rank)
                model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[rank])
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            if __name__ == "__main__":
                mp.spawn(train, args=(8,), nprocs=8)
            """,
            because="a second job on the host meets the first one's port",
        ),
        invalid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            os.environ.update({"MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "29500"})  # expect: TL316
            os.environ["WORLD_SIZE"] = "16"  # expect: TL316
            torch.distributed.init_process_group("nccl", rank=int(os.environ["NODE_ID"]))
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the address of one host, and the size of one cluster",
        ),
        invalid(
            """
            import os


            def start_group(rank):
                os.environ["RANK"] = str(rank)
                os.environ["MASTER_PORT"] = "29500"  # expect: TL316
                os.environ["MASTER_ADDR"] = "127.0.0.1"  # expect: TL316
            """,
            because="set by a helper in another file; the rank is no literal",
            entry="launch.py",
            others={
                "train.py": """
                import sys

                import torch
                from torch import nn
                from torch.nn.parallel import DistributedDataParallel

                from launch import start_group

                start_group(int(sys.argv[1]))
                torch.distributed.init_process_group("nccl", world_size=2)
                model = DistributedDataParallel(nn.Linear(8, 1).cuda())
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
            from os import environ

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            PORT = "29501"
            environ["MASTER_PORT"] = PORT  # expect: TL316
            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(int(environ["LOCAL_RANK"]))
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="what torchrun has chosen is overwritten",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="torchrun sets them",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            os.environ.setdefault("MASTER_ADDR", "localhost")
            os.environ.setdefault("MASTER_PORT", "29500")
            if "RANK" not in os.environ:
                os.environ["RANK"] = "0"
                os.environ["LOCAL_RANK"] = "0"
                os.environ["WORLD_SIZE"] = "1"
            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="fallbacks for a start without torchrun",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            os.environ["MASTER_ADDR"] = "localhost"
            os.environ["MASTER_PORT"] = "29500"
            os.environ["RANK"] = "0"
            os.environ["WORLD_SIZE"] = "1"
            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(0)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a group of one process, which has nobody to meet",
        ),
        valid(
            """
            import argparse
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            parser = argparse.ArgumentParser()
            parser.add_argument("--port", default="29500")
            parser.add_argument("--address", default="localhost")
            args = parser.parse_args()
            os.environ["MASTER_PORT"] = args.port
            os.environ["MASTER_ADDR"] = args.address
            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="whoever starts the job decides",
        ),
        valid(
            """
            import socket
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            with socket.socket() as probe:
                probe.bind(("", 0))
                os.environ["MASTER_PORT"] = str(probe.getsockname()[1])
            os.environ["MASTER_ADDR"] = socket.gethostname()
            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a free port is asked for",
        ),
        valid(
            """
            import os

            import torch.distributed as dist


            def test_all_reduce():
                os.environ["MASTER_ADDR"] = "localhost"
                os.environ["MASTER_PORT"] = "29511"
                dist.init_process_group("gloo", rank=0, world_size=1)
                dist.destroy_process_group()
            """,
            because="a test, in which nothing is trained",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            os.environ["MASTER_ADDR"] = "localhost"
            os.environ["MASTER_PORT"] = "29500"
            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="no process group is started, so nobody reads them",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        alone = {id(one.context.entry) for one in project.environment if one.name == "WORLD_SIZE" and _text(one) == "1"}
        for setting in project.environment:
            entry = setting.context.entry
            if _is_fixed(setting) and id(entry) not in alone and _starts_group(project, entry):
                yield self.finding(
                    setting,
                    f"{setting.name}={_text(setting)} fixes {VARIABLES[setting.name]} in the code, for every job",
                    help="Leave it to the launcher: torchrun sets it for each process",
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, "Start the processes with torchrun, and drop this")


def _is_fixed(setting: EnvironmentSetting) -> bool:
    given = setting.name in VARIABLES and not setting.fallback and bool(_text(setting))
    return given and not setting.context.under(*SOMETIMES)


def _text(setting: EnvironmentSetting) -> str:
    value = setting.value.value if isinstance(setting.value, Const) else None
    return "" if value is None else str(value)


def _starts_group(project: Project, entry: Entry) -> bool:
    starts = project.calls_of("torch.distributed.init_process_group")
    return entry.trains and entry.distributed is Known.YES and any(call.context.entry is entry for call in starts)
