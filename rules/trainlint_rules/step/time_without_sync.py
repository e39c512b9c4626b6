from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, RelatedSite, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.semantics.project import Project
from trainlint.semantics.vocabulary import Confidence, Known

ON_THE_DEVICE = "Time it by `torch.cuda.Event`s, or call `torch.cuda.synchronize()` before each reading of the clock"


class TimeWithoutSync(Rule):
    """A clock of the host times work of the GPU, and nothing waits for that work before the clock is read.

    ## What it does
    Reports the later of two readings of `time.time()`, `time.perf_counter()` and kin whose difference is taken, where a
    model's forward, a backward pass or another computation on the GPU stands between them, and nothing that waits for
    the GPU.

    ## Why it is slow
    It is not slow, but misleads whoever makes the code fast: the GPU is only given its work, and the host goes on at
    once. What is measured is the time to launch the kernels, and whatever waits for the GPU next, such as a `.item()`
    further down, seems to be what takes the time.

    ## When it is fine
    Where the launches themselves are what is to be timed. Times of a whole epoch, or of many steps, to which what the
    last step leaves unfinished adds nothing that counts; these are not reported, nor is code that reads a value from
    the GPU, or copies a batch to it, between the readings, since that waits.

    ## Example
    ```python
    start = time.perf_counter()
    outputs = model(images)
    elapsed = time.perf_counter() - start
    ```

    ## Use instead
    In a benchmark:
    ```python
    torch.cuda.synchronize()
    start = time.perf_counter()
    outputs = model(images)
    torch.cuda.synchronize()
    elapsed = time.perf_counter() - start
    ```
    In a training loop, without making the host wait at every step:
    ```python
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    outputs = model(images)
    end.record()
    if step % 100 == 0:
        end.synchronize()
        elapsed = start.elapsed_time(end) / 1e3
    ```

    ## Fix safety
    Advice without edits: what waits for the GPU changes how fast the code runs, so that it has to be chosen with regard
    to where the code stands.

    ## How the probe confirms it
    It does not: it measures what code takes, and not what the code says that it takes. The time of a step by the probe
    is one to compare with.

    ## References
    - PyTorch, CUDA semantics, asynchronous execution, by which time measurements without synchronizations are not
      accurate: https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
    - PyTorch, torch.cuda.Event: https://docs.pytorch.org/docs/stable/generated/torch.cuda.Event.html
    """

    code, name, family = "TL221", "time-without-sync", Family.STEP
    severity = Severity.INFO
    fix_class = Applicability.DISPLAY
    default = False
    examples = (
        invalid(
            """
            import time

            import torch
            from torchvision.models import resnet50

            model = resnet50().cuda().eval()
            images = torch.randn(64, 3, 224, 224, device="cuda")
            with torch.no_grad():
                start = time.perf_counter()
                outputs = model(images)
                print(f"{time.perf_counter() - start:.4f} s a batch")  # expect: TL221
            """,
            because="a forward pass, which has only been launched",
        ),
        invalid(
            """
            import time

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, pin_memory=True)
            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            forward_time = backward_time = 0.0
            for inputs in loader:
                inputs = inputs.cuda(non_blocking=True)
                t0 = time.time()
                loss = model(inputs).square().mean()
                t1 = time.time()  # expect: TL221
                optimizer.zero_grad()
                loss.backward()
                t2 = time.time()  # expect: TL221
                forward_time += t1 - t0
                backward_time += t2 - t1
                optimizer.step()
            print(forward_time, backward_time)
            """,
            because="the parts of a training step, one by one",
        ),
        invalid(
            """
            import torch
            from torch import nn

            from timing import timed


            class Block(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

                def forward(self, tokens):
                    return tokens + self.layers(tokens)


            block = Block(1024).to("cuda")
            tokens = torch.randn(8, 2048, 1024, device="cuda")
            outputs, seconds = timed(block, tokens)
            print(seconds)
            """,
            because="in a helper of another file, which is given the model",
            others={
                "timing.py": """
                from timeit import default_timer as timer


                def timed(function, *arguments):
                    start = timer()
                    result = function(*arguments)
                    end = timer()  # expect: TL221
                    return result, end - start
                """
            },
        ),
        invalid(
            """
            import datetime
            import time

            import torch

            a = torch.randn(4096, 4096, device="cuda")
            b = torch.randn(4096, 4096, device="cuda")
            started = time.monotonic()
            for _ in range(10):
                c = torch.matmul(a, b)
            per_product = (time.monotonic() - started) / 10  # expect: TL221
            started = datetime.datetime.now()
            d = a @ b
            took = datetime.datetime.now() - started  # expect: TL221
            print(per_product, took)
            """,
            because="matrix products, again and again or once",
        ),
        valid(
            """
            import time

            import torch
            from torchvision.models import resnet50

            model = resnet50().cuda().eval()
            images = torch.randn(64, 3, 224, 224, device="cuda")
            with torch.no_grad():
                torch.cuda.synchronize()
                start = time.perf_counter()
                outputs = model(images)
                torch.cuda.synchronize()
                print(f"{time.perf_counter() - start:.4f} s a batch")
            """,
            because="synchronized before each reading",
        ),
        valid(
            """
            import time

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, pin_memory=True)
            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                inputs = inputs.cuda(non_blocking=True)
                start = time.time()
                loss = model(inputs).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                value = loss.item()
                print(value, time.time() - start)
            """,
            because="reading the loss waits for the GPU",
        ),
        valid(
            """
            import time

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, pin_memory=True)
            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(10):
                start = time.time()
                for step, inputs in enumerate(loader):
                    loss = model(inputs.cuda(non_blocking=True)).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                print(f"epoch {epoch}: {time.time() - start:.1f} s")
            """,
            because="the time of an epoch, to which the last step's end adds nothing",
        ),
        valid(
            """
            import time

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, pin_memory=True)
            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            data_time = batch_time = 0.0
            end = time.time()
            for inputs in loader:
                data_time += time.time() - end
                loss = model(inputs.cuda(non_blocking=True)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                batch_time += time.time() - end
                end = time.time()
            print(data_time, batch_time)
            """,
            because="from turn to turn of a loop, where what one leaves out is in the next",
        ),
        valid(
            """
            import time

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            started = time.time()
            for step, inputs in enumerate(loader):
                top = time.time()
                inputs = inputs.cuda()
                loss = model(inputs).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                spent = time.time() - top
                if step % 100 == 99:
                    print((time.time() - started) / 100)
                    started = time.time()
            """,
            because="the copy of each batch waits for the step before; the time of 100 steps holds all of them",
        ),
        valid(
            """
            import time

            import torch
            from torch import nn


            def cost(module, inputs, device=None):
                if device is not None and device.type == "cuda":
                    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                    start.record()
                    outputs = module(inputs)
                    end.record()
                    torch.cuda.synchronize(device)
                    return outputs, start.elapsed_time(end)
                began = time.perf_counter()
                outputs = module(inputs)
                return outputs, (time.perf_counter() - began) * 1e3


            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            print(cost(nn.Linear(512, 512).to(device), torch.randn(256, 512, device=device), device))
            """,
            because="what the other branch is for: a CPU",
        ),
        valid(
            """
            import time

            import torch
            from torch import nn

            model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
            inputs = torch.randn(256, 512)
            start = time.perf_counter()
            outputs = model(inputs)
            print(time.perf_counter() - start)
            """,
            because="on the CPU, which has done the work when the call returns",
        ),
        valid(
            """
            import time

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 10).cuda()
            start = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            batches = iter(loader)
            asked = time.time()
            inputs = next(batches)
            waited = time.time() - asked
            inputs = inputs.cuda()
            start.record()
            outputs = model(inputs)
            end.record()
            end.synchronize()
            print(waited, start.elapsed_time(end))
            """,
            because="the wait for data is the host's own; the GPU's work is timed by events",
        ),
        valid(
            """
            import time

            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            @torch.no_grad()
            def evaluate(model, loader):
                hits = 0
                for images, labels in loader:
                    outputs = model(images.cuda(non_blocking=True))
                    hits += (outputs.argmax(1) == labels.cuda(non_blocking=True)).sum().item()
                return hits


            model = nn.Linear(32, 10).cuda()
            dataset = torch.utils.data.TensorDataset(torch.load("images.pt"), torch.load("labels.pt"))
            start = time.time()
            hits = evaluate(model, DataLoader(dataset, batch_size=64, pin_memory=True))
            print(hits, time.time() - start)
            """,
            because="the function between the readings waits inside",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for timing in project.timings:
            if timing.context.may_use_gpu:
                on_cuda = timing.context.entry.cuda is Known.YES
                yield self.finding(
                    timing,
                    f"{quote(timing.text)} is read before the GPU has done {quote(timing.work)}: nothing waits for it",
                    help=ON_THE_DEVICE,
                    confidence=Confidence.HIGH if on_cuda else Confidence.MEDIUM,
                    related=(
                        RelatedSite(timing.start, "the time is counted from here"),
                        RelatedSite(timing.work_site, "what the time leaves out"),
                    ),
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, ON_THE_DEVICE)
