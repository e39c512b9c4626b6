from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, EnsureImport, Fix, SetArgument
from trainlint.lint.finding import Family, Finding, RelatedSite
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import MADE_NOWHERE
from trainlint.probe.verdict import Status, Verdict
from trainlint.semantics.project import Loader, Project
from trainlint.semantics.values import Const
from trainlint.semantics.vocabulary import GuardKind
from trainlint_rules.data.loader_no_workers import POSITION, TORCH_LOADER
from trainlint_rules.data.worker_count import HALF_THE_CORES

MOST_WORKERS = 128
"""Workers of one loader. The advice is 4 to 8 for each GPU (article 003), so 64 for a process that feeds eight of them;
this is twice as many, and as many as a host of eight A100 GPUs has cores (MLPerf training v1.0, NF5488A5)."""


class LoaderTooManyWorkers(Rule):
    """A loader starts more worker processes than machines have cores.

    ## What it does
    Reports loaders with more than 128 workers, by a number in the code or by the default of an option.

    ## Why it is slow
    Workers beyond the number of cores make no batch sooner: they take turns on the same cores, and take them from the
    training thread, which launches the kernels. Each is a process that must start in every epoch, imports torch where
    processes are spawned, and holds `prefetch_factor` batches in shared memory. In a distributed job every rank starts
    that many.

    ## When it is fine
    Workers that wait for a remote store nearly all the time need no core each. A count that is computed from
    `os.cpu_count()`, or comes from a configuration, is not reported.

    ## Example
    ```python
    loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=256)
    ```

    ## Use instead
    ```python
    loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=min(8, (os.cpu_count() or 2) // 2))
    ```

    ## Fix safety
    Unsafe: the number of workers changes the random numbers that augmentations draw. The fix asks for half of the cores
    and at most 8; with several GPUs on one host, share the cores. Where the number is an option, it is advice only.

    ## How the probe confirms it
    It does not yet: how long workers wait for a core is not judged. PyTorch itself warns at start-up where there are
    more workers than cores. The finding is cleared where the job's loader ran with no more than 128 workers.

    ## References
    - num_workers: half to two thirds of the physical cores (article 000), 4 to 8 per GPU (article 003), never above
      the core count (article 001).
    - PyTorch, the warning about excessive worker creation, which "might get DataLoader running slow or even freeze":
      https://github.com/pytorch/pytorch/pull/46867
    - MLPerf training v1.0, a host of eight A100 GPUs with two processors of 64 cores:
      https://github.com/mlcommons/training_results_v1.0/blob/master/Inspur/systems/nf5488a5_pytorch.json
    """

    code, name, family = "TL107", "loader-too-many-workers", Family.DATA
    fix_class = Applicability.UNSAFE
    confirmed_by = "number of workers that the job ran with"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.ImageFolder("train", transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=256)  # expect: TL107
            model = nn.Sequential(nn.Flatten(), nn.LazyLinear(10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="more processes than machines have cores",
            fixed="""
            import os

            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.ImageFolder("train", transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=min(8, (os.cpu_count() or 2) // 2))
            model = nn.Sequential(nn.Flatten(), nn.LazyLinear(10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn

            from loading import make_loaders

            train_loader, test_loader = make_loaders("data", workers=200)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                for images, labels in train_loader:
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the number is passed on to another file, for evaluation as well",
            others={
                "loading.py": """
                from torch.utils.data import DataLoader
                from torchvision import datasets, transforms


                def make_loaders(root, workers):
                    train = datasets.MNIST(root, transform=transforms.ToTensor())
                    test = datasets.MNIST(root, train=False, transform=transforms.ToTensor())
                    return (
                        DataLoader(train, 64, shuffle=True, num_workers=workers),  # expect: TL107
                        DataLoader(test, 1000, num_workers=workers),  # expect: TL107
                    )
                """
            },
        ),
        invalid(
            """
            import argparse

            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            parser = argparse.ArgumentParser()
            parser.add_argument("--workers", type=int, default=512)
            args = parser.parse_args()
            dataset = datasets.MNIST("data", transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, num_workers=args.workers)  # expect: TL107
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the default of the option",
        ),
        invalid(
            """
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            options = {"num_workers": 160, "pin_memory": True}


            def train_loader(batch_size):
                dataset = datasets.ImageFolder("train", transforms.ToTensor())
                return DataLoader(dataset, batch_size=batch_size, shuffle=True, **options)  # expect: TL107
            """,
            because="among the keyword arguments",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.ImageFolder("train", transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=512, shuffle=True, num_workers=64)
            model = nn.DataParallel(nn.Sequential(nn.Flatten(), nn.LazyLinear(10))).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="eight workers for each of eight GPUs",
        ),
        valid(
            """
            import os

            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms


            def train_loader(batch_size):
                dataset = datasets.ImageFolder("train", transforms.ToTensor())
                return DataLoader(dataset, batch_size=batch_size, shuffle=True, num_workers=os.cpu_count() // 2)
            """,
            because="the machine decides",
        ),
        valid(
            """
            import torch
            from torch.utils.data import DataLoader, TensorDataset

            dataset = TensorDataset(torch.randn(1_000, 8), torch.randn(1_000))
            loader = DataLoader(dataset, batch_size=256, prefetch_factor=None, num_workers=0)
            """,
            because="256 is the batch size",
        ),
        valid(
            """
            import argparse

            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            parser = argparse.ArgumentParser()
            parser.add_argument("--workers", type=int, default=8, help="up to 256 on the large hosts")
            parser.add_argument("--batch-size", type=int, default=512)
            args = parser.parse_args()
            dataset = datasets.ImageFolder("train", transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, num_workers=args.workers)
            """,
            because="an option with a sane default",
        ),
        valid(
            """
            import yaml
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            with open("config.yaml") as file:
                config = yaml.safe_load(file)
            dataset = datasets.ImageFolder("train", transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=config["workers"])
            """,
            because="the number is in a configuration",
        ),
        valid(
            """
            import argparse

            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            parser = argparse.ArgumentParser()
            parser.add_argument("--debug", action="store_true")
            args = parser.parse_args()
            dataset = datasets.ImageFolder("train", transforms.ToTensor())
            if args.debug:
                loader = DataLoader(dataset, batch_size=1, num_workers=256)  # how many does the machine stand?
            else:
                loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=16)
            """,
            because="for debugging",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for loader in project.loaders:
            count = loader.workers or 0
            if count > MOST_WORKERS and not loader.context.under(GuardKind.DEBUG):
                yield self.finding(
                    loader,
                    f"{quote(loader.text)} starts {count} worker processes, more than machines have cores",
                    help="Pass half to two thirds of the cores per GPU as num_workers",
                    confidence=loader.workers_certainty,
                    related=tuple(RelatedSite(use.site, "the loop that they work for") for use in loader.uses),
                )

    def fix(self, finding: Finding) -> Fix | None:
        loader = finding.subject
        if not isinstance(loader, Loader):
            return None
        message = f"Pass num_workers={HALF_THE_CORES}"
        if loader.arguments.spread or not isinstance(loader.arguments.value("num_workers"), Const):
            return Fix(Applicability.DISPLAY, message)
        position = POSITION if loader.library == TORCH_LOADER else None
        recipes = (
            SetArgument(loader.site, "num_workers", HALF_THE_CORES, position),
            EnsureImport(loader.site, "os"),
        )
        return Fix(Applicability.UNSAFE, message, recipes)

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        sites = (finding.site, *(related.site for related in finding.related))
        if evidence.did_run(finding.site) is False:
            return MADE_NOWHERE
        loader = evidence.loader_at(sites)
        if loader is not None and loader.workers <= MOST_WORKERS:
            note = f"the job's loader ran with {loader.workers} workers"
            return Verdict(Status.REFUTED, note=note)
        note = "how long workers wait for a core is not judged; compare with a run with fewer of them: --compare"
        return Verdict(Status.INCONCLUSIVE, note=note)
