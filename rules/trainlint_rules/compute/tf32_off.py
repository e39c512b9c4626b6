from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, valid
from trainlint.semantics.project import Project
from trainlint.semantics.vocabulary import Confidence


class Tf32Off(Rule):
    """While autocast is switched off, training on CUDA multiplies float32 matrices without TF32.

    ## What it does
    Reports the step loop of a script that has autocast, but leaves it switched off by default, and that trains on CUDA,
    where nothing in the script, or in what it imports, says that matrix products may use TF32:
    `set_float32_matmul_precision`, `allow_tf32`, `fp32_precision`. One finding a script. Of scripts that name no lower
    precision at all, TL401 speaks, whose advice saves more.

    ## Why it is slow
    TF32 rounds the inputs of a float32 product to 10 bits of mantissa, and lets the tensor cores of Ampere and newer
    GPUs compute it. PyTorch does so for convolutions by default, but not for matrix products, which then run on the
    slower cores.

    ## When it is fine
    GPUs older than Ampere; numerics that need all bits of float32; training under autocast, whose products are not in
    float32.

    ## Example
    ```python
    parser.add_argument("--amp", action="store_true")
    with torch.autocast("cuda", enabled=args.amp):
        loss = criterion(model(inputs), targets)
    ```

    ## Use instead
    ```python
    torch.set_float32_matmul_precision("high")
    with torch.autocast("cuda", enabled=args.amp):
        loss = criterion(model(inputs), targets)
    ```

    ## Fix safety
    Advice without edits: losses change in their last digits, and at which line it holds for all products is the
    author's to know.

    ## How the probe confirms it
    It does not: the finding follows from the code alone.

    ## References
    - Mixed precision, tensor cores (articles 001 and 003).
    - PyTorch, CUDA semantics, TF32: https://docs.pytorch.org/docs/stable/notes/cuda.html
    - PyTorch, torch.set_float32_matmul_precision:
      https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html
    """

    code, name, family = "TL406", "tf32-off", Family.COMPUTE
    severity = Severity.INFO
    fix_class = Applicability.DISPLAY
    default = False
    torch = ((1, 12), None)
    examples = (
        invalid(
            """
            import argparse

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            parser = argparse.ArgumentParser()
            parser.add_argument("--amp", action="store_true")
            args = parser.parse_args()
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):  # expect: TL406
                with torch.autocast("cuda", enabled=args.amp):
                    loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            because="float32 throughout, unless someone asks for autocast",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Trainer:
                def __init__(self, model, loader, amp=False):
                    self.amp = amp
                    self.device = torch.device("cuda")
                    self.model = model.to(self.device)
                    self.loader = loader
                    self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

                def fit(self, epochs):
                    for epoch in range(epochs):
                        for inputs in self.loader:  # expect: TL406
                            with torch.autocast("cuda", enabled=self.amp):
                                loss = self.model(inputs.to(self.device)).square().mean()
                            self.optimizer.zero_grad()
                            loss.backward()
                            self.optimizer.step()


            Trainer(nn.Linear(32, 1), DataLoader(torch.load("inputs.pt"), batch_size=64)).fit(10)
            """,
            because="a trainer whose switch is off by default",
        ),
        invalid(
            """
            import torch


            def train_epoch(model, loader, optimizer, use_amp=False):
                for inputs in loader:  # expect: TL406
                    with torch.autocast("cuda", enabled=use_amp):
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
            for step, inputs in enumerate(DataLoader(torch.load("inputs.pt"), batch_size=64)):  # expect: TL406
                with torch.autocast("cuda", enabled=False):
                    loss = model(inputs.cuda(local_rank)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="on several GPUs, with autocast switched off for good",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="no lower precision is named at all, of which TL401 speaks",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 1).cuda().to(torch.bfloat16)
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                with torch.autocast("cuda", enabled=False):
                    loss = model(inputs.cuda().to(torch.bfloat16)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="autocast is switched off for a model in bfloat16",
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
            if loop.context.entry.leaves_autocast_off:
                yield self.finding(
                    loop,
                    "while autocast is switched off, training multiplies float32 matrices without TF32, which leaves "
                    "the tensor cores of the GPU idle",
                    help='Call torch.set_float32_matmul_precision("high") before training',
                    confidence=Confidence.MEDIUM,
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.DISPLAY,
            'Call `torch.set_float32_matmul_precision("high")` where the script starts; compare losses and step times',
        )
