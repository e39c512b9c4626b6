from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_stacks
from trainlint.probe.verdict import Status, Verdict
from trainlint.semantics.project import Collective, Project
from trainlint.semantics.vocabulary import Confidence, GuardKind, Known

KEEP = "Keep the figure on its rank, and reduce it where it is logged, every few steps or once per epoch"
NO_BARRIER = "Remove it: DistributedDataParallel and its kin make ranks wait for each other where gradients need it"


class CollectiveInStep(Rule):
    """Ranks wait for each other at every training step, for a figure or for nothing.

    ## What it does
    Reports barriers, and reductions and gathers of losses and metrics, per training step: `torch.distributed` and
    `Accelerator`.

    ## Why it is slow
    A collective starts once the last rank has reached it. The gradients' own reduction overlaps with the backward pass;
    one more of a loss does not, and takes its latency on top, whatever its size. After a barrier no rank is ahead any
    more, so that each step takes as long as the slowest rank of that step.

    ## When it is fine
    Every few steps, and once per epoch. Collectives that training needs: of gradients, parameters and statistics, of
    features that a loss compares across ranks, of a count that a loss is divided by. In an evaluation.

    ## Example
    ```python
    loss.backward()
    optimizer.step()
    dist.all_reduce(loss, op=dist.ReduceOp.AVG)
    ```

    ## Use instead
    ```python
    loss.backward()
    optimizer.step()
    total += loss.detach()
    if step % log_every == 0:
        dist.all_reduce(total, op=dist.ReduceOp.AVG)
    ```

    ## Fix safety
    Display: where the figure is needed next is for the author to say, and all ranks have to reach a collective.

    ## How the probe confirms it
    By stack samples under this line: a rank that waits stands there. With NCCL it is the GPU that waits, except in a
    barrier, so samples do not clear a reduction on a GPU.

    ## References
    - Communication above 15 % (article 001) to 20 % (article 003) of the step: NCCL on the critical path.
    - Lightning, logging, `sync_dist`, which "may lead to a significant communication overhead":
      https://lightning.ai/docs/pytorch/stable/extensions/logging.html
    - PyTorch, torch.distributed.barrier, by which NCCL's group blocks the CPU thread until it is complete:
      https://docs.pytorch.org/docs/stable/distributed.html
    """

    code, name, family = "TL214", "collective-in-step", Family.STEP
    fix_class = Applicability.DISPLAY
    confirmed_by = "stack samples under this line"
    examples = (
        invalid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler

            dist.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dataset = torch.load("inputs.pt")
            loader = DataLoader(dataset, batch_size=64, sampler=DistributedSampler(dataset))
            model = DistributedDataParallel(nn.Linear(32, 1).cuda())
            optimizer = torch.optim.AdamW(model.parameters())
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                dist.all_reduce(loss, op=dist.ReduceOp.AVG)  # expect: TL214
                if step % 100 == 0 and dist.get_rank() == 0:
                    print(step, loss.item())
            """,
            because="reduced at every step, looked at every hundredth",
        ),
        invalid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader

            from meters import reduce_losses

            dist.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = DistributedDataParallel(nn.Linear(32, 1).cuda())
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                outputs = model(inputs.cuda())
                losses = {"square": outputs.square().mean(), "absolute": outputs.abs().mean()}
                optimizer.zero_grad()
                sum(losses.values()).backward()
                optimizer.step()
                averaged = reduce_losses(losses)
            """,
            because="a helper in another file reduces a stack of losses",
            others={
                "meters.py": """
                import torch
                import torch.distributed as dist


                def reduce_losses(losses):
                    with torch.no_grad():
                        values = torch.stack([losses["square"], losses["absolute"]])
                        dist.all_reduce(values)  # expect: TL214
                        return values / dist.get_world_size()
                """
            },
        ),
        invalid(
            """
            import torch
            from accelerate import Accelerator
            from torch import nn
            from torch.utils.data import DataLoader

            accelerator = Accelerator()
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1)
            optimizer = torch.optim.AdamW(model.parameters())
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            total = 0.0
            for inputs in loader:
                loss = model(inputs).square().mean()
                optimizer.zero_grad()
                accelerator.backward(loss)
                optimizer.step()
                total += accelerator.gather(loss.detach()).mean()  # expect: TL214
                accelerator.wait_for_everyone()  # expect: TL214
            accelerator.print(total.item() / len(loader))
            """,
            because="Accelerate gathers when it is told to; and a barrier at each step",
        ),
        invalid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader


            def accuracy_of(outputs, labels):
                correct = (outputs.argmax(1) == labels).float().mean()
                dist.all_reduce(correct)  # expect: TL214
                return correct / dist.get_world_size()


            dist.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dataset = torch.utils.data.TensorDataset(torch.load("images.pt"), torch.load("labels.pt"))
            loader = DataLoader(dataset, batch_size=64)
            model = DistributedDataParallel(nn.Linear(32, 10).cuda())
            optimizer = torch.optim.AdamW(model.parameters())
            for images, labels in loader:
                dist.barrier()  # expect: TL214
                images, labels = images.cuda(), labels.cuda()
                outputs = model(images)
                loss = nn.functional.cross_entropy(outputs, labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                accuracy = accuracy_of(outputs.detach(), labels)
            """,
            because="an accuracy, and a barrier before each step",
        ),
        valid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader

            dist.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = DistributedDataParallel(nn.Linear(32, 1).cuda())
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(10):
                for step, inputs in enumerate(loader):
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    if step % 100 == 0:
                        dist.all_reduce(loss, op=dist.ReduceOp.AVG)
                        print(step, loss.item())
                dist.barrier()
            """,
            because="every hundredth step, and once per epoch",
        ),
        valid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.utils.data import DataLoader

            dist.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                for parameter in model.parameters():
                    dist.all_reduce(parameter.grad)
                    parameter.grad /= dist.get_world_size()
                norm = torch.stack([parameter.grad.norm() for parameter in model.parameters()]).norm()
                dist.all_reduce(norm, op=dist.ReduceOp.MAX)
                optimizer.step()
            """,
            because="gradients, and a norm of them that decides how they are clipped",
        ),
        valid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader


            class Contrast(nn.Module):
                def forward(self, features, masks):
                    parts = [torch.empty_like(features) for _ in range(dist.get_world_size())]
                    dist.all_gather(parts, features)
                    count = masks.sum()
                    dist.all_reduce(count)
                    return (features @ torch.cat(parts).T).logsumexp(1).sum() / count


            dist.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dataset = torch.utils.data.TensorDataset(torch.load("images.pt"), torch.load("masks.pt"))
            loader = DataLoader(dataset, batch_size=64)
            model = DistributedDataParallel(nn.Linear(32, 16).cuda())
            criterion = Contrast()
            optimizer = torch.optim.AdamW(model.parameters())
            for images, masks in loader:
                loss = criterion(model(images.cuda()), masks.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="features that the loss compares across ranks, and a count that it is divided by",
        ),
        valid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader


            class Codebook(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("codes", torch.randn(512, 16))
                    self.register_buffer("sizes", torch.zeros(512))

                def forward(self, features):
                    chosen = torch.cdist(features, self.codes).argmin(1)
                    if self.training:
                        with torch.no_grad():
                            sizes = nn.functional.one_hot(chosen, 512).float().sum(0)
                            dist.all_reduce(sizes)
                            self.sizes.mul_(0.99).add_(sizes, alpha=0.01)
                    return (features - self.codes[chosen]).square().mean()


            dist.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 16), Codebook()).cuda())
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="statistics that the model keeps equal on all ranks",
        ),
        valid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader


            @torch.no_grad()
            def evaluate(model, loader):
                total = torch.zeros((), device="cuda")
                for inputs in loader:
                    loss = model(inputs.cuda()).square().mean()
                    dist.all_reduce(loss)
                    total += loss
                return total / len(loader)


            dist.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            test_loader = DataLoader(torch.load("test.pt"), batch_size=64)
            model = DistributedDataParallel(nn.Linear(32, 1).cuda())
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(10):
                for inputs in loader:
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                print(epoch, evaluate(model, test_loader).item())
            """,
            because="an evaluation",
        ),
        valid(
            """
            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.utils.data import DataLoader


            def averaged(value):
                if not dist.is_initialized():
                    return value
                dist.all_reduce(value)
                return value / dist.get_world_size()


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                averaged(loss.detach())
            """,
            because="no process group is ever started, so the helper returns at once",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for collective in project.collectives:
            certainty = Confidence.HIGH if collective.is_barrier else collective.figure
            if certainty is None or not _joins_ranks_per_step(collective):
                continue
            if collective.context.entry.distributed is not Known.YES:
                certainty = min(certainty, Confidence.MEDIUM)
            why = "" if collective.is_barrier else ", for a figure that is only looked at"
            yield self.finding(
                collective,
                f"{quote(collective.text)} joins all ranks {collective.context.frequency.phrase}{why}",
                help=NO_BARRIER if collective.is_barrier else KEEP,
                confidence=certainty,
            )

    def fix(self, finding: Finding) -> Fix | None:
        collective = finding.subject
        assert isinstance(collective, Collective)
        return Fix(Applicability.DISPLAY, NO_BARRIER if collective.is_barrier else KEEP)

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        collective = finding.subject
        verdict = judge_stacks(evidence, finding.site)
        waits_on_host = not evidence.accelerator or (isinstance(collective, Collective) and collective.is_barrier)
        if verdict.status is Status.REFUTED and not waits_on_host:
            note = "the host does not wait here, but the GPU may; look at the exposed communication"
            return replace(verdict, status=Status.INCONCLUSIVE, note=note)
        return verdict


def _joins_ranks_per_step(collective: Collective) -> bool:
    context = collective.context
    among_several = context.entry.distributed is not Known.NO and not context.under(GuardKind.NOT_DISTRIBUTED)
    return context.hot and context.routine and among_several and not context.under(GuardKind.RANK)
