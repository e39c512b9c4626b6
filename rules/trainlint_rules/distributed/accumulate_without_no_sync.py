from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, RelatedSite
from trainlint.lint.rule import Rule, invalid, valid
from trainlint.probe import thresholds
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_condition
from trainlint.probe.verdict import Measurement, Source, Verdict
from trainlint.semantics.duties import Duty
from trainlint.semantics.project import Project, StepLoop
from trainlint.semantics.vocabulary import Confidence, Known

FULLY_SHARDED = "torch.distributed.fsdp.FullyShardedDataParallel"

RECIPE = """\
Run all micro-batches but the last under the wrapper's no_sync():
  last = (step + 1) % accumulation_steps == 0
  with contextlib.nullcontext() if last else model.no_sync():
      loss = criterion(model(inputs), targets) / accumulation_steps
      loss.backward()
The forward belongs inside, too. With FSDP, no_sync keeps unsharded gradients until the last micro-batch, in memory."""

RECIPE_OF_FULLY_SHARD = """\
Say before each forward whether its backward pass reduces gradients:
  model.set_requires_gradient_sync((step + 1) % accumulation_steps == 0)
Until the last micro-batch, unsharded gradients stay in memory."""


class AccumulateWithoutNoSync(Rule):
    """Gradient accumulation reduces gradients over all ranks for every micro-batch.

    ## What it does
    Reports the backward call of a loop that accumulates gradients over several micro-batches of a model wrapped in DDP
    or FSDP, where nothing switches the reduction off for all but the last of them.

    ## Why it is slow
    The wrapper reduces gradients in each backward pass. Only the sum at the optimizer step matters, so with N
    micro-batches the ranks communicate N times as much as they need to.

    ## When it is fine
    `no_sync()` in any idiom: a context kept in a variable, `require_backward_grad_sync`, `set_requires_gradient_sync`,
    `accelerator.accumulate`; frameworks that decide when to reduce (Lightning, HF Trainer, DeepSpeed); DataParallel,
    which reduces nothing over ranks; FSDP on models whose unsharded gradients do not fit into memory.

    ## Example
    ```python
    loss = criterion(model(inputs), targets) / accumulation_steps
    loss.backward()
    if (step + 1) % accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    last = (step + 1) % accumulation_steps == 0
    with contextlib.nullcontext() if last else model.no_sync():
        loss = criterion(model(inputs), targets) / accumulation_steps
        loss.backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Fix safety
    Advice only: forward and backward move into a context together, and what counts as the last micro-batch is the
    loop's own logic. Sums of floats are rounded in another order.

    ## How the probe confirms it
    By the number of gradient reductions per optimizer step in the profiler window.

    ## References
    - Gradient accumulation cuts synchronizations, under DDP only with no_sync (articles 001 and 003).
    - PyTorch, DistributedDataParallel.no_sync:
      https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    """

    code, name, family = "TL305", "accumulate-without-no-sync", Family.DISTRIBUTED
    fix_class = Applicability.DISPLAY
    confirmed_by = "all-reduce count per optimizer step"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            accumulation_steps = 4
            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            dataset = TensorDataset(torch.randn(64, 8))
            loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, (inputs,) in enumerate(loader):
                loss = model(inputs.cuda()).mean() / accumulation_steps
                loss.backward()  # expect: TL305
                if (step + 1) % accumulation_steps == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            because="four reductions for one optimizer step",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for batch in torch.randn(16, 4, 8, 8):
                optimizer.zero_grad()
                for micro_batch in batch:
                    loss = model(micro_batch.cuda()).mean() / 4
                    loss.backward()  # expect: TL305
                optimizer.step()
            """,
            because="an inner loop over micro-batches",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel


            def train(loader, accumulation_steps):
                torch.distributed.init_process_group("nccl")
                model = DistributedDataParallel(nn.Linear(8, 1).cuda())
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for batches in loader:
                    optimizer.zero_grad()
                    if accumulation_steps == 1:
                        model(batches[0].cuda()).mean().backward()
                    else:
                        for inputs in batches:
                            loss = model(inputs.cuda()).mean() / accumulation_steps
                            loss.backward()  # expect: TL305
                    optimizer.step()
            """,
            because="only one of the two branches accumulates",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            dataset = TensorDataset(torch.randn(64, 8))
            loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            updates = 0
            for micro, (inputs,) in enumerate(loader):
                loss = model(inputs.cuda()).mean() / 3
                loss.backward()  # expect: TL305
                if (micro + 1) % 3:
                    continue
                optimizer.step()
                optimizer.zero_grad()
                updates += 1
                if updates % 100 == 0:
                    print(updates, loss.item())
            """,
            because="the rest of a turn is skipped, but for each third one",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            from scaler import Scaler

            accumulation_steps = 4
            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            dataset = TensorDataset(torch.randn(64, 8))
            loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = Scaler(torch.amp.GradScaler("cuda"))
            for step, (inputs,) in enumerate(loader):
                with torch.autocast("cuda"):
                    loss = model(inputs.cuda()).mean() / accumulation_steps
                update = (step + 1) % accumulation_steps == 0
                scaler(loss, optimizer, update)  # expect: TL305
                if update:
                    optimizer.zero_grad()
            """,
            because="the backward pass is in a helper of another file, the accumulation in the loop that calls it",
            others={
                "scaler.py": """
                class Scaler:
                    def __init__(self, scaler):
                        self.scaler = scaler

                    def __call__(self, loss, optimizer, update):
                        self.scaler.scale(loss).backward()
                        if update:
                            self.scaler.step(optimizer)
                            self.scaler.update()
                """
            },
        ),
        invalid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.distributed.fsdp import fully_shard
            from torch.utils.data import DataLoader, DistributedSampler

            dist.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            model = nn.Linear(32, 1).cuda()
            fully_shard(model)
            optimizer = torch.optim.AdamW(model.parameters())
            data = torch.load("inputs.pt")
            loader = DataLoader(data, batch_size=64, sampler=DistributedSampler(data), num_workers=4)
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean() / 4
                loss.backward()  # expect: TL305
                if (step + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            because="fully_shard reduces in each backward pass, unless set_requires_gradient_sync says otherwise",
        ),
        valid(
            """
            import contextlib

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            accumulation_steps = 4
            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, inputs in enumerate(torch.randn(64, 8, 8)):
                last = (step + 1) % accumulation_steps == 0
                context = contextlib.nullcontext() if last else model.no_sync()
                with context:
                    loss = model(inputs.cuda()).mean() / accumulation_steps
                    loss.backward()
                if last:
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            because="no_sync, kept in a variable",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            accumulation_steps = 4
            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for batch in torch.randn(16, 4, 8, 8):
                for micro_step, inputs in enumerate(batch):
                    model.require_backward_grad_sync = micro_step == accumulation_steps - 1
                    loss = model(inputs.cuda()).mean() / accumulation_steps
                    loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            """,
            because="the toggle that no_sync itself uses",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="one optimizer step for each backward pass",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            critic = DistributedDataParallel(nn.Linear(1, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
            for step, inputs in enumerate(torch.randn(64, 8, 8)):
                critic_optimizer.zero_grad()
                critic(model(inputs.cuda()).detach()).mean().backward()
                critic_optimizer.step()
                if step % 5:
                    continue
                optimizer.zero_grad()
                (-critic(model(inputs.cuda())).mean()).backward()
                optimizer.step()
            """,
            because="the second network has its own backward pass, as seldom as its update",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            weights = torch.optim.SGD([model.module.weight], lr=0.1)
            biases = torch.optim.SGD([model.module.bias], lr=0.1)
            for step, inputs in enumerate(torch.randn(64, 8, 8)):
                loss = model(inputs.cuda()).mean()
                loss.backward()
                weights.step()
                if step % 5 == 0:
                    biases.step()
                model.zero_grad()
            """,
            because="what is updated more seldom accumulates nothing",
        ),
        valid(
            """
            import torch
            from torch import nn

            accumulation_steps = 4
            model = nn.DataParallel(nn.Linear(8, 1)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, inputs in enumerate(torch.randn(64, 8, 8)):
                loss = model(inputs.cuda()).mean() / accumulation_steps
                loss.backward()
                if (step + 1) % accumulation_steps == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            because="one process: nothing is reduced over ranks",
        ),
        valid(
            """
            import torch
            from accelerate import Accelerator
            from torch import nn

            accelerator = Accelerator(gradient_accumulation_steps=4)
            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            for inputs in loader:
                with accelerator.accumulate(model):
                    accelerator.backward(model(inputs).mean())
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            because="accelerator.accumulate switches the reduction off",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for loop in project.step_loops:
            if loop.accumulates and _reduces_each_time(loop):
                site = loop.accumulation_site or loop.site
                sharded = loop.model_wrapped == FULLY_SHARDED or _by_fully_shard(loop)
                sure = loop.context.entry.distributed is Known.YES and not sharded
                yield self.finding(
                    loop,
                    "this backward pass reduces gradients over all ranks for every micro-batch",
                    help="Reduce gradients in the last micro-batch only",
                    confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
                    site=site,
                    related=(RelatedSite(loop.site, "the loop that accumulates gradients"),),
                )

    def fix(self, finding: Finding) -> Fix | None:
        loop = finding.subject
        by_fully_shard = isinstance(loop, StepLoop) and _by_fully_shard(loop)
        return Fix(Applicability.DISPLAY, RECIPE_OF_FULLY_SHARD if by_fully_shard else RECIPE)

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        counts = [rank.reductions_per_update for rank in evidence.ranks if rank.reductions_per_update is not None]
        if not counts:
            unmeasured = "reductions are counted in the profiler window of a job on several ranks"
            return judge_condition(evidence, finding.site, None, unmeasured=unmeasured)
        most, bound = max(counts), thresholds.REDUCTIONS.value
        figure = Measurement("gradient reductions per optimizer step", most, "times", Source.KINETO, bound)
        return judge_condition(evidence, finding.site, most >= bound, (figure,), unmeasured="")


def _by_fully_shard(loop: StepLoop) -> bool:
    """Whether the model is sharded by `fully_shard`, whose modules have no `no_sync`."""
    return loop.model_wrapped.endswith(".fully_shard")


def _reduces_each_time(loop: StepLoop) -> bool:
    """Whether the wrapper of the model reduces gradients in each backward pass of the loop."""
    entry = loop.context.entry
    return (
        bool(loop.model_wrapped)
        and entry.distributed is not Known.NO
        and not entry.spared(Duty.REDUCE_ONCE)
        and not loop.disables_sync
        and not entry.disables_sync
    )
