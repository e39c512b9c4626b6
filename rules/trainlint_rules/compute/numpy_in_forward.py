from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_syncs
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Call, Project
from trainlint.semantics.vocabulary import GuardKind


class NumpyInForward(Rule):
    """A model's forward computes with numpy on values of the GPU.

    ## What it does
    Reports functions of numpy that are given what `.cpu().numpy()` made of a device value, in a forward that runs per
    training step, or in what it calls.

    ## Why it is slow
    Everything that the GPU has queued must be finished before the values can be copied, and while the CPU computes,
    the GPU has nothing to do. What comes back is copied again, autograd knows nothing of it, and `torch.compile` has to
    break its graph.

    ## When it is fine
    Shapes and other numbers of the host, evaluation, every N steps; algorithms that torch does not have and the model
    cannot do without.

    ## Example
    ```python
    def forward(self, inputs):
        hidden = self.layer(inputs)
        limit = np.percentile(hidden.detach().cpu().numpy(), 90)
        return hidden.clamp(max=float(limit))
    ```

    ## Use instead
    ```python
    def forward(self, inputs):
        hidden = self.layer(inputs)
        limit = torch.quantile(hidden.detach(), 0.9)
        return hidden.minimum(limit)
    ```

    ## Fix safety
    Advice without edits: torch's counterparts have other names, arguments and types, and gradients flow through them.

    ## How the probe confirms it
    By the host's waits at this line, from a GPU trace. Where the values are fetched on another line, the wait is that
    line's, and the verdict stays open.

    ## References
    - Many short stalls in the step come from scattered host syncs (article 000).
    - PyTorch, avoid unnecessary CPU-GPU synchronization:
      https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
    """

    code, name, family = "TL415", "numpy-in-forward", Family.COMPUTE
    fix_class = Applicability.DISPLAY
    confirmed_by = "sync stacks"
    examples = (
        invalid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 8)

                def forward(self, inputs):
                    hidden = self.layer(inputs)
                    scores = hidden.detach().cpu().numpy()
                    limit = np.percentile(scores, 90)  # expect: TL415
                    return hidden.clamp(max=float(limit))


            model = Model().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a threshold by numpy",
        ),
        invalid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 8)

                def forward(self, inputs):
                    hidden = self.layer(inputs)
                    order = np.argsort(hidden.detach().cpu().numpy()[0])  # expect: TL415
                    return hidden[:, torch.from_numpy(order.copy()).to(hidden.device)]


            model = Model().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="an order by numpy, taken back to the GPU",
        ),
        invalid(
            """
            import numpy as np


            def smoothed(attention, width=3):
                weights = attention.detach().to("cpu").numpy()
                return np.convolve(weights[0], np.ones(width) / width, mode="same")  # expect: TL415
            """,
            because="in a helper of another file that forward calls",
            entry="smoothing.py",
            others={
                "train.py": """
                import torch
                from torch import nn
                from torch.utils.data import DataLoader

                from smoothing import smoothed


                class Model(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.layer = nn.Linear(32, 8)

                    def forward(self, inputs):
                        hidden = self.layer(inputs)
                        return hidden * torch.as_tensor(smoothed(hidden), device=hidden.device, dtype=hidden.dtype)


                model = Model().cuda()
                optimizer = torch.optim.AdamW(model.parameters())
                for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                """
            },
        ),
        invalid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 8)

                def forward(self, inputs):
                    hidden = self.layer(inputs)
                    kept = hidden.relu().data.cpu().numpy()
                    share = np.count_nonzero(kept) / kept.size  # expect: TL415
                    return hidden / max(share, 0.1)


            model = Model().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a count of what is not zero",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 8)

                def forward(self, inputs):
                    hidden = self.layer(inputs) / np.sqrt(inputs.shape[-1])
                    width = int(np.prod(hidden.shape[1:]))
                    return hidden.reshape(-1, width)


            model = Model().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="arithmetic on shapes",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 8)

                def forward(self, inputs):
                    hidden = self.layer(inputs)
                    if np.random.rand() < 0.5:
                        hidden = hidden.flip(-1)
                    return hidden + torch.as_tensor(np.linspace(0, 1, 8), device=hidden.device, dtype=hidden.dtype)


            model = Model().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="numpy's own numbers",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 8)

                def forward(self, inputs):
                    hidden = self.layer(inputs)
                    if not self.training:
                        scores = hidden.cpu().numpy()
                        print(np.percentile(scores, 90))
                    return hidden


            model = Model().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="in evaluation mode only",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 8)

                def forward(self, inputs):
                    hidden = self.layer(inputs)
                    limit = torch.quantile(hidden.detach(), 0.9)
                    return hidden.minimum(limit)


            model = Model().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the same in torch, on the device",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 8)

                def forward(self, inputs):
                    hidden = self.layer(inputs)
                    scores = hidden.detach().numpy()
                    return hidden.clamp(max=float(np.percentile(scores, 90)))


            model = Model()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a model on the CPU",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 8).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(10):
                scores = []
                for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                    outputs = model(inputs.cuda())
                    loss = outputs.square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    scores.append(outputs.detach())
                print(np.percentile(torch.cat(scores).cpu().numpy(), 90))
            """,
            because="once per epoch, outside of any forward",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Signals(Dataset):
                def __init__(self, path):
                    self.signals = np.load(path)

                def __len__(self):
                    return len(self.signals)

                def __getitem__(self, index):
                    signal = torch.from_numpy(self.signals[index])
                    return torch.from_numpy(np.fft.rfft(signal.numpy()).real.copy()).float()


            model = nn.Linear(33, 8).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(Signals("signals.npy"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="numpy where samples are made",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 8)
                    self.calls = 0

                def forward(self, inputs):
                    hidden = self.layer(inputs)
                    if self.calls % 1000 == 0:
                        print(np.percentile(hidden.detach().cpu().numpy(), 90))
                    self.calls += 1
                    return hidden


            model = Model().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="every thousand steps",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in project.calls:
            if call.name.startswith("numpy.") and _takes_part_in_forward(call):
                yield self.finding(
                    call,
                    f"{quote(call.text)} computes on the CPU with values of the GPU, {call.context.frequency.phrase}",
                    help="Compute with torch, on the device",
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.DISPLAY,
            "Use torch's counterpart on the tensor itself: `torch.quantile`, `torch.argsort`, `torch.count_nonzero`",
        )

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_syncs(evidence, finding.site)


def _takes_part_in_forward(call: Call) -> bool:
    """Whether an ordinary training step gets there by way of a model's forward."""
    context = call.context
    ordinary = context.hot and context.routine and not context.under(GuardKind.NOT_DEVICE)
    return ordinary and any(name.endswith(".forward") for name in context.path)
