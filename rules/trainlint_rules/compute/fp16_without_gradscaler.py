from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.semantics.context import Entry
from trainlint.semantics.duties import Duty
from trainlint.semantics.project import Project
from trainlint.semantics.values import Tensor
from trainlint.semantics.vocabulary import Confidence, Region

SCALERS = (
    "torch.amp.GradScaler",
    "torch.cuda.amp.GradScaler",
    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler",
)
DEFAULTS = ("torch.set_autocast_gpu_dtype", "torch.set_autocast_dtype")
"""Calls that change the type of autocast regions that name none."""
FLOAT16 = "torch.float16"


class Fp16WithoutGradscaler(Rule):
    """Training computes in float16 without scaling the loss, so that small gradients vanish.

    ## What it does
    Reports the backward pass of a loss that a model computed under `autocast` with float16 (which is the default on
    CUDA), in a program that makes no `GradScaler`.

    ## Why it is slow
    It is wrong rather than slow. Gradients of operations that ran in float16 are float16 themselves, whose smallest
    values are far from those of float32: what is below becomes zero, and the parameters behind it are not trained.
    Scaling the loss keeps gradients within range; where it is forgotten, runs converge slower or not at all, and look
    as if the data or the learning rate were at fault.

    ## When it is fine
    bfloat16, which has the range of float32; a loss that is scaled by hand; frameworks that scale for the script
    (Accelerate, Lightning, DeepSpeed, the HF Trainer).

    ## Example
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(inputs), targets)
    loss.backward()
    optimizer.step()
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(inputs), targets)
    loss.backward()
    optimizer.step()
    ```
    or, on GPUs without bfloat16:
    ```python
    scaler = torch.amp.GradScaler("cuda")

    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(inputs), targets)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Fix safety
    Advice without edits: which of the two it is depends on the GPU, and the scaler belongs into checkpoints.

    ## How the probe confirms it
    It does not: the finding follows from the code alone.

    ## References
    - fp16 needs a GradScaler, bf16 does not (articles 001 and 003).
    - PyTorch, Automatic Mixed Precision, "Gradient Scaling": https://docs.pytorch.org/docs/stable/amp.html
    """

    code, name, family = "TL403", "fp16-without-gradscaler", Family.COMPUTE
    fix_class = Applicability.DISPLAY
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()  # expect: TL403
                optimizer.step()
            """,
            because="float16, as the text says",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.cuda.amp import autocast
            from torch.utils.data import DataLoader


            class Trainer:
                def __init__(self, model):
                    self.model = model.to("cuda")
                    self.criterion = nn.CrossEntropyLoss()
                    self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

                def run_batch(self, inputs, labels):
                    with autocast():
                        outputs = self.model(inputs)
                    loss = self.criterion(outputs, labels)
                    self.optimizer.zero_grad()
                    loss.backward()  # expect: TL403
                    self.optimizer.step()


            trainer = Trainer(nn.Linear(32, 10))
            for inputs, labels in DataLoader(torch.load("pairs.pt"), batch_size=64):
                trainer.run_batch(inputs.to("cuda"), labels.to("cuda"))
            """,
            because="float16 by default on CUDA, the loss behind the region",
        ),
        invalid(
            """
            def update(loss, optimizer, accumulate):
                loss = loss / accumulate
                loss.backward()  # expect: TL403
                return loss.detach()
            """,
            because="the region is in the training script, the backward pass in another file",
            entry="engine.py",
            others={
                "train.py": """
                import torch
                from torch import nn
                from torch.utils.data import DataLoader

                from engine import update

                model = nn.Linear(32, 1).cuda()
                optimizer = torch.optim.AdamW(model.parameters())
                for step, inputs in enumerate(DataLoader(torch.load("inputs.pt"), batch_size=64)):
                    with torch.amp.autocast(device_type="cuda"):
                        loss = model(inputs.cuda()).square().mean()
                    update(loss, optimizer, 4)
                    if step % 4 == 3:
                        optimizer.step()
                        optimizer.zero_grad()
                """
            },
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Classifier(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 10)

                def forward(self, inputs, labels):
                    return nn.functional.cross_entropy(self.layer(inputs), labels)


            context = torch.amp.autocast("cuda", dtype=torch.float16)
            model = Classifier().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, labels in DataLoader(torch.load("pairs.pt"), batch_size=64):
                with context:
                    loss = model(inputs.cuda(), labels.cuda())
                optimizer.zero_grad()
                loss.backward()  # expect: TL403
                optimizer.step()
            """,
            because="a region that is kept, around a model that returns its loss",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            because="with a scaler",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="bfloat16 needs no scaling",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1)
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                with torch.autocast("cpu"):
                    loss = model(inputs).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="autocast on a CPU is bfloat16 unless told otherwise",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                with torch.autocast("cuda", enabled=False):
                    loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="switched off",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            torch.set_autocast_gpu_dtype(torch.bfloat16)
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                with torch.autocast("cuda"):
                    loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="another default is set",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            loss_scale = 1024.0
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                with torch.autocast("cuda"):
                    loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                (loss * loss_scale).backward()
                for parameter in model.parameters():
                    parameter.grad.div_(loss_scale)
                optimizer.step()
            """,
            because="scaled by hand",
        ),
        valid(
            """
            import torch
            from timm.utils import NativeScaler
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            loss_scaler = NativeScaler()
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                with torch.autocast("cuda"):
                    loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss_scaler(loss, optimizer, parameters=model.parameters())
            """,
            because="a library's scaler",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            teacher = nn.Linear(32, 8).cuda()
            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                with torch.no_grad(), torch.autocast("cuda"):
                    features = teacher(inputs.cuda())
                loss = model(features.float()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="no gradients flow through the region",
        ),
        valid(
            """
            import torch
            from accelerate import Accelerator
            from torch import nn
            from torch.utils.data import DataLoader

            accelerator = Accelerator(mixed_precision="fp16")
            model = nn.Linear(32, 1)
            optimizer = torch.optim.AdamW(model.parameters())
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            for inputs in loader:
                with accelerator.autocast():
                    loss = model(inputs).square().mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            """,
            because="Accelerate scales",
        ),
        valid(
            """
            import lightning as L
            import torch
            from torch import nn


            class Model(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(8, 1)
                    self.automatic_optimization = False

                def training_step(self, batch, batch_idx):
                    optimizer = self.optimizers()
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = self.layer(batch).mean()
                    optimizer.zero_grad()
                    self.manual_backward(loss)
                    optimizer.step()

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(max_epochs=3, precision="16-mixed")
            trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8))
            """,
            because="Lightning scales",
        ),
        valid(
            """
            import argparse
            import contextlib

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            parser = argparse.ArgumentParser()
            parser.add_argument("--dtype", default="bfloat16")
            args = parser.parse_args()
            types = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
            context = contextlib.nullcontext()
            if args.dtype != "float32":
                context = torch.autocast("cuda", dtype=types[args.dtype])
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                with context:
                    loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the type is an option",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for backward in project.backward_passes:
            loss, entry = backward.loss, backward.context.entry
            if not isinstance(loss, Tensor) or loss.scaled or loss.autocast != FLOAT16:
                continue
            if (
                backward.context.region is Region.TRAINING
                and not backward.names_scaling
                and _lacks_scaling(project, entry)
            ):
                yield self.finding(
                    backward,
                    f"{quote(backward.text)} computes gradients of float16 operations without scaling, so that small "
                    "ones become zero",
                    help="Use bfloat16, or scale the loss with a GradScaler",
                    confidence=Confidence.HIGH if loss.proved else Confidence.MEDIUM,
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.DISPLAY,
            "Pass `dtype=torch.bfloat16` to autocast; or make a `torch.amp.GradScaler`, call "
            "`scaler.scale(loss).backward()`, `scaler.step(optimizer)` and `scaler.update()`, and save its state",
        )


def _lacks_scaling(project: Project, entry: Entry) -> bool:
    """Whether it is up to the script to scale losses, and it makes no scaler, nor changes what autocast defaults to."""
    made = (call for call in project.calls_of(*SCALERS, *DEFAULTS) if call.context.entry is entry)
    return not entry.spared(Duty.SCALE_LOSS) and not any(made)
