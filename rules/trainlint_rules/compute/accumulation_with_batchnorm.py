from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, valid
from trainlint.semantics.project import Project
from trainlint.semantics.vocabulary import Confidence


class AccumulationWithBatchnorm(Rule):
    """Gradients are accumulated over micro-batches that batch normalization sees one by one.

    ## What it does
    Reports step loops that accumulate gradients, in a program that makes a model with `BatchNorm1d`, `BatchNorm2d` or
    `BatchNorm3d`.

    ## Why it is slow
    It is not slow but not what it seems to be: accumulating four micro-batches of 8 gives the gradients of a batch of
    32, except behind batch normalization, whose mean and variance are those of 8 samples each time. Small micro-batches
    make these noisy, and training reaches less than with the batch that the numbers promise.

    ## When it is fine
    Micro-batches large enough for stable statistics; normalization that is frozen or synchronized (`SyncBatchNorm`).

    ## Example
    ```python
    loss = criterion(model(images), labels) / accumulate  # the model uses nn.BatchNorm2d
    loss.backward()
    if (step + 1) % accumulate == 0:
        optimizer.step()
    ```

    ## Use instead
    `nn.GroupNorm` or `nn.LayerNorm`, which look at each sample by itself, or larger micro-batches and fewer of them.

    ## Fix safety
    Advice without edits: another normalization is another model.

    ## How the probe confirms it
    It does not: the finding follows from the code alone.

    ## References
    - Under gradient accumulation, BatchNorm's statistics see the micro-batch only (articles 001 and 003).
    - PyTorch, BatchNorm2d: https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html
    """

    code, name, family = "TL418", "accumulation-with-batchnorm", Family.COMPUTE
    severity = Severity.INFO
    fix_class = Applicability.DISPLAY
    default = False
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv2d(3, 8, 3)
                    self.norm = nn.BatchNorm2d(8)

                def forward(self, images):
                    return torch.relu(self.norm(self.conv(images)))


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.block = Block()
                    self.head = nn.LazyLinear(10)

                def forward(self, images):
                    return self.head(self.block(images).flatten(1))


            accumulate = 4
            model = Net().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, images in enumerate(DataLoader(torch.load("images.pt"), batch_size=8)):  # expect: TL418
                loss = model(images.cuda()).square().mean() / accumulate
                loss.backward()
                if (step + 1) % accumulate == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            because="a block of the model normalizes",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            accumulate = 4
            model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.LazyLinear(10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, images in enumerate(DataLoader(torch.load("images.pt"), batch_size=8)):  # expect: TL418
                loss = model(images.cuda()).square().mean() / accumulate
                loss.backward()
                if (step + 1) % accumulate == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            because="a sequence of layers",
        ),
        invalid(
            """
            def train_epoch(model, loader, optimizer, accumulate):
                optimizer.zero_grad()
                for step, images in enumerate(loader):  # expect: TL418
                    loss = model(images.cuda()).square().mean() / accumulate
                    loss.backward()
                    if (step + 1) % accumulate == 0:
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            because="the loop in another file",
            entry="engine.py",
            others={
                "train.py": """
                import torch
                from torch import nn
                from torch.utils.data import DataLoader

                from engine import train_epoch


                class Block(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.conv = nn.Conv2d(3, 8, 3)
                        self.norm = nn.BatchNorm2d(8)

                    def forward(self, images):
                        return torch.relu(self.norm(self.conv(images)))


                class Net(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.block = Block()
                        self.head = nn.LazyLinear(10)

                    def forward(self, images):
                        return self.head(self.block(images).flatten(1))


                accumulate = 4
                model = Net().cuda()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                loader = DataLoader(torch.load("images.pt"), batch_size=8)
                for epoch in range(10):
                    train_epoch(model, loader, optimizer, accumulate)
                """
            },
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            accumulate = 4
            model = nn.Sequential(nn.Linear(32, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=32):  # expect: TL418
                optimizer.zero_grad()
                for part in images.cuda().chunk(accumulate):
                    loss = model(part).square().mean() / accumulate
                    loss.backward()
                optimizer.step()
            """,
            because="a batch in parts",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv2d(3, 8, 3)
                    self.norm = nn.GroupNorm(2, 8)

                def forward(self, images):
                    return torch.relu(self.norm(self.conv(images)))


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.block = Block()
                    self.head = nn.LazyLinear(10)

                def forward(self, images):
                    return self.head(self.block(images).flatten(1))


            accumulate = 4
            model = Net().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, images in enumerate(DataLoader(torch.load("images.pt"), batch_size=8)):
                loss = model(images.cuda()).square().mean() / accumulate
                loss.backward()
                if (step + 1) % accumulate == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            because="normalization of each sample by itself",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv2d(3, 8, 3)
                    self.norm = nn.BatchNorm2d(8)

                def forward(self, images):
                    return torch.relu(self.norm(self.conv(images)))


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.block = Block()
                    self.head = nn.LazyLinear(10)

                def forward(self, images):
                    return self.head(self.block(images).flatten(1))


            model = Net().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=8):
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="no accumulation",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv2d(3, 8, 3)
                    self.norm = nn.SyncBatchNorm(8)

                def forward(self, images):
                    return torch.relu(self.norm(self.conv(images)))


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.block = Block()
                    self.head = nn.LazyLinear(10)

                def forward(self, images):
                    return self.head(self.block(images).flatten(1))


            accumulate = 4
            model = Net().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, images in enumerate(DataLoader(torch.load("images.pt"), batch_size=8)):
                loss = model(images.cuda()).square().mean() / accumulate
                loss.backward()
                if (step + 1) % accumulate == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            because="statistics of all ranks",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision.ops import FrozenBatchNorm2d


            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv2d(3, 8, 3)
                    self.norm = FrozenBatchNorm2d(8)

                def forward(self, images):
                    return torch.relu(self.norm(self.conv(images)))


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.block = Block()
                    self.head = nn.LazyLinear(10)

                def forward(self, images):
                    return self.head(self.block(images).flatten(1))


            accumulate = 4
            model = Net().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, images in enumerate(DataLoader(torch.load("images.pt"), batch_size=8)):
                loss = model(images.cuda()).square().mean() / accumulate
                loss.backward()
                if (step + 1) % accumulate == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            because="frozen statistics",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv2d(3, 8, 3)
                    self.norm = nn.BatchNorm2d(8)

                def forward(self, images):
                    return torch.relu(self.norm(self.conv(images)))


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.block = Block()
                    self.head = nn.LazyLinear(10)

                def forward(self, images):
                    return self.head(self.block(images).flatten(1))


            class Tiny(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.head = nn.LazyLinear(10)

                def forward(self, images):
                    return self.head(images.flatten(1))


            accumulate = 4
            model = Tiny().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, images in enumerate(DataLoader(torch.load("images.pt"), batch_size=8)):
                loss = model(images.cuda()).square().mean() / accumulate
                loss.backward()
                if (step + 1) % accumulate == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            because="another model of the same file is trained",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv2d(3, 8, 3)
                    self.norm = nn.BatchNorm2d(8)

                def forward(self, images):
                    return torch.relu(self.norm(self.conv(images)))


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.block = Block()
                    self.head = nn.LazyLinear(10)

                def forward(self, images):
                    return self.head(self.block(images).flatten(1))


            accumulate = 4
            model = nn.SyncBatchNorm.convert_sync_batchnorm(Net()).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, images in enumerate(DataLoader(torch.load("images.pt"), batch_size=8)):
                loss = model(images.cuda()).square().mean() / accumulate
                loss.backward()
                if (step + 1) % accumulate == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            because="converted",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for loop in project.step_loops:
            if loop.accumulates and loop.context.entry.normalizes_batches:
                yield self.finding(
                    loop,
                    "gradients are accumulated, and batch normalization sees each micro-batch by itself",
                    help="Normalize each sample by itself (GroupNorm, LayerNorm), or use larger micro-batches",
                    confidence=Confidence.MEDIUM,
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.DISPLAY,
            "Use `nn.GroupNorm` or `nn.LayerNorm`, or larger micro-batches and fewer of them",
        )
