from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, SetArgument
from trainlint.lint.finding import Family, Finding, RelatedSite
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_epoch_start
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Loader, Project
from trainlint.semantics.values import Const
from trainlint.semantics.vocabulary import Confidence, GuardKind


class LoaderNoPersistentWorkers(Rule):
    """The workers of a training loader are started anew in every epoch.

    ## What it does
    Reports training loaders with workers that are iterated once per epoch and do not ask for `persistent_workers`.

    ## Why it is slow
    At the end of an epoch the workers are shut down. The next epoch starts processes again, each of which imports
    modules and receives a copy of the dataset, and then waits for the first batches with an empty queue. The shorter
    the epoch, the larger the share of it that the GPU waits.

    ## When it is fine
    A single epoch; loaders that are never exhausted; evaluation now and then; datasets whose state the main process
    changes between epochs (an epoch number, sampling weights, a curriculum), since workers that are kept would not see
    the change; epochs so long that the start does not show, as the probe can tell.

    ## Example
    ```python
    loader = DataLoader(dataset, batch_size=128, num_workers=4)
    for epoch in range(200):
        for batch in loader:
            ...
    ```

    ## Use instead
    ```python
    loader = DataLoader(dataset, batch_size=128, num_workers=4, persistent_workers=True)
    ```

    ## Fix safety
    Unsafe: random streams in the workers go on instead of starting over, and their memory stays in use between epochs.
    Where the number of workers may turn out to be 0, which `persistent_workers=True` does not allow, it is advice only.

    ## How the probe confirms it
    By the time from a new iterator to its first batch, spread over the steps of an epoch. An epoch has to end within
    the measured steps.

    ## References
    - persistent_workers=True among the settings of a loader (articles 000, 001 and 003).
    - PyTorch, DataLoader, persistent_workers: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
    """

    code, name, family = "TL105", "loader-no-persistent-workers", Family.DATA
    fix_class = Applicability.UNSAFE
    confirmed_by = "worker start-up time at epoch boundaries"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.CIFAR10("data", train=True, transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=128, num_workers=2, pin_memory=True)  # expect: TL105
            model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(200):
                for images, labels in loader:
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="two workers are started 200 times",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.CIFAR10("data", train=True, transform=transforms.ToTensor())
            loader = DataLoader(
                dataset,
                batch_size=128,
                num_workers=2,
                pin_memory=True,
                persistent_workers=True,
            )
            model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(200):
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
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms


            def train_one_epoch(model, loader, optimizer):
                for images, labels in loader:
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            def main():
                model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                dataset = datasets.MNIST("data", train=True, transform=transforms.ToTensor())
                loader = DataLoader(dataset, 64, True, num_workers=1, persistent_workers=False)  # expect: TL105
                for epoch in range(10):
                    train_one_epoch(model, loader, optimizer)


            main()
            """,
            because="the epoch loop is in the caller; False is written out",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms


            def train_one_epoch(model, loader, optimizer):
                for images, labels in loader:
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            def main():
                model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                dataset = datasets.MNIST("data", train=True, transform=transforms.ToTensor())
                loader = DataLoader(dataset, 64, True, num_workers=1, persistent_workers=True)
                for epoch in range(10):
                    train_one_epoch(model, loader, optimizer)


            main()
            """,
        ),
        invalid(
            """
            import argparse

            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            parser = argparse.ArgumentParser()
            parser.add_argument("--workers", type=int, default=4)
            parser.add_argument("--epochs", type=int, default=90)
            args = parser.parse_args()
            dataset = datasets.CIFAR10("data", train=True, transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=128, shuffle=True, num_workers=args.workers)  # expect: TL105
            model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(args.epochs):
                for images, labels in loader:
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="four workers unless the command line says otherwise; since it may say 0, there is only advice",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.CIFAR10("data", train=True, transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=128, num_workers=2)
            model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a single epoch",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.CIFAR10("data", train=True, transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=128)
            model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(200):
                for images, labels in loader:
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="no workers to keep: persistent_workers would be an error",
        ),
        valid(
            """
            import torch
            from PIL import Image
            from torch import nn
            from torch.utils.data import DataLoader, Dataset
            from torchvision.transforms.functional import resize, to_tensor


            class GrowingImages(Dataset):
                def __init__(self, paths):
                    self.paths = paths
                    self.side = 64

                def set_epoch(self, epoch):
                    self.side = 64 + 16 * epoch

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    return resize(to_tensor(Image.open(self.paths[index])), [self.side, self.side])


            with open("images.txt") as file:
                dataset = GrowingImages(file.read().split())
            loader = DataLoader(dataset, batch_size=32, num_workers=4)
            model = nn.Conv2d(3, 3, 3, padding=1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                dataset.set_epoch(epoch)
                for images in loader:
                    images = images.cuda()
                    loss = nn.functional.mse_loss(model(images), images)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the main process changes the dataset between epochs, which kept workers would not see",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms


            def forever(loader):
                while True:
                    yield from loader


            dataset = datasets.CIFAR10("data", train=True, transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=128, num_workers=2, persistent_workers=True)
            batches = forever(loader)
            model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(100_000):
                images, labels = next(batches)
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="it keeps its workers",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            transform = transforms.ToTensor()
            loader = DataLoader(datasets.MNIST("data", transform=transform), num_workers=2, persistent_workers=True)
            test_loader = DataLoader(datasets.MNIST("data", train=False, transform=transform), num_workers=2)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                for images, labels in loader:
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                correct = torch.zeros((), device="cuda")
                with torch.no_grad():
                    for images, labels in test_loader:
                        correct += (model(images.cuda()).argmax(1) == labels.cuda()).sum()
                print(epoch, correct.item())
            """,
            because="the loader without it serves evaluation",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.MNIST("data", transform=transforms.ToTensor())
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=2)
                for images, labels in loader:
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the loader itself is built anew, so that its workers could not be kept (TL106)",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for loader in project.loaders:
            starts_anew = loader.restarts and not _keeps_workers(loader) and not loader.changes_between_epochs
            if starts_anew and not loader.made_by_its_loop and not loader.context.under(GuardKind.DEBUG):
                confidence = _workers_certainty(loader)
                if confidence is not None:
                    yield self.finding(
                        loader,
                        f"{quote(loader.text)} starts its workers anew in every epoch",
                        help="Pass persistent_workers=True",
                        confidence=min(confidence, loader.arguments.certainty("persistent_workers")),
                        related=tuple(
                            RelatedSite(use.site, "started anew here") for use in loader.uses if use.restarts
                        ),
                    )

    def fix(self, finding: Finding) -> Fix | None:
        loader = finding.subject
        if not isinstance(loader, Loader):
            return None
        message = "Pass persistent_workers=True"
        setting = loader.arguments.setting("persistent_workers")
        if setting is not None:
            return Fix(Applicability.DISPLAY, f"Turn {setting.name} on in {setting.file}")
        if loader.arguments.spread or not isinstance(loader.arguments.value("num_workers"), Const):
            return Fix(Applicability.DISPLAY, message)
        return Fix(Applicability.UNSAFE, message, (SetArgument(loader.site, "persistent_workers", "True"),))

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_epoch_start(evidence, (finding.site, *(related.site for related in finding.related)))


def _keeps_workers(loader: Loader) -> bool:
    """Whether `persistent_workers` is, or may be, asked for."""
    setting = loader.arguments.setting("persistent_workers")
    switched_off = setting is not None and setting.fixed and setting.default is False
    given = loader.arguments.constant("persistent_workers")
    return given is not False and not switched_off and not loader.arguments.absent("persistent_workers")


def _workers_certainty(loader: Loader) -> Confidence | None:
    """How sure it is that there are workers; None where there are none, or where nothing is said."""
    if loader.workers is not None:
        return loader.workers_certainty if loader.workers > 0 else None
    return Confidence.LOW if loader.arguments.unknown("num_workers") else None
