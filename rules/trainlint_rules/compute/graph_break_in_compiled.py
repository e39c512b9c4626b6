from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_condition
from trainlint.probe.verdict import Verdict
from trainlint.semantics.context import Context
from trainlint.semantics.project import DynamicShape, Project, Report, ReportKind, SyncKind, SyncPoint
from trainlint.semantics.vocabulary import Frequency, Region

OUTSIDE = "Return what is needed and read or print it outside, or keep the value a tensor"


class GraphBreakInCompiled(Rule):
    """What `torch.compile` traces has to leave its graph at every step.

    ## What it does
    Reports, in functions and models that are compiled, and in what they call: reads of tensor values (`.item()`,
    `float()`, `.tolist()`), results whose size depends on values (`x[x > 0]`, `nonzero`), prints and logging.

    ## Why it is slow
    The compiler cannot go on through such a line. It ends the graph before it, runs the line in Python, and begins
    another graph: what lies on both sides is no longer fused, CUDA graphs are cut in two, and the read waits for the
    GPU.

    ## When it is fine
    Under `if not torch.compiler.is_compiling():`, in a function that `torch.compiler.disable` keeps out, once in a
    while; where the compiler is told to capture scalars or dynamic shapes, or to move `print` to the end of a graph
    (`reorderable_logging_functions`, which this rule does not see). A break at the very start or the very end of
    what is compiled cuts nothing. That is why the rule is not in the default set.

    ## Example
    ```python
    @torch.compile
    def objective(outputs, targets):
        loss = (outputs - targets).square().mean()
        print(loss.item())
        return loss * 2
    ```

    ## Use instead
    ```python
    @torch.compile
    def objective(outputs, targets):
        return (outputs - targets).square().mean() * 2
    ```

    ## Fix safety
    Display: what the line is for decides where it can go.

    ## How the probe confirms it
    It leaves the verdict open: graph breaks are counted by the compiler, not by the probe. `TORCH_LOGS=graph_breaks`
    names each of them, and `fullgraph=True` makes them errors.

    ## References
    - PyTorch, common graph breaks, on data-dependent operations and on printing and logging:
      https://docs.pytorch.org/docs/stable/compile/programming_model.common_graph_breaks.html
    - PyTorch, use fullgraph=True to identify and eliminate graph breaks:
      https://docs.pytorch.org/docs/2.12/user_guide/torch_compiler/compile/programming_model.fullgraph_true.html
    - Compilation has a warm-up cost, and may gain little (articles 000, 003).
    """

    code, name, family = "TL411", "graph-break-in-compiled", Family.COMPUTE
    severity = Severity.INFO
    fix_class = Applicability.DISPLAY
    default = False
    confirmed_by = "graph break log"
    torch = ((2, 0), None)
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            @torch.compile
            def objective(outputs):
                loss = outputs.square().mean()
                scale = loss.item()  # expect: TL411
                print("scale", scale)  # expect: TL411
                return loss / max(scale, 1.0)


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = objective(model(inputs.cuda()))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a decorated function reads and prints",
        ),
        invalid(
            """
            import torch
            from torch.utils.data import DataLoader

            from network import Network

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = Network().cuda()
            model = torch.compile(model, mode="max-autotune")
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the forward of a compiled model, in another file, and what it calls",
            others={
                "network.py": """
                from torch import nn


                def clipped(values):
                    limit = float(values.abs().max())  # expect: TL411
                    return values.clamp(-limit, limit)


                class Network(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.first = nn.Linear(32, 32)
                        self.second = nn.Linear(32, 1)

                    def forward(self, inputs):
                        return self.second(clipped(self.first(inputs)))
                """
            },
        ),
        invalid(
            """
            import logging

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            logger = logging.getLogger(__name__)


            def train_step(model, optimizer, inputs):
                loss = model(inputs).square().mean()
                loss.backward()
                logger.info("loss %s", loss.shape)  # expect: TL411
                optimizer.step()
                optimizer.zero_grad()


            train_step = torch.compile(train_step)
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                train_step(model, optimizer, inputs.cuda())
            """,
            because="a whole step is compiled, logging included",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Masked(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 1)

                def forward(self, inputs):
                    outputs = self.layer(inputs.cuda())
                    rows = (outputs > 0).nonzero()  # expect: TL411
                    return outputs.mean() + len(rows)


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = Masked().cuda()
            model.compile()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a size that depends on values",
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
            for step, inputs in enumerate(loader):
                loss = objective(model(inputs.cuda()))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(step, loss.item())
            """,
            because="read and printed outside of what is compiled",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Network(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 1)

                def forward(self, inputs):
                    outputs = self.layer(inputs)
                    print(outputs.mean().item())
                    return outputs


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = Network().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="nothing is compiled",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            @torch.compiler.disable
            def show(loss):
                print(loss.item())


            @torch.compile
            def objective(outputs):
                loss = outputs.square().mean()
                show(loss)
                if not torch.compiler.is_compiling():
                    print(loss.item())
                return loss


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = objective(model(inputs.cuda()))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="kept out of what is compiled by name, and by a test",
        ),
        valid(
            """
            import torch
            import torch._dynamo
            from torch import nn
            from torch.utils.data import DataLoader

            torch._dynamo.config.capture_scalar_outputs = True


            @torch.compile
            def objective(outputs):
                loss = outputs.square().mean()
                return loss / loss.item()


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = objective(model(inputs.cuda()))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the compiler is told to capture scalars",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Network(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 1)

                def forward(self, inputs):
                    assert inputs.shape[1] == 32
                    outputs = self.layer(inputs)
                    scale = float(outputs.shape[0])
                    return outputs.cpu() / scale


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = Network().cuda()
            compiled = torch.compile(model, disable=True)
            model = torch.compile(model)
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="sizes are no values, and copies between devices stay in the graph",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Network(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 1)

                def forward(self, inputs):
                    outputs = self.layer(inputs)
                    print(outputs.mean().item())
                    return outputs


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = Network().cuda()
            for_export = torch.compile(model)
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="what trains is the model itself, not the compiled one",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        candidates: list[SyncPoint | DynamicShape | Report] = []
        candidates += [*project.syncs, *project.dynamic_shapes, *project.reports]
        for one in candidates:
            if _is_traced(one.context) and _ends_graph(one):
                yield self.finding(
                    one,
                    f"{quote(one.text)} breaks the compiled graph of {quote(one.context.path[-1].rpartition('.')[2])}",
                    help=OUTSIDE,
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, OUTSIDE)

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        unmeasured = "graph breaks are not counted; TORCH_LOGS=graph_breaks names them"
        return judge_condition(evidence, finding.site, None, unmeasured=unmeasured)


def _ends_graph(one: SyncPoint | DynamicShape | Report) -> bool:
    """Whether the compiler cannot go on through it."""
    if isinstance(one, SyncPoint):
        return one.kind is SyncKind.READ and not one.context.entry.captures_scalars
    if isinstance(one, DynamicShape):
        return not one.context.entry.captures_shapes
    return one.kind in (ReportKind.PRINT, ReportKind.LOGGER)


def _is_traced(context: Context) -> bool:
    """Whether it runs per step, in training, in what is compiled."""
    per_step = context.frequency >= Frequency.PER_STEP and context.region is Region.TRAINING
    return context.compiled and per_step and context.routine and bool(context.path)
