from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_syncs
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Project, SyncKind
from trainlint.semantics.vocabulary import Confidence, GuardKind


class BranchOnTensor(Rule):
    """A condition on a GPU tensor makes the host wait at every training step.

    ## What it does
    Reports `if`, `while`, `assert`, `and`, `or` and `not` on a device value, per training step, such as
    `if torch.isnan(loss):` or `assert (weights > 0).all()`.

    ## Why it is slow
    The host has to know which way to go, so it waits until the GPU has finished everything up to that value. The queue
    of launched work runs empty, and the GPU idles until the host has caught up.

    ## When it is fine
    Every N steps, in evaluation, under a debug flag; conditions on Python numbers, on shapes, or on `is None`; choices
    that stay on the device (`torch.where`, masks, the `found_inf` tensor of a gradient scaler).

    ## Example
    ```python
    if torch.isnan(loss):
        raise RuntimeError("the loss is NaN")
    ```

    ## Use instead
    ```python
    bad_steps += torch.isnan(loss)  # stays on the device
    if step % 50 == 0 and bad_steps > 0:
        raise RuntimeError("the loss was NaN within the last 50 steps")
    ```

    ## Fix safety
    Advice without edits: when a check may come later is the author's choice.

    ## How the probe confirms it
    By the host's waits at this line, from a GPU trace. Without an accelerator nothing waits: the verdict stays open.

    ## References
    - Many short stalls in the step come from scattered host syncs (article 000).
    - PyTorch, avoid unnecessary CPU-GPU synchronization:
      https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
    """

    code, name, family = "TL204", "branch-on-tensor", Family.STEP
    fix_class = Applicability.DISPLAY
    confirmed_by = "sync stacks"
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
                if torch.isnan(loss):  # expect: TL204
                    raise RuntimeError("the loss is NaN")
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the test runs at every step, though what it guards never does",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Attention(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.project = nn.Linear(32, 32)

                def forward(self, inputs, mask):
                    scores = self.project(inputs) @ inputs.transpose(1, 2)
                    assert not torch.isinf(scores).any(), "scores overflow"  # expect: TL204
                    while scores.abs().max() > 100:  # expect: TL204
                        scores = scores / 2
                    return (scores * mask).sum()


            model = Attention().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, mask in DataLoader(torch.load("pairs.pt"), batch_size=64):
                loss = model(inputs.cuda(), mask.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="an assertion and a loop in forward, which every step calls",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from checks import all_finite

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                if all_finite(model):
                    optimizer.step()
            """,
            because="behind a helper, in another file, for every parameter",
            others={
                "checks.py": """
                import torch


                def all_finite(model):
                    for parameter in model.parameters():
                        if not torch.isfinite(parameter.grad).all():  # expect: TL204
                            return False
                    return True
                """
            },
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            limit = None
            loader = DataLoader(datasets.CIFAR10("data", transform=transforms.ToTensor()), batch_size=64)
            model = nn.Linear(3072, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, (images, _) in enumerate(loader):
                loss = model(images.cuda().flatten(1)).mean()
                optimizer.zero_grad()
                loss.backward()
                for parameter in model.parameters():
                    if parameter.grad is not None and parameter.grad.norm() > 10:  # expect: TL204
                        print("a large gradient")
                if not (limit is None or loss < 3):  # expect: TL204
                    print("a large loss")
                if step % 50 == 0 and loss > 3:
                    print("a large loss, asked every few steps")
                optimizer.step()
            """,
            because="the last part of a condition decides too",
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
                if step % 100 == 0:
                    if torch.isnan(loss):
                        raise RuntimeError("the loss is NaN")
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="every hundred steps",
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
                inputs = inputs.cuda()
                loss = model(inputs).square().mean()
                found_inf = torch.isinf(loss)
                loss = torch.where(found_inf, torch.zeros_like(loss), loss)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the choice stays on the device",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            mask = None
            for inputs in loader:
                inputs = inputs.cuda()
                if inputs.shape[0] < 64 or inputs.dim() != 2:
                    continue
                if mask is not None and inputs.requires_grad:
                    inputs = inputs * mask
                loss = model(inputs).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="shapes, flags and identity are known to the host",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

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
                if torch.isnan(loss):
                    break
                with torch.no_grad():
                    for inputs in test_loader:
                        if model(inputs.cuda()).abs().max() > 10:
                            print("outlier")
            """,
            because="once per epoch, and in evaluation",
        ),
        valid(
            """
            import torch
            from transformers import Trainer


            class ImageTrainer(Trainer):
                def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                    pixels, counts = inputs["pixel_values"], inputs.get("num_images")
                    if pixels.size(0) == sum(counts):
                        pixels = pixels.flatten(1)
                    return model(pixels).loss
            """,
            because="Python's `sum` adds a list of sizes, which a batch may hold besides tensors",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class RankLoss(nn.Module):
                def forward(self, outputs, targets):
                    chosen = torch.zeros(outputs.size())
                    for row in range(outputs.size(0)):
                        margin = outputs[row].max() - outputs[row, 0]
                        if margin < 0:
                            continue
                        chosen[row, 0] = 1
                    return torch.sum(chosen * outputs, dim=1).mean()


            model = nn.Linear(32, 8).cuda()
            criterion = RankLoss()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, targets in DataLoader(torch.load("pairs.pt"), batch_size=64, num_workers=4, pin_memory=True):
                optimizer.zero_grad()
                loss = criterion(model(inputs.cuda(non_blocking=True)), targets)
                loss.backward()
                optimizer.step()
            """,
            because="what is multiplied by a tensor of the host is there, too",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for sync in project.syncs:
            on_the_hot_path = sync.context.hot and sync.context.routine
            on_device = sync.on_device and not sync.context.under(GuardKind.NOT_DEVICE)
            if sync.kind is SyncKind.BRANCH and on_the_hot_path and on_device:
                yield self.finding(
                    sync,
                    f"{quote(sync.text)} decides on a GPU value: the host waits for it {sync.context.frequency.phrase}",
                    help="Decide on the device (`torch.where`), or test every few steps",
                    confidence=Confidence.HIGH if sync.value.proved else Confidence.MEDIUM,
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.DISPLAY,
            "Choose on the device with `torch.where` or a mask, or put the test under one such as `step % 50 == 0`",
        )

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_syncs(evidence, finding.site)
