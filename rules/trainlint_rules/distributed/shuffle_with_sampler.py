from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, Recipe, RemoveArgument, SetArgument
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.semantics.object_types import SAMPLER
from trainlint.semantics.project import Loader, Project
from trainlint.semantics.values import Choice, Instance, Listing, Object, Tensor, Tuple, Value

TORCH_LOADER = "torch.utils.data.DataLoader"


class ShuffleWithSampler(Rule):
    """A DataLoader is given a sampler and `shuffle=True`, which it refuses with an error.

    ## What it does
    Reports a DataLoader that is given both `shuffle=True` and a sampler, or a batch sampler.

    ## Why it is slow
    It does not run at all: the order comes from the sampler or from `shuffle`, and the constructor raises a ValueError
    where both are asked for. In a script whose sampler is made for distributed runs only, the job on several GPUs is
    the first one to fail, after it has waited for its machines.

    ## When it is fine
    `shuffle=sampler is None`; a `shuffle` that is set to False where the sampler is made; a sampler that is None in
    every call.

    ## Example
    ```python
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=32, shuffle=True, sampler=sampler)
    ```

    ## Use instead
    ```python
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=32, sampler=sampler)
    ```
    DistributedSampler shuffles by itself, in another order in each epoch if its `set_epoch` is called. RandomSampler
    does what `shuffle=True` would do.

    ## Fix safety
    Safe: the call as it is ends in an error. Where the variable may hold None as well, the fix writes
    `shuffle=sampler is None`, so that runs without a sampler are shuffled as before.

    ## How the probe confirms it
    It does not: a job that gets there ends before a step is measured. A run that trains says only that this loader was
    not made, or that the sampler was None.

    ## References
    - Every rank its own shard, by DistributedSampler (articles 000 and 003).
    - PyTorch, torch.utils.data.DataLoader, `sampler`: "If specified, shuffle must not be specified":
      https://docs.pytorch.org/docs/stable/data.html
    """

    code, name, family = "TL311", "shuffle-with-sampler", Family.DISTRIBUTED
    severity = Severity.ERROR
    fix_class = Applicability.SAFE
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            torch.distributed.init_process_group("nccl")
            dataset = TensorDataset(torch.randn(64, 8))
            sampler = DistributedSampler(dataset)
            loader = DataLoader(dataset, batch_size=8, shuffle=True, sampler=sampler)  # expect: TL311
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(3):
                sampler.set_epoch(epoch)
                for (inputs,) in loader:
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="a distributed sampler, and shuffle left from the script for one GPU",
            fixed="""
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            torch.distributed.init_process_group("nccl")
            dataset = TensorDataset(torch.randn(64, 8))
            sampler = DistributedSampler(dataset)
            loader = DataLoader(dataset, batch_size=8, sampler=sampler)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(3):
                sampler.set_epoch(epoch)
                for (inputs,) in loader:
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
        ),
        invalid(
            """
            import argparse

            import torch
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            parser = argparse.ArgumentParser()
            parser.add_argument("--distributed", action="store_true")
            args = parser.parse_args()
            dataset = TensorDataset(torch.randn(64, 8))
            sampler = None
            if args.distributed:
                torch.distributed.init_process_group("nccl")
                sampler = DistributedSampler(dataset)
            loader = DataLoader(  # expect: TL311
                dataset,
                batch_size=8,
                shuffle=True,
                sampler=sampler,
            )
            """,
            because="the error comes with --distributed only",
            fixed="""
            import argparse

            import torch
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            parser = argparse.ArgumentParser()
            parser.add_argument("--distributed", action="store_true")
            args = parser.parse_args()
            dataset = TensorDataset(torch.randn(64, 8))
            sampler = None
            if args.distributed:
                torch.distributed.init_process_group("nccl")
                sampler = DistributedSampler(dataset)
            loader = DataLoader(
                dataset,
                batch_size=8,
                shuffle=sampler is None,
                sampler=sampler,
            )
            """,
        ),
        invalid(
            """
            from torch.utils.data import DataLoader


            def build_loader(dataset, sampler=None, shuffle=True):
                return DataLoader(dataset, batch_size=8, shuffle=shuffle, sampler=sampler)  # expect: TL311
            """,
            because="built in one file with a default, called in another one with a sampler",
            entry="data.py",
            others={
                "train.py": """
                import torch
                from torch import nn
                from torch.utils.data import TensorDataset, WeightedRandomSampler

                from data import build_loader

                dataset = TensorDataset(torch.randn(64, 8))
                loader = build_loader(dataset, WeightedRandomSampler(torch.ones(64), 64))
                model = nn.Linear(8, 1)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for (inputs,) in loader:
                    loss = model(inputs).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                """
            },
            fixed="""
            from torch.utils.data import DataLoader


            def build_loader(dataset, sampler=None, shuffle=True):
                return DataLoader(dataset, batch_size=8, shuffle=sampler is None, sampler=sampler)
            """,
        ),
        invalid(
            """
            import torch
            from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

            dataset = TensorDataset(torch.randn(64, 8))
            options = {"num_workers": 2, "pin_memory": True}
            loader = DataLoader(  # expect: TL311
                dataset, shuffle=True, batch_sampler=BatchSampler(RandomSampler(dataset), 8, True), **options
            )
            """,
            because="a batch sampler brings its own order as well",
            fixed="""
            import torch
            from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

            dataset = TensorDataset(torch.randn(64, 8))
            options = {"num_workers": 2, "pin_memory": True}
            loader = DataLoader(
                dataset, batch_sampler=BatchSampler(RandomSampler(dataset), 8, True), **options
            )
            """,
        ),
        invalid(
            """
            import torch
            from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

            dataset = TensorDataset(torch.randn(64, 8))
            train = DataLoader(dataset, 8, True, SubsetRandomSampler(range(48)))  # expect: TL311
            """,
            because="both are given by position",
            fixed="""
            import torch
            from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

            dataset = TensorDataset(torch.randn(64, 8))
            train = DataLoader(dataset, 8, False, SubsetRandomSampler(range(48)))
            """,
        ),
        valid(
            """
            import torch
            from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset


            class Series(TensorDataset):
                def to_loader(self, train=True, batch_size=8, batch_sampler=None, **given):
                    settings = dict(shuffle=train, batch_size=batch_size, batch_sampler=batch_sampler)
                    settings.update(given)
                    if settings["batch_sampler"] is not None:
                        if settings["batch_sampler"] == "in order":
                            settings["batch_sampler"] = BatchSampler(SequentialSampler(self), batch_size, False)
                        settings.pop("batch_size")
                        del settings["shuffle"]
                    return DataLoader(self, **settings)


            loader = Series(torch.randn(64, 8)).to_loader(batch_sampler="in order")
            """,
            because="shuffle is taken out where a sampler is given",
        ),
        valid(
            """
            import argparse

            import torch
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            parser = argparse.ArgumentParser()
            parser.add_argument("--distributed", action="store_true")
            args = parser.parse_args()
            dataset = TensorDataset(torch.randn(64, 8))
            sampler = DistributedSampler(dataset) if args.distributed else None
            loader = DataLoader(dataset, batch_size=8, shuffle=(sampler is None), sampler=sampler)
            """,
            because="shuffles only where there is no sampler",
        ),
        valid(
            """
            import argparse

            import torch
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            parser = argparse.ArgumentParser()
            parser.add_argument("--distributed", action="store_true")
            args = parser.parse_args()
            dataset = TensorDataset(torch.randn(64, 8))
            if args.distributed:
                sampler, shuffle = DistributedSampler(dataset, shuffle=True), False
            else:
                sampler, shuffle = None, True
            loader = DataLoader(dataset, batch_size=8, shuffle=shuffle, sampler=sampler)
            """,
            because="shuffle goes off where the sampler comes in",
        ),
        valid(
            """
            import argparse

            import torch
            from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

            parser = argparse.ArgumentParser()
            parser.add_argument("--distributed", action="store_true")
            args = parser.parse_args()
            dataset = TensorDataset(torch.randn(64, 8))
            sampler = None
            if args.distributed:
                sampler = DistributedSampler(dataset)
            if args.distributed:
                loader = DataLoader(dataset, batch_size=8, shuffle=False, sampler=sampler)
            else:
                loader = DataLoader(dataset, batch_size=8, shuffle=True, sampler=sampler)
            """,
            because="the branch that shuffles is the one without a sampler",
        ),
        valid(
            """
            import torch
            from torch.utils.data import DataLoader, TensorDataset


            def build_loader(dataset, shuffle, sampler=None):
                return DataLoader(dataset, batch_size=8, shuffle=shuffle, sampler=sampler)


            dataset = TensorDataset(torch.randn(64, 8))
            train = build_loader(dataset, True)
            """,
            because="the sampler is None in every call",
        ),
        valid(
            """
            import torch
            from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, TensorDataset

            dataset = TensorDataset(torch.randn(64, 8))
            train = DataLoader(dataset, batch_size=8, sampler=RandomSampler(dataset))
            test = DataLoader(dataset, batch_size=8, shuffle=False, sampler=SequentialSampler(dataset))
            """,
            because="shuffle is left out, or False",
        ),
        valid(
            """
            import torch
            from torch.utils.data import DataLoader, TensorDataset

            import samplers

            dataset = TensorDataset(torch.randn(64, 8))
            loader = DataLoader(dataset, batch_size=8, shuffle=True, sampler=samplers.choose(dataset))
            """,
            because="what makes the sampler is out of sight, and may return None",
        ),
        valid(
            """
            import torch
            from torch.utils.data import DataLoader, RandomSampler, TensorDataset


            class ShuffledLoader(DataLoader):
                def __init__(self, dataset, sampler=None, shuffle=False, **options):
                    self.reshuffles = shuffle
                    super().__init__(dataset, sampler=sampler, **options)


            dataset = TensorDataset(torch.randn(64, 8))
            loader = ShuffledLoader(dataset, sampler=RandomSampler(dataset), shuffle=True, batch_size=8)
            """,
            because="a loader of the project's own, which keeps shuffle to itself",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for loader in project.loaders:
            if _shuffles(loader) and _takes_sampler(loader) and not _may_be_told_apart(loader):
                yield self.finding(
                    loader,
                    f"{quote(loader.text)} raises a ValueError: it takes a sampler or shuffle=True, not both",
                    help="Leave shuffle out; the sampler decides on the order",
                )

    def fix(self, finding: Finding) -> Fix | None:
        loader = finding.subject
        assert isinstance(loader, Loader)
        if not loader.sampler_text or loader.sampler_text.endswith("…"):
            return None
        if loader.sampler_may_be_none:
            value = f"{loader.sampler_text} is None"
            return Fix(
                Applicability.SAFE,
                "Shuffle only where there is no sampler",
                (SetArgument(loader.site, "shuffle", value, position=2),),
            )
        recipe: Recipe = RemoveArgument(loader.site, "shuffle", position=2)
        if _sampler_follows(loader):
            recipe = SetArgument(loader.site, "shuffle", "False", position=2)
        return Fix(Applicability.SAFE, "Leave the order to the sampler", (recipe,))


def _shuffles(loader: Loader) -> bool:
    return loader.library == TORCH_LOADER and loader.arguments.complete and loader.arguments.constant("shuffle") is True


def _takes_sampler(loader: Loader) -> bool:
    return any(_is_sampler(loader.arguments.value(name)) for name in ("sampler", "batch_sampler"))


def _is_sampler(value: Value | None) -> bool:
    """Whether a value says in which order items come: a sampler, an object of the project, a list of indices."""
    if isinstance(value, Object):
        return value.type == SAMPLER and value.proved
    if isinstance(value, Choice):
        return all(_is_sampler(option) for option in value.options)
    return isinstance(value, Instance | Listing | Tuple | Tensor)


def _may_be_told_apart(loader: Loader) -> bool:
    """Whether a condition may keep the call to runs whose sampler is None."""
    return loader.sampler_may_be_none and bool(loader.context.guards)


def _sampler_follows(loader: Loader) -> bool:
    """Whether a positional argument stands behind shuffle, which would take its place."""
    return len(loader.arguments.positional) > 3
