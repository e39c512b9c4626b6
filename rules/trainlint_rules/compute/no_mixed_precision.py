from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_condition
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Project
from trainlint.semantics.vocabulary import Confidence


class NoMixedPrecision(Rule):
    """Training on CUDA computes in float32 only.

    ## What it does
    Reports the step loop of a script that trains on CUDA, where nothing in the script, or in what it imports, names a
    lower precision: autocast, bfloat16, float16, TF32, or an option for one. One finding a script.

    ## Why it is slow
    The tensor cores of a GPU, which do most of its arithmetic, do not work on float32: matrix products run on the
    other cores, many times slower. Activations in bfloat16 also take half the memory, and half the time to move.

    ## When it is fine
    Small models, whose steps are bound by launches or by data; numerics that need float32; float64 on purpose.
    Frameworks that are told the precision elsewhere are not reported.

    ## Example
    ```python
    loss = criterion(model(inputs), targets)
    loss.backward()
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(inputs), targets)
    loss.backward()
    ```

    ## Fix safety
    Advice without edits: losses change, and whether they still converge is known by training.

    ## How the probe confirms it
    It leaves the verdict open: the cores that kernels ran on are not recorded. A run with autocast, compared with one
    without, tells.

    ## References
    - bf16 runs 1.5 to 2 times as fast in practice (articles 001 and 003).
    - PyTorch, Automatic Mixed Precision: https://docs.pytorch.org/docs/stable/amp.html
    """

    code, name, family = "TL401", "no-mixed-precision", Family.COMPUTE
    severity = Severity.INFO
    fix_class = Applicability.DISPLAY
    default = False
    confirmed_by = "FP32 kernels, no tensor cores"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):  # expect: TL401
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="float32 throughout",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Trainer:
                def __init__(self, model, loader):
                    self.device = torch.device("cuda")
                    self.model = model.to(self.device)
                    self.loader = loader
                    self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

                def fit(self, epochs):
                    for epoch in range(epochs):
                        for inputs in self.loader:  # expect: TL401
                            loss = self.model(inputs.to(self.device)).square().mean()
                            self.optimizer.zero_grad()
                            loss.backward()
                            self.optimizer.step()


            Trainer(nn.Linear(32, 1), DataLoader(torch.load("inputs.pt"), batch_size=64)).fit(10)
            """,
            because="a trainer that knows no precision",
        ),
        invalid(
            """
            def train_epoch(model, loader, optimizer):
                for inputs in loader:  # expect: TL401
                    loss = model(inputs.cuda(non_blocking=True)).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the loop in another file",
            entry="engine.py",
            others={
                "train.py": """
                import torch
                from torch import nn
                from torch.utils.data import DataLoader

                from engine import train_epoch

                model = nn.Linear(32, 1).cuda()
                optimizer = torch.optim.AdamW(model.parameters())
                loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
                for epoch in range(10):
                    train_epoch(model, loader, optimizer)
                """
            },
        ),
        invalid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            model = DistributedDataParallel(nn.Linear(32, 1).cuda(local_rank), device_ids=[local_rank])
            optimizer = torch.optim.AdamW(model.parameters())
            for step, inputs in enumerate(DataLoader(torch.load("inputs.pt"), batch_size=64)):  # expect: TL401
                loss = model(inputs.cuda(local_rank)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="on several GPUs",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="autocast",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            torch.set_float32_matmul_precision("high")
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="TF32 allowed",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            torch.backends.cuda.matmul.allow_tf32 = True
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="TF32 allowed in the older spelling",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda().to(torch.bfloat16)
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda().to(torch.bfloat16)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a model in bfloat16",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda().double()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda().double()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="float64 on purpose",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1)
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="training on a CPU",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from precision import context

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                with context():
                    loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="autocast in another file",
            others={
                "precision.py": """
                import torch


                def context():
                    return torch.amp.autocast("cuda", dtype=torch.bfloat16)
                """
            },
        ),
        valid(
            """
            import torch
            from accelerate import Accelerator
            from torch import nn
            from torch.utils.data import DataLoader

            accelerator = Accelerator()
            model = nn.Linear(32, 1)
            optimizer = torch.optim.AdamW(model.parameters())
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            for inputs in loader:
                loss = model(inputs.to("cuda")).square().mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            """,
            because="Accelerate is told the precision when it is launched",
        ),
        valid(
            """
            import torch
            from torch.utils.data import DataLoader
            from transformers import AutoModelForCausalLM

            model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for batch in DataLoader(torch.load("tokens.pt"), batch_size=8):
                batch = batch.cuda()
                loss = model(input_ids=batch, labels=batch).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a model that may come with a precision of its own",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for loop in project.first_step_loops():
            if loop.context.entry.computes_in_float32:
                yield self.finding(
                    loop,
                    "training computes in float32 only, which leaves the tensor cores of the GPU idle",
                    help="Run the forward pass under torch.autocast with bfloat16",
                    confidence=Confidence.MEDIUM,
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.DISPLAY,
            'Put the forward pass under `torch.autocast("cuda", dtype=torch.bfloat16)`; compare losses and step times',
        )

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        unmeasured = "the cores that kernels ran on are not recorded; compare with a run under autocast: --compare"
        return judge_condition(evidence, finding.site, None, unmeasured=unmeasured)
