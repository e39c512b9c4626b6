from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, DropImport, Fix, RemoveStatement
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_device_calls
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Call, Project

SYNCHRONIZE = ("torch.cuda.synchronize", "torch.accelerator.synchronize", "torch.xpu.synchronize")


class SynchronizeInStep(Rule):
    """The host waits for all GPU work at every training step, on purpose.

    ## What it does
    Reports `torch.cuda.synchronize()` and its kin per training step.

    ## Why it is slow
    The host normally runs ahead and keeps a queue of work for the GPU. A full synchronization empties that queue: the
    next kernel is launched only after the last one has ended, and the GPU idles in between.

    ## When it is fine
    Around timed code, every N steps; before reading a clock in a benchmark; while looking for the kernel that fails.
    PyTorch itself waits where a result is read, so correctness never asks for it in a training loop.
    Without a GPU there is nothing to wait for.

    ## Example
    ```python
    optimizer.step()
    torch.cuda.synchronize()
    ```

    ## Use instead
    ```python
    optimizer.step()
    # To time steps without stopping the GPU: torch.cuda.Event(enable_timing=True), read every few steps.
    ```

    ## Fix safety
    Unsafe: the fix removes the call, an import that only it used, and an `if` around it that only looks at values; any
    other block that is left empty gets `pass`. Losses stay the same, but times that are read after it no longer include
    the GPU's work, and an error on the GPU shows later.

    ## How the probe confirms it
    By the time spent in the call, on a machine with a GPU.

    ## References
    - Many short stalls in the step come from scattered host syncs (article 000).
    - PyTorch, asynchronous execution: https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
    """

    code, name, family = "TL205", "synchronize-in-step", Family.STEP
    fix_class = Applicability.UNSAFE
    confirmed_by = "time in the call"
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
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                torch.cuda.synchronize()  # expect: TL205
            """,
            because="at the end of every step",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import time

            import torch
            from torch import nn
            from torch.cuda import synchronize

            model = nn.Linear(32, 1).to("cuda")
            optimizer = torch.optim.AdamW(model.parameters())
            for step in range(10_000):
                start = time.perf_counter()
                loss = model(torch.randn(64, 32, device="cuda")).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if torch.cuda.is_available():
                    synchronize()  # expect: TL205
                elapsed = time.perf_counter() - start
                if step % 100 == 0:
                    print(step, elapsed)
            """,
            because="every step is timed though every hundredth is shown; a device test does not thin out",
            fixed="""
            import time

            import torch
            from torch import nn

            model = nn.Linear(32, 1).to("cuda")
            optimizer = torch.optim.AdamW(model.parameters())
            for step in range(10_000):
                start = time.perf_counter()
                loss = model(torch.randn(64, 32, device="cuda")).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if torch.cuda.is_available():
                    pass
                elapsed = time.perf_counter() - start
                if step % 100 == 0:
                    print(step, elapsed)
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from timing import Timer

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            timer = Timer()
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                timer.lap("backward")
                optimizer.step()
            """,
            because="in a timer, in another file",
            others={
                "timing.py": """
                import time

                import torch


                class Timer:
                    def __init__(self):
                        self.laps = {}

                    def lap(self, name):
                        torch.cuda.synchronize()  # expect: TL205
                        self.laps[name] = time.perf_counter()
                """
            },
        ),
        valid(
            """
            import time

            import torch
            from torch import nn

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            start = time.perf_counter()
            for step in range(10_000):
                loss = model(torch.randn(64, 32, device="cuda")).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 100 == 99:
                    torch.cuda.synchronize()
                    print(step, (time.perf_counter() - start) / 100)
                    start = time.perf_counter()
            """,
            because="timing under an interval",
        ),
        valid(
            """
            import time

            import torch
            from torch import nn

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            torch.cuda.synchronize()
            start = time.perf_counter()
            for step in range(1000):
                loss = model(torch.randn(64, 32, device="cuda")).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            torch.cuda.synchronize()
            print(time.perf_counter() - start)
            """,
            because="before and after the loop",
        ),
        valid(
            """
            import time

            import torch
            from torch import nn

            model = nn.Linear(32, 1).cuda()
            times = []
            with torch.no_grad():
                for batch in torch.randn(100, 64, 32, device="cuda"):
                    start = time.perf_counter()
                    model(batch)
                    torch.cuda.synchronize()
                    times.append(time.perf_counter() - start)
            print(min(times))
            """,
            because="a benchmark of inference: nothing is trained",
        ),
        valid(
            """
            import argparse

            import torch
            from torch import nn

            parser = argparse.ArgumentParser()
            parser.add_argument("--debug", action="store_true")
            args = parser.parse_args()
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step in range(10_000):
                loss = model(torch.randn(64, 32, device="cuda")).square().mean()
                optimizer.zero_grad()
                loss.backward()
                if args.debug:
                    torch.cuda.synchronize()
                optimizer.step()
            """,
            because="only while debugging",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1)
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                optimizer.zero_grad()
                model(inputs).square().mean().backward()
                optimizer.step()
                torch.cuda.synchronize()
            """,
            because="everything lives on the host, so there is no GPU to wait for",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in project.calls_of(*SYNCHRONIZE):
            if call.context.hot and call.context.routine and call.context.may_use_gpu:
                yield self.finding(
                    call,
                    f"{quote(call.text)} waits for all work of the GPU {call.context.frequency.phrase}",
                    help="Remove it, or time every few steps only",
                )

    def fix(self, finding: Finding) -> Fix | None:
        call = finding.subject
        message = f"Remove {quote(call.text)}" if isinstance(call, Call) else "Remove the call"
        if not isinstance(call, Call) or not call.stands_alone:
            return Fix(Applicability.DISPLAY, message)
        return Fix(
            Applicability.UNSAFE,
            message,
            (RemoveStatement(call.site), DropImport(call.site, *call.name.rpartition(".")[::2])),
        )

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_device_calls(evidence, finding.site)
