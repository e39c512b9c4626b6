from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, SetArgument
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.semantics.project import Call, Project
from trainlint.semantics.vocabulary import GuardKind

SAFE_BY_DEFAULT = (2, 6)
"""First torch release whose `torch.load` reads weights only unless told otherwise."""


class UnsafeLoad(Rule):
    """A file is unpickled that may run code.

    ## What it does
    Reports `torch.load` with `weights_only=False`, and without `weights_only` where the project admits no torch from
    2.6 on.

    ## Why it is slow
    It is not slow but unsafe: a pickle may name any function for Python to call while it is read. Whoever can write the
    file, or offer it for download, runs code on the machine that trains. With `weights_only=True` tensors, numbers,
    text and plain containers are read, and nothing is called.

    ## When it is fine
    Files that nobody else can write, such as the job's own checkpoints: silence the line with a comment that says so.
    Files that hold objects of classes, which `torch.serialization.add_safe_globals` can allow one by one. Releases
    before 1.13, which have no such argument.

    ## Example
    ```python
    state = torch.load(path, map_location="cpu", weights_only=False)
    ```

    ## Use instead
    ```python
    state = torch.load(path, map_location="cpu", weights_only=True)
    ```

    ## Fix safety
    Unsafe: files that hold more than weights, such as whole models or configurations, raise an error.

    ## How the probe confirms it
    It does not: the finding follows from the code alone.

    ## References
    - What a checkpoint holds: model, optimizer, schedule, epoch, step, scaler and random states (article 003).
    - PyTorch, torch.load, `weights_only`: https://docs.pytorch.org/docs/stable/generated/torch.load.html
    - PyTorch, the option and why it is there: https://github.com/pytorch/pytorch/pull/86812
    """

    code, name, family = "TL603", "unsafe-load", Family.CHECKPOINT
    severity = Severity.INFO
    fix_class = Applicability.UNSAFE
    default = False
    torch = ((1, 13), None)
    examples = (
        invalid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            state = torch.load("checkpoint.pt", map_location="cpu", weights_only=False)  # expect: TL603
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a checkpoint to resume from",
            fixed="""
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            state = torch.load("checkpoint.pt", map_location="cpu", weights_only=True)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import torch


            def resume(path, model, device):
                state = torch.load(  # expect: TL603
                    path,
                    map_location=device,
                    weights_only=False,
                )
                model.load_state_dict(state)
            """,
            because="in a helper of another file",
            entry="restore.py",
            others={
                "train.py": """
                import torch
                from torch import nn

                from restore import resume

                model = nn.Linear(8, 1)
                resume("model.pt", model, "cpu")
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                """
            },
            fixed="""
            import torch


            def resume(path, model, device):
                state = torch.load(
                    path,
                    map_location=device,
                    weights_only=True,
                )
                model.load_state_dict(state)
            """,
        ),
        invalid(
            """
            import argparse

            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Samples(Dataset):
                def __init__(self, paths):
                    self.paths = paths

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    return torch.load(self.paths[index], weights_only=False)  # expect: TL603


            parser = argparse.ArgumentParser()
            parser.add_argument("paths", nargs="+")
            args = parser.parse_args()
            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in DataLoader(Samples(args.paths), batch_size=8):
                loss = model(inputs).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="each sample",
            fixed="""
            import argparse

            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Samples(Dataset):
                def __init__(self, paths):
                    self.paths = paths

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    return torch.load(self.paths[index], weights_only=True)


            parser = argparse.ArgumentParser()
            parser.add_argument("paths", nargs="+")
            args = parser.parse_args()
            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in DataLoader(Samples(args.paths), batch_size=8):
                loss = model(inputs).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import sys

            import torch

            model = torch.load(sys.argv[1], None, weights_only=False)  # expect: TL603
            model.eval()
            print(model(torch.zeros(1, 8)))
            """,
            because="a whole model, from a path that the user gives",
            fixed="""
            import sys

            import torch

            model = torch.load(sys.argv[1], None, weights_only=True)
            model.eval()
            print(model(torch.zeros(1, 8)))
            """,
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            state = torch.load("checkpoint.pt", map_location="cpu", weights_only=True)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="weights only",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model.load_state_dict(torch.load("model.pt"))
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the default of current releases",
        ),
        valid(
            """
            import argparse

            import torch
            from torch import nn

            parser = argparse.ArgumentParser()
            parser.add_argument("checkpoint")
            parser.add_argument("--trusted", action="store_true")
            args = parser.parse_args()
            model = nn.Linear(8, 1)
            model.load_state_dict(torch.load(args.checkpoint, weights_only=not args.trusted))
            """,
            because="it is up to whoever starts the job",
        ),
        valid(
            """
            import pickle

            import torch
            from torch import nn


            def load(path):
                try:
                    return torch.load(path, weights_only=True)
                except pickle.UnpicklingError:
                    return torch.load(path, weights_only=False)


            model = nn.Linear(8, 1)
            model.load_state_dict(load("model.pt"))
            """,
            because="the way out for files that hold more",
        ),
        valid(
            """
            import dill
            import torch

            model = torch.load("model.pt", pickle_module=dill, weights_only=False)
            print(model)
            """,
            because="another pickle module, which loads objects by design",
        ),
        valid(
            """
            import torch
            from safetensors.torch import load_file
            from torch import nn

            model = nn.Linear(8, 1)
            model.load_state_dict(load_file("model.safetensors"))
            """,
            because="a format that holds no code",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        older = project.torch_version is not None and project.torch_version < SAFE_BY_DEFAULT
        for call in project.calls_of("torch.load"):
            unsafe = call.arguments.constant("weights_only") is False
            unsafe = unsafe or (older and call.arguments.absent("weights_only"))
            if unsafe and not call.arguments.given("pickle_module") and not call.context.under(GuardKind.EXCEPTIONAL):
                yield self.finding(
                    call,
                    f"{quote(call.text)} runs whatever code the file asks for",
                    help="Pass weights_only=True",
                )

    def fix(self, finding: Finding) -> Fix | None:
        call = finding.subject
        assert isinstance(call, Call)
        return Fix(Applicability.UNSAFE, "Pass weights_only=True", (SetArgument(call.site, "weights_only", "True"),))
