from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_share
from trainlint.probe.verdict import Source, Verdict
from trainlint.semantics.project import Project, Wrapping
from trainlint.semantics.vocabulary import GradMode, GuardKind

DATA_PARALLEL = ("torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "torch.nn.parallel.data_parallel")
DISTRIBUTED_DATA_PARALLEL = "torch.nn.parallel.DistributedDataParallel"

RECIPE = """\
Train with DistributedDataParallel, one process a GPU, started by torchrun:
  1. at start-up: torch.distributed.init_process_group("nccl"); local_rank = int(os.environ["LOCAL_RANK"]);
     torch.cuda.set_device(local_rank)
  2. model = DistributedDataParallel(model.cuda(local_rank), device_ids=[local_rank])
  3. give the training loader sampler=DistributedSampler(dataset) instead of shuffle=True, divide its batch_size by the
     number of GPUs, and call sampler.set_epoch(epoch) at the start of each epoch
  4. print, log and save on rank 0 only
  5. start it with: torchrun --nproc-per-node=NUMBER_OF_GPUS train.py"""


class DataParallel(Rule):
    """A model is trained with DataParallel, which drives all GPUs from one process.

    ## What it does
    Reports `nn.DataParallel` and `nn.parallel.data_parallel` around a model that is trained.

    ## Why it is slow
    One Python process feeds all GPUs: at every step it copies the model to each of them, scatters the batch, runs a
    thread per GPU under one interpreter lock, and gathers outputs and gradients on the first GPU, which also holds
    more memory than the others. DistributedDataParallel runs one process a GPU and overlaps the reduction of gradients
    with the backward pass.

    ## When it is fine
    Inference in a single process; a fallback beside a branch that uses DistributedDataParallel, for which there is a
    hint only; a class of a library that offers DataParallel under this name.

    ## Example
    ```python
    model = torch.nn.DataParallel(model).cuda()
    ```

    ## Use instead
    ```python
    torch.distributed.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = DistributedDataParallel(model.cuda(local_rank), device_ids=[local_rank])
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=batch_size // torch.distributed.get_world_size(), sampler=sampler)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        ...
    ```
    and `torchrun --nproc-per-node=NUMBER_OF_GPUS train.py`.

    ## Fix safety
    Advice only: the launch command, the loader, logging and saving change together with the wrapper. A batch size that
    was global becomes one of each rank, and the learning rate follows the global batch.

    ## How the probe confirms it
    By the share of the step that the host spends in replicate, scatter and gather.

    ## References
    - DataParallel is to be replaced by DistributedDataParallel, started by torchrun (article 003).
    - PyTorch, "Use nn.parallel.DistributedDataParallel instead of multiprocessing or nn.DataParallel":
      https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-nn-ddp-instead
    """

    code, name, family = "TL301", "data-parallel", Family.DISTRIBUTED
    fix_class = Applicability.DISPLAY
    confirmed_by = "share of replicate, scatter and gather"
    examples = (
        invalid(
            """
            import torch
            from torch import nn

            model = nn.DataParallel(nn.Linear(8, 1)).cuda()  # expect: TL301
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            for inputs in loader:
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="trained in one process",
        ),
        invalid(
            """
            import argparse

            import torch
            from torch import nn


            def train(model, loader, optimizer):
                for inputs in loader:
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            def main():
                parser = argparse.ArgumentParser()
                parser.add_argument("--distributed", action="store_true")
                args = parser.parse_args()
                model = nn.Linear(8, 1).cuda()
                if args.distributed:
                    torch.distributed.init_process_group("nccl")
                    model = nn.parallel.DistributedDataParallel(model)
                else:
                    model = torch.nn.DataParallel(model)  # expect: TL301
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                train(model, torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8), optimizer)


            main()
            """,
            because="the fallback of a script that has DDP: a hint",
        ),
        invalid(
            """
            import torch
            from torch import nn


            class Discriminator(nn.Module):
                def __init__(self, gpus):
                    super().__init__()
                    self.gpus = gpus
                    self.net = nn.Linear(8, 1)

                def forward(self, inputs):
                    return nn.parallel.data_parallel(self.net, inputs, range(self.gpus))  # expect: TL301


            model = Discriminator(2).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for inputs in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the functional form replicates at every forward",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Learner:
                def __init__(self):
                    self.model = nn.Linear(8, 4).cuda()
                    self.gpus = torch.cuda.device_count()

                def train(self, loader, held_out):
                    optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
                    for step, inputs in enumerate(loader):
                        loss = self.model(inputs.cuda()).square().mean()
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                        if step % 1000 == 0:
                            self.evaluate(held_out)

                def evaluate(self, loader):
                    model = self.model
                    if self.gpus > 1:
                        model = nn.DataParallel(model)
                    model.eval()
                    total = 0.0
                    for inputs in loader:
                        with torch.no_grad():
                            total += self.score(model, inputs)
                    return total

                def score(self, model, inputs):
                    return model(inputs.cuda()).mean()


            Learner().train(DataLoader(torch.randn(640, 8), batch_size=8), DataLoader(torch.randn(64, 8), batch_size=8))
            """,
            because="the wrapper is there for the evaluation; training goes without it",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn import DataParallel


            class DataParallelStrategy:
                def __init__(self, devices):
                    self.devices = devices

                def setup_module(self, module: nn.Module) -> DataParallel:
                    return DataParallel(module, device_ids=self.devices)

                def run_step(self, module, inputs, optimizer):
                    module(inputs).mean().backward()
                    optimizer.step()
            """,
            because="a class of a library that is there for those who ask for DataParallel by name",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import data_parallel
            from torch.utils.data import DataLoader


            @torch.no_grad()
            def collect_means(model, loader):
                return [data_parallel(model, inputs.cuda()).mean() for inputs in loader]


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, num_workers=4)
            torch.save(collect_means(model, loader), "means.pt")
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="one pass without gradients, before training",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.DataParallel(nn.Linear(8, 4)).cuda()
            model.load_state_dict(torch.load("model.pt"))
            model.eval()
            with torch.no_grad():
                for inputs in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
                    print(model(inputs.cuda()).argmax(1))
            """,
            because="inference in a single process",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1).cuda(local_rank), device_ids=[local_rank])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
                loss = model(inputs.cuda(local_rank)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="DistributedDataParallel",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if isinstance(model, nn.DataParallel):
                model = model.module
            torch.save(model.state_dict(), "model.pt")
            """,
            because="a type test wraps nothing",
        ),
        valid(
            """
            import torch
            from torch import nn

            teacher = nn.DataParallel(nn.Linear(8, 4)).cuda().eval()
            student = nn.Linear(8, 4).cuda()
            optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
            with torch.no_grad():
                targets = [teacher(inputs.cuda()) for inputs in torch.randn(4, 8, 8)]
            for inputs, target in zip(torch.randn(4, 8, 8), targets):
                loss = nn.functional.mse_loss(student(inputs.cuda()), target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the wrapped model labels data once, before training",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for wrapping in project.wrappings:
            training = wrapping.trains and wrapping.context.grad is not GradMode.DISABLED
            if wrapping.library in DATA_PARALLEL and training and not _is_asked_for(wrapping):
                yield self.finding(
                    wrapping,
                    f"{quote(wrapping.text)} drives all GPUs from one process, and copies the model at every step",
                    help="Use DistributedDataParallel with one process a GPU, started by torchrun",
                    severity=Severity.HINT if _is_fallback(wrapping) else None,
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, RECIPE)

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_share(
            evidence,
            None,
            evidence.data_parallel_share if evidence.accelerator else None,
            metric="replicate, scatter and gather",
            source=Source.STACKS,
            unmeasured="no stack sample holds DataParallel's work; probe on a machine with two GPUs or more",
        )


def _is_asked_for(wrapping: Wrapping) -> bool:
    """Whether a library offers DataParallel here: in a class or function called after it, of which nothing in the
    project makes use, so that whoever does has asked for it by name."""
    symbol = wrapping.site.symbol
    return wrapping.context.is_uncalled(symbol) and "DataParallel" in symbol and "Distributed" not in symbol


def _is_fallback(wrapping: Wrapping) -> bool:
    """Whether another branch of the code uses DDP."""
    return wrapping.other_branch == DISTRIBUTED_DATA_PARALLEL or wrapping.context.under(GuardKind.NOT_DISTRIBUTED)
