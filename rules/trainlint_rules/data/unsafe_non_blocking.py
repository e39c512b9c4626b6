from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, RelatedSite, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.semantics.project import EarlyRead, Project, Transfer
from trainlint.semantics.vocabulary import Confidence, GuardKind, Known, Place


class UnsafeNonBlocking(Rule):
    """A copy that nothing waits for may leave wrong values behind.

    ## What it does
    Reports two uses of `non_blocking=True`: a copy to the host whose result is read before anything has waited for the
    device, and a copy of pageable memory to a device that may be Apple's GPU.

    ## Why it is slow
    It is wrong rather than slow. A copy to the host returns before the data are there, and nothing makes Python wait:
    what is read at once is what the memory held before. To an Apple GPU, a copy may read its source after Python has
    freed it, or given it to the next batch. Neither raises an error.

    ## When it is fine
    Copies to the host that `torch.cuda.synchronize()`, an event or a stream waits for before they are read. Copies to a
    CUDA device: the kernels that use them stand in line behind them, and pageable memory is copied aside first.

    ## Example
    ```python
    scores = outputs.to("cpu", non_blocking=True)
    print(scores.mean())
    ```

    ## Use instead
    ```python
    scores = outputs.to("cpu")
    print(scores.mean())

    # Where the device may be Apple's GPU.
    images = images.to(device, non_blocking=device.type == "cuda")
    ```

    ## Fix safety
    Advice without edits: whether to wait later, or to copy without `non_blocking`, is the author's choice.

    ## How the probe confirms it
    It does not: a race shows in values, which the probe does not compare.

    ## References
    - PyTorch, a guide on good usage of `non_blocking` and `pin_memory()`: `cuda_tensor.to("cpu",
      non_blocking=True).mean()` results in erroneous outputs:
      https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
    - PyTorch, a `non_blocking` copy from the host to MPS can read released memory and corrupt data:
      https://github.com/pytorch/pytorch/issues/189690
    - PyTorch, bug in conversion to MPS with `non_blocking=True`: https://github.com/pytorch/pytorch/issues/139550
    """

    code, name, family = "TL116", "unsafe-non-blocking", Family.DATA
    severity = Severity.ERROR
    fix_class = Applicability.DISPLAY
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, pin_memory=True)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda(non_blocking=True)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 100 == 0:
                    shown = loss.detach().to("cpu", non_blocking=True)
                    print(step, shown.item())  # expect: TL116
            """,
            because="read right after the copy was issued",
        ),
        invalid(
            """
            import torch
            from torch import nn

            model = nn.Linear(32, 10).cuda().eval()
            predictions = []
            with torch.no_grad():
                for batch in torch.load("inputs.pt").split(64):
                    outputs = model(batch.cuda())
                    predictions.append(outputs.to("cpu", non_blocking=True).argmax(1))  # expect: TL116
            """,
            because="computed with on the host before the data are there",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
            loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64, num_workers=2)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                images = images.to(device, non_blocking=True)  # expect: TL116
                labels = labels.to(device, non_blocking=True)  # expect: TL116
                loss = nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the device may be Apple's GPU, and the batch is freed in the next turn",
        ),
        invalid(
            """
            import torch
            from host import to_host
            from torch import nn

            model = nn.Linear(32, 10).cuda().eval()
            with torch.no_grad():
                for batch in torch.load("inputs.pt").split(64):
                    scores = to_host(model(batch.cuda()))
                    print(scores.tolist())  # expect: TL116
            """,
            because="the copy is made by a helper of another file",
            others={
                "host.py": """
                def to_host(tensor):
                    return tensor.detach().to("cpu", non_blocking=True)
                """
            },
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(32, 10).cuda().eval()
            copies = []
            with torch.no_grad():
                for batch in torch.load("inputs.pt").split(64):
                    copies.append(model(batch.cuda()).to("cpu", non_blocking=True))
            torch.cuda.synchronize()
            print(torch.cat(copies).mean().item())
            """,
            because="synchronized once, before all of them are read",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(32, 10).cuda().eval()
            arrived = torch.cuda.Event()
            with torch.no_grad():
                for batch in torch.load("inputs.pt").split(64):
                    scores = model(batch.cuda()).to("cpu", non_blocking=True)
                    arrived.record()
                    arrived.synchronize()
                    print(scores.tolist())
            """,
            because="an event is waited for",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, pin_memory=True)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda(non_blocking=True)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 100 == 0:
                    print(step, loss.detach().to("cpu").item())
            """,
            because="the copy to the device is waited for by what uses it, and the one to the host blocks",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            device = torch.device("mps" if torch.backends.mps.is_available() else "cuda")
            loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64, num_workers=2)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                images = images.to(device, non_blocking=device.type == "cuda")
                labels = labels.to(device, non_blocking=device.type == "cuda")
                loss = nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="non_blocking where the device is CUDA",
        ),
        valid(
            """
            import torch
            from torch import nn

            device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
            model = nn.Linear(32, 1).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


            def get_batch():
                inputs = torch.randn(64, 32)
                if torch.cuda.is_available():
                    return inputs.pin_memory().to(device, non_blocking=True)
                return inputs.to(device)


            for step in range(1_000):
                loss = model(get_batch()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="behind a test for CUDA",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            shown = None
            for step, inputs in enumerate(torch.load("inputs.pt").split(64)):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if shown is not None:
                    done.synchronize()
                    print(step - 1, shown.item())
                shown = loss.detach().to("cpu", non_blocking=True)
                done = torch.cuda.Event()
                done.record()
            """,
            because="read in the next step, after an event",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(32, 1)
            weights = model.weight.detach().to("cpu", non_blocking=True)
            print(weights.mean().item())
            """,
            because="the tensor lives on the host already",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for read in project.early_reads:
            yield self.finding(
                read,
                f"{quote(read.text)} may read the tensor before its copy to the host has arrived",
                help="Wait for the device first, or copy without non_blocking=True",
                confidence=Confidence.MEDIUM if read.shares else Confidence.HIGH,
                related=(RelatedSite(read.copy, "the copy that nothing waits for"),),
            )
        for move in project.transfers:
            if _may_reach_mps(move) and move.non_blocking is Known.YES and _from_pageable_memory(move):
                yield self.finding(
                    move,
                    f"{quote(move.text)} may corrupt the data where the device is Apple's GPU",
                    help='Pass non_blocking=device.type == "cuda"',
                    confidence=Confidence.MEDIUM if move.may_be_cuda else Confidence.HIGH,
                )

    def fix(self, finding: Finding) -> Fix | None:
        if isinstance(finding.subject, EarlyRead):
            return Fix(Applicability.DISPLAY, "Wait for the device before the read, or copy without non_blocking=True")
        return Fix(Applicability.DISPLAY, 'Copy without waiting on CUDA only: non_blocking=device.type == "cuda"')


def _may_reach_mps(move: Transfer) -> bool:
    return move.may_be_mps and not move.context.under(GuardKind.DEVICE)


def _from_pageable_memory(move: Transfer) -> bool:
    pinned = move.value.pinned or (move.value.loader is not None and move.value.loader.pins is Known.YES)
    return move.target is Place.DEVICE and move.value.place is Place.HOST and not pinned
