from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, RelatedSite
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_stacks
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Call, Loader, Project
from trainlint.semantics.values import Tensor
from trainlint.semantics.vocabulary import Confidence, Known, Place

PIN = "torch.Tensor.pin_memory"


class PinMemoryInStep(Rule):
    """The training thread copies a tensor into pinned memory at every step.

    ## What it does
    Reports `tensor.pin_memory()` in code that runs at every training step.

    ## Why it is slow
    Pinning allocates page-locked memory and copies the tensor into it on the host, while the training thread waits. The
    copy to the GPU that follows is asynchronous, but what it saves was spent before it: PyTorch's guide finds
    `tensor.pin_memory().to(device, non_blocking=True)` up to twice as slow as `tensor.to(device)`. A loader pins in a
    thread of its own, while the step before is still running.

    ## When it is fine
    Once, before the loop: a buffer that is filled and copied again and again. Where the loader pins already, the call
    returns the tensor as it is, and is not reported.

    ## Example
    ```python
    for images, labels in loader:
        images = images.pin_memory().to(device, non_blocking=True)
    ```

    ## Use instead
    ```python
    loader = DataLoader(dataset, batch_size=64, num_workers=8, pin_memory=True)
    for images, labels in loader:
        images = images.to(device, non_blocking=True)
    ```

    ## Fix safety
    Advice without edits: where the tensor comes from decides. From a loader, let the loader pin. Made by hand, put a
    dataset and a loader in its place, keep one pinned buffer for all steps, or copy it as it is.

    ## How the probe confirms it
    By stack samples under this line.

    ## References
    - PyTorch, a guide on good usage of `non_blocking` and `pin_memory()`:
      https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
    - PyTorch, use pinned memory buffers, "pinning is often an expensive operation":
      https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers
    """

    code, name, family = "TL115", "pin-memory-in-step", Family.DATA
    fix_class = Applicability.DISPLAY
    confirmed_by = "stack samples under this line"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64, num_workers=4)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                images = images.pin_memory().cuda(non_blocking=True)  # expect: TL115
                labels = labels.pin_memory().cuda(non_blocking=True)  # expect: TL115
                loss = nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the loader could pin in its own thread",
        ),
        invalid(
            """
            import numpy as np
            import torch
            from torch import nn

            tokens = np.memmap("train.bin", dtype=np.uint16, mode="r")


            def get_batch():
                starts = torch.randint(len(tokens) - 256, (12,))
                x = torch.stack([torch.from_numpy(tokens[i : i + 256].astype(np.int64)) for i in starts])
                y = torch.stack([torch.from_numpy(tokens[i + 1 : i + 257].astype(np.int64)) for i in starts])
                x, y = x.pin_memory(), y.pin_memory()  # expect: TL115
                return x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)


            model = nn.Sequential(nn.Embedding(50257, 64), nn.Linear(64, 50257)).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step in range(1_000):
                inputs, targets = get_batch()
                loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="batches that are made by hand",
        ),
        invalid(
            """
            import torch
            from moving import to_device
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64, num_workers=4)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for batch in loader:
                images, labels = to_device(batch, device)
                loss = nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="in a helper of another file",
            others={
                "moving.py": """
                def to_device(batch, device):
                    return [item.pin_memory().to(device, non_blocking=True) for item in batch]  # expect: TL115
                """
            },
        ),
        invalid(
            """
            import torch
            from torch import nn

            generator = nn.Linear(100, 784).cuda()
            optimizer = torch.optim.Adam(generator.parameters())
            for step in range(10_000):
                noise = torch.randn(64, 100).pin_memory()  # expect: TL115
                loss = generator(noise.cuda(non_blocking=True)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a tensor that is made in each step",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.MNIST("data", transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
                loss = nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the loader pins",
        ),
        valid(
            """
            import torch
            from torch import nn

            inputs = torch.load("inputs.pt").pin_memory()
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for batch in inputs.split(64):
                loss = model(batch.cuda(non_blocking=True)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="pinned once, before the loop",
        ),
        valid(
            """
            import torch
            from torch import nn

            buffer = torch.empty(64, 32).pin_memory()
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for batch in torch.load("inputs.pt").split(64):
                buffer.copy_(batch)
                loss = model(buffer.cuda(non_blocking=True)).square().mean()
                torch.cuda.synchronize()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="one pinned buffer serves all steps",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.MNIST("data", transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                images = images.pin_memory().cuda(non_blocking=True)
                loss = nn.functional.cross_entropy(model(images), labels.cuda(non_blocking=True))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="what the loader has pinned is returned as it is",
        ),
        valid(
            """
            import torch
            from torch.utils.data import DataLoader


            class Batch:
                def __init__(self, rows):
                    self.inputs = torch.stack([row[0] for row in rows])
                    self.targets = torch.stack([row[1] for row in rows])

                def pin_memory(self):
                    self.inputs = self.inputs.pin_memory()
                    self.targets = self.targets.pin_memory()
                    return self


            loader = DataLoader(torch.load("rows.pt"), batch_size=64, collate_fn=Batch, pin_memory=True)
            model = torch.nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for batch in loader:
                outputs = model(batch.inputs.cuda(non_blocking=True))
                loss = (outputs - batch.targets.cuda(non_blocking=True)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a batch that says how the loader's thread pins it",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.MNIST("data", train=False, transform=transforms.ToTensor())
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            model.load_state_dict(torch.load("model.pt"))
            correct = torch.zeros((), device="cuda")
            with torch.no_grad():
                for images, labels in DataLoader(dataset, batch_size=1000):
                    images = images.pin_memory().cuda(non_blocking=True)
                    correct += (model(images).argmax(1) == labels.cuda()).sum()
            """,
            because="evaluation",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            inputs = torch.load("inputs.pt").cuda()
            for step, batch in enumerate(inputs.split(64)):
                loss = model(batch).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 100 == 0:
                    snapshot = torch.empty(1, 32).pin_memory()
                    snapshot.copy_(model.weight.detach())
            """,
            because="every hundred steps",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in project.calls_of(PIN):
            value = call.receiver
            per_step = call.context.hot and call.context.routine and call.context.may_use_gpu
            if per_step and isinstance(value, Tensor) and value.place is Place.HOST and not _is_pinned(value):
                yield self.finding(
                    call,
                    f"{quote(call.text)} copies into page-locked memory {call.context.frequency.phrase}, while the "
                    "training thread waits",
                    help="Let the loader pin: pin_memory=True" if value.loader else "Pin once, or copy it as it is",
                    confidence=Confidence.HIGH if value.proved else Confidence.MEDIUM,
                    related=_loader_of(value),
                )

    def fix(self, finding: Finding) -> Fix | None:
        call = finding.subject
        value = call.receiver if isinstance(call, Call) else None
        if isinstance(value, Tensor) and value.loader is not None:
            return Fix(Applicability.DISPLAY, "Pass pin_memory=True to the loader, and remove the call here")
        return Fix(
            Applicability.DISPLAY,
            "Keep one pinned buffer for all steps, let a loader make the batches, or copy the tensor as it is",
        )

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_stacks(evidence, finding.site)


def _is_pinned(value: Tensor) -> bool:
    """Whether the call would return the tensor as it is."""
    return value.pinned or (value.loader is not None and value.loader.pins is Known.YES)


def _loader_of(value: Tensor) -> tuple[RelatedSite, ...]:
    loader: Loader | None = value.loader
    return () if loader is None else (RelatedSite(loader.site, "the loader that could pin it"),)
