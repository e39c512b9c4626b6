from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, RemoveArgument, SetArgument
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import MADE_NOWHERE, judge_condition
from trainlint.probe.verdict import Measurement, Source, Verdict
from trainlint.semantics.project import Call, Project, Wrapping
from trainlint.semantics.vocabulary import Confidence, Known

DISTRIBUTED_DATA_PARALLEL = "torch.nn.parallel.DistributedDataParallel"

STRATEGIES = (
    *(f"{package}.strategies.DDPStrategy" for package in ("pytorch_lightning", "lightning.fabric", "lightning")),
    *("pytorch_lightning.plugins.DDPPlugin", "ray.train.lightning.RayDDPStrategy"),
)
KEYWORD_HANDLERS = ("accelerate.DistributedDataParallelKwargs", "accelerate.utils.DistributedDataParallelKwargs")
TRAINING_ARGUMENTS = ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments")
TRAINERS = ("pytorch_lightning.Trainer", "lightning.Fabric")

KEYWORDS = {
    **dict.fromkeys((*STRATEGIES, *KEYWORD_HANDLERS), "find_unused_parameters"),
    **dict.fromkeys(TRAINING_ARGUMENTS, "ddp_find_unused_parameters"),
}
"""The keyword by which each of these switches the search on."""

STRATEGY_NAMES = {
    "ddp_find_unused_parameters_true": "ddp",
    "ddp_find_unused_parameters_true_fork": "ddp_fork",
    "ddp_find_unused_parameters_true_spawn": "ddp_spawn",
    "ddp_find_unused_parameters_true_notebook": "ddp_notebook",
}
"""Lightning's names for strategies that search, and the names of those that do not."""


class FindUnusedParameters(Rule):
    """DDP searches the graph for unused parameters at every step, though all are used.

    ## What it does
    Reports `find_unused_parameters=True` where the model's forward runs all of its submodules every time; also in
    Lightning's DDPStrategy and strategy names, Accelerate's DistributedDataParallelKwargs and HF TrainingArguments.
    The finding has low confidence where the code of the model is out of sight.

    ## Why it is slow
    After each forward DDP walks the whole autograd graph from the outputs to find parameters that will get no gradient.
    That is host time at every step, and a bitmap of used parameters is reduced over all ranks as well.

    ## When it is fine
    A forward that leaves submodules out under a condition, such as early exits, mixtures of experts, stochastic depth;
    losses that use some outputs only. With `static_graph=True` DDP does not search again.

    ## Example
    ```python
    model = DistributedDataParallel(model, device_ids=[rank], find_unused_parameters=True)
    ```

    ## Use instead
    ```python
    model = DistributedDataParallel(model, device_ids=[rank])
    ```
    or `static_graph=True` where the same parameters go unused in every step.

    ## Fix safety
    Unsafe: if a parameter does go unused in a step, DDP raises an error at the next one.

    ## How the probe confirms it
    By DDP's own statistics: no unused parameter in the measured steps.

    ## References
    - find_unused_parameters=True only where parameters really go unused (articles 000 and 003).
    - PyTorch, DistributedDataParallel:
      https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    """

    code, name, family = "TL304", "find-unused-parameters", Family.DISTRIBUTED
    fix_class = Applicability.UNSAFE
    confirmed_by = "no unused parameters in DDP's statistics"
    examples = (
        invalid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(8, 8)
                    self.head = nn.Linear(8, 1)

                def forward(self, inputs):
                    return self.head(torch.relu(self.body(inputs)))


            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            model = Net().cuda(local_rank)
            model = DistributedDataParallel(  # expect: TL304
                model, device_ids=[local_rank], find_unused_parameters=True
            )
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda(local_rank)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="both submodules run in every forward",
            fixed="""
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(8, 8)
                    self.head = nn.Linear(8, 1)

                def forward(self, inputs):
                    return self.head(torch.relu(self.body(inputs)))


            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            model = Net().cuda(local_rank)
            model = DistributedDataParallel(
                model, device_ids=[local_rank]
            )
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda(local_rank)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP

            from network import build

            torch.distributed.init_process_group("nccl")
            model = DDP(build().cuda(), find_unused_parameters=True)  # expect: TL304
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the model of the other file is a plain sequence",
            others={
                "network.py": """
                from torch import nn


                def build():
                    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
                """
            },
            fixed="""
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP

            from network import build

            torch.distributed.init_process_group("nccl")
            model = DDP(build().cuda())
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import torch
            from torchvision.models import resnet50

            torch.distributed.init_process_group("nccl")
            model = resnet50().cuda()
            model = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)  # expect: TL304
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in torch.randn(64, 8, 3, 224, 224):
                loss = model(images.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a library's ResNet uses all of its layers in every forward",
            fixed="""
            import torch
            from torchvision.models import resnet50

            torch.distributed.init_process_group("nccl")
            model = resnet50().cuda()
            model = torch.nn.parallel.DistributedDataParallel(model)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in torch.randn(64, 8, 3, 224, 224):
                loss = model(images.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import lightning as L
            import torch
            from lightning.pytorch.strategies import DDPStrategy


            class Net(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.body = torch.nn.Linear(8, 8)
                    self.head = torch.nn.Linear(8, 1)

                def forward(self, inputs):
                    return self.head(torch.relu(self.body(inputs)))

                def training_step(self, batch, batch_index):
                    return self(batch).mean()

                def configure_optimizers(self):
                    return torch.optim.Adam(self.parameters())


            strategy = DDPStrategy(find_unused_parameters=True)  # expect: TL304
            trainer = L.Trainer(accelerator="gpu", devices=2, strategy=strategy)
            trainer.fit(Net(), torch.randn(64, 8, 8))
            """,
            because="the module that Lightning trains runs all of its submodules in every step",
            fixed="""
            import lightning as L
            import torch
            from lightning.pytorch.strategies import DDPStrategy


            class Net(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.body = torch.nn.Linear(8, 8)
                    self.head = torch.nn.Linear(8, 1)

                def forward(self, inputs):
                    return self.head(torch.relu(self.body(inputs)))

                def training_step(self, batch, batch_index):
                    return self(batch).mean()

                def configure_optimizers(self):
                    return torch.optim.Adam(self.parameters())


            strategy = DDPStrategy()
            trainer = L.Trainer(accelerator="gpu", devices=2, strategy=strategy)
            trainer.fit(Net(), torch.randn(64, 8, 8))
            """,
        ),
        invalid(
            """
            import torch
            from transformers import AutoModelForTokenClassification, Trainer, TrainingArguments

            model = AutoModelForTokenClassification.from_pretrained("bert-base-cased")
            args = TrainingArguments("out", ddp_find_unused_parameters=True)  # expect: TL304
            Trainer(model=model, args=args, train_dataset=torch.load("rows.pt")).train()
            """,
            because="an encoder with a head for a task runs all that it has",
            fixed="""
            import torch
            from transformers import AutoModelForTokenClassification, Trainer, TrainingArguments

            model = AutoModelForTokenClassification.from_pretrained("bert-base-cased")
            args = TrainingArguments("out")
            Trainer(model=model, args=args, train_dataset=torch.load("rows.pt")).train()
            """,
        ),
        invalid(
            """
            import json

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(8, 1)

                def forward(self, inputs):
                    return self.layer(inputs)


            with open("ddp.json") as file:
                settings = json.load(file)
            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(Net().cuda(), find_unused_parameters=settings["unused"])  # expect: TL304
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the configuration that the script reads asks for it",
            others={"ddp.json": '{"unused": true}'},
        ),
        valid(
            """
            import json

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(8, 1)

                def forward(self, inputs):
                    return self.layer(inputs)


            with open("ddp.json") as file:
                settings = json.load(file)
            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(Net().cuda(), find_unused_parameters=settings["unused"])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the configuration that the script reads does not ask for it",
            others={"ddp.json": '{"unused": false}'},
        ),
        valid(
            """
            import lightning as L
            import torch


            class Gan(L.LightningModule):
                automatic_optimization = False

                def __init__(self):
                    super().__init__()
                    self.generator = torch.nn.Linear(8, 64)
                    self.discriminator = torch.nn.Linear(64, 1)

                def training_step(self, batch, batch_index):
                    first, second = self.optimizers()
                    made = self.generator(torch.randn(64, 8, device=self.device))
                    first.zero_grad()
                    self.manual_backward(-self.discriminator(made).mean())
                    first.step()
                    second.zero_grad()
                    self.manual_backward((self.discriminator(made.detach()) - self.discriminator(batch)).mean())
                    second.step()

                def configure_optimizers(self):
                    return [torch.optim.Adam(part.parameters()) for part in (self.generator, self.discriminator)]


            trainer = L.Trainer(accelerator="gpu", devices=2, strategy="ddp_find_unused_parameters_true")
            trainer.fit(Gan(), torch.randn(64, 64))
            """,
            because="each of the two backward passes leaves out a part of the module",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(8, 8)
                    self.head = nn.Linear(8, 1000)

                def forward(self, inputs):
                    return self.body(inputs)


            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(Net().cuda(), find_unused_parameters=True)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the head is never used, and DDP without the search raises an error",
        ),
        valid(
            """
            import torch
            from accelerate import Accelerator, DistributedDataParallelKwargs
            from torch import nn


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(8, 8)
                    self.extra = nn.Linear(8, 8)

                def forward(self, inputs, long):
                    hidden = self.body(inputs)
                    return self.extra(hidden) if long else hidden


            accelerator = Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)])
            model = Net()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model, optimizer = accelerator.prepare(model, optimizer)
            for step, inputs in enumerate(torch.randn(64, 8, 8)):
                loss = model(inputs, step % 2 == 0).mean()
                optimizer.zero_grad()
                accelerator.backward(loss)
                optimizer.step()
            """,
            because="the model that Accelerate prepares leaves a submodule out under a condition",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(8, 8)
                    self.extra = nn.Linear(8, 8)

                def forward(self, inputs, long):
                    hidden = self.body(inputs)
                    if long:
                        hidden = self.extra(hidden)
                    return hidden


            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(Net().cuda(), find_unused_parameters=True)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, inputs in enumerate(torch.randn(64, 8, 8)):
                loss = model(inputs.cuda(), step % 2 == 0).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a submodule is left out under a condition",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(), find_unused_parameters=False)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="switched off",
        ),
        valid(
            """
            import argparse

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            parser = argparse.ArgumentParser()
            parser.add_argument("--find-unused-parameters", action="store_true")
            args = parser.parse_args()
            torch.distributed.init_process_group("nccl")
            model = DistributedDataParallel(
                nn.Linear(8, 1).cuda(), find_unused_parameters=args.find_unused_parameters
            )
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="whoever starts the job decides",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel

            torch.distributed.init_process_group("nccl")
            model = nn.Linear(8, 1).cuda()
            model = DistributedDataParallel(model, find_unused_parameters=True, static_graph=True)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="with a static graph, DDP searches once",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for wrapping in project.wrappings:
            if _searches(wrapping) and wrapping.conditional_forward is not Known.YES:
                known = wrapping.conditional_forward is Known.NO
                yield self._report(wrapping, Confidence.HIGH if known else Confidence.LOW)
        for call in project.calls_of(*KEYWORDS):
            if call.arguments.holding(KEYWORDS[call.name]) is True:
                yield from self._report_framework(call)
        for call in project.calls_of(*TRAINERS):
            if call.arguments.constant("strategy") in STRATEGY_NAMES:
                yield from self._report_framework(call)

    def _report_framework(self, call: Call) -> Iterator[Finding]:
        """Judge by the models that the framework is given in the same program."""
        models = call.context.entry.conditional_forwards
        if Known.YES not in models:
            known = bool(models) and Known.UNKNOWN not in models
            yield self._report(call, Confidence.MEDIUM if known else Confidence.LOW)

    def _report(self, subject: Wrapping | Call, confidence: Confidence) -> Finding:
        keyword, arguments = _keyword(subject), subject.arguments
        return self.finding(
            subject,
            f"{quote(subject.text)} makes DDP walk the autograd graph for unused parameters at every step"
            f"{arguments.told_by(keyword)}",
            help=_help(subject),
            confidence=min(confidence, arguments.certainty(keyword)),
        )

    def fix(self, finding: Finding) -> Fix | None:
        subject = finding.subject
        assert isinstance(subject, Wrapping | Call)
        if isinstance(subject, Call) and subject.name in TRAINERS:
            recipe = SetArgument(subject.site, "strategy", f'"{_strategy_without(subject)}"')
            return Fix(Applicability.UNSAFE, _help(subject), (recipe,))
        keyword = _keyword(subject)
        setting = subject.arguments.setting(keyword)
        if setting is not None:
            return Fix(Applicability.DISPLAY, f"Turn {setting.name} off{f' in {setting.file}' * bool(setting.file)}")
        return Fix(Applicability.UNSAFE, f"Drop {keyword}=True", (RemoveArgument(subject.site, keyword),))

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = finding.related[0].site if finding.related else None
        if evidence.did_run(finding.site) is False:
            return MADE_NOWHERE
        counts = [rank.ddp_unused_parameters for rank in evidence.ranks if rank.ddp_unused_parameters is not None]
        if not counts:
            advice = "probe more steps" if len(evidence.ranks) > 1 else "probe the job on two ranks or more"
            unmeasured = f"no statistics of DDP were read; {advice}"
            return judge_condition(evidence, loop, None, unmeasured=unmeasured)
        figure = Measurement("unused parameters", max(counts), "parameters", Source.AGENT, 1)
        return judge_condition(evidence, loop, max(counts) == 0, (figure,), unmeasured="")


def _help(subject: Wrapping | Call) -> str:
    if isinstance(subject, Call) and subject.name in TRAINERS:
        return f'Use strategy="{_strategy_without(subject)}"'
    if isinstance(subject, Call) and subject.name in TRAINING_ARGUMENTS:
        return f"Drop {_keyword(subject)}=True"
    return "Drop find_unused_parameters=True, or pass static_graph=True where the same ones go unused each time"


def _strategy_without(trainer: Call) -> str:
    return STRATEGY_NAMES[str(trainer.arguments.constant("strategy"))]


def _keyword(subject: Wrapping | Call) -> str:
    """The argument that asks for it."""
    return KEYWORDS.get(subject.name, "strategy") if isinstance(subject, Call) else "find_unused_parameters"


def _searches(wrapping: Wrapping) -> bool:
    """Whether it is DDP that looks for unused parameters in every step of training."""
    return (
        wrapping.library == DISTRIBUTED_DATA_PARALLEL
        and wrapping.arguments.holding("find_unused_parameters") is True
        and wrapping.arguments.holding("static_graph") is not True
    )
