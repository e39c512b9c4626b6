from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, EnsureImport, Fix, SetArgument
from trainlint.lint.finding import Family, Finding, RelatedSite
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_data_wait
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import DatasetKind, Loader, Project
from trainlint.semantics.vocabulary import Confidence, GuardKind, Known, Place
from trainlint_rules.data.worker_count import HALF_THE_CORES, raise_setting

TORCH_LOADER = "torch.utils.data.DataLoader"
POSITION = 5
"""Of `num_workers` among DataLoader's parameters."""


class LoaderNoWorkers(Rule):
    """A training loader prepares every batch in the training thread.

    ## What it does
    Reports loaders of a GPU training loop with no `num_workers`, or 0, whose dataset computes or reads for each item.

    ## Why it is slow
    Without workers the training thread itself reads, decodes and augments each sample before it can launch the next
    step. Loading and computing take turns: the GPU idles while the batch is made.

    ## When it is fine
    Data that already lies in memory as tensors; evaluation loaders; loaders whose worker count comes from the command
    line, which may be 0 by default and more in every run (a finding of low confidence); debugging, where a single
    process is easier to follow; datasets and collate functions that return CUDA tensors, since CUDA cannot be used in a
    worker that was forked.

    ## Example
    ```python
    loader = DataLoader(ImageFolder("train", transform), batch_size=256, shuffle=True)
    ```

    ## Use instead
    ```python
    loader = DataLoader(ImageFolder("train", transform), batch_size=256, shuffle=True, num_workers=8)
    ```

    ## Fix safety
    Unsafe: workers draw their own random numbers, so augmentations differ from a run without them; they need memory
    and, on platforms that spawn processes, a `__main__` guard. The fix asks for half of the cores and at most 8. With
    several GPUs on one host, share the cores: half to two thirds of the cores per GPU. For an iterable dataset it is
    advice only, since each worker would yield all of the data unless the dataset splits it.

    ## How the probe confirms it
    By the share of the step that waits for data while the loader has no workers.

    ## References
    - num_workers: half to two thirds of the physical cores (article 000), 4 to 8 per GPU (article 003), never above
      the core count (article 001).
    - One batch from the loader taking longer than one step (1 s against 0.3 s) is data-bound (article 000).
    - PyTorch, single- and multi-process data loading:
      https://docs.pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading
    """

    code, name, family = "TL103", "loader-no-workers", Family.DATA
    fix_class = Applicability.UNSAFE
    confirmed_by = "data wait share"
    examples = (
        invalid(
            """
            import os

            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.MNIST(os.environ["DATA"], train=True, transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, shuffle=True)  # expect: TL103
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                for images, labels in loader:
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="each image is decoded and transformed in the training thread",
            fixed="""
            import os

            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.MNIST(os.environ["DATA"], train=True, transform=transforms.ToTensor())
            loader = DataLoader(
                dataset,
                batch_size=64,
                shuffle=True,
                num_workers=min(8, (os.cpu_count() or 2) // 2),
            )
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(10):
                for images, labels in loader:
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
        ),
        invalid(
            """
            import os

            import torch
            from PIL import Image
            from torch import nn
            from torch.utils.data import DataLoader, Dataset
            from torchvision.transforms.functional import to_tensor


            class Scans(Dataset):
                def __init__(self, folder):
                    self.paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    return to_tensor(Image.open(self.paths[index]).convert("L"))


            def main():
                device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
                model = nn.Conv2d(1, 1, 3, padding=1).to(device)
                optimizer = torch.optim.Adam(model.parameters())
                loader = DataLoader(Scans("scans"), batch_size=16, num_workers=0, pin_memory=True)  # expect: TL103
                for scans in loader:
                    scans = scans.to(device)
                    loss = nn.functional.mse_loss(model(scans), scans)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            main()
            """,
            because="files are read in the training thread; 0 is written out",
            fixed="""
            import os

            import torch
            from PIL import Image
            from torch import nn
            from torch.utils.data import DataLoader, Dataset
            from torchvision.transforms.functional import to_tensor


            class Scans(Dataset):
                def __init__(self, folder):
                    self.paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    return to_tensor(Image.open(self.paths[index]).convert("L"))


            def main():
                device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
                model = nn.Conv2d(1, 1, 3, padding=1).to(device)
                optimizer = torch.optim.Adam(model.parameters())
                loader = DataLoader(Scans("scans"), batch_size=16, num_workers=min(8, (os.cpu_count() or 2) // 2), pin_memory=True)
                for scans in loader:
                    scans = scans.to(device)
                    loss = nn.functional.mse_loss(model(scans), scans)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            main()
            """,  # noqa: E501
        ),
        invalid(
            """
            import os

            import torch
            from torch import nn

            from loaders import make_loader

            model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = make_loader("data", 128)
            for epoch in range(20):
                for images, labels in loader:
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the loader comes from a factory in another file",
            others={
                "loaders.py": """
                from torch.utils.data import DataLoader
                from torchvision import datasets, transforms


                def make_loader(root, batch_size):
                    transform = transforms.Compose([transforms.RandomCrop(32, padding=4), transforms.ToTensor()])
                    dataset = datasets.CIFAR10(root, train=True, transform=transform)
                    return DataLoader(dataset, batch_size, True)  # expect: TL103
                """
            },
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            from settings import read

            config = read("config.yaml")
            dataset = datasets.MNIST("data", transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, num_workers=config["data"]["workers"])  # expect: TL103
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the configuration that the script reads says 0",
            others={
                "settings.py": """
                import yaml


                def read(path):
                    with open(path) as file:
                        return yaml.safe_load(file)
                """,
                "config.yaml": """
                data:
                  workers: 0
                """,
            },
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Samples(Dataset):
                def __init__(self, paths):
                    self.paths = paths
                    self.device = torch.device("cuda")

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    return torch.load(self.paths[index])


            def collate(rows):
                return torch.stack(rows).cuda()


            with open("samples.txt") as file:
                dataset = Samples(file.read().split())
            loader = DataLoader(dataset, batch_size=8, shuffle=True, collate_fn=collate)
            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in loader:
                loss = model(inputs).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the collate function moves the batch to the GPU",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Samples(Dataset):
                def __init__(self, paths):
                    self.paths = paths
                    self.device = torch.device("cuda")

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    sample = torch.load(self.paths[index])
                    sample = sample.to(self.device)
                    return sample


            with open("samples.txt") as file:
                dataset = Samples(file.read().split())
            loader = DataLoader(dataset, batch_size=8, shuffle=True)
            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in loader:
                loss = model(inputs).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the dataset moves what it reads to the GPU",
        ),
        valid(
            """
            import argparse

            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            parser = argparse.ArgumentParser()
            parser.add_argument("--workers", type=int, default=0)
            args = parser.parse_args()
            dataset = datasets.MNIST("data", transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=args.workers)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="whoever starts the job decides",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            from settings import read

            config = read("config.yaml")
            dataset = datasets.MNIST("data", transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, num_workers=config["data"]["workers"])
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the configuration that the script reads asks for four",
            others={
                "settings.py": """
                import yaml


                def read(path):
                    with open(path) as file:
                        return yaml.safe_load(file)
                """,
                "config.yaml": """
                data:
                  workers: 4
                """,
            },
        ),
        valid(
            """
            import sys

            import torch
            import yaml
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            with open(sys.argv[1] if len(sys.argv) > 1 else "config.yaml") as file:
                config = yaml.safe_load(file)
            dataset = datasets.MNIST("data", transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, num_workers=config["workers"])
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="whoever starts the job names the configuration",
            others={
                "config.yaml": """
                workers: 0
                """,
            },
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            dataset = TensorDataset(torch.randn(4096, 20), torch.randn(4096, 1))
            loader = DataLoader(dataset, batch_size=64, shuffle=True)
            model = nn.Linear(20, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs, targets in loader:
                loss = nn.functional.mse_loss(model(inputs.cuda()), targets.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the data lies in memory: there is no work per item",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            use_cuda = torch.cuda.is_available()
            device = torch.device("cuda" if use_cuda else "cpu")
            kwargs = {"batch_size": 64}
            if use_cuda:
                kwargs.update({"num_workers": 2, "pin_memory": True, "shuffle": True})
            loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), **kwargs)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the workers come with the keyword arguments where there is a GPU",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.MNIST("data", train=False, transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=1000)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            model.load_state_dict(torch.load("model.pt"))
            correct = 0
            with torch.no_grad():
                for images, labels in loader:
                    correct += (model(images.cuda()).argmax(1) == labels.cuda()).sum().item()
            print(correct / len(dataset))
            """,
            because="an evaluation loader",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the job trains on the CPU: workers would take its cores",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for loader in project.loaders:
            if loader.trains and _has_no_workers(loader) and _could_wait(loader):
                yield self.finding(
                    loader,
                    f"{quote(loader.text)} makes every training batch in the training thread, and the GPU waits for it"
                    f"{loader.arguments.told_by('num_workers')}",
                    help="Pass num_workers: half to two thirds of the cores per GPU",
                    confidence=_certainty(loader),
                    related=tuple(RelatedSite(use.site, "the loop that waits for it") for use in loader.uses),
                )

    def fix(self, finding: Finding) -> Fix | None:
        loader = finding.subject
        if not isinstance(loader, Loader):
            return None
        setting = loader.arguments.setting("num_workers")
        if setting is not None:
            return raise_setting(setting)
        message = f"Pass num_workers={HALF_THE_CORES}"
        if loader.arguments.spread or loader.dataset_kind is DatasetKind.ITERABLE:
            return Fix(Applicability.DISPLAY, message)
        position = POSITION if loader.library == TORCH_LOADER else None
        recipes = (
            SetArgument(loader.site, "num_workers", HALF_THE_CORES, position),
            EnsureImport(loader.site, "os"),
        )
        return Fix(Applicability.UNSAFE, message, recipes)

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_data_wait(evidence, (finding.site, *(related.site for related in finding.related)))


def _has_no_workers(loader: Loader) -> bool:
    return loader.arguments.absent("num_workers") or loader.arguments.holding("num_workers") == 0


def _could_wait(loader: Loader) -> bool:
    """Whether there is work per item, for a GPU to wait for, outside of debugging."""
    in_memory = loader.dataset_kind is DatasetKind.IN_MEMORY or loader.works_per_item is Known.NO
    on_device = loader.item_place is Place.DEVICE
    debugging = loader.context.under(GuardKind.DEBUG, GuardKind.NOT_DEVICE)
    return not in_memory and not on_device and not debugging and loader.feeds_cuda is not Known.NO


def _certainty(loader: Loader) -> Confidence:
    known = loader.works_per_item is Known.YES and loader.feeds_cuda is Known.YES
    return loader.arguments.certainty("num_workers") if known else Confidence.LOW
