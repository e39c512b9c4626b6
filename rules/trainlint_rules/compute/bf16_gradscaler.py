from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, SetArgument
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.semantics.context import Entry
from trainlint.semantics.project import Call, Project
from trainlint.semantics.values import Reference
from trainlint.semantics.vocabulary import Region

SCALERS = ("torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.amp.grad_scaler.GradScaler")
ENABLED_POSITION = {"torch.cuda.amp.GradScaler": 4}
"""Position of `enabled`; in `torch.amp.GradScaler` the device comes first."""
AUTOCASTS = (
    "torch.autocast",
    "torch.amp.autocast",
    "torch.amp.autocast_mode.autocast",
    "torch.cuda.amp.autocast",
)
BFLOAT16 = "torch.bfloat16"


class Bf16Gradscaler(Rule):
    """A GradScaler scales losses that are computed in bfloat16.

    ## What it does
    Reports an enabled `GradScaler` in a program whose training runs under `autocast` with `dtype=torch.bfloat16` and no
    other type.

    ## Why it is slow
    Scaling keeps small float16 gradients from vanishing. bfloat16 has the exponent range of float32, so nothing
    vanishes; the scaler still reads and writes every gradient once more to unscale it, checks them all for overflow,
    makes the host wait for that answer before each optimizer step, and at times skips a step.

    ## When it is fine
    `enabled=` that depends on the type, so that the scaler passes everything through under bfloat16; float16 autocast,
    which is the default of `autocast` on CUDA.

    ## Example
    ```python
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(inputs), targets)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(inputs), targets)
    loss.backward()
    optimizer.step()
    ```

    ## Fix safety
    Unsafe: steps that the scaler would have skipped are taken, and its state in old checkpoints no longer fits. The fix
    switches the scaler off where it is made, so that its calls pass everything through; they can then be removed.

    ## How the probe confirms it
    It does not: the finding follows from the code alone.

    ## References
    - fp16 needs a GradScaler, bf16 does not; the sample of article 003 pairs them (articles 001 and 003).
    - PyTorch, Automatic Mixed Precision, "Gradient Scaling": https://docs.pytorch.org/docs/stable/amp.html
    """

    code, name, family = "TL402", "bf16-gradscaler", Family.COMPUTE
    fix_class = Applicability.UNSAFE
    examples = (
        invalid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            scaler = torch.amp.GradScaler("cuda")  # expect: TL402
            for inputs in torch.randn(64, 8, 8):
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            because="bfloat16 needs no scaling",
            fixed="""
            import torch
            from torch import nn

            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            scaler = torch.amp.GradScaler("cuda", enabled=False)
            for inputs in torch.randn(64, 8, 8):
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.cuda.amp import GradScaler, autocast


            class Trainer:
                def __init__(self, model):
                    self.model = model
                    self.optimizer = torch.optim.AdamW(model.parameters())
                    self.scaler = GradScaler(enabled=True)  # expect: TL402

                def step(self, inputs):
                    with autocast(dtype=torch.bfloat16):
                        loss = self.model(inputs).mean()
                    self.optimizer.zero_grad()
                    self.scaler.scale(loss).backward()
                    self.scaler.step(self.optimizer)
                    self.scaler.update()


            trainer = Trainer(nn.Linear(8, 1).cuda())
            for inputs in torch.randn(64, 8, 8):
                trainer.step(inputs.cuda())
            """,
            because="enabled outright",
            fixed="""
            import torch
            from torch import nn
            from torch.cuda.amp import GradScaler, autocast


            class Trainer:
                def __init__(self, model):
                    self.model = model
                    self.optimizer = torch.optim.AdamW(model.parameters())
                    self.scaler = GradScaler(enabled=False)

                def step(self, inputs):
                    with autocast(dtype=torch.bfloat16):
                        loss = self.model(inputs).mean()
                    self.optimizer.zero_grad()
                    self.scaler.scale(loss).backward()
                    self.scaler.step(self.optimizer)
                    self.scaler.update()


            trainer = Trainer(nn.Linear(8, 1).cuda())
            for inputs in torch.randn(64, 8, 8):
                trainer.step(inputs.cuda())
            """,
        ),
        invalid(
            """
            import torch


            def make_scaler():
                return torch.amp.GradScaler()  # expect: TL402
            """,
            because="the autocast of the training script, in another file, is bfloat16",
            entry="precision.py",
            others={
                "train.py": """
                import torch
                from torch import nn

                from precision import make_scaler

                model = nn.Linear(8, 1).cuda()
                optimizer = torch.optim.AdamW(model.parameters())
                scaler = make_scaler()
                for inputs in torch.randn(64, 8, 8):
                    with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
                        loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                """
            },
            fixed="""
            import torch


            def make_scaler():
                return torch.amp.GradScaler(enabled=False)
            """,
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            precision = {}
            if torch.cuda.is_bf16_supported():
                precision = {"dtype": torch.bfloat16}
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                with torch.autocast("cuda", **precision):
                    loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            because="an older GPU trains in float16, the default",
        ),
        valid(
            """
            import torch
            from torch import nn

            dtype = "bfloat16"
            types = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
            context = torch.amp.autocast(device_type="cuda", dtype=types[dtype])
            scaler = torch.amp.GradScaler("cuda", enabled=(dtype == "float16"))
            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in torch.randn(64, 8, 8):
                with context:
                    loss = model(inputs.cuda()).mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
            """,
            because="enabled by the type",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for inputs in torch.randn(64, 8, 8):
                with torch.autocast("cuda"):
                    loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            because="autocast on CUDA is float16 unless told otherwise",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in torch.randn(64, 8, 8):
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="no scaler",
        ),
        valid(
            """
            import argparse

            import torch
            from torch import nn

            parser = argparse.ArgumentParser()
            parser.add_argument("--fp16", action="store_true")
            args = parser.parse_args()
            dtype = torch.float16 if args.fp16 else torch.bfloat16
            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for inputs in torch.randn(64, 8, 8):
                with torch.autocast("cuda", dtype=dtype):
                    loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            because="the type is float16 in some runs",
        ),
        valid(
            """
            import torch
            from amp import GradScaler, autocast, options
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, num_workers=4)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            scaler = GradScaler()
            for inputs in loader:
                optimizer.zero_grad()
                with autocast(**options):
                    loss = model(inputs.cuda()).square().mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            because="the type is one of two, whichever name of the module is asked for first",
            others={
                "amp.py": """
                import torch

                options = dict()
                if hasattr(torch.cuda, "amp"):
                    from torch.cuda.amp import GradScaler, autocast

                    if torch.cuda.is_bf16_supported():
                        options = dict(dtype=torch.bfloat16)
                else:
                    GradScaler = autocast = None
                """
            },
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for scaler in project.calls_of(*SCALERS):
            if _is_on(scaler) and _trains_in_bfloat16(project, scaler.context.entry):
                yield self.finding(
                    scaler,
                    f"{quote(scaler.text)} unscales and checks all gradients at every step, for bfloat16 in vain",
                    help="Drop the scaler: call loss.backward() and optimizer.step()",
                )

    def fix(self, finding: Finding) -> Fix | None:
        scaler = finding.subject
        assert isinstance(scaler, Call)
        position = ENABLED_POSITION.get(scaler.name, 5)
        return Fix(
            Applicability.UNSAFE,
            "Switch the scaler off; its calls then pass everything through and can be removed",
            (SetArgument(scaler.site, "enabled", "False", position),),
        )


def _is_on(scaler: Call) -> bool:
    """Whether the scaler is enabled in every run."""
    return scaler.arguments.absent("enabled") or scaler.arguments.constant("enabled") is True


def _trains_in_bfloat16(project: Project, entry: Entry) -> bool:
    """Whether all autocast regions that the entry point trains under are bfloat16, and there are some."""
    types = [
        None if "dtype" in call.arguments.unsure else call.arguments.value("dtype")
        for call in project.calls_of(*AUTOCASTS)
        if call.context.entry is entry and call.context.region is not Region.EVALUATION
    ]
    return bool(types) and all(isinstance(dtype, Reference) and dtype.name == BFLOAT16 for dtype in types)
