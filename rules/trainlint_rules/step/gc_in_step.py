from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, DropImport, Fix, RemoveStatement
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_calls
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Call, Project

OLDEST_GENERATION = 2
"""The one that a full collection goes through, which is also what `gc.collect()` asks for."""


class GcInStep(Rule):
    """All objects of the process are searched for garbage at every training step.

    ## What it does
    Reports `gc.collect()`, a full collection, per training step.

    ## Why it is slow
    A full collection looks at every container that the process holds: the modules and parameters of the model, the
    state of the optimizer, the rows of a dataset in memory. The host launches nothing meanwhile. Tensors do not need
    it: reference counts free them as soon as nothing names them; the collector is for reference cycles only.

    ## When it is fine
    Every N steps with automatic collection off (`gc.disable()`), so that all ranks pause at the same time; once per
    epoch, or between training and evaluation; in the handler of an out-of-memory error. `gc.collect(0)` and
    `gc.collect(1)` leave the old generation alone and are not reported.

    ## Example
    ```python
    for batch in loader:
        train_step(batch)
        gc.collect()
    ```

    ## Use instead
    ```python
    gc.collect()
    gc.freeze()  # what is there before training is left out of later collections
    for batch in loader:
        train_step(batch)
    ```

    ## Fix safety
    Unsafe: the fix removes the call, an import that only it used, and an `if` around it that only looks at values; any
    other block that is left empty gets `pass`. Losses stay the same, but a job whose steps leave reference cycles that
    hold GPU memory keeps that memory until Python collects by itself.

    ## How the probe confirms it
    By the time of the collections that this line asks for.

    ## References
    - Python's garbage collection is among the scattered stalls of a step: `gc.freeze()` before training, higher
      thresholds (article 000).
    - Python, gc: https://docs.python.org/3/library/gc.html#gc.collect
    """

    code, name, family = "TL207", "gc-in-step", Family.STEP
    fix_class = Applicability.UNSAFE
    confirmed_by = "time in the call"
    examples = (
        invalid(
            """
            import gc

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
                del loss
                gc.collect()  # expect: TL207
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
                del loss
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from memory import free

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                free()
            """,
            because="in a helper, in another file",
            others={
                "memory.py": """
                import gc

                import torch


                def free():
                    gc.collect()  # expect: TL207
                    torch.cuda.empty_cache()
                """
            },
        ),
        invalid(
            """
            from gc import collect

            import torch
            from torch import nn


            def train(model, loader, device, use_amp):
                optimizer = torch.optim.AdamW(model.parameters())
                for inputs in loader:
                    optimizer.zero_grad()
                    with torch.autocast(device.type, enabled=use_amp):
                        loss = model(inputs.to(device)).square().mean()
                    loss.backward()
                    optimizer.step()
                    if device.type == "cuda":
                        collect(2)  # expect: TL207


            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            batches = torch.utils.data.DataLoader(torch.load("inputs.pt"), batch_size=64)
            train(nn.Linear(32, 1).to(device), batches, device, True)
            """,
            because="a device test does not thin out, and 2 is the full collection",
            fixed="""
            import torch
            from torch import nn


            def train(model, loader, device, use_amp):
                optimizer = torch.optim.AdamW(model.parameters())
                for inputs in loader:
                    optimizer.zero_grad()
                    with torch.autocast(device.type, enabled=use_amp):
                        loss = model(inputs.to(device)).square().mean()
                    loss.backward()
                    optimizer.step()


            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            batches = torch.utils.data.DataLoader(torch.load("inputs.pt"), batch_size=64)
            train(nn.Linear(32, 1).to(device), batches, device, True)
            """,
        ),
        invalid(
            """
            import gc

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

                def on_train_batch_end(self, outputs, batch, batch_idx):
                    gc.collect()  # expect: TL207

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(accelerator="gpu", max_epochs=3)
            trainer.fit(Regression(), DataLoader(torch.load("inputs.pt"), batch_size=64))
            """,
            because="Lightning calls the hook after every batch",
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

                def on_train_batch_end(self, outputs, batch, batch_idx):
                    pass

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(accelerator="gpu", max_epochs=3)
            trainer.fit(Regression(), DataLoader(torch.load("inputs.pt"), batch_size=64))
            """,
        ),
        valid(
            """
            import gc

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            gc.disable()
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 100 == 0:
                    gc.collect()
            """,
            because="a schedule: every hundred steps, with automatic collection off",
        ),
        valid(
            """
            import gc

            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Collector:
                def __init__(self, every):
                    self.every = every
                    gc.disable()
                    gc.collect()

                def run(self, step):
                    if step > 1 and step % self.every == 0:
                        gc.collect()
                    else:
                        gc.collect(0)


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            collector = Collector(50)
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                collector.run(step)
            """,
            because="the schedule is in a class, and between its turns only young objects are looked at",
        ),
        valid(
            """
            import gc

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
                    gc.collect()
                    torch.cuda.empty_cache()
                    continue
                optimizer.step()
            """,
            because="in the handler of an out-of-memory error",
        ),
        valid(
            """
            import gc

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
                gc.collect()
            """,
            because="once per epoch",
        ),
        valid(
            """
            import gc

            import torch
            from torch import nn

            model = nn.Linear(32, 1).cuda().eval()
            with torch.no_grad():
                for batch in torch.load("inputs.pt").split(64):
                    print(model(batch.cuda()).mean().item())
                    gc.collect()
            """,
            because="nothing is trained here",
        ),
        valid(
            """
            import gc

            import torch
            from sklearn.model_selection import KFold
            from torch import nn
            from torch.utils.data import DataLoader, Subset


            def fit(model, loader):
                optimizer = torch.optim.AdamW(model.parameters())
                for epoch in range(5):
                    for inputs in loader:
                        loss = model(inputs.cuda()).square().mean()
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()


            data = torch.load("inputs.pt")
            for fold, (train, valid) in enumerate(KFold(5).split(data)):
                model = nn.Linear(32, 1).cuda()
                fit(model, DataLoader(Subset(data, train), batch_size=64))
                del model
                gc.collect()
            """,
            because="between the folds of a cross-validation, each of which is a training",
        ),
        valid(
            """
            import argparse
            import gc

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            parser = argparse.ArgumentParser()
            parser.add_argument("--debug", action="store_true")
            args = parser.parse_args()
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if args.debug:
                    gc.collect()
                    print(len(gc.get_objects()))
            """,
            because="only while looking for what leaks",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in project.calls_of("gc.collect"):
            if call.context.hot and call.context.routine and _is_full(call):
                yield self.finding(
                    call,
                    f"{quote(call.text)} searches all objects of the process for garbage "
                    f"{call.context.frequency.phrase}",
                    help="Remove it: tensors are freed without it; or collect every few steps, with gc.disable()",
                )

    def fix(self, finding: Finding) -> Fix | None:
        call = finding.subject
        message = f"Remove {quote(call.text)}" if isinstance(call, Call) else "Remove the call"
        if not isinstance(call, Call) or not call.stands_alone:
            return Fix(Applicability.DISPLAY, message)
        return Fix(
            Applicability.UNSAFE,
            message,
            (RemoveStatement(call.site), DropImport(call.site, "gc", ""), DropImport(call.site, "gc", "collect")),
        )

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_calls(evidence, finding.site)


def _is_full(call: Call) -> bool:
    """Whether the oldest generation is collected for certain."""
    return call.arguments.absent("generation") or call.arguments.constant("generation") == OLDEST_GENERATION
