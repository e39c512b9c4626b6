from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, valid
from trainlint.probe import thresholds
from trainlint.probe.evidence import Evidence
from trainlint.probe.figures import GIB
from trainlint.probe.judges import judge_condition
from trainlint.probe.verdict import Measurement, Source, Verdict
from trainlint.semantics.project import Project

VARIABLES = frozenset({"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"})
"""What the allocator of device memory reads its settings from, under its present and former names."""


class AllocatorSettings(Rule):
    """Settings of the memory allocator are made after it has read them.

    ## What it does
    Reports PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF that a training program sets in its own environment where
    something lies on a CUDA device already.

    ## Why it is slow
    The allocator reads the variable once, the first time that it is needed, and never again: what is set later has no
    effect and no warning follows. What it was meant to mend, memory broken up into pieces that fit nothing, stays, and
    near the limit the allocator frees its cache and waits for the device again and again.

    ## When it is fine
    Where further processes are to inherit the variable.

    ## Example
    ```python
    model = Net().cuda()
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    ```

    ## Use instead
    ```console
    $ PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py
    ```
    or the assignment above `import torch`.

    ## Fix safety
    Advice without an edit: where the setting belongs depends on how the program starts, and it changes which memory the
    job takes.

    ## How the probe confirms it
    By the allocator's peaks: confirmed where memory is broken up although the setting stands there, with at least 1.5
    times as much reserved as allocated and at least 1 GiB more; refuted where the two are closer.

    ## References
    - PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (article 000), max_split_size_mb (article 003).
    - PyTorch, CUDA memory management: https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management
    - PyTorch's source: `AcceleratorAllocatorConfig::instance` in c10/core/AllocatorConfig.cpp and
      `CUDAAllocatorConfig::instance` in c10/cuda/CUDAAllocatorConfig.h read the environment in the initialization of a
      static variable: https://github.com/pytorch/pytorch/blob/main/c10/cuda/CUDAAllocatorConfig.h
    """

    code, name, family = "TL503", "allocator-settings", Family.MEMORY
    severity = Severity.INFO
    fix_class = Applicability.DISPLAY
    default = False
    confirmed_by = "reserved against allocated memory"
    examples = (
        invalid(
            """
            import os

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(4096, 4096).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"  # expect: TL503
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the model is on the GPU already",
        ),
        invalid(
            """
            import argparse
            import os

            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            def train(model, device, args):
                if args.split:
                    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = f"max_split_size_mb:{args.split}"  # expect: TL503
                optimizer = torch.optim.AdamW(model.parameters())
                for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                    loss = model(inputs.to(device)).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            def main():
                parser = argparse.ArgumentParser()
                parser.add_argument("--split", type=int)
                args = parser.parse_args()
                device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
                model = nn.Linear(4096, 4096)
                model.to(device)
                train(model, device, args)


            if __name__ == "__main__":
                main()
            """,
            because="whatever the option says, it comes after the move of the model",
        ),
        invalid(
            """
            import os


            def tune_allocator():
                os.environ.setdefault("PYTORCH_ALLOC_CONF", "garbage_collection_threshold:0.8")  # expect: TL503
            """,
            because="set by a helper in another file",
            entry="memory.py",
            others={
                "train.py": """
                import torch
                from torch import nn
                from torch.utils.data import DataLoader

                from memory import tune_allocator

                teacher = nn.Linear(32, 1).to("cuda")
                tune_allocator()
                model = nn.Linear(32, 1).to("cuda")
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                    inputs = inputs.to("cuda")
                    loss = (model(inputs) - teacher(inputs).detach()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                """
            },
        ),
        invalid(
            """
            import os

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            if torch.cuda.is_available():
                weights = torch.ones(10, device="cuda")
                os.environ.update({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})  # expect: TL503
            else:
                weights = torch.ones(10)
            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = (model(inputs.cuda()) * weights).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a tensor is made on the GPU in the same branch",
        ),
        valid(
            """
            import os

            os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(4096, 4096).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="set before torch is imported",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            criterion = nn.MSELoss().cuda()
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            model = nn.Linear(4096, 4096)
            os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
            model.to(device)
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = criterion(model(inputs.to(device)), inputs.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a question whether there is a GPU and a loss without parameters take no memory of it",
        ),
        valid(
            """
            import os
            import sys

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(4096, 4096)
            if "--cpu" in sys.argv:
                table = torch.load("table.pt")
            elif "--small" in sys.argv:
                table = torch.load("table.pt").cuda()
            else:
                os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
                table = torch.load("large.pt").cuda()
            model.cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(table, batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="another branch uses the GPU, this one not yet",
        ),
        valid(
            """
            import os

            import torch
            import torch.multiprocessing as mp
            from torch import nn
            from torch.utils.data import DataLoader


            def train(rank):
                os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
                model = nn.Linear(32, 1).to(f"cuda:{rank}")
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                    loss = model(inputs.to(f"cuda:{rank}")).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            if __name__ == "__main__":
                probe = torch.ones(1).cuda()
                os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
                mp.spawn(train, nprocs=8)
            """,
            because="other processes train, and get the variable from this one",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(4096, 4096).cuda()
            os.environ["TOKENIZERS_PARALLELISM"] = "false"
            print(os.environ.get("PYTORCH_CUDA_ALLOC_CONF"))
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="another variable; a question that sets nothing",
        ),
        valid(
            """
            import os

            os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"

            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            def train(model):
                os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
                optimizer = torch.optim.AdamW(model.parameters())
                for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64):
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            train(nn.Linear(4096, 4096).cuda())
            """,
            because="it was set in time as well",
        ),
        valid(
            """
            import argparse
            import os

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            parser = argparse.ArgumentParser()
            parser.add_argument("--device", default="cpu")
            args = parser.parse_args()
            table = torch.load("table.pt").to(args.device)
            os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for indices in DataLoader(torch.load("indices.pt"), batch_size=64):
                loss = model(table[indices].cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the first device is the user's choice",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        settings = [one for one in project.environment if one.name in VARIABLES]
        in_time = {(id(one.context.entry), one.name) for one in settings if not one.after_cuda}
        for setting in settings:
            entry = setting.context.entry
            matters = entry.trains and not entry.starts_processes and not entry.never_on_gpu
            if setting.after_cuda and matters and (id(entry), setting.name) not in in_time:
                yield self.finding(
                    setting,
                    f"{setting.name} is set after the allocator of the GPU's memory has read it, and has no effect",
                    help="Set it where the job is started, or before torch is imported",
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, "Set the variable on the command line of the job, or above `import torch`")

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        peak = evidence.memory_peak
        unmeasured = "the peaks of allocated and reserved memory were not measured; probe on a GPU"
        if peak is None or peak.allocated <= 0:
            return judge_condition(evidence, None, None, unmeasured=unmeasured)
        ratio, gap = peak.reserved / peak.allocated, peak.reserved - peak.allocated
        ratio_bound, gap_bound = thresholds.FRAGMENTATION_RATIO.value, thresholds.FRAGMENTATION_GAP.value
        figures = (
            Measurement("reserved to allocated memory", ratio, "x", Source.AGENT, ratio_bound),
            Measurement("reserved above allocated memory", gap / GIB, "GiB", Source.AGENT, gap_bound / GIB),
        )
        return judge_condition(
            evidence, None, ratio >= ratio_bound and gap >= gap_bound, figures, unmeasured=unmeasured
        )
