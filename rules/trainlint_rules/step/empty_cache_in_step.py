from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, DropImport, Fix, RemoveStatement
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_device_calls
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Call, Project

EMPTY_CACHE = (
    "torch.cuda.empty_cache",
    "torch.cuda.memory.empty_cache",
    "torch.accelerator.empty_cache",
    "torch.accelerator.memory.empty_cache",
    "torch.xpu.empty_cache",
)


class EmptyCacheInStep(Rule):
    """The memory that the next step needs is given back to the driver at every training step.

    ## What it does
    Reports `torch.cuda.empty_cache()` and its kin per training step.

    ## Why it is slow
    PyTorch keeps freed blocks of GPU memory and hands them out again at once. Emptying that cache returns them by
    `cudaFree`, which waits for the GPU; the next step has to ask for the same memory again by `cudaMalloc`. It does not
    make more memory available to this process: cached blocks are reused anyway.

    ## When it is fine
    In the handler of an out-of-memory error, before a retry; once between training and evaluation, or per epoch; where
    another process needs the memory. Without a GPU the call does nothing.

    ## Example
    ```python
    for batch in loader:
        train_step(batch)
        torch.cuda.empty_cache()
    ```

    ## Use instead
    ```python
    for batch in loader:
        train_step(batch)
    # Against fragmentation: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
    ```

    ## Fix safety
    Unsafe: the fix removes the call, an import that only it used, and an `if` around it that only looks at values; any
    other block that is left empty gets `pass`. Losses stay the same, but a job at the edge of its memory may depend on
    it to get around fragmentation.

    ## How the probe confirms it
    By the time spent in the call, on a machine with a GPU. What the allocations after it cost comes on top.

    ## References
    - PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragmentation (article 000).
    - PyTorch, memory management: https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management
    """

    code, name, family = "TL206", "empty-cache-in-step", Family.STEP
    fix_class = Applicability.UNSAFE
    confirmed_by = "time, re-allocations after it"
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
                torch.cuda.empty_cache()  # expect: TL206
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
            import gc

            import torch
            from torch import nn


            def cleanup():
                gc.collect()
                torch.cuda.empty_cache()  # expect: TL206


            class Trainer:
                def __init__(self):
                    self.model = nn.Linear(32, 1).cuda()
                    self.optimizer = torch.optim.AdamW(self.model.parameters())

                def step(self, inputs):
                    loss = self.model(inputs).square().mean()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    cleanup()


            trainer = Trainer()
            for step in range(10_000):
                trainer.step(torch.randn(64, 32, device="cuda"))
            """,
            because="behind two calls",
            fixed="""
            import gc

            import torch
            from torch import nn


            def cleanup():
                gc.collect()


            class Trainer:
                def __init__(self):
                    self.model = nn.Linear(32, 1).cuda()
                    self.optimizer = torch.optim.AdamW(self.model.parameters())

                def step(self, inputs):
                    loss = self.model(inputs).square().mean()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    cleanup()


            trainer = Trainer()
            for step in range(10_000):
                trainer.step(torch.randn(64, 32, device="cuda"))
            """,
        ),
        invalid(
            """
            import lightning as L
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Regression(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.model = nn.Linear(32, 1)

                def training_step(self, batch, batch_idx):
                    torch.cuda.empty_cache()  # expect: TL206
                    return self.model(batch).square().mean()

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(accelerator="gpu", max_epochs=3)
            trainer.fit(Regression(), DataLoader(torch.load("inputs.pt"), batch_size=64))
            """,
            because="Lightning calls training_step per step",
            fixed="""
            import lightning as L
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Regression(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.model = nn.Linear(32, 1)

                def training_step(self, batch, batch_idx):
                    return self.model(batch).square().mean()

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(accelerator="gpu", max_epochs=3)
            trainer.fit(Regression(), DataLoader(torch.load("inputs.pt"), batch_size=64))
            """,
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                optimizer.zero_grad()
                try:
                    model(inputs.cuda()).square().mean().backward()
                except torch.cuda.OutOfMemoryError:
                    torch.cuda.empty_cache()
                    continue
                optimizer.step()
            """,
            because="in the handler of an out-of-memory error",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(10):
                for inputs in loader:
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                torch.cuda.empty_cache()
            """,
            because="once per epoch",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step in range(10_000):
                loss = model(torch.randn(64, 32, device="cuda")).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 500 == 0:
                    torch.cuda.empty_cache()
            """,
            because="behind an interval guard",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(32, 1).cuda().eval()
            with torch.no_grad():
                for batch in torch.load("inputs.pt").split(64):
                    print(model(batch.cuda()).mean().item())
                    torch.cuda.empty_cache()
            """,
            because="nothing is trained here",
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
                torch.cuda.empty_cache()
            """,
            because="everything lives on the host, so there is no GPU to wait for",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in project.calls_of(*EMPTY_CACHE):
            if call.context.hot and call.context.routine and call.context.may_use_gpu:
                yield self.finding(
                    call,
                    f"{quote(call.text)} waits for the GPU and gives memory back {call.context.frequency.phrase}, "
                    "only to allocate it again",
                    help="Remove it: cached memory is reused anyway",
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
