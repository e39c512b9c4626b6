from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe import thresholds
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_condition
from trainlint.probe.verdict import Measurement, Source, Verdict
from trainlint.semantics.project import Call, Project
from trainlint.semantics.vocabulary import GuardKind

ONCE = "Call `torch.compile` once, before the loop or in `__init__`, and keep what it returns"


class CompileInLoop(Rule):
    """`torch.compile` is called at every training step.

    ## What it does
    Reports calls of `torch.compile` in a step loop, or in code that the loop reaches, such as a `forward`.

    ## Why it is slow
    `torch.compile` returns a new compiled function each time. What was compiled for one is found again for the next
    only if all of its guards hold: a function that closes over another number, string or object is compiled again, up
    to the limit of recompilations, after which it runs uncompiled. A module that is wrapped again at each step gets
    one more wrapper around the last. Even where everything is found again, the wrapper is made anew and its options
    are read anew.

    ## When it is fine
    Once, before the loop; per layer of a model while it is built; behind a test whether it was done already.

    ## Example
    ```python
    for inputs, targets in loader:
        compiled = torch.compile(model)
        loss = criterion(compiled(inputs), targets)
    ```

    ## Use instead
    ```python
    compiled = torch.compile(model)
    for inputs, targets in loader:
        loss = criterion(compiled(inputs), targets)
    ```

    ## Fix safety
    Display: where the call belongs depends on what else is made in the loop.

    ## How the probe confirms it
    By the recompilations that were counted in the measured steps. None of them leaves the verdict open: what making
    the wrapper costs is not timed.

    ## References
    - PyTorch, dealing with recompilations:
      https://docs.pytorch.org/docs/stable/compile/programming_model.recompilation.html
    - PyTorch, where to apply torch.compile, in each example before the loop:
      https://docs.pytorch.org/docs/stable/compile/programming_model.where_to_apply_compile.html
    - Dynamic shapes recompile and can lose; compilation has a warm-up cost (articles 000, 003).
    """

    code, name, family = "TL410", "compile-in-loop", Family.COMPUTE
    fix_class = Applicability.DISPLAY
    confirmed_by = "recompilation count"
    torch = ((2, 0), None)
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                compiled = torch.compile(model)  # expect: TL410
                loss = compiled(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a new compiled model for every batch",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Mixer(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 32)

                def mix(self, inputs):
                    return self.layer(inputs).relu() + inputs

                def forward(self, inputs):
                    mix = torch.compile(self.mix, mode="reduce-overhead")  # expect: TL410
                    return mix(inputs).mean()


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = Mixer().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(10):
                for inputs in loader:
                    loss = model(inputs.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="in a forward, which every step runs",
        ),
        invalid(
            """
            import torch
            from torch import nn


            def train_step(model, optimizer, inputs, scale):
                @torch.compile(dynamic=True)  # expect: TL410
                def objective(outputs):
                    return (outputs * scale).square().mean()

                loss = objective(model(inputs))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()


            model = nn.Linear(32, 1)
            optimizer = torch.optim.AdamW(model.parameters())
            for step in range(1000):
                train_step(model, optimizer, torch.randn(64, 32), 1.0 / (step + 1))
            """,
            because="a decorated function inside of the step closes over a number that each step changes",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from losses import contrast

            loader = DataLoader(torch.load("pairs.pt"), batch_size=64)
            model = nn.Linear(32, 16).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for first, second in loader:
                loss = contrast(model(first.cuda()), model(second.cuda()))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="in a loss function of another file",
            others={
                "losses.py": """
                import torch


                def similarity(one, other):
                    return (one @ other.T).softmax(-1).diagonal()


                def contrast(one, other):
                    compiled = torch.compile(similarity)  # expect: TL410
                    return -compiled(one, other).log().mean()
                """
            },
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = torch.compile(nn.Linear(32, 1).cuda())
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="once, before the loop",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Sequential(*[nn.Linear(32, 32) for _ in range(12)]).cuda()
            for index, layer in enumerate(model):
                model[index] = torch.compile(layer)
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a loop over the layers of a model, before training: each is compiled once",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Mixer(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 32)
                    self.compiled = None

                def forward(self, inputs):
                    if self.compiled is None:
                        self.compiled = torch.compile(self.layer)
                    return self.compiled(inputs).mean()


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = Mixer().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="compiled at the first call and kept",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            for width in (32, 64, 128):
                model = torch.compile(nn.Sequential(nn.Linear(32, width), nn.Linear(width, 1)).cuda())
                optimizer = torch.optim.AdamW(model.parameters())
                for inputs in loader:
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="each turn of a sweep trains another model, which is compiled once",
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
                if step == 0:
                    model = torch.compile(model)
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="at the first step only",
        ),
        valid(
            """
            import functools

            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            @functools.lru_cache
            def compiled(power):
                return torch.compile(lambda values: values.pow(power).mean())


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step, inputs in enumerate(loader):
                loss = compiled(2 + step % 2)(model(inputs.cuda()))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a cached function compiles once for each argument",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            @torch.compile
            def objective(outputs):
                return outputs.square().mean()


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = objective(model(inputs.cuda()))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a decorated function of the module is compiled once",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in project.calls_of("torch.compile"):
            if call.context.hot and call.context.routine and not _may_be_done_already(call):
                yield self.finding(
                    call,
                    f"{quote(call.text)} makes a new compiled function {call.context.frequency.phrase}",
                    help=ONCE,
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, ONCE)

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        count = evidence.recompilations
        threshold = thresholds.RECOMPILATIONS
        figures = () if count is None else (Measurement("compilations", count, "times", Source.AGENT, threshold.value),)
        # what else is compiled says nothing about a line that may not have run
        compiles = count is not None and count >= threshold.value and evidence.did_run(finding.site)
        return judge_condition(
            evidence,
            finding.site,
            True if compiles else None,
            figures,
            unmeasured="nothing was seen to compile at this line again; what making the wrapper costs is not timed",
        )


def _may_be_done_already(call: Call) -> bool:
    """Whether a condition inside of the step may ask if it was compiled before: `if self.compiled is None:`."""
    return any(guard.in_step and guard.kind in (GuardKind.FLAG, GuardKind.DATA) for guard in call.context.guards)
