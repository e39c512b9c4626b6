from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_condition
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import DoubleArithmetic, Project
from trainlint.semantics.vocabulary import Confidence

SAY_FLOAT = "Convert it where it is made: `.float()`, `dtype=torch.float32`, or `astype(np.float32)` in numpy"


class Float64OnDevice(Rule):
    """An array of numpy turns a step's arithmetic on the GPU into float64.

    ## What it does
    Reports `+`, `-`, `*`, `/` and kin, per training step, of a tensor on the GPU and one that was made of an array of
    numpy which holds float64 only because nothing gave it a type.

    ## Why it is slow
    numpy makes float64 where PyTorch makes float32, and a tensor keeps the type of the array that it is made of. Where
    it meets float32, the result is float64, and so is all that is computed from it, and the gradients on the way back.
    That is twice the memory traffic, and fewer results per clock: in NVIDIA's table of throughputs, 32 additions of
    float64 per clock and multiprocessor against 64 of float32 for compute capability 6.0, and 4 against 128 for 6.1.

    ## When it is fine
    Where the precision is asked for: a program that names `float64` or `double` anywhere, or sets the default type, is
    left alone. For single numbers, whose type gives way.

    ## Example
    ```python
    weights = torch.from_numpy(np.linspace(0, 1, 64)).cuda()
    for inputs in loader:
        loss = (model(inputs.cuda()).squeeze(1) * weights).mean()
    ```

    ## Use instead
    ```python
    weights = torch.from_numpy(np.linspace(0, 1, 64)).float().cuda()
    ```

    ## Fix safety
    Display: losses change in their last digits, and the type belongs where the array is made, which may be elsewhere.

    ## How the probe confirms it
    It leaves the verdict open: kernels are not told apart by their type. A run with `.float()`, compared by
    `trainlint probe --compare`, tells.

    ## References
    - PyTorch, torch.dtype, on which type arithmetic of different types has:
      https://docs.pytorch.org/docs/stable/tensor_attributes.html
    - NVIDIA, CUDA C++ Programming Guide, throughput of native arithmetic instructions:
      https://docs.nvidia.com/cuda/cuda-c-programming-guide/#arithmetic-instructions
    """

    code, name, family = "TL412", "float64-on-device", Family.COMPUTE
    fix_class = Applicability.DISPLAY
    confirmed_by = "step time, against a run with float32"
    examples = (
        invalid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, drop_last=True)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            weights = torch.from_numpy(np.linspace(0.0, 1.0, 64)).cuda()
            for inputs in loader:
                outputs = model(inputs.cuda()).squeeze(1)
                loss = (outputs.square() * weights).mean()  # expect: TL412
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="weights of a schedule that numpy made",
        ),
        invalid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            device = torch.device("cuda")
            loader = DataLoader(torch.load("images.pt"), batch_size=64)
            model = nn.Sequential(nn.Flatten(), nn.LazyLinear(1)).to(device)
            optimizer = torch.optim.AdamW(model.parameters())
            mean = torch.tensor(np.array([0.485, 0.456, 0.406]), device=device).view(1, 3, 1, 1)
            for images in loader:
                images = images.to(device) - mean  # expect: TL412
                loss = model(images.float()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a list of numbers, by way of numpy",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from noise import Noise

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            noise = Noise()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                outputs = model(inputs.cuda())
                loss = noise.add(outputs).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="noise that numpy draws at each step, in another file",
            others={
                "noise.py": """
                import numpy as np
                import torch


                class Noise:
                    def add(self, values):
                        drawn = torch.as_tensor(np.random.randn(64, 1)).to("cuda", non_blocking=True)
                        return values + drawn * 0.1  # expect: TL412
                """
            },
        ),
        invalid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Scaled(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 8)
                    self.scale = torch.from_numpy(np.ones(8)).cuda()

                def forward(self, inputs):
                    return self.layer(inputs.cuda()) / self.scale.unsqueeze(0)  # expect: TL412


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = Scaled().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="an attribute of a module",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, drop_last=True)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            schedule = np.linspace(0.0, 1.0, 64)
            first = torch.from_numpy(schedule).float().cuda()
            second = torch.tensor(schedule, dtype=torch.float32, device="cuda")
            third = torch.from_numpy(schedule.astype(np.float32)).cuda()
            fourth = torch.as_tensor(schedule).to("cuda", torch.float32)
            fifth = torch.cuda.FloatTensor(schedule)
            for inputs in loader:
                outputs = model(inputs.cuda()).squeeze(1)
                loss = (outputs.square() * first * second * third * fourth * fifth).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="converted, in whatever way",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, drop_last=True)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            weights = torch.from_numpy(np.linspace(0.0, 1.0, 64, dtype=np.float64)).cuda()
            exact = torch.arange(64).double().cuda()
            for inputs in loader:
                outputs = model(inputs.cuda()).squeeze(1).double()
                loss = (outputs.square() * weights * exact).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="asked for in so many words",
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
            schedule = torch.from_numpy(np.linspace(1.0, 0.1, 10_000)).cuda()
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean() * schedule[step]
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a single number of float64 gives way to the other's type",
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
            order = torch.from_numpy(np.array([3, 1, 2])).cuda()
            table = torch.from_numpy(np.arange(64)).cuda()
            for inputs in loader:
                outputs = model(inputs.cuda())
                loss = (outputs[order] * table[:1]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="whole numbers become no float64",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, drop_last=True)
            model = nn.Linear(32, 1)
            optimizer = torch.optim.AdamW(model.parameters())
            weights = torch.from_numpy(np.linspace(0.0, 1.0, 64))
            for inputs in loader:
                loss = (model(inputs).squeeze(1) * weights).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="on the CPU",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, drop_last=True)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            weights = torch.from_numpy(np.linspace(0.0, 1.0, 64)).cuda()
            for step, inputs in enumerate(loader):
                outputs = model(inputs.cuda()).squeeze(1)
                loss = outputs.square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 500 == 0:
                    print((outputs.detach() * weights).mean().item())
            """,
            because="every 500 steps",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            torch.set_default_dtype(torch.float64)
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, drop_last=True)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.LBFGS(model.parameters())
            weights = torch.from_numpy(np.linspace(0.0, 1.0, 64)).cuda()
            for inputs in loader:
                loss = (model(inputs.cuda()).squeeze(1) * weights).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the whole program computes in float64, as it says",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for work in project.double_arithmetic:
            if _is_per_step(work):
                yield self.finding(
                    work,
                    f"{quote(work.operand)} turns {quote(work.text)} into float64 {work.context.frequency.phrase}",
                    help=SAY_FLOAT,
                    confidence=Confidence.HIGH if work.value.proved else Confidence.MEDIUM,
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, SAY_FLOAT)

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        unmeasured = "kernels are not told apart by their type; compare with a run in float32: --compare"
        return judge_condition(evidence, finding.site, None, unmeasured=unmeasured)


def _is_per_step(work: DoubleArithmetic) -> bool:
    return work.context.hot and work.context.routine and work.context.may_use_gpu
