from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, RemoveArgument, SetArgument
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_memsets
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Call, Project
from trainlint.semantics.values import Tensor

ZERO_GRADS = ("torch.optim.Optimizer.zero_grad", "torch.nn.Module.zero_grad")
NONE_BY_DEFAULT = (2, 0)
"""First release in which `set_to_none` defaults to True."""
HAS_SET_TO_NONE = (1, 7)
"""First release with the argument."""


class ZeroGradNotNone(Rule):
    """Gradients are filled with zeros instead of being dropped.

    ## What it does
    Reports `zero_grad(set_to_none=False)` and `p.grad.zero_()` in loops over parameters, at every step; and a plain
    `zero_grad()` where the project's dependencies stop below torch 2.0, until which that was the default.

    ## Why it is slow
    Filling every gradient writes the whole gradient memory once more, and the backward pass then reads and adds to it
    instead of writing it. Setting gradients to None costs nothing on the device.

    ## When it is fine
    Plain `zero_grad()` on torch 2.0 or newer, which sets them to None; code that reads a gradient, or adds to it by
    hand, where only `zero_grad` has touched it, and so needs zeros.

    ## Example
    ```python
    optimizer.zero_grad(set_to_none=False)
    ```

    ## Use instead
    ```python
    optimizer.zero_grad()
    ```

    ## Fix safety
    Unsafe: a parameter that receives no gradient in a step is then skipped by the optimizer, whereas a gradient of
    zeros still moves it by momentum and weight decay; and code that reads `.grad` meets None.

    ## How the probe confirms it
    By the memory fills that a GPU trace shows under this line.

    ## References
    - PyTorch, Optimizer.zero_grad:
      https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html
    - PyTorch performance tuning guide, "Use parameter.grad = None":
      https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """

    code, name, family = "TL211", "zero-grad-not-none", Family.STEP
    fix_class = Applicability.UNSAFE
    confirmed_by = "memory fills from this line"
    examples = (
        invalid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.AdamW(model.parameters())
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            for inputs in loader:
                optimizer.zero_grad(set_to_none=False)  # expect: TL211
                model(inputs).mean().backward()
                optimizer.step()
            """,
            because="zeros are written over all gradients at every step",
            fixed="""
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.AdamW(model.parameters())
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            for inputs in loader:
                optimizer.zero_grad()
                model(inputs).mean().backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn


            def clear(model):
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        parameter.grad.zero_()  # expect: TL211


            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            for inputs in loader:
                clear(model)
                model(inputs).mean().backward()
                optimizer.step()
            """,
            because="one fill for each parameter, in a helper",
        ),
        invalid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            for inputs in loader:
                model.zero_grad(False)  # expect: TL211
                model(inputs).mean().backward()
                optimizer.step()
            """,
            because="given by position, on the model",
            fixed="""
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            for inputs in loader:
                model.zero_grad()
                model(inputs).mean().backward()
                optimizer.step()
            """,
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            for inputs in loader:
                optimizer.zero_grad()
                model(inputs).mean().backward()
                optimizer.step()
            """,
            because="None is the default since torch 2.0",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            for inputs in loader:
                optimizer.zero_grad(set_to_none=True)
                model(inputs).mean().backward()
                optimizer.step()
            """,
            because="said outright",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            optimizer.zero_grad(set_to_none=False)
            for inputs in loader:
                model(inputs).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            """,
            because="once, before the loop",
        ),
        valid(
            """
            import torch
            from torch import nn

            server = nn.Linear(8, 1)
            worker = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(server.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            for inputs in loader:
                optimizer.zero_grad(set_to_none=False)
                worker(inputs).mean().backward()
                for mine, theirs in zip(server.parameters(), worker.parameters()):
                    mine.grad += theirs.grad
                optimizer.step()
            """,
            because="gradients are added by hand into what zero_grad left",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in (*project.calls_of(*ZERO_GRADS), *project.calls_of("torch.Tensor.zero_")):
            if call.context.hot and not call.context.entry.reads_zero_gradients and _fills(call, project):
                yield self.finding(
                    call,
                    f"{quote(call.text)} fills gradients with zeros at every step, and the backward pass adds to them",
                    help="Set gradients to None: the backward pass then writes them once",
                )

    def fix(self, finding: Finding) -> Fix | None:
        call = finding.subject
        assert isinstance(call, Call)
        if call.name not in ZERO_GRADS:
            return Fix(Applicability.DISPLAY, "Set `.grad = None`, or call optimizer.zero_grad()")
        if call.arguments.given("set_to_none"):
            recipe = RemoveArgument(call.site, "set_to_none", position=0)
            return Fix(Applicability.UNSAFE, "Drop set_to_none=False", (recipe,))
        return Fix(Applicability.UNSAFE, "Pass set_to_none=True", (SetArgument(call.site, "set_to_none", "True"),))

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_memsets(evidence, finding.site)


def _fills(call: Call, project: Project) -> bool:
    """Whether the call writes zeros into gradients."""
    if call.name == "torch.Tensor.zero_":
        return isinstance(call.receiver, Tensor) and call.receiver.gradient
    if call.arguments.constant("set_to_none") is False:
        return True
    torch = project.torch_version
    return torch is not None and HAS_SET_TO_NONE <= torch < NONE_BY_DEFAULT and call.arguments.absent("set_to_none")
