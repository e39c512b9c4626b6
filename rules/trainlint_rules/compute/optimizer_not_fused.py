from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, RemoveArgument, SetArgument
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_condition
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Call, Project
from trainlint.semantics.values import NONE, Const
from trainlint.semantics.vocabulary import Known

OPTIMIZERS = ("torch.optim.Adam", "torch.optim.AdamW")


class OptimizerNotFused(Rule):
    """The optimizer updates one parameter after the other.

    ## What it does
    Reports `Adam` and `AdamW` with `foreach=False` and without `fused=True`, in training on CUDA.

    ## Why it is slow
    A loop over the parameters launches several kernels for each of them, most of them tiny, and the GPU waits for the
    launches. The foreach implementation, which torch takes by itself on CUDA, does many parameters with one kernel;
    the fused one does the whole update in one pass over the memory.

    ## When it is fine
    On a CPU; with `differentiable=True`, which only the loop supports. The foreach implementation needs memory for
    intermediate values, about as much as the parameters take; the fused one does not.

    ## Example
    ```python
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=False)
    ```

    ## Use instead
    ```python
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    ```

    ## Fix safety
    Unsafe: the result differs in the last digits, and parameters must be floating-point tensors on the device when the
    optimizer is made.

    ## How the probe confirms it
    It leaves the verdict open: kernels of the optimizer's step are not told from others. A run with `fused=True`,
    compared with one without, tells.

    ## References
    - A kernel of 50 µs does not hide 50 µs of launch work (articles 000 and 003).
    - PyTorch, AdamW, `foreach` and `fused`: https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html
    - PyTorch performance tuning guide:
      https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """

    code, name, family = "TL413", "optimizer-not-fused", Family.COMPUTE
    severity = Severity.INFO
    fix_class = Applicability.UNSAFE
    default = False
    confirmed_by = "kernels inside the optimizer step"
    torch = ((2, 0), None)
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=False)  # expect: TL413
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="one parameter after the other",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
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
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.Adam(model.parameters(), foreach=False, fused=False)  # expect: TL413
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="both switched off",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.Adam(model.parameters(), fused=True)
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            from torch.optim import AdamW


            def make_optimizer(model, rate):
                decayed = [one for one in model.parameters() if one.ndim > 1]
                others = [one for one in model.parameters() if one.ndim <= 1]
                groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
                return AdamW(groups, lr=rate, betas=(0.9, 0.95), foreach=False)  # expect: TL413
            """,
            because="in a helper of another file",
            entry="optimizers.py",
            others={
                "train.py": """
                import torch
                from torch import nn
                from torch.utils.data import DataLoader

                from optimizers import make_optimizer

                model = nn.Linear(32, 1).cuda()
                optimizer = make_optimizer(model, 3e-4)
                for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                """
            },
            fixed="""
            from torch.optim import AdamW


            def make_optimizer(model, rate):
                decayed = [one for one in model.parameters() if one.ndim > 1]
                others = [one for one in model.parameters() if one.ndim <= 1]
                groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
                return AdamW(groups, lr=rate, betas=(0.9, 0.95), fused=True)
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Trainer:
                def __init__(self, model):
                    self.model = model.to("cuda")
                    self.optimizer = torch.optim.Adam(  # expect: TL413
                        self.model.parameters(),
                        lr=1e-3,
                        foreach=False,
                    )

                def step(self, inputs):
                    loss = self.model(inputs.to("cuda")).square().mean()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()


            trainer = Trainer(nn.Linear(32, 1))
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                trainer.step(inputs)
            """,
            because="in a class",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Trainer:
                def __init__(self, model):
                    self.model = model.to("cuda")
                    self.optimizer = torch.optim.Adam(
                        self.model.parameters(),
                        lr=1e-3,
                        fused=True,
                    )

                def step(self, inputs):
                    loss = self.model(inputs.to("cuda")).square().mean()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()


            trainer = Trainer(nn.Linear(32, 1))
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                trainer.step(inputs)
            """,
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="fused",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="torch takes the foreach implementation by itself",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1)
            optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=False)
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="on a CPU",
        ),
        valid(
            """
            import argparse

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            parser = argparse.ArgumentParser()
            parser.add_argument("--foreach", action="store_true")
            args = parser.parse_args()
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters(), foreach=args.foreach)
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
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

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.Adam(model.parameters(), foreach=False, differentiable=True)
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="gradients flow through the update",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            options = {"lr": 3e-4, "foreach": False, "fused": torch.cuda.is_available()}
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters(), **options)
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="fused where there is a GPU",
        ),
        valid(
            """
            import inspect

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            fused = "fused" in inspect.signature(torch.optim.AdamW).parameters
            extra = {"fused": True} if fused else {"foreach": False}
            optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, **extra)
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="fused where the release has it",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for optimizer in project.calls_of(*OPTIMIZERS):
            entry = optimizer.context.entry
            on_cuda = entry.trains and entry.cuda is Known.YES and optimizer.context.may_use_gpu
            if on_cuda and _loops(optimizer):
                yield self.finding(
                    optimizer,
                    f"{quote(optimizer.text)} updates one parameter after the other, with several kernels for each",
                    help="Pass fused=True",
                )

    def fix(self, finding: Finding) -> Fix | None:
        site = finding.site
        recipes = (RemoveArgument(site, "foreach"), SetArgument(site, "fused", "True"))
        return Fix(Applicability.UNSAFE, "Pass fused=True", recipes)

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        unmeasured = "kernels of the optimizer's step are not told from others; compare with fused=True: --compare"
        return judge_condition(evidence, None, None, unmeasured=unmeasured)


def _loops(optimizer: Call) -> bool:
    """Whether the loop over parameters was chosen, and nothing but the loop was ruled out by that."""
    arguments = optimizer.arguments
    fused = arguments.absent("fused") or arguments.value("fused") in (NONE, Const(False))
    differentiable = not arguments.absent("differentiable") and arguments.constant("differentiable") is not False
    return arguments.constant("foreach") is False and fused and not differentiable
