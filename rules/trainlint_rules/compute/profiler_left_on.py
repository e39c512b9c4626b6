from __future__ import annotations

import re
from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_condition
from trainlint.probe.verdict import Verdict
from trainlint.semantics import object_types
from trainlint.semantics.project import Call, Project, StepLoop
from trainlint.semantics.values import Const, Object, Value
from trainlint.semantics.vocabulary import GuardKind

RECORDING = {
    "torch.profiler.profile": "records every operation",
    "torch.profiler.profiler.profile": "records every operation",
    "torch.autograd.profiler.profile": "records every operation",
    "torch.autograd.profiler.emit_nvtx": "marks every operation for an external profiler",
    "torch.autograd.profiler.emit_itt": "marks every operation for an external profiler",
}
TRAINER = "pytorch_lightning.Trainer"
ADVANCED = ("advanced", "AdvancedProfiler")
"""How Lightning calls the profiler that watches every call of Python code. Its others time the hooks alone, or, like
`"pytorch"`, have a schedule of their own."""
FEW_TURNS = 500
"""A loop of known length up to which a run is taken for one that is only there to be profiled."""
MEASURES = re.compile(r"profil|bench|speed|timing|(^|_)(trac(e|ing)|perf)(_|$)", re.IGNORECASE)
"""In the name of a file or function: what it runs is run in order to be measured."""


class ProfilerLeftOn(Rule):
    """Training runs under a profiler from its first step to its last.

    ## What it does
    Reports `torch.profiler.profile` without a `schedule`, `torch.autograd.profiler.profile`, `emit_nvtx` and
    `emit_itt` around a step loop or inside of its steps, where nothing switches them off; also Lightning's
    `Trainer(profiler="advanced")`.

    ## Why it is slow
    A profiler notes the start and the end of every operation, and more with shapes, memory or stacks. Without a
    schedule it does so for all steps and keeps all of it in host memory until the end, when it takes long to write.
    `emit_nvtx` opens and closes a range around every operation, whether a profiler listens or not.

    ## When it is fine
    Behind a flag, with `enabled=` given by one, with a schedule, for a loop that ends after some steps, and in scripts
    that are there to profile.

    ## Example
    ```python
    with torch.profiler.profile() as profiler:
        for inputs, targets in loader:
            train_step(inputs, targets)
    ```

    ## Use instead
    ```python
    window = torch.profiler.schedule(wait=2, warmup=2, active=5, repeat=1)
    with torch.profiler.profile(schedule=window, on_trace_ready=save_trace) as profiler:
        for inputs, targets in loader:
            train_step(inputs, targets)
            profiler.step()
    ```
    or no profiler at all, unless an option asks for it.

    ## Fix safety
    Display: what should be recorded, and when, is for whoever reads the profile to say.

    ## How the probe confirms it
    It leaves the verdict open: the time that a profiler takes is spread over all operations. A run without it, compared
    by `trainlint probe --compare`, tells.

    ## References
    - Profile few steps: schedule(wait=2, warmup=2, active=5, repeat=1) (article 001).
    - PyTorch Profiler recipe, "Using profiler to analyze long-running jobs", by which tracing all of a job is slow:
      https://docs.pytorch.org/tutorials/recipes/recipes/profiler_recipe.html
    - PyTorch performance tuning guide, "Disable debugging APIs", which names profiler.profile and emit_nvtx:
      https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """

    code, name, family = "TL414", "profiler-left-on", Family.COMPUTE
    fix_class = Applicability.DISPLAY
    confirmed_by = "time share, against a run without it"
    examples = (
        invalid(
            """
            import lightning as L
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Net(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(32, 1)

                def training_step(self, batch, batch_idx):
                    return self.body(batch).square().mean()

                def configure_optimizers(self):
                    return torch.optim.AdamW(self.parameters())


            trainer = L.Trainer(max_epochs=30, profiler="advanced")  # expect: TL414
            trainer.fit(Net(), DataLoader(torch.load("inputs.pt"), batch_size=64))
            """,
            because="Python's own profiler watches thirty epochs",
        ),
        valid(
            """
            import lightning as L
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Net(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(32, 1)

                def training_step(self, batch, batch_idx):
                    return self.body(batch).square().mean()

                def configure_optimizers(self):
                    return torch.optim.AdamW(self.parameters())


            data = DataLoader(torch.load("inputs.pt"), batch_size=64)
            L.Trainer(max_epochs=30, profiler="simple").fit(Net(), data)
            L.Trainer(max_epochs=30, profiler="pytorch").fit(Net(), data)
            L.Trainer(max_steps=20, profiler="advanced").fit(Net(), data)
            """,
            because="one times the hooks only, one has a schedule, one stops after some steps",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.profiler import ProfilerActivity, profile
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:  # expect: TL414
                for epoch in range(30):
                    for inputs in loader:
                        loss = model(inputs.cuda()).square().mean()
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
            print(profiler.key_averages().table())
            """,
            because="no schedule: thirty epochs are recorded",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                with torch.autograd.profiler.profile(use_cuda=True) as profiler:  # expect: TL414
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                optimizer.step()
            """,
            because="every step is profiled, one by one",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from engine import fit

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            with torch.autograd.profiler.emit_nvtx():  # expect: TL414
                fit(model, loader)
            """,
            because="the loop that it stands around is in another file",
            others={
                "engine.py": """
                import torch


                def fit(model, loader):
                    optimizer = torch.optim.AdamW(model.parameters())
                    for inputs in loader:
                        loss = model(inputs.cuda()).square().mean()
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


            def main():
                loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
                model = nn.Linear(32, 1).cuda()
                optimizer = torch.optim.AdamW(model.parameters())
                with torch.profiler.profile(  # expect: TL414
                    schedule=None, record_shapes=True, with_stack=True, profile_memory=True
                ) as profiler:
                    for inputs in loader:
                        loss = model(inputs.cuda()).square().mean()
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                        profiler.step()


            if __name__ == "__main__":
                main()
            """,
            because="a schedule of None is none",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.profiler import profile, schedule, tensorboard_trace_handler
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            window = schedule(wait=2, warmup=2, active=5, repeat=1)
            with profile(schedule=window, on_trace_ready=tensorboard_trace_handler("log")) as profiler:
                for inputs in loader:
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    profiler.step()
            """,
            because="a schedule records five steps",
        ),
        valid(
            """
            import argparse
            import contextlib

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            parser = argparse.ArgumentParser()
            parser.add_argument("--profile", action="store_true")
            args = parser.parse_args()
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            with torch.profiler.profile() if args.profile else contextlib.nullcontext():
                for inputs in loader:
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="behind a flag",
        ),
        valid(
            """
            import argparse

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            parser = argparse.ArgumentParser()
            parser.add_argument("--nvtx", action="store_true")
            args = parser.parse_args()
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            with torch.autograd.profiler.emit_nvtx(enabled=args.nvtx):
                for inputs in loader:
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="an option says whether it is on",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            with torch.profiler.profile() as profiler:
                for step, inputs in enumerate(loader):
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    if step == 10:
                        break
            print(profiler.key_averages().table())
            """,
            because="the loop ends after eleven steps: a run that is there to be profiled",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            with torch.profiler.profile(with_stack=True) as profiler:
                for step in range(20):
                    loss = model(torch.randn(64, 32, device="cuda")).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            profiler.export_chrome_trace("trace.json")
            """,
            because="twenty steps",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            with torch.profiler.profile() as profiler:
                model(torch.randn(64, 32, device="cuda"))
            print(profiler.key_averages().table())
            for step, inputs in enumerate(loader):
                with torch.profiler.record_function("forward"):
                    loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="one forward is profiled before training; a name for a part of the step is no profiler",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                if step % 1000 == 0:
                    with torch.profiler.profile() as profiler:
                        loss.backward()
                else:
                    loss.backward()
                optimizer.step()
            """,
            because="every thousandth step",
        ),
        valid(
            """
            import torch

            from train import build, fit

            model, loader = build()
            with torch.profiler.profile() as profiler:
                fit(model, loader)
            print(profiler.key_averages().table())
            """,
            because="a script beside the training script, which is there to profile it",
            entry="profile_training.py",
            others={
                "train.py": """
                import torch
                from torch import nn
                from torch.utils.data import DataLoader


                def build():
                    return nn.Linear(32, 1).cuda(), DataLoader(torch.load("inputs.pt"), batch_size=64)


                def fit(model, loader):
                    optimizer = torch.optim.AdamW(model.parameters())
                    for inputs in loader:
                        loss = model(inputs.cuda()).square().mean()
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()


                if __name__ == "__main__":
                    fit(*build())
                """
            },
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        yield from self._report_trainers(project)
        for call in project.calls_of(*RECORDING):
            if not _is_on(call) or _is_chosen(call) or _is_there_to_measure(call):
                continue
            if any(_runs_on(loop) for loop in project.step_loops if _records(call, loop)):
                yield self.finding(
                    call,
                    f"{quote(call.text)} {RECORDING[call.name]} of all training steps",
                    help="Give it a schedule of a few steps, or switch it on by an option only",
                )

    def _report_trainers(self, project: Project) -> Iterator[Finding]:
        """Lightning's Trainer runs the profiler that it is given for as long as it trains."""
        for call in project.calls_of(TRAINER):
            advanced = _is_advanced(call.arguments.value("profiler"))
            chosen = _is_chosen(call) or _is_there_to_measure(call) or _is_short(call)
            if advanced and call.context.entry.trains and not chosen:
                yield self.finding(
                    call,
                    f"{quote(call.text)} records every call of Python code in all training steps",
                    help="Leave the profiler out, or take it from an option",
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, "Profile a few steps, by a schedule, or only where an option asks for it")

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        unmeasured = "what the job's own profiler costs is not timed; compare with a run without it: --compare"
        return judge_condition(evidence, None, None, unmeasured=unmeasured)


def _is_advanced(profiler: Value | None) -> bool:
    """Whether a profiler of Lightning, given by name or as an object, is the one that watches all calls."""
    if isinstance(profiler, Object) and profiler.type == object_types.LIGHTNING_PROFILER:
        return profiler.origin.rpartition(".")[2] in ADVANCED
    return isinstance(profiler, Const) and profiler.value in ADVANCED


def _is_short(trainer: Call) -> bool:
    """Whether a Trainer is told to stop after some steps."""
    turns = [trainer.arguments.constant(name) for name in ("max_steps", "limit_train_batches", "fast_dev_run")]
    return any(turn is True or (type(turn) is int and 0 < turn <= FEW_TURNS) for turn in turns)


def _is_on(call: Call) -> bool:
    """Whether it surely records, all the time: no schedule, and not switched off."""
    arguments = call.arguments
    if not arguments.complete or arguments.given("schedule"):
        return False
    switched_on = arguments.absent("enabled") or arguments.constant("enabled") is True
    return switched_on and not arguments.positional


def _records(call: Call, loop: StepLoop) -> bool:
    """Whether a profiler stands around a loop, or in its steps."""
    around = call.site in loop.managers
    return around or (call.context.hot and call.context.routine and call.context.loop == loop.site)


def _runs_on(loop: StepLoop) -> bool:
    """Whether a loop runs longer than one would profile on purpose, as far as can be told."""
    short = loop.turns is not None and loop.turns <= FEW_TURNS
    return not short and not loop.ends_early


def _is_chosen(call: Call) -> bool:
    """Whether profiling was asked for, or is rare."""
    return call.context.on_request or call.context.under(GuardKind.INTERVAL, GuardKind.FIRST)


def _is_there_to_measure(call: Call) -> bool:
    names = (call.context.entry.path.stem, call.site.path.stem, call.site.symbol, *call.context.path)
    return any(MEASURES.search(name) for name in names)
