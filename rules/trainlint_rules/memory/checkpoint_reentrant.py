from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, SetArgument
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.semantics.project import Call, Project
from trainlint.semantics.vocabulary import GuardKind

CHECKPOINTS = ("torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential")
USE_REENTRANT_POSITION = 3
"""Position of `use_reentrant` in `checkpoint_sequential`; in `checkpoint` it is a keyword only."""


class CheckpointReentrant(Rule):
    """Activation checkpointing does not say which of its two implementations it wants.

    ## What it does
    Reports `torch.utils.checkpoint.checkpoint` and `checkpoint_sequential` without `use_reentrant` in code that trains.

    ## Why it is slow
    Without `use_reentrant`, torch warns and takes the old, reentrant implementation. That one recomputes the whole
    checkpointed function in the backward pass, where the other one stops as soon as it has what the backward pass
    needs. It also knows no nested inputs, no keyword arguments and no `torch.autograd.grad`, and gives no gradients
    where no input requires any.

    ## When it is fine
    `use_reentrant=True` or `use_reentrant=False`, written out. Releases before 2.1, which do not warn, and branches for
    them.

    ## Example
    ```python
    for block in self.blocks:
        hidden = checkpoint(block, hidden)
    ```

    ## Use instead
    ```python
    for block in self.blocks:
        hidden = checkpoint(block, hidden, use_reentrant=False)
    ```

    ## Fix safety
    Unsafe: with `use_reentrant=False` the forward pass records a graph, tensors within nested inputs get gradients, and
    a function that computes something else when it is recomputed raises an error instead of going unnoticed. Where what
    is called may be another function too, which need not take the argument, it is advice.

    ## How the probe confirms it
    It does not: what is recomputed twice is not told from what is computed once. A run with `use_reentrant=False`,
    compared with one without, tells.

    ## References
    - Recomputing takes the work of a step from 6·N·T to about 8·N·T (article 000).
    - PyTorch, torch.utils.checkpoint, how the two implementations differ:
      https://docs.pytorch.org/docs/stable/checkpoint.html
    - PyTorch, a warning where `use_reentrant` is not passed, from 2.1: https://github.com/pytorch/pytorch/pull/100551
    """

    code, name, family = "TL502", "checkpoint-reentrant", Family.MEMORY
    fix_class = Applicability.UNSAFE
    torch = ((2, 1), None)
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.checkpoint import checkpoint
            from torch.utils.data import DataLoader


            class Encoder(nn.Module):
                def __init__(self, depth, width):
                    super().__init__()
                    self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
                    self.head = nn.Linear(width, 1)

                def forward(self, hidden):
                    for block in self.blocks:
                        hidden = checkpoint(block, hidden)  # expect: TL502
                    return self.head(hidden)


            model = Encoder(12, 64).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="every block, by the default implementation",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.checkpoint import checkpoint
            from torch.utils.data import DataLoader


            class Encoder(nn.Module):
                def __init__(self, depth, width):
                    super().__init__()
                    self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
                    self.head = nn.Linear(width, 1)

                def forward(self, hidden):
                    for block in self.blocks:
                        hidden = checkpoint(block, hidden, use_reentrant=False)
                    return self.head(hidden)


            model = Encoder(12, 64).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import torch
            import torch.utils.checkpoint as cp
            from torch import nn


            class Stage(nn.Module):
                def __init__(self, depth, segments, use_checkpoint=True):
                    super().__init__()
                    self.layers = nn.Sequential(*[nn.Conv2d(8, 8, 3, padding=1) for _ in range(depth)])
                    self.segments = segments
                    self.use_checkpoint = use_checkpoint

                def forward(self, images):
                    if self.use_checkpoint and self.training:
                        return cp.checkpoint_sequential(self.layers, self.segments, images)  # expect: TL502
                    return self.layers(images)


            model = Stage(8, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in torch.randn(64, 8, 8, 32, 32):
                loss = model(images.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a sequence in segments, where a flag asks for it",
            fixed="""
            import torch
            import torch.utils.checkpoint as cp
            from torch import nn


            class Stage(nn.Module):
                def __init__(self, depth, segments, use_checkpoint=True):
                    super().__init__()
                    self.layers = nn.Sequential(*[nn.Conv2d(8, 8, 3, padding=1) for _ in range(depth)])
                    self.segments = segments
                    self.use_checkpoint = use_checkpoint

                def forward(self, images):
                    if self.use_checkpoint and self.training:
                        return cp.checkpoint_sequential(
                            self.layers,
                            self.segments,
                            images,
                            use_reentrant=False,
                        )
                    return self.layers(images)


            model = Stage(8, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in torch.randn(64, 8, 8, 32, 32):
                loss = model(images.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            from torch import nn
            from torch.utils import checkpoint


            class DenseLayer(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.norm = nn.LayerNorm(width)
                    self.layer = nn.Linear(width, width)

                def bottleneck(self, inputs):
                    return self.layer(self.norm(inputs))

                def forward(self, inputs):
                    return checkpoint.checkpoint(  # expect: TL502
                        self.bottleneck,
                        inputs,
                        preserve_rng_state=False,
                    )
            """,
            because="in a model of another file than the training script",
            entry="layers.py",
            others={
                "train.py": """
                import torch

                from layers import DenseLayer

                model = DenseLayer(8).cuda()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                """
            },
            fixed="""
            from torch import nn
            from torch.utils import checkpoint


            class DenseLayer(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.norm = nn.LayerNorm(width)
                    self.layer = nn.Linear(width, width)

                def bottleneck(self, inputs):
                    return self.layer(self.norm(inputs))

                def forward(self, inputs):
                    return checkpoint.checkpoint(
                        self.bottleneck,
                        inputs,
                        preserve_rng_state=False,
                        use_reentrant=False,
                    )
            """,
        ),
        invalid(
            """
            import lightning as L
            import torch
            from torch import nn
            from torch.utils.checkpoint import checkpoint


            class Model(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.encoder = nn.Linear(8, 8)
                    self.head = nn.Linear(8, 1)

                def training_step(self, batch, batch_idx):
                    hidden = checkpoint(self.encoder, batch)  # expect: TL502
                    return self.head(hidden).mean()

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(max_epochs=3)
            trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8))
            """,
            because="frameworks leave calls in the model as they are",
            fixed="""
            import lightning as L
            import torch
            from torch import nn
            from torch.utils.checkpoint import checkpoint


            class Model(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.encoder = nn.Linear(8, 8)
                    self.head = nn.Linear(8, 1)

                def training_step(self, batch, batch_idx):
                    hidden = checkpoint(self.encoder, batch, use_reentrant=False)
                    return self.head(hidden).mean()

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(max_epochs=3)
            trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8))
            """,
        ),
        invalid(
            """
            import os

            import torch
            from torch import nn
            from torch.utils.checkpoint import checkpoint


            class Encoder(nn.Module):
                def __init__(self, depth, width, saves_memory):
                    super().__init__()
                    self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
                    self.head = nn.Linear(width, 1)
                    self.run = checkpoint if saves_memory else lambda block, hidden: block(hidden)

                def forward(self, hidden):
                    for block in self.blocks:
                        hidden = self.run(block, hidden)  # expect: TL502
                    return checkpoint(self.head, hidden, use_reentrant=False)


            model = Encoder(12, 64, os.environ.get("SAVES_MEMORY") == "1").cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in torch.randn(64, 8, 64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="an attribute that is one function or another: the argument belongs where checkpoint is chosen",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.checkpoint import checkpoint


            class Encoder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.first = nn.Linear(8, 8)
                    self.second = nn.Linear(8, 1)

                def forward(self, hidden):
                    hidden = checkpoint(self.first, hidden, use_reentrant=False)
                    return checkpoint(self.second, hidden, use_reentrant=True)


            model = Encoder().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="either one, written out",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.checkpoint import checkpoint


            class Encoder(nn.Module):
                def __init__(self, **options):
                    super().__init__()
                    self.layer = nn.Linear(8, 1)
                    self.options = options

                def forward(self, hidden):
                    return checkpoint(self.layer, hidden, **self.options)


            model = Encoder(use_reentrant=False).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the argument may come with the others",
        ),
        valid(
            """
            from functools import partial

            import torch
            from torch import nn
            from torch.utils.checkpoint import checkpoint

            recompute = partial(checkpoint, use_reentrant=False)


            class Encoder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(8, 1)

                def forward(self, hidden):
                    return recompute(self.layer, hidden)


            model = Encoder().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="bound once, for all calls",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.checkpoint import checkpoint


            def recompute(function, *inputs):
                try:
                    return checkpoint(function, *inputs, use_reentrant=False)
                except TypeError:
                    return checkpoint(function, *inputs)


            class Encoder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(8, 1)

                def forward(self, hidden):
                    return recompute(self.layer, hidden)


            model = Encoder().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the branch for releases that have no such argument",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.checkpoint import checkpoint


            def recompute(function, *inputs):
                if torch.__version__ >= "2":
                    return checkpoint(function, *inputs, use_reentrant=False)
                else:
                    return checkpoint(function, *inputs)


            class Encoder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(8, 1)

                def forward(self, hidden):
                    return recompute(self.layer, hidden)


            model = Encoder().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a test of the release",
        ),
        valid(
            """
            import torch
            from torch import nn


            def checkpoint(model, step):
                torch.save(model.state_dict(), f"model_{step}.pt")


            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, inputs in enumerate(torch.randn(64, 8, 8)):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 50 == 0:
                    checkpoint(model, step)
            """,
            because="a function of the same name that saves",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.checkpoint import checkpoint

            layer = nn.Linear(8, 1).cuda()
            inputs = torch.randn(8, 8, device="cuda", requires_grad=True)
            checkpoint(layer, inputs).sum().backward()
            print(inputs.grad)
            """,
            because="a single backward pass, no training",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.checkpoint import checkpoint


            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(8, 8)
                    self.run = checkpoint

                def forward(self, inputs):
                    return self.run(self.layer, inputs)  # expect: TL502


            model = Block().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.utils.data.DataLoader(torch.load("x.pt"), num_workers=4, pin_memory=True):
                loss = model(inputs.cuda(non_blocking=True)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="an attribute holds the function",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        older = {
            (use.site.path, use.site.row, use.site.column)
            for use in project.uses_of(*CHECKPOINTS)
            if GuardKind.EXCEPTIONAL in use.under
        }
        for call in project.calls_of(*CHECKPOINTS):
            site = call.site
            if (site.path, site.row, site.column) in older or call.context.under(GuardKind.EXCEPTIONAL):
                continue
            if call.arguments.absent("use_reentrant") and call.context.concerns_training:
                yield self.finding(
                    call,
                    f"{quote(call.text)} leaves torch to take the reentrant implementation, which recomputes the whole "
                    "function",
                    help="Pass use_reentrant=False",
                )

    def fix(self, finding: Finding) -> Fix | None:
        call = finding.subject
        assert isinstance(call, Call)
        if call.one_of_several:
            # what else may be called here need not take the argument
            return Fix(Applicability.DISPLAY, "Bind use_reentrant=False where checkpoint is chosen")
        position = USE_REENTRANT_POSITION if call.name.endswith("_sequential") else None
        recipe = SetArgument(call.site, "use_reentrant", "False", position)
        return Fix(Applicability.UNSAFE, "Pass use_reentrant=False", (recipe,))
