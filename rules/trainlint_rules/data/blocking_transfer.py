from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, SetArgument
from trainlint.lint.finding import Family, Finding, RelatedSite
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_copies
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Project, Transfer
from trainlint.semantics.vocabulary import Confidence, GuardKind, Known, Place


class BlockingTransfer(Rule):
    """A pinned batch is copied to the GPU while the host waits.

    ## What it does
    Reports `.to(device)` and `.cuda()` of a batch that comes from a loader with pinned memory, per training step,
    without `non_blocking=True`.

    ## Why it is slow
    The loader has already paid for pinned memory, which lets a copy run beside the host. Without `non_blocking=True`
    the host waits until each copy is done before it launches anything else, so the GPU has no work queued behind it.

    ## When it is fine
    Batches in pageable memory, where `non_blocking` changes nothing (TL104 speaks about those); tensors that are on the
    device already; calls that only change the dtype; evaluation; copies from the GPU to the host, where
    `non_blocking=True` would let the host read before the data has arrived.

    ## Example
    ```python
    loader = DataLoader(dataset, batch_size=256, pin_memory=True)
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
    ```

    ## Use instead
    ```python
    for images, labels in loader:
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
    ```

    ## Fix safety
    Safe where the memory is pinned and the device is CUDA for certain, and the host tensor is not used afterwards: work
    on the same stream waits for the copy. Unsafe where the device may be a CPU, where a collection is moved (its `.to`
    may not know the argument), or where the host tensor lives on and might be written while it is being copied. Advice
    only where the device may be another accelerator: on MPS, non_blocking copies have corrupted data.

    ## How the probe confirms it
    By the copies in a GPU trace that this line issues, and their share of the step.

    ## References
    - Time in cudaMemcpyAsync above 20 % of the step is transfer-bound (article 001).
    - PyTorch, a guide on pin_memory and non_blocking:
      https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
    - PyTorch, use pinned memory buffers: https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers
    """

    code, name, family = "TL108", "blocking-transfer", Family.DATA
    fix_class = Applicability.SAFE
    confirmed_by = "memcpy on the critical path"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.CIFAR10("data", train=True, transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=128, shuffle=True, num_workers=4, pin_memory=True)
            model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                images = images.cuda()  # expect: TL108
                labels = labels.to("cuda")  # expect: TL108
                loss = nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="pinned, and CUDA for certain",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.CIFAR10("data", train=True, transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=128, shuffle=True, num_workers=4, pin_memory=True)
            model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                images = images.cuda(non_blocking=True)
                labels = labels.to("cuda", non_blocking=True)
                loss = nn.functional.cross_entropy(model(images), labels)
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


            class Trainer:
                def __init__(self, model, dataset):
                    self.device = "cuda" if torch.cuda.is_available() else "cpu"
                    self.model = model.to(self.device)
                    self.dataset = dataset

                def run(self):
                    optimizer = torch.optim.AdamW(self.model.parameters())
                    loader = DataLoader(self.dataset, shuffle=True, batch_size=64, num_workers=4, pin_memory=True)
                    for batch in loader:
                        batch = [t.to(self.device) for t in batch]  # expect: TL108
                        images, labels = batch
                        loss = nn.functional.cross_entropy(self.model(images), labels)
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()


            dataset = datasets.MNIST("data", transform=transforms.ToTensor())
            Trainer(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), dataset).run()
            """,
            because="in a comprehension over the batch; the device may be the CPU, so the fix is unsafe",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms


            class Trainer:
                def __init__(self, model, dataset):
                    self.device = "cuda" if torch.cuda.is_available() else "cpu"
                    self.model = model.to(self.device)
                    self.dataset = dataset

                def run(self):
                    optimizer = torch.optim.AdamW(self.model.parameters())
                    loader = DataLoader(self.dataset, shuffle=True, batch_size=64, num_workers=4, pin_memory=True)
                    for batch in loader:
                        batch = [t.to(self.device, non_blocking=True) for t in batch]
                        images, labels = batch
                        loss = nn.functional.cross_entropy(self.model(images), labels)
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()


            dataset = datasets.MNIST("data", transform=transforms.ToTensor())
            Trainer(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), dataset).run()
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            from moving import to_device

            loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64, pin_memory=True)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for batch in loader:
                images, labels = to_device(batch, torch.device("cuda"))
                loss = nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="in a helper, in another file",
            others={
                "moving.py": """
                def to_device(batch, device):
                    images, labels = batch
                    images = images.to(device)  # expect: TL108
                    return images, labels.to(device, non_blocking=True)
                """
            },
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64, pin_memory=True)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                images = images.cuda(non_blocking=True)
                labels = labels.cuda(non_blocking=True)
                loss = nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the copies do not block",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64, num_workers=2)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="pageable memory: non_blocking would change nothing",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64, pin_memory=True)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).half().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                images = images.cuda(non_blocking=True).to(torch.float16)
                labels = labels.cuda(non_blocking=True).to("cuda")
                loss = nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="one call only changes the dtype, the other finds its tensor on the device already",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.MNIST("data", train=False, transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=1000, pin_memory=True)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            model.load_state_dict(torch.load("model.pt"))
            correct = torch.zeros((), device="cuda")
            with torch.no_grad():
                for images, labels in loader:
                    correct += (model(images.cuda()).argmax(1) == labels.cuda()).sum()
            print(correct.item() / len(dataset))
            """,
            because="evaluation",
        ),
        valid(
            """
            import lightning as L
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms


            class Classifier(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))

                def training_step(self, batch, batch_idx):
                    images, labels = batch
                    return nn.functional.cross_entropy(self.model(images), labels.to(self.device))

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64, pin_memory=True)
            L.Trainer(accelerator="gpu", max_epochs=3).fit(Classifier(), loader)
            """,
            because="Lightning has already placed the batch",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for move in project.transfers:
            to_gpu = move.target is Place.DEVICE and move.value.place is not Place.DEVICE
            if to_gpu and _is_pinned(move) and move.non_blocking is Known.NO and _per_step(move):
                loader = move.value.loader
                yield self.finding(
                    move,
                    f"{quote(move.text)} makes the host wait for the copy {move.context.frequency.phrase}",
                    help="Pass non_blocking=True: the batch comes in pinned memory",
                    confidence=Confidence.HIGH if move.value.proved else Confidence.MEDIUM,
                    related=(RelatedSite(loader.site, "the loader that pins it"),) if loader else (),
                )

    def fix(self, finding: Finding) -> Fix | None:
        move = finding.subject
        if not isinstance(move, Transfer):
            return None
        message = "Pass non_blocking=True"
        if move.may_be_other_accelerator:
            return Fix(Applicability.DISPLAY, message, because="the device may be another accelerator than CUDA")
        because = _why_not_safe(move)
        applicability = Applicability.UNSAFE if because else Applicability.SAFE
        return Fix(applicability, message, (SetArgument(move.site, "non_blocking", "True"),), because=because)

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_copies(evidence, finding.site)


def _why_not_safe(move: Transfer) -> str:
    """What makes an asynchronous copy unsafe here; empty where nothing does."""
    if not move.device_is_certain:
        return "the device may be a CPU"
    if move.value.container:
        return "what is moved is a collection, whose method may not know the argument"
    return "the host tensor is used again and might be written during the copy" if move.host_value_reused else ""


def _is_pinned(move: Transfer) -> bool:
    return move.value.pinned or (move.value.loader is not None and move.value.loader.pins is Known.YES)


def _per_step(move: Transfer) -> bool:
    return move.context.hot and move.context.routine and not move.context.under(GuardKind.NOT_DEVICE)
