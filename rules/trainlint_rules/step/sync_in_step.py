from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainlint.fixes.recipe import AccumulateOnDevice, Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_syncs
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Project, Report, ReportKind, SyncKind, SyncPoint
from trainlint.semantics.vocabulary import Confidence, GuardKind

WHAT_IT_DOES = {
    SyncKind.READ: "waits for the GPU",
    SyncKind.COPY: "copies to the host and waits for the GPU",
    SyncKind.FORMAT: "formats a GPU tensor, which waits for the GPU,",
    SyncKind.INDEX: "needs a value from the GPU as an index, and waits for it,",
}

GIVEN_AWAY = "copies a GPU tensor to the host, which waits for the GPU,"
PASS_THE_TENSOR = "Pass the tensor itself: Lightning keeps it on the device, and reads it when it logs"
BY_HAND = "Keep the value on the device with `.detach()`, and read it under a test such as `step % 50 == 0`"


class SyncInStep(Rule):
    """The host waits for the GPU at every training step to read a value.

    ## What it does
    Reports expressions that read a device value on the host, per training step: `.item()`, `.tolist()`, `.cpu()`,
    `.numpy()`, `float(t)`, `int(t)`, formatting a tensor, slicing by device bounds. It follows calls into helpers,
    methods and other files.

    ## Why it is slow
    PyTorch queues work on the GPU and runs ahead. Reading a value stops that: the host waits until all queued work is
    done, and only then launches the next kernels, during which the GPU idles. The cost is small per read and paid at
    every step.

    ## When it is fine
    Every N steps (`if step % log_every == 0`), once per epoch, in evaluation. A test for gradient accumulation does not
    thin out, since it may let every step pass; neither does a feature flag. Values that live on the host cost nothing.

    ## Example
    ```python
    for images, labels in loader:
        loss = step(images, labels)
        total += loss.item()
    ```

    ## Use instead
    ```python
    total = torch.zeros((), device=device)
    for step_number, (images, labels) in enumerate(loader):
        loss = step(images, labels)
        total += loss.detach()
        if step_number % 50 == 0:
            print(total.item() / (step_number + 1))
    ```

    ## Fix safety
    Never safe. Where the value is added to a total or appended to a list of the same function, and every use of that is
    understood, the fix gathers the tensor instead (`.detach()`, in a list also `.clone()`, since `loss /= n` would
    change it later) and reads numbers where the total or the list is used. What it changes: sums are made in the
    tensor's own precision, so the last digits may differ, more so for half precision or for counts above 16 million in
    a total that starts as `0.0`; a list holds a small tensor of GPU memory per step until it is dropped; an error on
    the GPU shows later. Where a use is not understood, such as a list passed to a function or kept in an attribute, or
    where the gathered is used at every step, it is advice.

    ## How the probe confirms it
    By the host's waits at this line, from a GPU trace. Without an accelerator nothing waits: the verdict stays open.

    ## References
    - Many short stalls in the step come from print, .item(), logging (article 000).
    - PyTorch, avoid unnecessary CPU-GPU synchronization:
      https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
    """

    code, name, family = "TL201", "sync-in-step", Family.STEP
    fix_class = Applicability.UNSAFE
    confirmed_by = "sync stacks on this line × wait per call"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            device = "cuda"
            loader = DataLoader(datasets.CIFAR10("data", transform=transforms.ToTensor()), batch_size=128)
            model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(20):
                total, correct = 0.0, 0
                for images, labels in loader:
                    images, labels = images.to(device), labels.to(device)
                    outputs = model(images)
                    loss = nn.functional.cross_entropy(outputs, labels)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    total += loss.item()  # expect: TL201
                    correct += (outputs.argmax(1) == labels).sum().item()  # expect: TL201
                print(epoch, total, correct)
            """,
            because="two reads per step, for figures that are shown once per epoch",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            device = "cuda"
            loader = DataLoader(datasets.CIFAR10("data", transform=transforms.ToTensor()), batch_size=128)
            model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(20):
                total, correct = 0.0, 0
                for images, labels in loader:
                    images, labels = images.to(device), labels.to(device)
                    outputs = model(images)
                    loss = nn.functional.cross_entropy(outputs, labels)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    total += loss.detach()
                    correct += (outputs.argmax(1) == labels).sum().detach()
                print(epoch, float(total), int(correct))
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from meters import Meter
            from training import clip_gradients

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            meter = Meter()
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                norm = clip_gradients(model.parameters(), 1.0)
                optimizer.step()
                meter.update(loss)
            """,
            because="the reads are behind calls, in other files, one of them for every parameter",
            others={
                "training.py": """
                def clip_gradients(parameters, limit):
                    total = 0.0
                    for parameter in parameters:
                        total += parameter.grad.norm(2).item() ** 2  # expect: TL201
                    return min(1.0, limit / total**0.5)
                """,
                "meters.py": """
                class Meter:
                    def __init__(self):
                        self.values = []

                    def update(self, value):
                        self.values.append(float(value))  # expect: TL201
                """,
            },
        ),
        invalid(
            """
            import torch
            from torch import nn

            steps_per_update = 4


            class Queue(nn.Module):
                def __init__(self, size):
                    super().__init__()
                    self.encoder = nn.Linear(128, 64)
                    self.register_buffer("keys", torch.randn(size, 64))
                    self.register_buffer("position", torch.zeros(1, dtype=torch.long))

                def forward(self, images):
                    keys = self.encoder(images)
                    start = int(self.position)  # expect: TL201
                    self.keys[start : start + len(keys)] = keys.detach()
                    self.position[0] = (start + len(keys)) % len(self.keys)
                    return (keys @ self.keys.T).logsumexp(1).mean()


            model = Queue(4096).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(10_000):
                loss = model(torch.randn(64, 128, device="cuda"))
                loss.backward()
                if (step + 1) % steps_per_update == 0:
                    print(f"loss {loss}")  # expect: TL201
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            because="int() of a buffer and an f-string read as .item() does; an accumulation test does not thin out",
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
                    self.losses = []

                def training_step(self, batch, batch_idx):
                    loss = self.model(batch).square().mean()
                    self.losses.append(loss.detach().cpu().numpy())  # expect: TL201
                    return loss

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(accelerator="gpu", max_epochs=3)
            trainer.fit(Regression(), DataLoader(torch.load("inputs.pt"), batch_size=64))
            """,
            because="Lightning calls training_step per step",
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
                loss.backward()
                optimizer.step()
                if step % 100 == 0:
                    print(step, loss.item())
                if step % 100:
                    continue
                print("norm", float(model.weight.norm()))
            """,
            because="behind interval guards, one of them an early exit",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            @torch.no_grad()
            def evaluate(model, loader):
                losses = []
                for inputs in loader:
                    losses.append(model(inputs.cuda()).square().mean().item())
                return sum(losses) / len(losses)


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            test_loader = DataLoader(torch.load("test.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(10):
                for inputs in loader:
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                print(epoch, loss.item(), evaluate(model, test_loader))
            """,
            because="evaluation, and once per epoch",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            weights = np.linspace(1.0, 0.1, 1000)
            seen = 0
            for step, inputs in enumerate(loader):
                seen += inputs.shape[0]
                weight = weights[step % 1000].item()
                mean = inputs.mean().item()
                loss = model((inputs - mean).cuda()).square().mean() * weight
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(seen)
            """,
            because="numpy values, sizes and batches that have not left the host are host values",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Encoder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.embed = nn.Linear(32, 32)
                    self.offset = nn.Parameter(torch.zeros(32))
                    self.register_buffer("scale", torch.ones(32))

                def forward(self, inputs):
                    hidden = inputs.to(self.embed.weight.data)
                    hidden = hidden.to(self.scale) * self.scale + self.offset
                    return self.embed(hidden.to(next(self.parameters())))


            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.encoder = Encoder()

                def forward(self, inputs):
                    return self.encoder(inputs).to(self.encoder.offset.data)


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, num_workers=4, pin_memory=True)
            model = Model().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda(non_blocking=True)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="parameters and buffers have moved to the GPU with their module",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1)
            optimizer = torch.optim.AdamW(model.parameters())
            total = 0.0
            for inputs in loader:
                loss = model(inputs).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            print(total)
            """,
            because="the job trains on the CPU: there is nothing to wait for",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Meter:
                def __init__(self):
                    self.total = torch.zeros((), device="cuda")
                    self.count = 0

                def update(self, value):
                    self.total += value
                    self.count += 1

                def average(self):
                    return (self.total / self.count).item()


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            meter = Meter()
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                meter.update(loss.detach())
            print(meter.average())
            """,
            because="the meter keeps a tensor and reads it at the end",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Settings:
                device = "cpu"


            class Model(nn.Module):
                def __init__(self, settings):
                    super().__init__()
                    self.settings = settings
                    self.layer = nn.Linear(32, 8)

                def forward(self, inputs):
                    return self.layer(inputs).to(self.settings.device)


            settings = Settings()
            device = torch.device("cuda" if torch.cuda.is_available() and settings.device != "cpu" else "cpu")
            model = Model(settings).to(device)
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64, num_workers=4, pin_memory=True):
                loss = model(inputs.to(device, non_blocking=True)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the device that the settings name is the GPU wherever the model is on one",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        tracked = [report for report in project.reports if report.kind is ReportKind.TRACKER]
        for sync, others in _by_row(sync for sync in project.syncs if _waits_in_training(sync)):
            more = f" (and {others} more on this line)" if others else ""
            given_to = next((report for report in tracked if _is_part(sync, report)), None)
            what = GIVEN_AWAY if sync.kind is SyncKind.FORMAT and given_to else WHAT_IT_DOES[sync.kind]
            found = self.finding(
                sync,
                f"{quote(sync.text)} {what} {sync.context.frequency.phrase}{more}",
                help="Keep the value on the device (`detach()`) and read it every few steps",
                confidence=Confidence.HIGH if sync.value.proved else Confidence.MEDIUM,
            )
            lightning = given_to is not None and given_to.name.startswith("pytorch_lightning.")
            if lightning:
                found = replace(
                    found,
                    help="Log the tensor, not a number that is read from it",
                    fix=Fix(Applicability.DISPLAY, PASS_THE_TENSOR),
                )
            yield found

    def fix(self, finding: Finding) -> Fix | None:
        sync = finding.subject
        if isinstance(sync, SyncPoint) and sync.kind is SyncKind.READ and sync.accumulated and sync.operand_site:
            return Fix(
                Applicability.UNSAFE,
                f"Keep {quote(sync.operand)} on the device with `.detach()`, and read the number where it is used",
                (AccumulateOnDevice(sync.site, sync.operand_site, floating=sync.value.keeps_graph),),
                otherwise=BY_HAND,
            )
        return Fix(Applicability.DISPLAY, BY_HAND)

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_syncs(evidence, finding.site)


def _by_row(syncs: Iterator[SyncPoint]) -> Iterator[tuple[SyncPoint, int]]:
    """The first sync point of each row, with the number of others there: a line of figures is one thing to mend."""
    rows: dict[tuple[object, int], list[SyncPoint]] = {}
    for sync in syncs:
        rows.setdefault((sync.site.path, sync.site.row), []).append(sync)
    for found in rows.values():
        # what is proved speaks for the row
        found.sort(key=lambda sync: (not sync.value.proved, -sync.context.confidence, sync.site.column))
        yield found[0], len({sync.site.column for sync in found}) - 1


def _is_part(sync: SyncPoint, report: Report) -> bool:
    """Whether the value is read in a call of a tracker."""
    inner, outer = sync.site, report.site
    starts = (outer.row, outer.column) <= (inner.row, inner.column)
    return (
        inner.path == outer.path and starts and (inner.end_row, inner.end_column) <= (outer.end_row, outer.end_column)
    )


def _waits_in_training(sync: SyncPoint) -> bool:
    kind = sync.kind in WHAT_IT_DOES
    on_the_hot_path = sync.context.hot and sync.context.routine
    return kind and on_the_hot_path and sync.on_device and not sync.context.under(GuardKind.NOT_DEVICE)
