from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, ReplaceByPart, SetArgument
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_copies
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Project, Transfer
from trainlint.semantics.vocabulary import Place

SAME_VALUES = frozenset(
    f"torch.{name}"
    for name in ("zeros", "ones", "empty", "full", "eye", "zeros_like", "ones_like", "empty_like", "full_like")
)
"""Factories whose result does not depend on the device that computes it."""

OTHER_VALUES = frozenset(
    f"torch.{name}"
    for name in (
        "rand",
        "randn",
        "randint",
        "randperm",
        "rand_like",
        "randn_like",
        "randint_like",
        "arange",
        "linspace",
        "logspace",
    )
)
"""Factories that draw from the device's own random stream, or round differently on it."""

NO_DEVICE_FORM = frozenset(
    {
        "torch.tensor",
        "torch.Tensor",
        "torch.FloatTensor",
        "torch.LongTensor",
        "torch.cuda.FloatTensor",
        "torch.cuda.HalfTensor",
        "torch.cuda.LongTensor",
    }
)
"""Factories that copy from the host also with `device=`, or that take none: there is only advice."""

FACTORIES = SAME_VALUES | OTHER_VALUES | NO_DEVICE_FORM

PINS_OR_BINDS = ("requires_grad", "pin_memory", "out")
"""Arguments with which `device=` would mean something else, or fail."""


class CpuTensorThenCuda(Rule):
    """A tensor is made on the host and moved to the GPU, step after step.

    ## What it does
    Reports a factory call (`torch.zeros`, `torch.randn`, `torch.arange`, …) whose result is moved to the GPU at once by
    `.to(device)` or `.cuda()`, in code that runs at every training step; and `torch.cuda.FloatTensor(array)`, which
    copies a host array to the device.

    ## Why it is slow
    The host fills pageable memory, and the copy from it makes the host wait until the transfer is done. The GPU could
    have made the tensor itself with one small kernel, and the host would not have waited.

    ## When it is fine
    Set-up code that runs once; data that comes from a loader, which has to be moved; tensors that are used on the host
    before they are moved.

    ## Example
    ```python
    for images in loader:
        noise = torch.randn(images.size(0), 100).to(device)
    ```

    ## Use instead
    ```python
    for images in loader:
        noise = torch.randn(images.size(0), 100, device=device)
    ```

    ## Fix safety
    Safe for `zeros`, `ones`, `empty`, `full`, `eye` and the `*_like` of them, without `requires_grad`: the values are
    the same on every device. Unsafe for `rand*` and `randperm`, which then draw from the GPU's random stream, and for
    `arange`, `linspace` and `logspace`, whose rounding differs between devices. `torch.tensor(x)` and
    `torch.cuda.FloatTensor(…)` copy from the host either way, so there is advice only.

    ## How the probe confirms it
    By the host-to-device copies that a GPU trace shows under this line, and their share of the step.

    ## References
    - PyTorch performance tuning guide, "Create tensors directly on the target device":
      https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    - A step whose copies take 20 % of it counts as transfer bound (article 001).
    """

    code, name, family = "TL209", "cpu-tensor-then-cuda", Family.STEP
    fix_class = Applicability.SAFE
    confirmed_by = "copies from this line"
    examples = (
        invalid(
            """
            import torch
            from torch.utils.data import DataLoader

            model = torch.nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in DataLoader(torch.randn(64, 8), batch_size=8, pin_memory=True):
                inputs = inputs.cuda(non_blocking=True)
                noise = torch.randn(8, 8).type_as(inputs)  # expect: TL209
                mask = torch.ones(8, 8).to(inputs)  # expect: TL209
                loss = model(inputs * mask + noise).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="to where another tensor is, and to its type, which a device alone does not say",
        ),
        invalid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            dataset = torch.utils.data.TensorDataset(torch.randn(64, 8))
            loader = torch.utils.data.DataLoader(dataset, batch_size=8)
            for (inputs,) in loader:
                real = torch.ones(inputs.size(0), 1).cuda()  # expect: TL209
                loss = nn.functional.mse_loss(model(inputs.cuda()), real)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the GPU can write the ones itself",
            fixed="""
            import torch
            from torch import nn

            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            dataset = torch.utils.data.TensorDataset(torch.randn(64, 8))
            loader = torch.utils.data.DataLoader(dataset, batch_size=8)
            for (inputs,) in loader:
                real = torch.ones(inputs.size(0), 1, device="cuda")
                loss = nn.functional.mse_loss(model(inputs.cuda()), real)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn

            device = torch.device("cuda")


            class Generator(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.net = nn.Linear(16, 8)

                def forward(self, like):
                    noise = torch.randn(like.size(0), 16).to(device)  # expect: TL209
                    return self.net(noise)


            def train(model, loader, optimizer):
                for images in loader:
                    images = images.to(device)
                    loss = nn.functional.mse_loss(model(images), images)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            model = Generator().to(device)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            train(model, loader, torch.optim.Adam(model.parameters()))
            """,
            because="forward runs at every step",
            fixed="""
            import torch
            from torch import nn

            device = torch.device("cuda")


            class Generator(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.net = nn.Linear(16, 8)

                def forward(self, like):
                    noise = torch.randn(like.size(0), 16, device=device)
                    return self.net(noise)


            def train(model, loader, optimizer):
                for images in loader:
                    images = images.to(device)
                    loss = nn.functional.mse_loss(model(images), images)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            model = Generator().to(device)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            train(model, loader, torch.optim.Adam(model.parameters()))
            """,
        ),
        invalid(
            """
            import torch


            def reduce_mean(value):
                total = torch.tensor(value).cuda()  # expect: TL209
                torch.distributed.all_reduce(total)
                return total / torch.distributed.get_world_size()
            """,
            because="a number of the host is moved at every step, by a helper in another file than the loop",
            entry="metrics.py",
            others={
                "train.py": """
                import torch
                from torch import nn

                from metrics import reduce_mean

                torch.distributed.init_process_group("nccl")
                model = nn.Linear(8, 1).cuda()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
                for inputs in loader:
                    loss = model(inputs.cuda()).mean()
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    reduce_mean(0.5)
                """
            },
        ),
        invalid(
            """
            import numpy as np
            import torch
            from torch import nn

            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            for images in loader:
                valid = torch.cuda.FloatTensor(np.ones((images.size(0), 1)))  # expect: TL209
                loss = nn.functional.binary_cross_entropy_with_logits(model(images.cuda()), valid)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the array is made on the host and copied",
        ),
        valid(
            """
            import torch
            from torch import nn


            class Embeddings(nn.Module):
                def __init__(self, sizes):
                    super().__init__()
                    self.layers = nn.ModuleList(nn.Embedding(size, 8) for size in sizes)

                def forward(self, columns):
                    joined = torch.Tensor().to(columns.device)
                    for index, layer in enumerate(self.layers):
                        joined = torch.cat((joined, layer(columns[:, index])), dim=1)
                    more = torch.zeros(0, 8).to(columns.device)
                    return torch.cat((more, torch.tensor([]).to(columns.device), joined))


            model = Embeddings([10, 20]).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for columns in torch.utils.data.DataLoader(torch.randint(10, (64, 2)), batch_size=8):
                loss = model(columns.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="of a tensor without elements nothing is copied",
        ),
        valid(
            """
            import torch
            from accelerators import is_hpu_installed
            from torch import nn

            model = nn.Linear(8, 8).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
                loss = model(inputs.cuda()).square().mean()
                if is_hpu_installed():
                    loss = loss + torch.zeros(1).to("hpu")
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the device is another accelerator, about which the rule knows nothing",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            weights = torch.ones(8, 1).cuda()
            for inputs in loader:
                loss = (model(inputs.cuda()) * weights).mean()
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

            device = torch.device("cuda")
            model = nn.Linear(8, 1).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            for inputs in loader:
                target = torch.zeros(inputs.size(0), 1, device=device)
                loss = nn.functional.mse_loss(model(inputs.to(device)), target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="made on the device; the batch comes from a loader",
        ),
        valid(
            """
            import torch
            from torch import nn

            device = torch.device("cuda")
            model = nn.Linear(8, 8).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            for epoch in range(10):
                for inputs in loader:
                    loss = model(inputs.to(device)).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                with torch.no_grad():
                    sample = model(torch.randn(4, 8).to(device))
                torch.save(sample, f"sample_{epoch}.pt")
            """,
            because="once per epoch, to draw a sample",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            for inputs in loader:
                target = torch.zeros(inputs.size(0), 1).to("cpu")
                loss = nn.functional.mse_loss(model(inputs), target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="no device is involved",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Positions(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.width = width
                    self.table = None

                def renew(self, inputs):
                    if self.table is not None:
                        if self.table.size(0) >= inputs.size(1):
                            return
                    table = torch.arange(inputs.size(1)).unsqueeze(1).repeat(1, self.width)
                    self.table = table.to(inputs.device)

                def forward(self, inputs):
                    self.renew(inputs)
                    return inputs + self.table[: inputs.size(1)]


            model = nn.Sequential(Positions(32), nn.Linear(32, 1)).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="kept from step to step, and made anew for a longer batch only",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.optim import SGD

            device = "cuda" if torch.cuda.is_available() else "cpu"


            def check_gradients(make_model):
                model = make_model().to(device)
                optimizer = SGD(model.parameters(), lr=0.1)
                inputs = torch.randint(100, (2, 10)).to(device)
                model(inputs).mean().backward()
                optimizer.step()
                return all(parameter.grad is not None for parameter in model.parameters())
            """,
            because="one step of a model that is made for it, whoever calls it",
        ),
        valid(
            """
            import torch
            from torch import nn


            class Generator(nn.Module):
                def __init__(self, model):
                    super().__init__()
                    self.model = model

                @torch.no_grad()
                def forward(self, tokens, beams: int = 4):
                    order = torch.arange(tokens.size(0)).repeat(beams)
                    order = order.to(tokens.device)
                    return self.model(tokens)[order]


            def train(model, optimizer, loader):
                for tokens, labels in loader:
                    loss = nn.functional.cross_entropy(model(tokens.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="a forward pass without gradients trains nothing",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for transfer in project.transfers:
            made_here = transfer.factory in FACTORIES and not transfer.of_nothing
            hot = transfer.context.hot and transfer.context.may_use_gpu
            if made_here and transfer.target is Place.DEVICE and hot:
                yield self.finding(
                    transfer,
                    f"{quote(transfer.text)} makes a tensor on the host and copies it to the GPU at every step",
                    help="Make it on the device with `device=`, or once before the loop",
                )

    def fix(self, finding: Finding) -> Fix | None:
        transfer = finding.subject
        assert isinstance(transfer, Transfer)
        factory, made_by = transfer.factory, transfer.made_by
        if factory in NO_DEVICE_FORM or made_by is None or not transfer.device_text or _binds(transfer):
            advice = "Keep the value on the device, or build the tensor once before the loop"
            because = (
                "it copies from the host either way" if factory in NO_DEVICE_FORM else "`device=` may not go there"
            )
            return Fix(Applicability.DISPLAY, advice, because=because)
        safe = factory in SAME_VALUES
        return Fix(
            Applicability.SAFE if safe else Applicability.UNSAFE,
            f"Make the tensor with device={transfer.device_text}",
            (SetArgument(made_by, "device", transfer.device_text), ReplaceByPart(transfer.site, made_by)),
            because="" if safe else "the device may make other values than the host does",
        )

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_copies(evidence, finding.site)


def _binds(transfer: Transfer) -> bool:
    """Whether the factory was, or may have been, told something that `device=` does not go with."""
    arguments = transfer.factory_arguments
    return not arguments.complete or any(arguments.given(name) for name in PINS_OR_BINDS)
