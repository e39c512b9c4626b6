from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from trainlint.fixes.recipe import Applicability, Fix, InsertBefore
from trainlint.lint.finding import Family, Finding, RelatedSite
from trainlint.lint.rule import Occurrence, Rule, invalid, quote, valid
from trainlint.semantics.project import BackwardPass, Call, Context, Project, Site
from trainlint.semantics.values import Tensor
from trainlint.semantics.vocabulary import Confidence, Region

CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_", "torch.nn.utils.clip_grad_norm")
SCALERS = (
    "torch.amp.GradScaler",
    "torch.cuda.amp.GradScaler",
    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler",
)
UNSCALE, GET_SCALE = "torch.amp.GradScaler.unscale_", "torch.amp.GradScaler.get_scale"
STEP = "torch.amp.GradScaler.step"
_STEP_TEXT = re.compile(r"([\w.]+)\.step\(([\w.]+)\)")


@dataclass(frozen=True, slots=True)
class Clipping:
    """Where scaled gradients are clipped."""

    site: Site
    context: Context
    missing: str
    """The statement that would unscale them, right before; empty where more has to be changed."""


class UnscaledClip(Rule):
    """Gradients are clipped while they are still multiplied by the scaler's factor.

    ## What it does
    Reports `clip_grad_norm_` and `clip_grad_value_` behind `scaler.scale(loss).backward()` with no `scaler.unscale_`
    between the two.

    ## Why it is slow
    It is wrong rather than slow. The scaler multiplies the loss by a factor that starts at 65,536, and all gradients
    with it. A threshold meant for gradients of ordinary size then cuts nearly all of them, and after `scaler.step` has
    divided them by the factor, what is left is tens of thousands of times too small: training crawls.

    ## When it is fine
    A scaler made with `enabled=False`; a threshold that is multiplied by `scaler.get_scale()`; frameworks that unscale
    before they clip (Accelerate, Lightning, Fabric).

    ## Example
    ```python
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Fix safety
    Unsafe: updates become larger, as the threshold says; a learning rate that was tuned on clipped updates may be too
    high. Where gradients are unscaled later already, the fix is advice to move that up, since a second `unscale_` of
    the same step is an error.

    ## How the probe confirms it
    It does not: the finding follows from the code alone.

    ## References
    - fp16 needs a GradScaler (articles 001 and 003).
    - PyTorch, Automatic Mixed Precision examples, "Working with Unscaled Gradients":
      https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping
    """

    code, name, family = "TL404", "unscaled-clip", Family.COMPUTE
    fix_class = Applicability.UNSAFE
    examples = (
        invalid(
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
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # expect: TL404
                scaler.step(optimizer)
                scaler.update()
            """,
            because="no unscaling at all",
            fixed="""
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
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
            """,
        ),
        invalid(
            """
            import argparse

            import torch
            from torch import nn
            from torch.cuda.amp import GradScaler, autocast
            from torch.nn.utils import clip_grad_value_
            from torch.utils.data import DataLoader


            class Trainer:
                def __init__(self, model, args):
                    self.model = model
                    self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                    self.scaler = GradScaler(enabled=args.amp)
                    self.args = args

                def train_step(self, inputs):
                    with autocast(enabled=self.args.amp):
                        loss = self.model(inputs).square().mean()
                    self.optimizer.zero_grad()
                    self.scaler.scale(loss).backward()
                    if self.args.clip > 0:
                        clip_grad_value_(self.model.parameters(), self.args.clip)  # expect: TL404
                    self.scaler.step(self.optimizer)
                    self.scaler.update()


            parser = argparse.ArgumentParser()
            parser.add_argument("--amp", action="store_true")
            parser.add_argument("--clip", type=float, default=0)
            trainer = Trainer(nn.Linear(32, 1).cuda(), parser.parse_args())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                trainer.train_step(inputs.cuda())
            """,
            because="in a method, where options say so",
            fixed="""
            import argparse

            import torch
            from torch import nn
            from torch.cuda.amp import GradScaler, autocast
            from torch.nn.utils import clip_grad_value_
            from torch.utils.data import DataLoader


            class Trainer:
                def __init__(self, model, args):
                    self.model = model
                    self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                    self.scaler = GradScaler(enabled=args.amp)
                    self.args = args

                def train_step(self, inputs):
                    with autocast(enabled=self.args.amp):
                        loss = self.model(inputs).square().mean()
                    self.optimizer.zero_grad()
                    self.scaler.scale(loss).backward()
                    if self.args.clip > 0:
                        self.scaler.unscale_(self.optimizer)
                        clip_grad_value_(self.model.parameters(), self.args.clip)
                    self.scaler.step(self.optimizer)
                    self.scaler.update()


            parser = argparse.ArgumentParser()
            parser.add_argument("--amp", action="store_true")
            parser.add_argument("--clip", type=float, default=0)
            trainer = Trainer(nn.Linear(32, 1).cuda(), parser.parse_args())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                trainer.train_step(inputs.cuda())
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            scaler = torch.amp.GradScaler("cuda")
            accumulate = 4
            for step, inputs in enumerate(DataLoader(torch.load("inputs.pt"), batch_size=64)):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(inputs.cuda()).square().mean() / accumulate
                scaler.scale(loss).backward()
                if (step + 1) % accumulate == 0:
                    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)  # expect: TL404
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()
            """,
            because="after accumulated gradients",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            scaler = torch.amp.GradScaler("cuda")
            accumulate = 4
            for step, inputs in enumerate(DataLoader(torch.load("inputs.pt"), batch_size=64)):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(inputs.cuda()).square().mean() / accumulate
                scaler.scale(loss).backward()
                if (step + 1) % accumulate == 0:
                    scaler.unscale_(optimizer)
                    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()
            """,
        ),
        invalid(
            """
            import torch


            def update(loss, model, optimizer, scaler):
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)  # expect: TL404
                scaler.unscale_(optimizer)
                scaler.step(optimizer)
                scaler.update()
                return norm
            """,
            because="unscaled too late, in a helper of another file",
            entry="engine.py",
            others={
                "train.py": """
                import torch
                from torch import nn
                from torch.utils.data import DataLoader

                from engine import update

                model = nn.Linear(32, 1).cuda()
                optimizer = torch.optim.AdamW(model.parameters())
                scaler = torch.amp.GradScaler("cuda")
                for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                    with torch.autocast("cuda"):
                        loss = model(inputs.cuda()).square().mean()
                    update(loss, model, optimizer, scaler)
                """
            },
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
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
            """,
            because="unscaled first",
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
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            """,
            because="no scaler",
        ),
        valid(
            """
            import argparse

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            parser = argparse.ArgumentParser()
            parser.add_argument("--amp", action="store_true")
            args = parser.parse_args()
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            scaler = torch.amp.GradScaler("cuda") if args.amp else None
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                with torch.autocast("cuda", enabled=args.amp):
                    loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                if scaler is not None:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
            """,
            because="clipped in the branch that does not scale",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class NativeScaler:
                def __init__(self):
                    self._scaler = torch.amp.GradScaler("cuda")

                def __call__(self, loss, optimizer, parameters, clip_grad=None, update_grad=True):
                    self._scaler.scale(loss).backward()
                    if update_grad:
                        self._scaler.unscale_(optimizer)
                        if clip_grad is not None:
                            torch.nn.utils.clip_grad_norm_(parameters, clip_grad)
                        self._scaler.step(optimizer)
                        self._scaler.update()


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            loss_scaler = NativeScaler()
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                with torch.autocast("cuda"):
                    loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss_scaler(loss, optimizer, model.parameters(), clip_grad=1.0)
            """,
            because="a wrapper that unscales",
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
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale())
                scaler.step(optimizer)
                scaler.update()
            """,
            because="the threshold is scaled as well",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            scaler = torch.amp.GradScaler("cuda", enabled=False)
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
            """,
            because="a scaler that is switched off scales nothing",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            def prepare(scaler, optimizer):
                scaler.unscale_(optimizer)


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                prepare(scaler, optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
            """,
            because="a helper unscales",
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
                loss = model(inputs).square().mean()
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            """,
            because="Accelerate unscales before it clips",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for clip in project.calls_of(*CLIPS):
            scaled = _last_backward(project, clip)
            if scaled is None or clip.context.region is not Region.TRAINING:
                continue
            if isinstance(scaled.loss, Tensor) and scaled.loss.scaled and not _may_be_unscaled(project, scaled, clip):
                yield self.finding(
                    Clipping(clip.site, clip.context, _missing_call(project, scaled, clip)),
                    f"{quote(clip.text)} clips gradients that are still multiplied by the scaler's factor",
                    help="Call scaler.unscale_(optimizer) first",
                    confidence=Confidence.HIGH if scaled.loss.proved else Confidence.MEDIUM,
                    related=(RelatedSite(scaled.site, "the backward pass that scales them"),),
                )

    def fix(self, finding: Finding) -> Fix | None:
        clipping = finding.subject
        assert isinstance(clipping, Clipping)
        if not clipping.missing:
            return Fix(Applicability.DISPLAY, "Call `scaler.unscale_(optimizer)` once, between backward and clipping")
        recipe = InsertBefore(clipping.site, clipping.missing)
        return Fix(Applicability.UNSAFE, f"Call {clipping.missing} first", (recipe,))


def _last_backward(project: Project, clip: Call) -> BackwardPass | None:
    """The last backward pass above `clip` in the same function."""
    above = [one for one in project.backward_passes if _same_function(one, clip) and one.site.row < clip.site.row]
    return max(above, key=lambda one: one.site.row, default=None)


def _same_function(one: Occurrence, other: Occurrence) -> bool:
    return one.context.entry is other.context.entry and one.site.function == other.site.function


def _may_be_unscaled(project: Project, scaled: BackwardPass, clip: Call) -> bool:
    """Whether anything but what follows `clip` in its function unscales, or allows for the factor."""
    entry = clip.context.entry
    if any(
        call.context.entry is entry and call.arguments.constant("enabled") is False
        for call in project.calls_of(*SCALERS)
    ):
        return True
    if any(
        _same_function(call, clip) and scaled.site.row <= call.site.row <= clip.site.row
        for call in project.calls_of(STEP)
    ):
        return True
    return any(
        not _same_function(call, clip) or call.site.row <= clip.site.end_row
        for call in project.calls_of(UNSCALE, GET_SCALE)
        if call.context.entry is entry
    )


def _missing_call(project: Project, scaled: BackwardPass, clip: Call) -> str:
    """The call that unscales, for the scaler and the optimizer of the step that follows; empty where it takes more
    than to put that call before `clip`."""
    if any(_same_function(call, clip) for call in project.calls_of(UNSCALE)):
        return ""
    same_block = clip.stands_alone and clip.site.column == scaled.site.column
    if not same_block and len(clip.context.guards) <= len(scaled.context.guards):
        # perhaps in a loop over groups of parameters, each turn of which would unscale again
        return ""
    steps = {
        call.text for call in project.calls_of(STEP) if _same_function(call, clip) and call.site.row > clip.site.row
    }
    matched = _STEP_TEXT.fullmatch(steps.pop()) if len(steps) == 1 else None
    if matched is None or not scaled.text.startswith(f"{matched[1]}.scale("):
        return ""
    return f"{matched[1]}.unscale_({matched[2]})"
