from __future__ import annotations

import re
from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, RelatedSite
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_epoch_start, judge_stacks
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Loader, Project
from trainlint.semantics.vocabulary import Known, Region

_STAGE = re.compile(r"seed|fold|split|trial|run|task|client|config|stage|phase|round|repeat|restart", re.IGNORECASE)
"""Counters of loops whose turns are trainings of their own, or parts of one that differ."""


class LoaderInLoop(Rule):
    """A loop builds the same loader again and again.

    ## What it does
    Reports loaders that an epoch loop builds in each epoch though nothing that they are made of changes, where they
    have workers, and loaders that are built at every training step.

    ## Why it is slow
    A new loader begins with nothing: its workers are forked or spawned, each gets the dataset, and the GPU waits for
    the first batch until they have read it. `persistent_workers` cannot help, since the workers end with their loader.
    Built at every step, a loader never gets to prefetch at all. What a dataset reads in its constructor is read again.

    ## When it is fine
    Once per stage, fold or task, or where the dataset, the sampler or the batch size differ from epoch to epoch. A
    dataset whose constructor reads files may differ as well, since others may have written them. Without workers,
    building a loader in each epoch costs next to nothing, and is not reported.

    ## Example
    ```python
    for epoch in range(epochs):
        loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=8)
        for images, labels in loader:
            ...
    ```

    ## Use instead
    ```python
    loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=8, persistent_workers=True)
    for epoch in range(epochs):
        for images, labels in loader:  # shuffles anew each time
            ...
    ```

    ## Fix safety
    Advice without edits: what else the loop does with the loader and its dataset, and where the workers' memory is to
    stay, is the author's choice.

    ## How the probe confirms it
    In an epoch loop, by the wait for the first batch of an epoch, spread over its steps. In the step, by stack samples
    under this line.

    ## References
    - PyTorch, multi-process data loading: workers are made each time an iterator of a loader is made, and shut down at
      the end of the iteration: https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
    - persistent_workers=True (articles 000, 001, 003).
    """

    code, name, family = "TL106", "loader-in-loop", Family.DATA
    fix_class = Applicability.DISPLAY
    confirmed_by = "worker start-up time at epoch boundaries; stack samples in the step"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.MNIST("data", transform=transforms.ToTensor())
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4)  # expect: TL106
                for images, labels in loader:
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the same loader in each epoch",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from training import train_one_epoch
            from torchvision import datasets, transforms

            dataset = datasets.MNIST("data", transform=transforms.ToTensor())
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                train_one_epoch(model, dataset, optimizer, epoch)
            """,
            because="in a function of another file that runs one epoch",
            others={
                "training.py": """
                from torch import nn
                from torch.utils.data import DataLoader


                def train_one_epoch(model, dataset, optimizer, epoch, workers=8):
                    loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=workers)  # expect: TL106
                    for images, labels in loader:
                        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
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
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            model = nn.Sequential(nn.Flatten(), nn.LazyLinear(10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                dataset = datasets.ImageFolder("train", transform=transforms.ToTensor())
                for images, labels in DataLoader(  # expect: TL106
                    dataset, batch_size=64, shuffle=True, num_workers=4, persistent_workers=True
                ):
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the folder is listed again as well, and the workers cannot persist",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.MNIST("data", transform=transforms.ToTensor())


            def next_batch():
                return next(iter(DataLoader(dataset, batch_size=64, shuffle=True)))  # expect: TL106


            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(10_000):
                images, labels = next_batch()
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a loader for a single batch, at every step",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.MNIST("data", transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4, persistent_workers=True)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                for images, labels in loader:
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="built once",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            model = nn.Sequential(nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(192, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for size in (96, 128, 160):
                transform = transforms.Compose([transforms.RandomResizedCrop(size), transforms.ToTensor()])
                loader = DataLoader(datasets.ImageFolder("train", transform), batch_size=64, num_workers=8)
                for epoch in range(3):
                    for images, labels in loader:
                        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
            """,
            because="once for each stage, whose images differ in size",
        ),
        valid(
            """
            import random

            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Subset
            from torchvision import datasets, transforms

            dataset = datasets.MNIST("data", transform=transforms.ToTensor())
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                chosen = random.sample(range(len(dataset)), 10_000)
                for images, labels in DataLoader(Subset(dataset, chosen), batch_size=64, num_workers=4):
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="each epoch draws another part of the data",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            shards = ["shard-0", "shard-1", "shard-2"]
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                shard = shards[epoch % len(shards)]
                dataset = datasets.ImageFolder(shard, transforms.ToTensor())
                for images, labels in DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4):
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="each epoch reads another shard",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            dataset = TensorDataset(torch.randn(10_000, 32))
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                for (rows,) in DataLoader(dataset, batch_size=64, shuffle=True):
                    loss = model(rows.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="without workers there is nothing to start",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.MNIST("data", transform=transforms.ToTensor())
            for seed in range(3):
                torch.manual_seed(seed)
                model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for images, labels in DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4):
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="once for each of several trainings",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.MNIST("data", transform=transforms.ToTensor())
            loader = None
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                if loader is None:
                    loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4)
                for images, labels in loader:
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="built in the first epoch only",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset

            from games import play


            class Positions(Dataset):
                def __init__(self, path):
                    self.rows = torch.load(path)

                def __len__(self):
                    return len(self.rows)

                def __getitem__(self, index):
                    return self.rows[index]


            model = nn.Linear(64, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                play(model, to="positions.pt")
                for positions in DataLoader(Positions("positions.pt"), batch_size=64, shuffle=True, num_workers=2):
                    loss = model(positions.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the file that the dataset reads is written anew before each epoch",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Curriculum(Dataset):
                def __init__(self, rows):
                    self.rows = rows
                    self.hardest = 1

                def harder(self):
                    self.hardest += 1

                def __len__(self):
                    return len(self.rows) // 10 * self.hardest

                def __getitem__(self, index):
                    return torch.tensor(self.rows[index])


            dataset = Curriculum(torch.load("rows.pt"))
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                dataset.harder()
                for rows in DataLoader(dataset, batch_size=64, num_workers=4):
                    loss = model(rows.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the dataset changes between epochs",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for loader in project.loaders:
            if not loader.same_each_time or loader.changes_between_epochs:
                continue
            if loader.context.hot and loader.context.routine:
                yield self.finding(
                    loader,
                    f"{quote(loader.text)} is built anew {loader.context.frequency.phrase}",
                    help="Build the loader before the loop, and draw its batches in turn",
                )
            elif loader.made_by_its_loop and loader.forks is Known.YES and not _goes_over_stages(loader):
                yield self.finding(
                    loader,
                    f"{quote(loader.text)} is built anew in every epoch, and its workers with it",
                    help="Build the loader before the epoch loop",
                    confidence=loader.workers_certainty,
                    related=tuple(RelatedSite(use.site, "iterated here") for use in loader.uses if use.restarts),
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, "Build the loader once, before the loop: it shuffles anew in each epoch")

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        if finding.context is not None and finding.context.hot:
            return judge_stacks(evidence, finding.site)
        return judge_epoch_start(evidence, (finding.site, *(related.site for related in finding.related)))


def _goes_over_stages(loader: Loader) -> bool:
    """Whether the loop that builds the loader may go over trainings rather than over the epochs of one."""
    counters = {use.epoch_name for use in loader.uses if use.region is Region.TRAINING}
    return any(not counter or _STAGE.search(counter) for counter in counters)
