from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, Recipe, RemoveArgument, SetArgument
from trainlint.lint.finding import Family, Finding, RelatedSite, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import MADE_NOWHERE
from trainlint.probe.verdict import Measurement, Source, Status, Verdict
from trainlint.semantics.project import DatasetKind, Loader, Project
from trainlint.semantics.values import Const, Object
from trainlint.semantics.vocabulary import Confidence, Place
from trainlint_rules.data.loader_no_workers import POSITION, TORCH_LOADER

OF_WORKERS = ("persistent_workers", "prefetch_factor", "multiprocessing_context")
"""Arguments that DataLoader refuses without workers."""


class WorkersForInMemoryData(Rule):
    """Workers hand over data that lies in memory already.

    ## What it does
    Reports training loaders with workers over a `TensorDataset`, a tensor, an array or a list, which are batched as
    they are, without a collate function.

    ## Why it is slow
    There is nothing to prepare: a worker looks rows up, stacks them, writes the batch into shared memory and sends a
    message, and the training thread maps it again. For small rows that takes longer than looking them up, and the
    workers must be started for it.

    ## When it is fine
    Where stacking itself is the work, since rows are large or batches have thousands of them: then workers do it beside
    the step. With a collate function that computes. That is why the rule is not in the default set.

    ## Example
    ```python
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=64, shuffle=True, num_workers=4)
    ```

    ## Use instead
    ```python
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=64, shuffle=True)
    ```

    ## Fix safety
    Unsafe: which of both is faster depends on the sizes, so measure. The fix sets `num_workers=0` and leaves out what
    DataLoader refuses without workers.

    ## How the probe confirms it
    It takes two runs, with and without workers: `trainlint probe --compare`. One run shows how long the step waits for
    data with workers, and clears the finding where the loader ran without them.

    ## References
    - PyTorch, single-process data loading, "may be preferred when … the entire dataset is small and can be loaded
      entirely in memory": https://docs.pytorch.org/docs/stable/data.html#single-process-data-loading-default
    """

    code, name, family = "TL114", "workers-for-in-memory-data", Family.DATA
    severity = Severity.INFO
    default = False
    fix_class = Applicability.UNSAFE
    confirmed_by = "data wait with and without"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            dataset = TensorDataset(torch.randn(10_000, 32), torch.randint(2, (10_000,)))
            loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4)  # expect: TL114
            model = nn.Linear(32, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs, targets in loader:
                loss = nn.functional.cross_entropy(model(inputs.cuda()), targets.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="tensors in memory",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            dataset = TensorDataset(torch.randn(10_000, 32), torch.randint(2, (10_000,)))
            loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=0)
            model = nn.Linear(32, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs, targets in loader:
                loss = nn.functional.cross_entropy(model(inputs.cuda()), targets.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import torch
            from data import make_loader
            from torch import nn

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = make_loader(torch.randn(10_000, 32))
            for epoch in range(10):
                for (rows,) in loader:
                    loss = model(rows.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="a part of a tensor dataset, in another file",
            others={
                "data.py": """
                from torch.utils.data import DataLoader, Subset, TensorDataset


                def make_loader(rows, workers=8):
                    train = Subset(TensorDataset(rows), range(8_000))
                    return DataLoader(train, batch_size=128, shuffle=True, num_workers=workers)  # expect: TL114
                """
            },
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(  # expect: TL114
                torch.randn(10_000, 32), batch_size=64, num_workers=2, persistent_workers=True, prefetch_factor=4
            )
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                for rows in loader:
                    loss = model(rows.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="a tensor by itself",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(
                torch.randn(10_000, 32), batch_size=64, num_workers=0
            )
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                for rows in loader:
                    loss = model(rows.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
        ),
        invalid(
            """
            import argparse

            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            parser = argparse.ArgumentParser()
            parser.add_argument("--workers", type=int, default=4)
            args = parser.parse_args()
            dataset = TensorDataset(torch.randn(10_000, 32))
            loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=args.workers)  # expect: TL114
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for (rows,) in loader:
                loss = model(rows.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="by the default of an option",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            dataset = TensorDataset(torch.randn(10_000, 32), torch.randint(2, (10_000,)))
            loader = DataLoader(dataset, batch_size=64, shuffle=True, pin_memory=True)
            model = nn.Linear(32, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs, targets in loader:
                loss = nn.functional.cross_entropy(model(inputs.cuda()), targets.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="no workers",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.CIFAR10("data", transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4)
            model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="each item is transformed",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset


            def collate(rows):
                inputs = torch.stack([row[0] for row in rows])
                return torch.fft.rfft(inputs).abs()


            dataset = TensorDataset(torch.randn(10_000, 4_096))
            loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4, collate_fn=collate)
            model = nn.LazyLinear(1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for rows in loader:
                loss = model(rows.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the collate function computes",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            dataset = TensorDataset(torch.randn(10_000, 32), torch.randint(2, (10_000,)))
            loader = DataLoader(dataset, batch_size=1_000, num_workers=2)
            model = nn.Linear(32, 2).cuda()
            model.load_state_dict(torch.load("model.pt"))
            correct = torch.zeros((), device="cuda")
            with torch.no_grad():
                for inputs, targets in loader:
                    correct += (model(inputs.cuda()).argmax(1) == targets.cuda()).sum()
            """,
            because="evaluation",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Augmented(Dataset):
                def __init__(self, rows):
                    self.rows = rows

                def __len__(self):
                    return len(self.rows)

                def __getitem__(self, index):
                    row = self.rows[index]
                    return row + torch.randn_like(row) * row.std()


            loader = DataLoader(Augmented(torch.randn(10_000, 4_096)), batch_size=64, shuffle=True, num_workers=4)
            model = nn.Linear(4_096, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for rows in loader:
                loss = model(rows.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="rows in memory that are augmented one by one",
        ),
        valid(
            """
            import torch
            import yaml
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            with open("config.yaml") as file:
                config = yaml.safe_load(file)
            dataset = TensorDataset(torch.randn(10_000, 32))
            loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=config["workers"])
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for (rows,) in loader:
                loss = model(rows.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="whether there are workers is in a configuration",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for loader in project.loaders:
            in_memory = loader.dataset_kind is DatasetKind.IN_MEMORY and loader.item_place is not Place.DEVICE
            if loader.trains and in_memory and (loader.workers or 0) > 0 and _batches_as_it_is(loader):
                yield self.finding(
                    loader,
                    f"{quote(loader.text)} has workers hand over data that lies in memory already",
                    help="Try num_workers=0, and measure both",
                    confidence=_certainty(loader),
                    related=tuple(RelatedSite(use.site, "the loop that they work for") for use in loader.uses),
                )

    def fix(self, finding: Finding) -> Fix | None:
        loader = finding.subject
        if not isinstance(loader, Loader):
            return None
        message = "Pass num_workers=0"
        if loader.arguments.spread or not isinstance(loader.arguments.value("num_workers"), Const):
            return Fix(Applicability.DISPLAY, message)
        position = POSITION if loader.library == TORCH_LOADER else None
        recipes: list[Recipe] = [SetArgument(loader.site, "num_workers", "0", position)]
        recipes += [RemoveArgument(loader.site, name) for name in OF_WORKERS if name in loader.arguments.named]
        return Fix(Applicability.UNSAFE, message, tuple(recipes))

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        if evidence.did_run(finding.site) is False:
            return MADE_NOWHERE
        loader = evidence.loader_at((finding.site, *(related.site for related in finding.related)))
        if loader is None:
            return Verdict(Status.INCONCLUSIVE, note="none of the loaders that fed the steps is known to be this one")
        if loader.workers == 0:
            return Verdict(Status.REFUTED, note="the job's loader ran without workers")
        figure = Measurement("data wait", loader.data_wait_share, "share", Source.AGENT)
        note = "what workers cost shows against a run without them: --compare"
        return Verdict(Status.INCONCLUSIVE, evidence=(figure,), note=note)


def _batches_as_it_is(loader: Loader) -> bool:
    """Whether PyTorch's own collate function makes the batches."""
    return loader.arguments.absent("collate_fn") and loader.arguments.absent("worker_init_fn")


def _certainty(loader: Loader) -> Confidence:
    """Lower where an option decides, or where the dataset is another kind of sequence."""
    of_tensors = isinstance(loader.dataset, Object)
    written = isinstance(loader.arguments.value("num_workers"), Const)
    return Confidence.HIGH if of_tensors and written else Confidence.MEDIUM
