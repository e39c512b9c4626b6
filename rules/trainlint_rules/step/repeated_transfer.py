from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_copies
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Project, Transfer
from trainlint.semantics.vocabulary import Confidence, Place

ONCE = "Move it once, before the loop, or register it as a buffer of its module"


class RepeatedTransfer(Rule):
    """The same tensor is copied to the GPU again at every step.

    ## What it does
    Reports `.to(device)` and `.cuda()` per training step of a tensor that was made on the host before, and that nothing
    changes: a variable bound before the loop, a global, or an attribute that only the constructor sets.

    ## Why it is slow
    The copy starts in pageable memory, so the host waits for it, and with it for the kernels before it. What it brings
    is on the device already, from the step before.

    ## When it is fine
    Batches, and whatever else is new at each step. `x = x.to(device)` copies once: the next step finds `x` on the
    device. A table that is too large to stay in GPU memory.

    ## Example
    ```python
    weights = torch.tensor([0.2, 0.8])
    for inputs, targets in loader:
        loss = F.cross_entropy(model(inputs.cuda()), targets.cuda(), weight=weights.cuda())
    ```

    ## Use instead
    ```python
    weights = torch.tensor([0.2, 0.8], device="cuda")
    ```
    In a module, `self.register_buffer("weights", weights)`: buffers move with the module.

    ## Fix safety
    Display: a buffer changes the keys of the state dict (`persistent=False` does not), and a variable that is moved
    where it is made may be needed on the host elsewhere.

    ## How the probe confirms it
    By the time of the copies from this line, in a GPU trace.

    ## References
    - Copies above 20 % of the step are the bottleneck (article 001).
    - PyTorch, avoid unnecessary CPU-GPU synchronization, which names `tensor.cuda()` and `tensor.to(device)`:
      https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
    - PyTorch, register_buffer:
      https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer
    """

    code, name, family = "TL217", "repeated-transfer", Family.STEP
    fix_class = Applicability.DISPLAY
    confirmed_by = "copies from this line"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            device = torch.device("cuda")
            dataset = torch.utils.data.TensorDataset(torch.load("images.pt"), torch.load("labels.pt"))
            loader = DataLoader(dataset, batch_size=64)
            model = nn.Linear(32, 2).to(device)
            optimizer = torch.optim.AdamW(model.parameters())
            weights = torch.tensor([0.2, 0.8])
            for epoch in range(10):
                for images, labels in loader:
                    outputs = model(images.to(device))
                    loss = nn.functional.cross_entropy(
                        outputs,
                        labels.to(device),
                        weight=weights.to(device),  # expect: TL217
                    )
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="class weights, the same ones for every batch",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from network import Network

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = Network().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="an attribute of a module, in another file: it is no buffer, so it stays on the host",
            others={
                "network.py": """
                import torch
                from torch import nn


                class Network(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.layer = nn.Linear(32, 1)
                        self.mean = torch.zeros(32)
                        self.scale = torch.full((32,), 0.5)

                    def forward(self, inputs):
                        inputs = (inputs - self.mean.to(inputs.device)) / self.scale.cuda()  # expect: TL217
                        return self.layer(inputs)
                """
            },
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            TRIANGLE = torch.ones(32, 32).tril()


            def train_step(model, optimizer, inputs):
                outputs = model(inputs.cuda()) @ TRIANGLE.cuda()  # expect: TL217
                optimizer.zero_grad()
                outputs.square().mean().backward()
                optimizer.step()


            def main():
                loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
                model = nn.Linear(32, 32).cuda()
                optimizer = torch.optim.AdamW(model.parameters())
                for inputs in loader:
                    train_step(model, optimizer, inputs)


            if __name__ == "__main__":
                main()
            """,
            because="a constant of the module",
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
                    self.weights = torch.linspace(0.0, 1.0, 64)

                def training_step(self, batch, batch_idx):
                    outputs = self.model(batch).squeeze(1)
                    return (outputs * self.weights.to("cuda")).square().mean()  # expect: TL217

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(accelerator="gpu", max_epochs=3)
            trainer.fit(Regression(), DataLoader(torch.load("inputs.pt"), batch_size=64))
            """,
            because="Lightning moves batches and modules, not attributes",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            weights = torch.linspace(0.0, 1.0, 64)
            for inputs in loader:
                weights = weights.cuda()
                loss = (model(inputs.cuda()).squeeze(1) * weights).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="rebound: the second step finds it on the device",
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
                    self.mean = torch.zeros(32)
                    self.register_buffer("scale", torch.full((32,), 0.5))

                def place(self, device):
                    self.mean = self.mean.to(device)
                    return self

                def forward(self, inputs):
                    return self.layer((inputs - self.mean.to(inputs.device)) / self.scale.to(inputs.device))


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = Network().cuda().place("cuda")
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a buffer, and an attribute that another method moves",
        ),
        valid(
            """
            import torch
            from torch import nn

            buffer = torch.empty(64, 32, pin_memory=True)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            stream = open("inputs.bin", "rb")
            for step in range(10_000):
                buffer.copy_(torch.frombuffer(bytearray(stream.read(8192)), dtype=torch.float32).view(64, 32))
                loss = model(buffer.cuda(non_blocking=True)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a pinned buffer that each step fills anew",
        ),
        valid(
            """
            import torch
            from torch import nn

            from reading import fill

            rows = torch.zeros(64, 32)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step in range(10_000):
                fill(rows, step)
                loss = model(rows.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="handed to a function that may fill it",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            weights = torch.linspace(0.0, 1.0, 64).cuda()
            table = torch.zeros(1_000_000, 32)
            for step, inputs in enumerate(loader):
                rows = table[step * 64 : step * 64 + 64].cuda()
                loss = ((model(inputs.cuda() + rows)).squeeze(1) * weights.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="on the device already, or another part of a table at each step",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            device = torch.device("cuda")
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            test_inputs = torch.zeros(64, 32)
            model = nn.Linear(32, 1).to(device)
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(10):
                for step, inputs in enumerate(loader):
                    loss = model(inputs.to(device)).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    if step % 500 == 0:
                        with torch.no_grad():
                            print(model(test_inputs.to(device)).mean().item())
                print(epoch, model(test_inputs.to(device)).mean().item())
            """,
            because="every 500 steps, and once per epoch",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1)
            optimizer = torch.optim.AdamW(model.parameters())
            weights = torch.linspace(0.0, 1.0, 64)
            for inputs in loader:
                loss = (model(inputs.to("cpu")).squeeze(1) * weights.to("cpu").float()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="nothing leaves the host",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for transfer in project.transfers:
            if transfer.repeated and _copies_per_step(transfer):
                yield self.finding(
                    transfer,
                    f"{quote(transfer.text)} copies the same tensor to the GPU {transfer.context.frequency.phrase}",
                    help=ONCE,
                    confidence=Confidence.HIGH if transfer.device_is_known else Confidence.MEDIUM,
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, ONCE)

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_copies(evidence, finding.site)


def _copies_per_step(transfer: Transfer) -> bool:
    value = transfer.value
    host = value.place is Place.HOST and value.proved and value.created and not value.registered
    copied = host and transfer.target is Place.DEVICE and value.loader is None
    return copied and transfer.context.hot and transfer.context.routine and transfer.context.may_use_gpu
