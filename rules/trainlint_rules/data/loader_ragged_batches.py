from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, SetArgument
from trainlint.lint.finding import Family, Finding, RelatedSite, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe import thresholds
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_condition
from trainlint.probe.verdict import Measurement, Source, Verdict
from trainlint.semantics.duties import Duty
from trainlint.semantics.project import Call, Loader, Project
from trainlint.semantics.values import NONE, Instance, Object, options

TORCH_LOADER = "torch.utils.data.DataLoader"
POSITION = 8
"""Of `drop_last` among DataLoader's parameters."""

COMPILED = ("torch.compile", "torch.nn.Module.compile")
MARKED = ("torch._dynamo.mark_dynamic", "torch._dynamo.maybe_mark_dynamic")


class LoaderRaggedBatches(Rule):
    """The last batch of each epoch is smaller, and a compiled model has to be compiled for it again.

    ## What it does
    Reports training loaders without `drop_last=True` in scripts that train a compiled model (`torch.compile` or
    `model.compile()`) without `dynamic=True`.

    ## Why it is slow
    Compiled code is made for the shapes that it first saw. Where the data does not divide evenly, the last batch of the
    first epoch has another shape: the step waits for a second compilation, which takes as long as many steps, and what
    comes out of it allows for any batch size and may be slower from there on. With CUDA graphs
    (`mode="reduce-overhead"`) each shape is recorded apart.

    ## When it is fine
    Datasets whose length the batch size divides; shapes that are marked (`torch._dynamo.mark_dynamic`) or compiled as
    dynamic from the start; models that are compiled only if somebody asks for it; evaluation, where no sample may be
    left out. With BatchNorm, a last batch of very few samples makes for noisy statistics besides.

    ## Example
    ```python
    model = torch.compile(model)
    loader = DataLoader(dataset, batch_size=256, shuffle=True)
    ```

    ## Use instead
    ```python
    model = torch.compile(model)
    loader = DataLoader(dataset, batch_size=256, shuffle=True, drop_last=True)
    ```

    ## Fix safety
    Unsafe: up to a batch of samples is left out of each epoch (other ones each time where the loader shuffles), the
    number of steps changes, and an epoch over fewer samples than a batch has no step at all.

    ## How the probe confirms it
    By the compilations after the warm-up, if an epoch ended in the measured steps.

    ## References
    - drop_last=True for fixed shapes (articles 000, 001, 003); dynamic shapes recompile and can lose (article 000).
    - PyTorch, dynamic shapes: https://docs.pytorch.org/docs/stable/torch.compiler_dynamic_shapes.html
    """

    code, name, family = "TL123", "loader-ragged-batches", Family.DATA
    severity, default = Severity.INFO, False
    fix_class = Applicability.UNSAFE
    confirmed_by = "recompilation count"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            images = datasets.CIFAR10("data", transform=transforms.ToTensor())
            loader = DataLoader(images, batch_size=256, shuffle=True, num_workers=4)  # expect: TL123
            model = torch.compile(nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).cuda())
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(10):
                for inputs, labels in loader:
                    loss = nn.functional.cross_entropy(model(inputs.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="50,000 images make 195 batches of 256 and one of 80",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            images = datasets.CIFAR10("data", transform=transforms.ToTensor())
            loader = DataLoader(images, batch_size=256, shuffle=True, num_workers=4, drop_last=True)
            model = torch.compile(nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).cuda())
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(10):
                for inputs, labels in loader:
                    loss = nn.functional.cross_entropy(model(inputs.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))

                def forward(self, inputs):
                    return self.layers(inputs)


            def train(device, batch_size):
                model = Net().to(device)
                model.compile(mode="reduce-overhead")
                optimizer = torch.optim.AdamW(model.parameters())
                loader = DataLoader(torch.load("inputs.pt"), batch_size, shuffle=True, drop_last=False)  # expect: TL123
                for epoch in range(10):
                    for inputs in loader:
                        loss = model(inputs.to(device)).square().mean()
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()


            train(torch.device("cuda"), 128)
            """,
            because="compiled in place, with CUDA graphs; False is written out",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))

                def forward(self, inputs):
                    return self.layers(inputs)


            def train(device, batch_size):
                model = Net().to(device)
                model.compile(mode="reduce-overhead")
                optimizer = torch.optim.AdamW(model.parameters())
                loader = DataLoader(torch.load("inputs.pt"), batch_size, shuffle=True, drop_last=True)
                for epoch in range(10):
                    for inputs in loader:
                        loss = model(inputs.to(device)).square().mean()
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()


            train(torch.device("cuda"), 128)
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn

            from loaders import training_batches

            model = nn.Linear(32, 1).cuda()
            compiled = torch.compile(model)
            optimizer = torch.optim.AdamW(model.parameters())
            loader = training_batches("inputs.pt")
            for epoch in range(10):
                for inputs in loader:
                    loss = compiled(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the loader comes from another file",
            others={
                "loaders.py": """
                import torch
                from torch.utils.data import DataLoader


                def training_batches(path):
                    return DataLoader(torch.load(path), batch_size=64, shuffle=True, pin_memory=True)  # expect: TL123
                """
            },
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
                    self.model = torch.compile(nn.Linear(32, 1))

                def training_step(self, batch, batch_idx):
                    return self.model(batch).square().mean()

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, shuffle=True)  # expect: TL123
            L.Trainer(accelerator="gpu", max_epochs=3).fit(Regression(), loader)
            """,
            because="the part of a LightningModule that computes is compiled",
            fixed="""
            import lightning as L
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Regression(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.model = torch.compile(nn.Linear(32, 1))

                def training_step(self, batch, batch_idx):
                    return self.model(batch).square().mean()

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            loader = DataLoader(
                torch.load("inputs.pt"),
                batch_size=64,
                shuffle=True,
                drop_last=True,
            )
            L.Trainer(accelerator="gpu", max_epochs=3).fit(Regression(), loader)
            """,
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, shuffle=True, drop_last=True)
            model = torch.compile(nn.Linear(32, 1).cuda())
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="all batches are of one size",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, shuffle=True)
            model = torch.compile(nn.Linear(32, 1).cuda(), dynamic=True)
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="compiled for any shape from the start",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, shuffle=True)
            model = torch.compile(nn.Linear(32, 1).cuda())
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                inputs = inputs.cuda()
                torch._dynamo.mark_dynamic(inputs, 0)
                loss = model(inputs).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the batch dimension is marked dynamic",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, shuffle=True)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="nothing is compiled",
        ),
        valid(
            """
            import argparse

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            parser = argparse.ArgumentParser()
            parser.add_argument("--compile", action="store_true")
            args = parser.parse_args()
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, shuffle=True)
            model = nn.Linear(32, 1).cuda()
            if args.compile:
                model = torch.compile(model)
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="compiled only if somebody asks for it",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            train_loader = DataLoader(torch.load("train.pt"), batch_size=64, shuffle=True, drop_last=True)
            test_loader = DataLoader(torch.load("test.pt"), batch_size=64)
            model = torch.compile(nn.Linear(32, 1).cuda())
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(10):
                for inputs in train_loader:
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                with torch.no_grad():
                    print(sum(model(inputs.cuda()).sum() for inputs in test_loader))
            """,
            because="an evaluation loader, which may leave no sample out",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import BatchSampler, DataLoader, RandomSampler

            dataset = torch.load("inputs.pt")
            batches = BatchSampler(RandomSampler(dataset), 64, drop_last=True)
            model = torch.compile(nn.Linear(32, 1).cuda())
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(dataset, batch_sampler=batches):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the batch sampler makes the batches",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            @torch.compile
            def augment(image):
                return image.flip(-1) * 1.1


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64, shuffle=True)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                augment(inputs[0])
            """,
            because="what is compiled is no model, and sees one sample at a time",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        marked = [call.context.entry for call in project.calls_of(*MARKED)]
        compiled = [call for call in project.calls_of(*COMPILED) if _is_compiled_model(call)]
        for loader in project.loaders:
            entry = loader.context.entry
            mine = [call for call in compiled if call.context.entry is entry]
            if mine and loader.trains and _may_end_ragged(loader) and entry not in marked:
                yield self.finding(
                    loader,
                    f"{quote(loader.text)} ends each epoch with a smaller batch, for which the model is compiled again",
                    help="Pass drop_last=True, or compile with dynamic=True",
                    related=tuple(RelatedSite(call.site, "what is compiled") for call in mine),
                )

    def fix(self, finding: Finding) -> Fix | None:
        loader = finding.subject
        if not isinstance(loader, Loader):
            return None
        message = "Pass drop_last=True"
        if loader.arguments.spread:
            return Fix(Applicability.DISPLAY, message)
        position = POSITION if loader.library == TORCH_LOADER else None
        return Fix(Applicability.UNSAFE, message, (SetArgument(loader.site, "drop_last", "True", position),))

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        loader = evidence.loader_at((finding.site,))
        count, bound = evidence.recompilations, thresholds.RECOMPILATIONS
        turned = loader is not None and loader.epoch_start_s is not None
        holds = count >= bound.value if count is not None and turned else None
        figures = () if count is None else (Measurement("compilations", count, bound.unit, Source.AGENT, bound.value),)
        unmeasured = "no epoch ended in the measured steps; probe with more --steps"
        return judge_condition(evidence, finding.site, holds, figures, unmeasured=unmeasured)


def _is_compiled_model(call: Call) -> bool:
    """Whether a model is compiled for fixed shapes, whoever starts the job."""
    model = call.receiver or next(iter(call.arguments.positional), call.arguments.value("model"))
    is_model = model is not None and any(
        isinstance(one, Instance) or (isinstance(one, Object) and one.type == "torch.nn.Module")
        for one in options(model)
    )
    fixed = call.arguments.absent("dynamic") or call.arguments.constant("dynamic") in (False, None)
    return is_model and fixed and not call.context.on_request


def _may_end_ragged(loader: Loader) -> bool:
    """Whether the loader makes its batches itself, keeps the last one, and nobody fills it up."""
    arguments = loader.arguments
    keeps = arguments.absent("drop_last") or arguments.constant("drop_last") is False
    batches = arguments.absent("batch_sampler") or arguments.value("batch_sampler") == NONE
    size = arguments.constant("batch_size")
    several = arguments.given("batch_size") and size != 1
    return keeps and batches and several and not loader.spared(Duty.FILL_BATCHES)
