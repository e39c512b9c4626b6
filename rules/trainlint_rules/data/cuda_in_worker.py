from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.semantics.project import Call, Context, DatasetKind, Loader, Project, Transfer
from trainlint.semantics.values import DeviceValue, Object, Tensor
from trainlint.semantics.vocabulary import Confidence, GuardKind, Known, Place

NEEDS_CUDA = (
    "torch.Tensor.pin_memory",
    "torch.cuda.set_device",
    "torch.cuda.synchronize",
    "torch.cuda.current_device",
    "torch.cuda.mem_get_info",
)
"""Calls that start CUDA in the process that makes them."""
FACTORIES = ("torch.tensor", "torch.as_tensor")


class CudaInWorker(Rule):
    """A dataset, a collate function or a worker's start needs CUDA in a forked worker.

    ## What it does
    Reports CUDA work in `__getitem__`, `__iter__`, a collate function or a `worker_init_fn` of a loader with workers:
    tensors that are moved to or made on the GPU, or pinned there; and loaders with workers over tensors that are on the
    GPU already.

    ## Why it is slow
    It fails. Linux forks the workers, and CUDA cannot be used in a process that was forked after CUDA was started:
    PyTorch raises "Cannot re-initialize CUDA in forked subprocess". Where workers are spawned instead, each of them
    starts CUDA anew, which takes memory on the GPU and time, and copies item by item what one copy per batch would do.

    ## When it is fine
    Without workers. With a start method that does not fork, which the rule takes from `multiprocessing_context` or
    `set_start_method`, and from Python 3.14 on by default: it works, and costs as said.

    ## Example
    ```python
    def __getitem__(self, index):
        return self.images[index].to("cuda"), self.labels[index]
    ```

    ## Use instead
    ```python
    def __getitem__(self, index):
        return self.images[index], self.labels[index]

    for images, labels in DataLoader(dataset, num_workers=4, pin_memory=True):
        images = images.to("cuda", non_blocking=True)
    ```

    ## Fix safety
    Advice without edits: the move belongs into the training loop, which may be in another file.

    ## How the probe confirms it
    It does not: where workers are forked, the job ends with PyTorch's error.

    ## References
    - PyTorch, multiprocessing best practices, CUDA in multiprocessing:
      https://docs.pytorch.org/docs/stable/notes/multiprocessing.html#cuda-in-multiprocessing
    - PyTorch, multi-process data loading, which advises against returning CUDA tensors:
      https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
    - PyTorch, a collate function that returns tensors in GPU memory, and a CUDA context in each worker:
      https://github.com/pytorch/pytorch/issues/98002
    """

    code, name, family = "TL109", "cuda-in-worker", Family.DATA
    severity = Severity.ERROR
    fix_class = Applicability.DISPLAY
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Images(Dataset):
                def __init__(self, paths):
                    self.paths = paths

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    image = torch.load(self.paths[index])["image"]
                    return torch.as_tensor(image).to("cuda")  # expect: TL109


            loader = DataLoader(Images(open("paths.txt").read().split()), batch_size=64, num_workers=4)
            model = nn.Linear(784, 10).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in loader:
                loss = model(images).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="each item is moved in a worker",
        ),
        invalid(
            """
            import torch
            from batches import collate
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("rows.pt"), batch_size=64, num_workers=8, collate_fn=collate)
            model = nn.Linear(32, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs, targets in loader:
                loss = nn.functional.cross_entropy(model(inputs), targets)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a collate function of another file, with a device that may be the CPU",
            others={
                "batches.py": """
                import torch

                device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


                def collate(rows):
                    inputs = torch.stack([torch.tensor(row[0]) for row in rows])
                    targets = torch.tensor([row[1] for row in rows], device=device)  # expect: TL109
                    return inputs.to(device), targets  # expect: TL109
                """
            },
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            inputs = torch.randn(10_000, 32).cuda()
            targets = torch.randint(2, (10_000,), device="cuda")
            loader = DataLoader(TensorDataset(inputs, targets), batch_size=64, num_workers=2)  # expect: TL109
            model = nn.Linear(32, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for batch, labels in loader:
                loss = nn.functional.cross_entropy(model(batch), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the tensors are on the GPU before the workers start",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms


            def start(worker):
                torch.cuda.set_device(worker % torch.cuda.device_count())  # expect: TL109


            dataset = datasets.MNIST("data", transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, num_workers=4, worker_init_fn=start)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="at the start of each worker",
        ),
        invalid(
            """
            import torch
            from torch.utils.data import DataLoader, Dataset


            class Signals(Dataset):
                def __init__(self, signals):
                    self.signals = signals

                def __len__(self):
                    return len(self.signals)

                def __getitem__(self, index):
                    return self.signals[index].cuda()  # expect: TL109


            def main():
                model = torch.nn.Linear(8, 1).cuda()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                training = DataLoader(Signals(torch.randn(64, 8)), batch_size=8, num_workers=4)
                validation = DataLoader(Signals(torch.randn(64, 8)), batch_size=8)
                for batch in training:
                    optimizer.zero_grad()
                    model(batch).mean().backward()
                    optimizer.step()
                with torch.no_grad():
                    for batch in validation:
                        model(batch)


            main()
            """,
            because="one of two loaders has workers",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


            def collate(rows):
                inputs = torch.stack([torch.tensor(row[0]) for row in rows])
                targets = torch.tensor([row[1] for row in rows])
                return inputs.to(device), targets.to(device)


            loader = DataLoader(torch.load("rows.pt"), batch_size=64, shuffle=True, collate_fn=collate)
            model = nn.Linear(32, 2).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs, targets in loader:
                loss = nn.functional.cross_entropy(model(inputs), targets)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="without workers, the training thread collates",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Images(Dataset):
                def __init__(self, paths, device="cpu"):
                    self.paths = paths
                    self.device = torch.device(device)

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    return torch.load(self.paths[index])["image"].float().to(self.device)


            loader = DataLoader(Images(open("paths.txt").read().split()), batch_size=64, num_workers=4)
            model = nn.Linear(784, 10).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in loader:
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the device of the dataset is the CPU",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            def collate(rows):
                return torch.stack([torch.tensor(row) for row in rows]).cuda()


            loader = DataLoader(
                torch.load("rows.pt"), batch_size=64, num_workers=2, collate_fn=collate, multiprocessing_context="spawn"
            )
            model = nn.Linear(32, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in loader:
                loss = model(inputs).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the workers are spawned",
        ),
        valid(
            """
            import torch
            import torch.multiprocessing as mp
            from torch import nn
            from torch.utils.data import DataLoader


            def collate(rows):
                return torch.stack([torch.tensor(row) for row in rows]).cuda()


            if __name__ == "__main__":
                mp.set_start_method("forkserver")
                loader = DataLoader(torch.load("rows.pt"), batch_size=64, num_workers=2, collate_fn=collate)
                model = nn.Linear(32, 2).cuda()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for inputs in loader:
                    loss = model(inputs).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the program chooses how processes start",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            dataset = TensorDataset(torch.randn(10_000, 32).cuda(), torch.randint(2, (10_000,), device="cuda"))
            loader = DataLoader(dataset, batch_size=64, shuffle=True)
            model = nn.Linear(32, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for batch, labels in loader:
                loss = nn.functional.cross_entropy(model(batch), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="tensors on the GPU, without workers",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Crops(Dataset):
                def __init__(self, path):
                    device = torch.device("cuda")
                    encoder = nn.Linear(784, 64).to(device)
                    with torch.no_grad():
                        self.features = encoder(torch.load(path).to(device)).cpu()

                def __len__(self):
                    return len(self.features)

                def __getitem__(self, index):
                    return self.features[index]


            loader = DataLoader(Crops("images.pt"), batch_size=64, num_workers=4, pin_memory=True)
            model = nn.Linear(64, 10).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for features in loader:
                loss = model(features.cuda(non_blocking=True)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the GPU is used once, by the constructor, in the training process",
        ),
        valid(
            """
            import random

            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms


            def seed_worker(worker):
                seed = torch.initial_seed() % 2**32
                np.random.seed(seed)
                random.seed(seed)


            dataset = datasets.MNIST("data", transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, num_workers=4, worker_init_fn=seed_worker)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a worker's start that seeds the host's generators",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for move in project.transfers:
            if _in_forked_worker(move.context) and _to_cuda(move):
                yield self._needs_cuda(move)
        for call in project.calls_of(*NEEDS_CUDA, *FACTORIES):
            if _in_forked_worker(call.context) and (call.name not in FACTORIES or _made_on_cuda(call)):
                yield self._needs_cuda(call)
        for loader in project.loaders:
            forks = loader.forks is Known.YES and not loader.context.entry.chooses_start_method
            if forks and _holds_cuda_tensors(loader):
                yield self.finding(
                    loader,
                    f"{quote(loader.text)} hands tensors on the GPU to forked workers, which cannot use CUDA",
                    help="Leave out num_workers: there is no work per item, or keep the tensors on the host",
                )

    def _needs_cuda(self, work: Transfer | Call) -> Finding:
        certain = isinstance(work, Call) or work.device_is_certain
        return self.finding(
            work,
            f"{quote(work.text)} needs CUDA in a forked worker of a loader, which cannot use it",
            help="Return tensors on the host, and move the batch in the training loop",
            confidence=Confidence.HIGH if certain else Confidence.MEDIUM,
        )

    def fix(self, finding: Finding) -> Fix | None:
        if isinstance(finding.subject, Loader):
            return Fix(Applicability.DISPLAY, "Leave out num_workers, or keep the tensors on the host")
        return Fix(Applicability.DISPLAY, "Move the batch in the training loop, and let the loader pin it")


def _in_forked_worker(context: Context) -> bool:
    excepted = context.entry.chooses_start_method or context.under(GuardKind.NOT_DEVICE, GuardKind.EXCEPTIONAL)
    return context.forked is Known.YES and not excepted


def _to_cuda(move: Transfer) -> bool:
    return move.target is Place.DEVICE and move.may_be_cuda and move.device_is_known


def _made_on_cuda(call: Call) -> bool:
    device = call.arguments.value("device")
    return isinstance(device, DeviceValue) and device.cuda and device.proved


def _holds_cuda_tensors(loader: Loader) -> bool:
    """Whether the dataset is made of tensors that are on the GPU."""
    held = loader.dataset.inner if isinstance(loader.dataset, Object) else None
    on_device = isinstance(held, Tensor) and held.place is Place.DEVICE and held.proved
    return loader.dataset_kind is DatasetKind.IN_MEMORY and on_device
