from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.semantics.context import Context
from trainlint.semantics.project import Project
from trainlint.semantics.values import Const
from trainlint.semantics.vocabulary import Confidence, Known

COSTLY = {"torch.backends.cudnn.benchmark": False, "torch.backends.cudnn.deterministic": True}
"""Switches, with the values that keep cuDNN from the fastest algorithms."""
DETERMINISTIC = "torch.use_deterministic_algorithms"


class CudnnBenchmarkOff(Rule):
    """Convolutions may not use the fastest algorithms.

    ## What it does
    Reports `cudnn.benchmark = False`, `cudnn.deterministic = True` and `torch.use_deterministic_algorithms(True)` in
    every run of a script that trains on CUDA, where it or what it imports names a convolution.

    ## Why it is slow
    cuDNN has several algorithms for a convolution, and which is fastest depends on the shapes and on the GPU. With
    `benchmark = True` it tries them once for each shape and keeps the best. `deterministic = True` leaves only those
    that give the same bits each time, which may be much slower ones.

    ## When it is fine
    Runs that must be reproduced bit by bit; inputs of ever new shapes, each of which would be tried again. Behind an
    option, such as a seed that was given.

    ## Example
    ```python
    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    ```

    ## Use instead
    ```python
    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = args.deterministic
    torch.backends.cudnn.benchmark = not args.deterministic
    ```

    ## Fix safety
    Advice without edits: results of the same seed then differ in their last digits from run to run.

    ## How the probe confirms it
    It does not: the finding follows from the code alone. A run with the switch the other way, compared with this one,
    tells what it costs.

    ## References
    - Change one variable, measure 50 steps again, and keep what raises throughput (articles 000, 001 and 003).
    - PyTorch performance tuning guide, "Enable cuDNN auto-tuner":
      https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#enable-cudnn-auto-tuner
    - PyTorch, Reproducibility: https://docs.pytorch.org/docs/stable/notes/randomness.html
    """

    code, name, family = "TL408", "cudnn-benchmark-off", Family.COMPUTE
    severity = Severity.INFO
    fix_class = Applicability.DISPLAY
    default = False
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            torch.backends.cudnn.benchmark = False  # expect: TL408
            model = nn.Conv2d(3, 8, 3).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the search switched off",
        ),
        invalid(
            """
            import torch
            import torch.backends.cudnn as cudnn
            from torch import nn
            from torch.utils.data import DataLoader

            cudnn.deterministic = True  # expect: TL408
            model = nn.Conv2d(3, 8, 3).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="deterministic in every run",
        ),
        invalid(
            """
            import random

            import torch
            from torch.backends import cudnn


            def set_seed(seed):
                random.seed(seed)
                torch.manual_seed(seed)
                cudnn.deterministic = True  # expect: TL408
                cudnn.benchmark = False  # expect: TL408
            """,
            because="in a helper of another file, with the seeds",
            entry="seeding.py",
            others={
                "train.py": """
                import torch
                from torch import nn
                from torch.utils.data import DataLoader

                from seeding import set_seed

                set_seed(0)
                model = nn.Conv2d(3, 8, 3).cuda()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for images in DataLoader(torch.load("images.pt"), batch_size=64):
                    loss = model(images.cuda()).square().mean()
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

            torch.use_deterministic_algorithms(True)  # expect: TL408
            model = nn.Conv2d(3, 8, 3).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="for all of torch",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            torch.backends.cudnn.benchmark = True
            model = nn.Conv2d(3, 8, 3).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the search is on",
        ),
        valid(
            """
            import argparse

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            parser = argparse.ArgumentParser()
            parser.add_argument("--seed", type=int)
            args = parser.parse_args()
            if args.seed is not None:
                torch.manual_seed(args.seed)
                torch.backends.cudnn.deterministic = True
            model = nn.Conv2d(3, 8, 3).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="seeds for whoever asks for them",
        ),
        valid(
            """
            import argparse

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            parser = argparse.ArgumentParser()
            parser.add_argument("--deterministic", action="store_true")
            args = parser.parse_args()
            torch.backends.cudnn.benchmark = not args.deterministic
            torch.backends.cudnn.deterministic = args.deterministic
            model = nn.Conv2d(3, 8, 3).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="an option",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            torch.backends.cudnn.benchmark = False
            model = nn.Linear(32, 8).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a model without convolutions",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            torch.backends.cudnn.benchmark = False
            model = nn.Conv2d(3, 8, 3)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = model(images).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="training on a CPU",
        ),
        valid(
            """
            import torch
            from torch import nn

            torch.backends.cudnn.deterministic = True
            model = nn.Conv2d(3, 8, 3).cuda()
            with torch.no_grad():
                print(model(torch.zeros(1, 3, 32, 32, device="cuda")).mean())
            """,
            because="no training",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            torch.backends.cudnn.deterministic = False
            model = nn.Conv2d(3, 8, 3).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in DataLoader(torch.load("images.pt"), batch_size=64):
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="not deterministic",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for setting in project.settings:
            costly = setting.name in COSTLY and setting.value == Const(COSTLY[setting.name])
            if costly and _slows_convolutions(setting.context):
                text = f"{setting.name} = {COSTLY[setting.name]}"
                yield self.finding(
                    setting,
                    f"{quote(text)} keeps convolutions from their fastest algorithms, in every run",
                    help="Let an option decide",
                    confidence=Confidence.MEDIUM,
                )
        for call in project.calls_of(DETERMINISTIC):
            on = call.arguments.constant("mode") is True
            if on and _slows_convolutions(call.context):
                yield self.finding(
                    call,
                    f"{quote(call.text)} keeps operations from their fastest algorithms, in every run",
                    help="Let an option decide",
                    confidence=Confidence.MEDIUM,
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.DISPLAY,
            "Let an option ask for reproducible runs, and set `torch.backends.cudnn.benchmark = True` otherwise",
        )


def _slows_convolutions(context: Context) -> bool:
    """Whether training on CUDA, as far as known with convolutions, runs under it without having asked for it."""
    entry = context.entry
    trains_on_cuda = context.concerns_training and entry.cuda is Known.YES
    return trains_on_cuda and entry.names_convolutions and not context.on_request
