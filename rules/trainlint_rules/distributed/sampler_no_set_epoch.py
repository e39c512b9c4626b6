from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainlint.fixes.recipe import Applicability, Fix, InsertAtStartOfLoop
from trainlint.lint.finding import Family, Finding, RelatedSite
from trainlint.lint.rule import Rule, invalid, valid
from trainlint.probe.evidence import EpochStarts, Evidence, Line
from trainlint.probe.judges import MADE_NOWHERE, judge_condition
from trainlint.probe.verdict import Measurement, Source, Status, Verdict
from trainlint.semantics.duties import Duty
from trainlint.semantics.project import Loader, Project, Sampler
from trainlint.semantics.vocabulary import Known, Region

DISTRIBUTED_SAMPLERS = ("torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler")


class SamplerNoSetEpoch(Rule):
    """A distributed sampler draws the same order in every epoch.

    ## What it does
    Reports a shuffling `DistributedSampler` whose training loader is iterated anew for each epoch, in a program that
    never calls `set_epoch` by any route.

    ## Why it is slow
    The sampler seeds its shuffle with the epoch number, which stays 0: each rank gets the same samples in the same
    order, epoch after epoch. Training needs more steps for what a fresh order would give, and no error says so.

    ## When it is fine
    Evaluation samplers and `shuffle=False`; a single pass over the data; Lightning, Accelerate and HF Trainer, which
    call `set_epoch`; a call through `loader.sampler`, `loader.batch_sampler` or a helper.

    ## Example
    ```python
    loader = DataLoader(dataset, batch_size=32, sampler=DistributedSampler(dataset))
    for epoch in range(epochs):
        for batch in loader:
            ...
    ```

    ## Use instead
    ```python
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        for batch in loader:
            ...
    ```

    ## Fix safety
    Unsafe: from the second epoch on the order of samples changes, which is the point. A loop whose loader or epoch
    number has no name in reach gets advice only. A sampler that is made under a condition is told the epoch only where
    the loader has one that wants to know.

    ## How the probe confirms it
    By digests of the first batch of each epoch on one rank, of a loader that draws from a distributed sampler: equal
    ones confirm it, different ones clear it. The measured steps have to reach into a second epoch. A run whose loaders
    have no such sampler, as on one process, says nothing of it.

    ## References
    - PyTorch, torch.utils.data.distributed.DistributedSampler, the warning on `set_epoch`:
      https://docs.pytorch.org/docs/stable/data.html
    - DistributedSampler is the first check on several GPUs, before any tuning (articles 000 and 003).
    """

    code, name, family = "TL303", "sampler-no-set-epoch", Family.DISTRIBUTED
    fix_class = Applicability.UNSAFE
    confirmed_by = "same order each epoch"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            dataset = TensorDataset(torch.randn(64, 8))
            sampler = DistributedSampler(dataset)  # expect: TL303
            loader = DataLoader(dataset, batch_size=8, sampler=sampler)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                for (inputs,) in loader:
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="every epoch has the order of epoch 0",
            fixed="""
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            dataset = TensorDataset(torch.randn(64, 8))
            sampler = DistributedSampler(dataset)
            loader = DataLoader(dataset, batch_size=8, sampler=sampler)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                loader.sampler.set_epoch(epoch)
                for (inputs,) in loader:
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
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1
            model = nn.Linear(8, 1).cuda()
            if distributed:
                torch.distributed.init_process_group("nccl")
                model = DistributedDataParallel(model)
            dataset = TensorDataset(torch.randn(64, 8))
            sampler = DistributedSampler(dataset) if distributed else None  # expect: TL303
            loader = DataLoader(dataset, batch_size=8, sampler=sampler, shuffle=sampler is None)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                for (inputs,) in loader:
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the same, in a script that also runs on one GPU, where the loader's own sampler knows no epoch",
            fixed="""
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1
            model = nn.Linear(8, 1).cuda()
            if distributed:
                torch.distributed.init_process_group("nccl")
                model = DistributedDataParallel(model)
            dataset = TensorDataset(torch.randn(64, 8))
            sampler = DistributedSampler(dataset) if distributed else None
            loader = DataLoader(dataset, batch_size=8, sampler=sampler, shuffle=sampler is None)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                if hasattr(loader.sampler, "set_epoch"):
                    loader.sampler.set_epoch(epoch)
                for (inputs,) in loader:
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
        ),
        invalid(
            """
            import torch
            from torch.utils.data import DataLoader, TensorDataset
            from torch.utils.data.distributed import DistributedSampler


            def build_loader(dataset, rank, world_size):
                sampler = DistributedSampler(  # expect: TL303
                    dataset, num_replicas=world_size, rank=rank, shuffle=True
                )
                return DataLoader(dataset, batch_size=8, sampler=sampler)
            """,
            because="the epoch loop is in another file and does not know of the sampler",
            entry="data.py",
            others={
                "train.py": """
                import torch
                from torch import nn
                from torch.nn.parallel import DistributedDataParallel

                from data import build_loader

                torch.distributed.init_process_group("nccl")
                model = DistributedDataParallel(nn.Linear(8, 1).cuda())
                dataset = torch.utils.data.TensorDataset(torch.randn(64, 8))
                loader = build_loader(dataset, torch.distributed.get_rank(), torch.distributed.get_world_size())
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for epoch in range(10):
                    for (inputs,) in loader:
                        loss = model(inputs.cuda()).mean()
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                """
            },
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


            def train_one_epoch(model, batches, optimizer):
                for (inputs,) in batches:
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            def main():
                torch.distributed.init_process_group("nccl")
                model = DistributedDataParallel(nn.Linear(8, 1).cuda())
                dataset = TensorDataset(torch.randn(64, 8))
                loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))  # expect: TL303
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for epoch in range(10):
                    train_one_epoch(model, loader, optimizer)


            main()
            """,
            because="the step loop is in a function of its own; the epoch loop has both names",
            fixed="""
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


            def train_one_epoch(model, batches, optimizer):
                for (inputs,) in batches:
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            def main():
                torch.distributed.init_process_group("nccl")
                model = DistributedDataParallel(nn.Linear(8, 1).cuda())
                dataset = TensorDataset(torch.randn(64, 8))
                loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for epoch in range(10):
                    loader.sampler.set_epoch(epoch)
                    train_one_epoch(model, loader, optimizer)


            main()
            """,
        ),
        valid(
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
            for epoch in range(10):
                loader.sampler.set_epoch(epoch)
                for (inputs,) in loader:
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="called through the loader",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            from loop import train

            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            dataset = TensorDataset(torch.randn(64, 8))
            sampler = DistributedSampler(dataset, shuffle=True)
            loader = DataLoader(dataset, batch_size=8, sampler=sampler)
            train(model, loader, sampler, torch.optim.SGD(model.parameters(), lr=0.1))
            """,
            because="handed to a function of another file, which calls set_epoch",
            others={
                "loop.py": """
                def train(model, loader, sampler, optimizer):
                    for epoch in range(10):
                        if sampler:
                            sampler.set_epoch(epoch)
                        for (inputs,) in loader:
                            loss = model(inputs.cuda()).mean()
                            optimizer.zero_grad()
                            loss.backward()
                            optimizer.step()
                """
            },
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            dataset = TensorDataset(torch.randn(64, 8))
            test_loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
            for epoch in range(10):
                with torch.no_grad():
                    for (inputs,) in test_loader:
                        print(model(inputs.cuda()).mean())
            """,
            because="an evaluation sampler: the order changes nothing",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            dataset = TensorDataset(torch.randn(64, 8))
            loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset, shuffle=False))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                for (inputs,) in loader:
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="it keeps its order on purpose",
        ),
        valid(
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
            for (inputs,) in loader:
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a single pass over the data",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for sampler in project.samplers:
            loader = _loader_restarted_by_epochs(sampler)
            if loader is not None and _shuffles(sampler) and not _epoch_is_set(sampler):
                yield self.finding(
                    sampler,
                    "this DistributedSampler never hears of the epoch, so that every epoch has the same order",
                    help="Call its set_epoch(epoch) at the start of each epoch",
                    related=tuple(
                        RelatedSite(use.epoch_loop or use.site, "the loop that starts the same order again")
                        for use in loader.uses
                        if use.region is Region.TRAINING and use.restarts
                    ),
                )

    def fix(self, finding: Finding) -> Fix | None:
        sampler = finding.subject
        assert isinstance(sampler, Sampler)
        loader = _loader_restarted_by_epochs(sampler)
        use = None if loader is None else loader.epoch_use
        if use is None or use.epoch_loop is None or use.epoch_loop.path != sampler.site.path:
            return Fix(Applicability.DISPLAY, "Call loader.sampler.set_epoch(epoch) at the start of each epoch")
        call = f"{use.name}.sampler.set_epoch({use.epoch_name})"
        # Under a condition, the loader may have another sampler instead.
        source = f'if hasattr({use.name}.sampler, "set_epoch"):\n    {call}' if sampler.context.guards else call
        return Fix(Applicability.UNSAFE, f"Call {call} in each epoch", (InsertAtStartOfLoop(use.epoch_loop, source),))

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = finding.related[0].site if finding.related else None
        if evidence.did_run(finding.site) is False:
            return MADE_NOWHERE
        starts = [one for rank in evidence.ranks for one in rank.epoch_starts]
        if starts and all(one.distributed_sampler is False for one in starts):
            return Verdict(Status.NOT_EXERCISED, note="no loader of the run drew from a distributed sampler")
        own = _of_the_sampler(starts, [evidence.lines(related.site) for related in finding.related])
        epochs = [one.digests for one in own if len(one.digests) > 1]
        if not epochs:
            unmeasured = "the measured steps did not reach a second epoch; probe more steps"
            if starts and not own:
                unmeasured = "none of the loaders that fed the steps is known to draw from this sampler"
            return judge_condition(evidence, loop, None, unmeasured=unmeasured)
        orders = min(len(set(digests)) for digests in epochs)
        figure = Measurement("different first batches", orders, "epochs", Source.AGENT)
        return judge_condition(evidence, loop, orders == 1, (figure,), unmeasured="")


def _of_the_sampler(starts: list[EpochStarts], loops: Iterable[Iterable[Line]]) -> list[EpochStarts]:
    """Of loaders with a distributed sampler: those of the loops that draw from this one; where there is no telling them
    apart, that of the only such loop."""
    drawn = [one for one in starts if one.distributed_sampler]
    lines = {line for loop in loops for line in loop}
    here = [one for one in drawn if one.line in lines]
    return here or (drawn if len({one.line for one in drawn}) == 1 else [])


def _loader_restarted_by_epochs(sampler: Sampler) -> Loader | None:
    """The loader that draws from the sampler in several epochs of training."""
    return next((loader for loader in sampler.loaders if loader.trains and loader.restarts), None)


def _shuffles(sampler: Sampler) -> bool:
    """Whether it is a distributed sampler whose order depends on the epoch; shuffling is its default."""
    if sampler.library not in DISTRIBUTED_SAMPLERS or sampler.arguments.unknown("shuffle"):
        return False
    return sampler.arguments.absent("shuffle") or sampler.arguments.constant("shuffle") is True


def _epoch_is_set(sampler: Sampler) -> bool:
    """Whether the program or its framework tells the sampler its epoch, or the job has one rank only."""
    entry = sampler.context.entry
    return (
        sampler.sets_epoch
        or entry.sets_epoch
        or entry.spared(Duty.SET_EPOCH)
        or entry.distributed is Known.NO
        or any(loader.spared(Duty.SET_EPOCH) for loader in sampler.loaders)
    )
