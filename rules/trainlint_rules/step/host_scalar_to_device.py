from __future__ import annotations

import re
from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_copies
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Context, Project, Upload
from trainlint.semantics.values import Const, Host, Option, Tuple, Value, options
from trainlint.semantics.vocabulary import Confidence, Known

NUMBERS = frozenset({"number", "rank", "world-size"})
"""Kinds of host values that are one number."""

SEARCH_FOR_NAN = re.compile(r"^is_?(nan|inf|finite)$")
"""In a condition, what asks for values that are no numbers: code under it is there for a step that went wrong."""


class HostScalarToDevice(Rule):
    """A number of Python is copied to the GPU at every training step.

    ## What it does
    Reports `torch.tensor(x, device=device)`, `torch.as_tensor`, `torch.asarray` and `t.new_tensor(x)` on a GPU, where
    `x` is a number or a few of them, in code that runs at every training step.

    ## Why it is slow
    The number is put into pageable host memory first, and the copy from there makes the host wait until the GPU has
    done it, which it does after all work that was queued before. A kernel that fills a tensor (`torch.full`,
    `torch.zeros`) gets its number with the launch, and the host goes on.

    ## When it is fine
    Constants that are made once, before the loop, or registered as buffers; every N steps, at the logging interval;
    data that has to be moved. In a model that is compiled, constants become part of the compiled code.

    ## Example
    ```python
    for images, labels in loader:
        loss = torch.tensor(0.0, device=device)
        weights = torch.tensor([0.3, 0.7], device=device)
    ```

    ## Use instead
    ```python
    weights = torch.tensor([0.3, 0.7], device=device)
    for images, labels in loader:
        loss = torch.zeros((), device=device)
        scale = torch.full((), len(images) / batch_size, device=device)
    ```

    ## Fix safety
    Advice without edits: a constant that moves out of the loop is shared by all steps, which matters where one of them
    changes it in place.

    ## How the probe confirms it
    By the host-to-device copies that a GPU trace shows under this line, and their share of the step.

    ## References
    - Many short stalls in the step come from scattered host syncs (article 000).
    - PyTorch performance tuning guide, "Create tensors directly on the target device":
      https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """

    code, name, family = "TL208", "host-scalar-to-device", Family.STEP
    fix_class = Applicability.DISPLAY
    confirmed_by = "copies from this line"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            device = torch.device("cuda")
            heads = nn.ModuleList([nn.Linear(32, 1) for _ in range(4)]).to(device)
            optimizer = torch.optim.AdamW(heads.parameters())
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            for inputs in loader:
                inputs = inputs.to(device)
                loss = torch.tensor(0.0, device=device)  # expect: TL208
                for head in heads:
                    loss = loss + head(inputs).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a zero to start a sum with",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from losses import WeightedLoss

            model = nn.Linear(32, 2).cuda()
            criterion = WeightedLoss(0.3, 0.7)
            optimizer = torch.optim.AdamW(model.parameters())
            loader = DataLoader(torch.load("samples.pt"), batch_size=64)
            for inputs, labels in loader:
                loss = criterion(model(inputs.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the same class weights at every step, in another file",
            others={
                "losses.py": """
                import torch
                from torch import nn


                class WeightedLoss(nn.Module):
                    def __init__(self, negative, positive):
                        super().__init__()
                        self.negative, self.positive = negative, positive

                    def forward(self, logits, labels):
                        weight = torch.tensor([self.negative, self.positive], device=logits.device)  # expect: TL208
                        return nn.functional.cross_entropy(logits, labels, weight=weight)
                """
            },
        ),
        invalid(
            """
            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP
            from torch.utils.data import DataLoader, DistributedSampler

            dist.init_process_group("nccl")
            rank = dist.get_rank()
            dataset = torch.load("inputs.pt")
            loader = DataLoader(dataset, batch_size=64, sampler=DistributedSampler(dataset))
            model = DDP(nn.Linear(32, 1).cuda(rank), device_ids=[rank])
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                count = torch.as_tensor(len(inputs), device=rank)  # expect: TL208
                dist.all_reduce(count)
                loss = model(inputs.cuda(rank)).square().sum() * dist.get_world_size() / count
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a size, to be summed over the ranks",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            def margin_loss(scores, margin=0.2):
                return (scores.new_tensor(margin) - scores).clamp(min=0).mean()  # expect: TL208


            model = nn.Linear(32, 1).to("cuda")
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = margin_loss(model(inputs.to("cuda")))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="new_tensor copies to where its tensor is",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            device = torch.device("cuda")
            model = nn.Linear(32, 2).to(device)
            optimizer = torch.optim.AdamW(model.parameters())
            weight = torch.tensor([0.3, 0.7], device=device)
            for inputs, labels in DataLoader(torch.load("samples.pt"), batch_size=64):
                loss = nn.functional.cross_entropy(model(inputs.to(device)), labels.to(device), weight=weight)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="made once, before the loop",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            device = torch.device("cuda")
            heads = nn.ModuleList([nn.Linear(32, 1) for _ in range(4)]).to(device)
            optimizer = torch.optim.AdamW(heads.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = torch.zeros((), device=device)
                scale = torch.full((), 1 / len(inputs), device=device)
                for head in heads:
                    loss = loss + head(inputs.to(device)).square().sum() * scale
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="filled by a kernel, which gets its number with the launch",
        ),
        valid(
            """
            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP
            from torch.utils.data import DataLoader, DistributedSampler

            dist.init_process_group("nccl")
            rank = dist.get_rank()
            dataset = torch.load("inputs.pt")
            loader = DataLoader(dataset, batch_size=64, sampler=DistributedSampler(dataset))
            model = DDP(nn.Linear(32, 1).cuda(rank), device_ids=[rank])
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(10):
                loader.sampler.set_epoch(epoch)
                count = 0
                for step, inputs in enumerate(loader):
                    loss = model(inputs.cuda(rank)).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    count += len(inputs)
                    if step % 100 == 0:
                        seen = torch.tensor(count, device=rank)
                        dist.all_reduce(seen)
                        if rank == 0:
                            print(step, seen.item())
                total = torch.tensor(count, device=rank)
                dist.all_reduce(total)
            """,
            because="at the logging interval, and once per epoch",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Masked(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.net = nn.Linear(32, 2)
                    self.floor = None

                def forward(self, inputs):
                    if self.floor is None:
                        self.floor = torch.tensor(-1e4, device=inputs.device)
                    return torch.maximum(self.net(inputs), self.floor)


            model = Masked().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="made at the first step and kept",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Sentences(Dataset):
                def __init__(self, path):
                    with open(path) as file:
                        self.rows = [[int(token) for token in line.split()] for line in file]

                def __len__(self):
                    return len(self.rows)

                def __getitem__(self, index):
                    return self.rows[index]


            model = nn.EmbeddingBag(32000, 1).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            loader = DataLoader(Sentences("tokens.txt"), batch_size=64, collate_fn=list)
            for rows in loader:
                tokens = torch.tensor([token for row in rows for token in row], device="cuda")
                loss = model(tokens[None]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a batch of data, which has to be moved",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Focal(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.net = nn.Linear(32, 1)

                def forward(self, inputs):
                    gamma = torch.tensor(2.0, device=inputs.device)
                    return self.net(inputs).sigmoid() ** gamma


            model = torch.compile(Focal().cuda())
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a constant of a compiled model is part of the compiled code",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            def smallest(values):
                if torch.isnan(values).all():
                    return torch.tensor(0.0, device=values.device)
                return values[~torch.isnan(values)].min()


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = smallest(model(inputs.cuda()))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="only for a step without a number",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1)
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = torch.tensor(0.0, device="cpu") + model(inputs).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="no GPU is involved",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class MaskedLoss(nn.Module):
                def forward(self, scores, mask):
                    if not torch.any(mask):
                        return torch.tensor(0.0, device=scores.device, requires_grad=True)
                    return (scores * mask).sum() / mask.sum()


            model = nn.Linear(32, 1).cuda()
            criterion = MaskedLoss()
            optimizer = torch.optim.AdamW(model.parameters())
            loader = DataLoader(torch.load("samples.pt"), batch_size=64)
            for inputs, mask in loader:
                loss = criterion(model(inputs.cuda()), mask.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="only for a batch that there is nothing to learn from",
        ),
        valid(
            """
            import torch
            from transformers import Trainer


            class CountingTrainer(Trainer):
                counts = {"train": {}, "eval": {}}

                def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                    loss = model(**inputs).loss
                    self.count(loss, "train" if model.training else "eval")
                    return loss

                def count(self, loss, phase):
                    if "steps" not in self.counts[phase]:
                        self.counts[phase]["steps"] = torch.tensor(0, device=loss.device)
                    self.counts[phase]["steps"] += 1
            """,
            because="made where it is missing, and kept under its name",
        ),
        valid(
            """
            import torch
            from torch import nn


            class Normalized(nn.Module):
                def __init__(self, model, width, height):
                    super().__init__()
                    self.model, self.width, self.height = model, width, height

                def forward(self, images):
                    boxes = self.model(images)
                    return boxes / torch.tensor([1.0, 2.0], device=boxes.device)
            """,
            because="a model as it is exported, which nobody trains",
            entry="export_onnx.py",
            others={
                "train.py": """
                import torch

                from export_onnx import Normalized


                def train(model, optimizer, loader):
                    for images, boxes in loader:
                        loss = (model(images.cuda()) - boxes.cuda()).abs().mean()
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                    return Normalized
                """
            },
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for upload in project.uploads:
            context = upload.context
            ordinary = context.routine and not _compiled(context) and not _for_wrong_values(context)
            if context.hot and ordinary and context.may_use_gpu and _is_few_numbers(upload.value):
                yield self.finding(
                    upload,
                    f"{quote(upload.text)} copies a value from the host to the GPU {context.frequency.phrase}, and "
                    "the host waits for it",
                    help=_advice(upload),
                    confidence=_certainty(upload),
                )

    def fix(self, finding: Finding) -> Fix | None:
        upload = finding.subject
        assert isinstance(upload, Upload)
        return Fix(Applicability.DISPLAY, _advice(upload))

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_copies(evidence, finding.site)


def _is_few_numbers(value: Value) -> bool:
    """Whether it is a number, or a list whose numbers the program text lists one by one."""
    if isinstance(value, Tuple):
        return all(_is_few_numbers(item) for item in value.items)
    return all(_is_number(option) for option in options(value))


def _is_number(value: Value) -> bool:
    number = value.value if isinstance(value, Const) else value.default if isinstance(value, Option) else None
    return isinstance(number, int | float) or (isinstance(value, Host) and value.kind in NUMBERS)


def _is_constant(value: Value) -> bool:
    return isinstance(value, Const) or (isinstance(value, Tuple) and all(_is_constant(item) for item in value.items))


def _certainty(upload: Upload) -> Confidence:
    """How sure it is that the device is a GPU."""
    if upload.device_proved:
        return Confidence.HIGH
    return Confidence.MEDIUM if upload.context.entry.cuda is Known.YES else Confidence.LOW


def _compiled(context: Context) -> bool:
    """Whether it runs in the forward pass of a model where models are compiled."""
    return context.entry.wants_fixed_shapes and any(name.endswith(".forward") for name in context.path)


def _for_wrong_values(context: Context) -> bool:
    """Whether a step gets there only with values that are no numbers."""
    return any(guard.in_step and guard.asked.mentions(SEARCH_FOR_NAN) for guard in context.guards)


def _advice(upload: Upload) -> str:
    if _is_constant(upload.value):
        return "Make it once before the loop, or fill it on the device: `torch.zeros`, `torch.full`"
    return "Fill it on the device: `torch.full((), value, device=device)`"
