from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainlint.fixes.recipe import (
    Applicability,
    DropImport,
    EnsureImport,
    Fix,
    Recipe,
    ReplaceExpression,
    RewriteCall,
)
from trainlint.lint.finding import Family, Finding, Tag
from trainlint.lint.rule import Rule, invalid, valid
from trainlint.semantics.project import NameUse, Project
from trainlint.semantics.vocabulary import GuardKind


@dataclass(frozen=True, slots=True)
class Replacement:
    """What stands for a deprecated name, and since when."""

    function: str
    since: tuple[int, int]
    """First torch release that has it."""
    parameters: tuple[str, ...]
    """Of the deprecated function, in order."""
    device_keyword: str | None
    """The keyword for the device; None where it is the first positional argument."""
    is_class: bool = False
    """Whether it is a class under the same constructor, so that naming it alone means the same thing."""


AUTOCAST = Replacement("torch.amp.autocast", (1, 10), ("enabled", "dtype", "cache_enabled"), None)
GRAD_SCALER = Replacement(
    "torch.amp.GradScaler",
    (2, 3),
    ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"),
    None,
    is_class=True,
)
CUSTOM_FWD = Replacement("torch.amp.custom_fwd", (2, 4), ("fwd",), "device_type")
CUSTOM_BWD = Replacement("torch.amp.custom_bwd", (2, 4), ("bwd",), "device_type")

REPLACEMENTS = {
    "torch.cuda.amp.autocast": AUTOCAST,
    "torch.cuda.amp.autocast_mode.autocast": AUTOCAST,
    "torch.cuda.amp.GradScaler": GRAD_SCALER,
    "torch.cuda.amp.grad_scaler.GradScaler": GRAD_SCALER,
    "torch.cuda.amp.custom_fwd": CUSTOM_FWD,
    "torch.cuda.amp.autocast_mode.custom_fwd": CUSTOM_FWD,
    "torch.cuda.amp.custom_bwd": CUSTOM_BWD,
    "torch.cuda.amp.autocast_mode.custom_bwd": CUSTOM_BWD,
    "torch.cpu.amp.autocast": AUTOCAST,
    "torch.cpu.amp.autocast_mode.autocast": AUTOCAST,
    "torch.cpu.amp.GradScaler": GRAD_SCALER,
    "torch.cpu.amp.grad_scaler.GradScaler": GRAD_SCALER,
}


class DeprecatedAmp(Rule):
    """Mixed precision is asked for by names that torch has deprecated.

    ## What it does
    Reports uses of `autocast`, `GradScaler`, `custom_fwd` and `custom_bwd` from `torch.cuda.amp` and `torch.cpu.amp`.

    ## Why it is slow
    It is not slow today: each call warns, and a later torch will lack the name. Under `torch.amp` one spelling serves
    every device, and code that is to run on another accelerator need not be changed.

    ## When it is fine
    Branches for older releases: `try`/`except ImportError`, version tests. Projects whose dependencies stop below the
    torch that has the replacement, as `torch<2.3` does (`torch.amp.autocast` came with 1.10, `GradScaler` with 2.3,
    `custom_fwd` and `custom_bwd` with 2.4).

    ## Example
    ```python
    from torch.cuda.amp import GradScaler, autocast

    scaler = GradScaler()
    with autocast(use_amp):
        loss = criterion(model(inputs), targets)
    ```

    ## Use instead
    ```python
    import torch

    scaler = torch.amp.GradScaler("cuda")
    with torch.amp.autocast("cuda", enabled=use_amp):
        loss = criterion(model(inputs), targets)
    ```

    ## Fix safety
    Safe for calls and decorators: the deprecated names pass their arguments on to the new ones. Positional arguments
    are passed by keyword, since the device comes first now. Unsafe where `GradScaler` is kept or handed on without
    being called, because later calls may pass arguments by position. Where `autocast` is, there is advice only: the
    device must be passed where it is called. Imports are added and dropped as needed.

    The fixed code needs the torch that has the replacement. Where the dependencies admit older ones as well, as
    `torch>=1.8` does, the fix is unsafe: raise their lower bound, or set `torch-version` to the release that the code
    must run with.

    ## How the probe confirms it
    It does not: nothing is measured about a name.

    ## References
    - PyTorch, Automatic Mixed Precision, the deprecation notes: https://docs.pytorch.org/docs/stable/amp.html
    - PyTorch 2.4 release notes, deprecations: https://github.com/pytorch/pytorch/releases/tag/v2.4.0
    """

    code, name, family = "TL405", "deprecated-amp", Family.COMPUTE
    fix_class = Applicability.SAFE
    tag = Tag.DEPRECATED
    torch = ((1, 10), None)
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.cuda.amp import GradScaler, autocast

            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = GradScaler()  # expect: TL405
            for inputs in torch.randn(64, 8, 8):
                with autocast():  # expect: TL405
                    loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            because="both names have moved",
            fixed="""
            import torch
            from torch import nn

            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for inputs in torch.randn(64, 8, 8):
                with torch.amp.autocast("cuda"):
                    loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
        ),
        invalid(
            """
            from torch.cuda import amp


            def forward(model, inputs, use_amp):
                with amp.autocast(use_amp):  # expect: TL405
                    return model(inputs)


            def make_scaler(use_amp):
                return amp.GradScaler(65536.0, enabled=use_amp)  # expect: TL405
            """,
            because="positional arguments, which the new names take by keyword",
            fixed="""
            import torch


            def forward(model, inputs, use_amp):
                with torch.amp.autocast("cuda", enabled=use_amp):
                    return model(inputs)


            def make_scaler(use_amp):
                return torch.amp.GradScaler("cuda", init_scale=65536.0, enabled=use_amp)
            """,
        ),
        invalid(
            """
            import torch


            class Square(torch.autograd.Function):
                @staticmethod
                @torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)  # expect: TL405
                def forward(ctx, inputs):
                    ctx.save_for_backward(inputs)
                    return inputs * inputs

                @staticmethod
                @torch.cuda.amp.custom_bwd  # expect: TL405
                def backward(ctx, grad):
                    (inputs,) = ctx.saved_tensors
                    return 2 * inputs * grad
            """,
            because="decorators, called and bare",
            fixed="""
            import torch


            class Square(torch.autograd.Function):
                @staticmethod
                @torch.amp.custom_fwd(cast_inputs=torch.float32, device_type="cuda")
                def forward(ctx, inputs):
                    ctx.save_for_backward(inputs)
                    return inputs * inputs

                @staticmethod
                @torch.amp.custom_bwd(device_type="cuda")
                def backward(ctx, grad):
                    (inputs,) = ctx.saved_tensors
                    return 2 * inputs * grad
            """,
        ),
        invalid(
            """
            import functools
            from contextlib import nullcontext

            import torch


            @functools.cache
            def precision(fp16):
                return torch.cuda.amp.autocast if fp16 else nullcontext  # expect: TL405


            @torch.no_grad()
            def evaluate(model, loader, fp16):
                for inputs in loader:
                    with precision(fp16)():
                        print(model(inputs).mean())
            """,
            because="kept under a name and called later: the device must be passed there",
        ),
        invalid(
            """
            from torch.cuda.amp import GradScaler as Scaler

            SCALERS = {"fp16": Scaler, "fp32": None}  # expect: TL405


            def make_scaler(precision, **options):
                return Scaler(**options) if precision == "fp16" else None  # expect: TL405
            """,
            because="a class that is kept, and options that are passed on",
            fixed="""
            import torch

            SCALERS = {"fp16": torch.amp.GradScaler, "fp32": None}


            def make_scaler(precision, **options):
                return torch.amp.GradScaler("cuda", **options) if precision == "fp16" else None
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            for inputs in torch.randn(64, 8, 8):
                with torch.cpu.amp.autocast(dtype=torch.bfloat16):  # expect: TL405
                    print(model(inputs).mean())
            """,
            because="the CPU has such names, too",
            fixed="""
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            for inputs in torch.randn(64, 8, 8):
                with torch.amp.autocast("cpu", dtype=torch.bfloat16):
                    print(model(inputs).mean())
            """,
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1).cuda()
            scaler = torch.amp.GradScaler("cuda")
            for inputs in torch.randn(64, 8, 8):
                with torch.autocast("cuda"):
                    print(model(inputs.cuda()).mean())
            """,
            because="the current names",
        ),
        valid(
            """
            try:
                from torch.amp import GradScaler
            except ImportError:
                from torch.cuda.amp import GradScaler

            scaler = GradScaler()
            """,
            because="a fallback for older releases",
        ),
        valid(
            """
            import torch

            if hasattr(torch.amp, "GradScaler"):
                scaler = torch.amp.GradScaler("cuda")
            else:
                scaler = torch.cuda.amp.GradScaler()
            """,
            because="a test for what the release has",
        ),
        valid(
            """
            from torch.cuda.amp import autocast

            __all__ = ["autocast"]
            """,
            because="the import alone is not a use",
        ),
        valid(
            """
            import torch
            from torch.cuda.amp import common

            print(common.amp_definitely_not_available(), torch.cuda.is_available())
            """,
            because="what has no replacement",
        ),
        valid(
            """
            from torch.cuda.amp import GradScaler


            def step(optimizer, scaler: GradScaler | None = None) -> GradScaler | None:
                kept: GradScaler | None = scaler
                return kept
            """,
            because="an annotation makes nothing that could warn",
        ),
        valid(
            """
            import inspect

            from torch import amp
            from torch.cuda.amp import GradScaler


            def delegates(to):
                def decorate(function):
                    function.__signature__ = inspect.signature(to)
                    return function

                return decorate


            @delegates(GradScaler)
            def make_scaler(**options):
                return amp.GradScaler("cuda", **options)
            """,
            because="a decorator that looks at the class makes no object of it",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for use in project.uses_of(*REPLACEMENTS):
            replacement = REPLACEMENTS[use.name]
            # what a class warns of when an object is made says nothing to who only looks at it
            looked_at = use.given_to_decorator and replacement.is_class
            if (
                GuardKind.EXCEPTIONAL not in use.under
                and not looked_at
                and _is_available(replacement, project.torch_version)
            ):
                yield self.mention(
                    use,
                    f"`{_public_name(use)}` is deprecated in favour of `{replacement.function}`",
                    help=f'Use `{replacement.function}` with the device "{_device(use)}"',
                )

    def fix(self, finding: Finding) -> Fix | None:
        use = finding.subject
        assert isinstance(use, NameUse)
        replacement = REPLACEMENTS[use.name]
        if not (use.called or replacement.device_keyword or replacement.is_class):
            # Nothing that names the device reads better here than the plain name did, so the call is what must change.
            call = f'{replacement.function}("{_device(use)}", …)'
            advice = f"Call `{call}` where the name that is kept here is called"
            return Fix(Applicability.DISPLAY, advice, because="the name is not called here")
        safe = use.called or replacement.device_keyword
        applicability = Applicability.SAFE if safe else Applicability.UNSAFE
        recipes = (*_rewrite(use, replacement), *_tidy_imports(use))
        because = "" if safe else "the name is not called here"
        return Fix(applicability, f"Use {replacement.function}", recipes, because=because)

    def fix_needs(self, finding: Finding) -> tuple[int, int]:
        use = finding.subject
        assert isinstance(use, NameUse)
        return REPLACEMENTS[use.name].since


def _is_available(replacement: Replacement, torch: tuple[int, int] | None) -> bool:
    """Whether the torch that the project runs on, as far as it says, has the replacement."""
    return torch is None or torch >= replacement.since


def _device(use: NameUse) -> str:
    """The device that the deprecated name stands for: "cuda" or "cpu"."""
    return use.name.split(".")[1]


def _public_name(use: NameUse) -> str:
    """The name without the private module that defines it: `torch.cuda.amp.autocast`."""
    torch, device, amp, *_, name = use.name.split(".")
    return f"{torch}.{device}.{amp}.{name}"


def _rewrite(use: NameUse, replacement: Replacement) -> tuple[Recipe, ...]:
    """Put the replacement in place of the name, with the device that it stood for."""
    device = f'"{_device(use)}"'
    keyword = replacement.device_keyword
    if use.called:
        leading = () if keyword else (device,)
        trailing = ((keyword, device),) if keyword else ()
        return (RewriteCall(use.site, replacement.function, replacement.parameters, leading, trailing),)
    if keyword:
        return (ReplaceExpression(use.site, f"{replacement.function}({keyword}={device})"),)
    return (ReplaceExpression(use.site, replacement.function),)


def _tidy_imports(use: NameUse) -> tuple[Recipe, ...]:
    """Import torch, and drop whichever import of the deprecated name has nothing left to do."""
    module, _, name = use.name.rpartition(".")
    amp = f"torch.{_device(use)}.amp"
    drops = [DropImport(use.site, module, name), DropImport(use.site, amp, "")]
    if module != amp:
        drops.append(DropImport(use.site, amp, name))
    return (EnsureImport(use.site, "torch"), *drops, DropImport(use.site, f"torch.{_device(use)}", "amp"))
