from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import (
    Applicability,
    EnsureImport,
    Fix,
    InsertAtStartOfLoop,
    Recipe,
    RemoveArgument,
    SetArgument,
)
from trainlint.lint.finding import Family, Finding, RelatedSite
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe import thresholds
from trainlint.probe.evidence import Evidence, RankEvidence
from trainlint.probe.judges import MADE_NOWHERE, judge_condition
from trainlint.probe.verdict import Measurement, Source, Verdict
from trainlint.semantics.duties import Duty
from trainlint.semantics.project import DatasetKind, Loader, Project
from trainlint.semantics.values import NONE
from trainlint.semantics.vocabulary import Confidence, GuardKind, Known, Region

TORCH_LOADER = "torch.utils.data.DataLoader"


class LoaderNoDistributedSampler(Rule):
    """Every rank of a distributed job trains on the whole dataset.

    ## What it does
    Reports the training loader of a job whose ranks are to share the data, when neither a sampler nor the dataset gives
    each rank its own part.

    ## Why it is slow
    All ranks work through all samples: N GPUs do the same work N times, and an epoch takes as long as on one. Where
    the ranks draw the same order, they even compute the same batch, and averaging equal gradients changes nothing.

    ## When it is fine
    Frameworks that insert a sampler (Lightning, Accelerate, HF Trainer, Ray Train); iterable datasets, which have to
    shard themselves; batch samplers that shard; a sampler that is None unless the job is distributed; datasets already
    cut by rank; ranks that split the model rather than the data.

    ## Example
    ```python
    model = DistributedDataParallel(model)
    loader = DataLoader(dataset, batch_size=32, shuffle=True)
    ```

    ## Use instead
    ```python
    model = DistributedDataParallel(model)
    loader = DataLoader(dataset, batch_size=32, sampler=DistributedSampler(dataset))
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
    ```

    ## Fix safety
    Unsafe: each rank sees other samples than before, in another order, and an epoch has fewer steps; schedules that
    count steps change with it. The process group must exist when the sampler is built.

    ## How the probe confirms it
    By the first batches of epochs: the same batch on two ranks confirms it. Samplers with which the ranks together go
    through the dataset once in an epoch clear it. Different batches of samplers that each go through all of a dataset
    say nothing: the dataset may be one rank's part, or shuffled. A run on one rank cannot tell.

    ## References
    - Every rank its own shard: the first check on several GPUs, before any tuning (articles 000 and 003).
    - PyTorch, torch.utils.data.distributed.DistributedSampler: https://docs.pytorch.org/docs/stable/data.html
    """

    code, name, family = "TL302", "loader-no-distributed-sampler", Family.DISTRIBUTED
    fix_class = Applicability.UNSAFE
    confirmed_by = "identical batches on ranks"
    examples = (
        invalid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, TensorDataset

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            dataset = TensorDataset(torch.randn(64, 8))
            loader = DataLoader(dataset, batch_size=8, shuffle=True)  # expect: TL302
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(local_rank), device_ids=[local_rank])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(3):
                for (inputs,) in loader:
                    loss = model(inputs.cuda(local_rank)).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="each rank shuffles the whole dataset",
            fixed="""
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, TensorDataset
            from torch.utils.data.distributed import DistributedSampler

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            dataset = TensorDataset(torch.randn(64, 8))
            loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(local_rank), device_ids=[local_rank])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(3):
                loader.sampler.set_epoch(epoch)
                for (inputs,) in loader:
                    loss = model(inputs.cuda(local_rank)).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
        ),
        invalid(
            """
            import torch
            from torch.utils.data import DataLoader, TensorDataset


            def build_loader(batch_size):
                dataset = TensorDataset(torch.randn(64, 8))
                return DataLoader(dataset, batch_size=batch_size)  # expect: TL302
            """,
            because="built in a file that knows nothing of ranks, used by one that wraps the model in DDP",
            entry="data.py",
            fixed="""
            import torch
            from torch.utils.data import DataLoader, TensorDataset
            from torch.utils.data.distributed import DistributedSampler


            def build_loader(batch_size):
                dataset = TensorDataset(torch.randn(64, 8))
                return DataLoader(
                    dataset,
                    batch_size=batch_size,
                    sampler=DistributedSampler(dataset, shuffle=False),
                )
            """,
            others={
                "train.py": """
                import torch
                from torch import nn
                from torch.nn.parallel import DistributedDataParallel

                from data import build_loader

                torch.distributed.init_process_group("nccl")
                model = DistributedDataParallel(nn.Linear(8, 1).cuda())
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for (inputs,) in build_loader(8):
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
            from torch.distributed.fsdp import FullyShardedDataParallel
            from torch.utils.data import DataLoader, TensorDataset


            class Trainer:
                def __init__(self, model, dataset):
                    self.model = FullyShardedDataParallel(model.cuda())
                    self.optimizer = torch.optim.AdamW(self.model.parameters())
                    self.loader = DataLoader(dataset, 8, True)  # expect: TL302

                def fit(self):
                    for (inputs,) in self.loader:
                        loss = self.model(inputs.cuda()).mean()
                        self.optimizer.zero_grad()
                        loss.backward()
                        self.optimizer.step()


            torch.distributed.init_process_group("nccl")
            Trainer(nn.Linear(8, 1), TensorDataset(torch.randn(64, 8))).fit()
            """,
            because="FSDP shards the model, not the data; shuffle is given by position",
            fixed="""
            import torch
            from torch import nn
            from torch.distributed.fsdp import FullyShardedDataParallel
            from torch.utils.data import DataLoader, TensorDataset
            from torch.utils.data.distributed import DistributedSampler


            class Trainer:
                def __init__(self, model, dataset):
                    self.model = FullyShardedDataParallel(model.cuda())
                    self.optimizer = torch.optim.AdamW(self.model.parameters())
                    self.loader = DataLoader(dataset, 8, sampler=DistributedSampler(dataset))

                def fit(self):
                    for (inputs,) in self.loader:
                        loss = self.model(inputs.cuda()).mean()
                        self.optimizer.zero_grad()
                        loss.backward()
                        self.optimizer.step()


            torch.distributed.init_process_group("nccl")
            Trainer(nn.Linear(8, 1), TensorDataset(torch.randn(64, 8))).fit()
            """,
        ),
        valid(
            """
            import argparse

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            parser = argparse.ArgumentParser()
            parser.add_argument("--distributed", action="store_true")
            args = parser.parse_args()
            model = nn.Linear(8, 1).cuda()
            dataset = TensorDataset(torch.randn(64, 8))
            if args.distributed:
                torch.distributed.init_process_group("nccl")
                model = DistributedDataParallel(model)
                sampler = DistributedSampler(dataset)
            else:
                sampler = None
            loader = DataLoader(dataset, batch_size=8, shuffle=sampler is None, sampler=sampler)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for (inputs,) in loader:
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the sampler is None unless the job is distributed",
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
            options = {"batch_size": 8, "sampler": DistributedSampler(dataset)}
            loader = DataLoader(dataset, **options)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for (inputs,) in loader:
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the sampler comes in a dict of options",
        ),
        valid(
            """
            import torch
            from accelerate import Accelerator
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            accelerator = Accelerator()
            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=8, shuffle=True)
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            for (inputs,) in loader:
                accelerator.backward(model(inputs).mean())
                optimizer.step()
                optimizer.zero_grad()
            """,
            because="accelerator.prepare shards the loader",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, IterableDataset


            class Stream(IterableDataset):
                def __init__(self, rank, world_size):
                    self.rank, self.world_size = rank, world_size

                def __iter__(self):
                    for index in range(self.rank, 64, self.world_size):
                        yield torch.full((8,), float(index))


            torch.distributed.init_process_group("nccl")
            rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            loader = DataLoader(Stream(rank, world_size), batch_size=8)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in loader:
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="an iterable dataset takes no sampler and shards itself",
        ),
        *(
            valid(
                f"""
                import os
                import torch
                import torch.distributed as dist
                from datasets import load_dataset
                from datasets.distributed import split_dataset_by_node
                from torch import nn
                from torch.nn.parallel import DistributedDataParallel
                from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset


                class Files(Dataset):
                    def __init__(self, root, rank=0, world=1):
                        self.files = os.listdir(root)[rank::world]

                    def __len__(self):
                        return len(self.files)

                    def __getitem__(self, index):
                        return torch.load(self.files[index])


                class Part(Dataset):
                    def __len__(self):
                        return 1024 // dist.get_world_size()

                    def __getitem__(self, index):
                        return torch.load(f"{{index * dist.get_world_size() + dist.get_rank()}}.pt")


                def main():
                    dist.init_process_group("nccl")
                    rank, world = dist.get_rank(), dist.get_world_size()
                    model = DistributedDataParallel(nn.Linear(8, 1).cuda())
                    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                    dataset = {dataset}
                    loader = DataLoader(dataset, batch_size=8, shuffle=True)
                    for inputs in loader:
                        loss = model(inputs.cuda()).mean()
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()


                main()
                """,
                because=because,
            )
            for dataset, because in (
                ('load_dataset("text", split="train").shard(num_shards=world, index=rank)', "shard() of Hugging Face"),
                ('split_dataset_by_node(load_dataset("text", split="train"), rank, world)', "likewise by node"),
                ("Subset(TensorDataset(torch.randn(64, 8)), range(rank, 64, world))", "a subset by rank"),
                ("TensorDataset(torch.randn(64, 8)[rank::world])", "a slice by rank"),
                ('Files("data", rank, world)', "a class of the project that is given the rank"),
                ("Part()", "a class of the project that asks for the rank"),
            )
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
            train_loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
            test_loader = DataLoader(dataset, batch_size=8)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for (inputs,) in train_loader:
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            with torch.no_grad():
                for (inputs,) in test_loader:
                    print(model(inputs.cuda()).mean())
            """,
            because="the loader without one is for evaluation",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for loader in project.loaders:
            if _ranks_share_data(loader) and loader.trains and not _may_shard(loader):
                entry = loader.context.entry
                yield self.finding(
                    loader,
                    f"{quote(loader.text)} gives every rank the whole dataset, so all ranks do the same work",
                    help="Pass sampler=DistributedSampler(dataset), and call its set_epoch in each epoch",
                    confidence=Confidence.HIGH if entry.data_parallel is Known.YES else Confidence.MEDIUM,
                    related=tuple(
                        RelatedSite(use.site, "the loop that trains on it")
                        for use in loader.uses
                        if use.region is Region.TRAINING
                    ),
                )

    def fix(self, finding: Finding) -> Fix | None:
        loader = finding.subject
        assert isinstance(loader, Loader)
        shuffles = _shuffles(loader)
        if shuffles is None or not loader.dataset_text:
            return Fix(Applicability.DISPLAY, "Pass sampler=DistributedSampler(dataset) instead of shuffle")
        order = "" if shuffles else ", shuffle=False"
        recipes: list[Recipe] = [
            RemoveArgument(loader.site, "shuffle", position=2),
            SetArgument(loader.site, "sampler", f"DistributedSampler({loader.dataset_text}{order})"),
            EnsureImport(loader.site, "torch.utils.data.distributed", "DistributedSampler"),
        ]
        use = loader.epoch_use
        if shuffles and use is not None and use.epoch_loop is not None and use.epoch_loop.path == loader.site.path:
            recipes.append(InsertAtStartOfLoop(use.epoch_loop, f"{use.name}.sampler.set_epoch({use.epoch_name})"))
        return Fix(Applicability.UNSAFE, "Give each rank its own part of the dataset", tuple(recipes))

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = finding.related[0].site if finding.related else None
        if evidence.did_run(finding.site) is False:
            return MADE_NOWHERE
        if evidence.loader_at((finding.site, *(related.site for related in finding.related))) != evidence.loader:
            unmeasured = (
                "several loaders fed the steps, and the batches that were compared are not known to be this one's"
            )
            return judge_condition(evidence, loop, None, unmeasured=unmeasured)
        shares = [rank.dataset_share for rank in evidence.ranks if rank.dataset_share is not None]
        passes, bound = sum(shares), thresholds.DATA_PASSES.value
        figure = Measurement("passes over the dataset, all ranks together", passes, "", Source.AGENT, bound)
        figures = (figure,) if len(shares) > 1 else ()
        if figures and passes < bound:
            return judge_condition(evidence, loop, False, figures, unmeasured="")
        # Datasets of one length may be one dataset, or a part of it for each rank: only their batches tell.
        digests = [rank for rank in evidence.ranks if rank.batch_digests]
        if len(digests) < 2:
            unmeasured = "no first batches of several ranks were seen on the CPU, so they could not be compared"
            return judge_condition(evidence, loop, None, figures, unmeasured=unmeasured)
        equal = _ranks_with_equal_batches(digests)
        figures = (*figures, Measurement("ranks that saw the same batch", equal, "ranks", Source.AGENT, 2))
        unmeasured = (
            "the ranks saw different batches, as they would by shuffling the whole dataset on each rank, or with a "
            "dataset that is one rank's part"
        )
        return judge_condition(evidence, loop, True if equal >= 2 else None, figures, unmeasured=unmeasured)


def _ranks_share_data(loader: Loader) -> bool:
    entry = loader.context.entry
    return (
        entry.distributed is Known.YES
        and entry.data_parallel is not Known.NO
        and not loader.context.under(GuardKind.NOT_DISTRIBUTED)
    )


def _may_shard(loader: Loader) -> bool:
    """Whether something gives each rank its own share, or may do so for all that is known."""
    return (
        loader.library != TORCH_LOADER
        or loader.spared(Duty.SPLIT_PREPARED)
        or loader.context.entry.spared(Duty.SPLIT_DATA)
        or loader.dataset_kind is DatasetKind.ITERABLE
        or loader.sharded_dataset
        or not _surely_none(loader, "sampler")
        or not _surely_none(loader, "batch_sampler")
    )


def _surely_none(loader: Loader, name: str) -> bool:
    return loader.arguments.absent(name) or loader.arguments.value(name) == NONE


def _shuffles(loader: Loader) -> bool | None:
    """Whether the loader shuffles; None where the program text does not say."""
    if loader.arguments.absent("shuffle"):
        return False
    shuffle = loader.arguments.constant("shuffle")
    return shuffle if isinstance(shuffle, bool) else None


def _ranks_with_equal_batches(ranks: list[RankEvidence]) -> int:
    """How many ranks saw a batch of the same epoch that another one saw too."""
    epochs = min(len(rank.batch_digests) for rank in ranks)
    counts = [
        sum(rank.batch_digests[epoch] == other.batch_digests[epoch] for other in ranks)
        for epoch in range(epochs)
        for rank in ranks
    ]
    return max(counts)
