from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, SetArgument
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.semantics.project import Project, Wrapping

DISTRIBUTED_DATA_PARALLEL = "torch.nn.parallel.DistributedDataParallel"
ARGUMENT = "gradient_as_bucket_view"
DETACH = "torch.Tensor.detach_"


class DdpBucketView(Rule):
    """DDP keeps each gradient twice, and copies it between the two at every step.

    ## What it does
    Reports DistributedDataParallel without `gradient_as_bucket_view=True` around a model that is trained.

    ## Why it is slow
    Gradients are copied into communication buckets, reduced there, and copied back. As views of the buckets, they are
    written and reduced in one place: the copies go away, and so does as much memory as all gradients take, which may
    pay for a larger batch.

    ## When it is fine
    Code that calls `detach_()` on gradients, which views do not allow; models so small that neither matters.

    ## Example
    ```python
    model = DistributedDataParallel(model, device_ids=[local_rank])
    ```

    ## Use instead
    ```python
    model = DistributedDataParallel(model, device_ids=[local_rank], gradient_as_bucket_view=True)
    ```

    ## Fix safety
    Unsafe: code elsewhere that detaches gradients in place, or that keeps them for later and expects them not to
    change, fails or goes wrong with views. The memory is saved from the second step on.

    ## How the probe confirms it
    It does not: copies within the memory of a GPU are not told apart by what they are for. Compare the peak of memory
    and the step time of two runs.

    ## References
    - `gradient_as_bucket_view=True` among the settings of DDP (articles 000 and 003).
    - PyTorch, DistributedDataParallel, `gradient_as_bucket_view`:
      https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    """

    code, name, family = "TL312", "ddp-bucket-view", Family.DISTRIBUTED
    severity = Severity.INFO
    default = False
    fix_class = Applicability.UNSAFE
    torch = ((1, 7), None)
    examples = (
        invalid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            net = nn.Linear(8, 1).cuda()
            model = DDP(net, device_ids=[local_rank])  # expect: TL312
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="each gradient is kept twice",
            fixed="""
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            net = nn.Linear(8, 1).cuda()
            model = DDP(net, device_ids=[local_rank], gradient_as_bucket_view=True)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = DDP(nn.Linear(8, 1).cuda(), [local_rank], gradient_as_bucket_view=False)  # expect: TL312
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="switched off by hand",
            fixed="""
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = DDP(nn.Linear(8, 1).cuda(), [local_rank], gradient_as_bucket_view=True)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import os

            from torch.nn.parallel import DistributedDataParallel as DDP


            def wrap(model):
                options = {"device_ids": [int(os.environ["LOCAL_RANK"])], "bucket_cap_mb": 50}
                return DDP(model, **options)  # expect: TL312
            """,
            because="wrapped by a helper in another file; what it passes on is known",
            entry="parallel.py",
            others={
                "train.py": """
                import torch
                from torch import nn

                from parallel import wrap

                torch.distributed.init_process_group("nccl")
                torch.cuda.set_device(torch.distributed.get_rank())
                model = wrap(nn.Linear(8, 1).cuda())
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                """
            },
            fixed="""
            import os

            from torch.nn.parallel import DistributedDataParallel as DDP


            def wrap(model):
                options = {"device_ids": [int(os.environ["LOCAL_RANK"])], "bucket_cap_mb": 50}
                return DDP(model, gradient_as_bucket_view=True, **options)
            """,
        ),
        invalid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)


            class Trainer:
                def __init__(self, model):
                    self.model = DDP(model, static_graph=True)  # expect: TL312
                    self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

                def fit(self):
                    for inputs in torch.randn(64, 8, 8):
                        loss = self.model(inputs.cuda()).mean()
                        self.optimizer.zero_grad()
                        loss.backward()
                        self.optimizer.step()


            Trainer(nn.Linear(8, 1).cuda()).fit()
            """,
            because="whatever else it is told",
            fixed="""
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)


            class Trainer:
                def __init__(self, model):
                    self.model = DDP(model, static_graph=True, gradient_as_bucket_view=True)
                    self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

                def fit(self):
                    for inputs in torch.randn(64, 8, 8):
                        loss = self.model(inputs.cuda()).mean()
                        self.optimizer.zero_grad()
                        loss.backward()
                        self.optimizer.step()


            Trainer(nn.Linear(8, 1).cuda()).fit()
            """,
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = DDP(nn.Linear(8, 1).cuda(), gradient_as_bucket_view=True)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="gradients are views of the buckets",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = DDP(nn.Linear(8, 1).cuda(), device_ids=[local_rank])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                loss.backward()
                optimizer.step()
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        parameter.grad.detach_()
                        parameter.grad.zero_()
            """,
            because="a gradient that is a view cannot be detached in place",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a model that is not wrapped",
        ),
        valid(
            """
            import torch
            from apex.parallel import DistributedDataParallel
            from torch import nn

            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(torch.distributed.get_rank())
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(), delay_allreduce=True)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="apex's wrapper has no such argument",
        ),
        valid(
            """
            import argparse
            import json

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP

            parser = argparse.ArgumentParser()
            parser.add_argument("--bucket-view", action="store_true")
            args = parser.parse_args()
            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(torch.distributed.get_rank())
            first = DDP(nn.Linear(8, 1).cuda(), **json.load(open("ddp.json")))
            model = DDP(nn.Linear(8, 1).cuda(), gradient_as_bucket_view=args.bucket_view)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="whoever starts the job decides, or a file does",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = DDP(nn.Linear(8, 1).cuda(), device_ids=[local_rank])
            with torch.no_grad():
                for inputs in torch.randn(64, 8, 8):
                    print(model(inputs.cuda()).mean())
            """,
            because="nothing is trained, so there are no gradients",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            model = nn.DataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="DataParallel has no buckets",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        detaching = {id(call.context.entry) for call in project.calls_of(DETACH)}
        for wrapping in project.wrappings:
            if _keeps_gradients_twice(wrapping) and id(wrapping.context.entry) not in detaching:
                yield self.finding(
                    wrapping,
                    f"{quote(wrapping.text)} copies gradients to buckets and back, and keeps both",
                    help="Pass gradient_as_bucket_view=True",
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.UNSAFE,
            "Pass gradient_as_bucket_view=True",
            (SetArgument(finding.site, ARGUMENT, "True", position=10),),
        )


def _keeps_gradients_twice(wrapping: Wrapping) -> bool:
    arguments = wrapping.arguments
    return (
        wrapping.library == DISTRIBUTED_DATA_PARALLEL
        and wrapping.trains
        and not wrapping.by_apex
        and (arguments.absent(ARGUMENT) or arguments.constant(ARGUMENT) is False)
    )
