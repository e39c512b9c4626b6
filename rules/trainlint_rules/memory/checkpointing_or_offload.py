from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Occurrence, Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.figures import GIB
from trainlint.probe.judges import judge_condition
from trainlint.probe.verdict import Measurement, Source, Verdict
from trainlint.semantics.project import Call, Project
from trainlint.semantics.values import Option, Value, certainty_of, held

ENABLE = "transformers.PreTrainedModel.gradient_checkpointing_enable"
OFFLOAD = "torch.distributed.fsdp.CPUOffload"
ALWAYS_OFFLOADS = "torch.distributed.fsdp.CPUOffloadPolicy"
ARGUMENTS = "transformers.TrainingArguments"
FSDP_PLUGINS = ("accelerate.FullyShardedDataParallelPlugin", "accelerate.utils.FullyShardedDataParallelPlugin")
DEEPSPEED_PLUGINS = ("accelerate.DeepSpeedPlugin", "accelerate.utils.DeepSpeedPlugin")
NAMES_IT = re.compile(r"checkpoint|offload|recompute", re.IGNORECASE)
"""Conditions that ask for it by name, of whatever kind they are otherwise."""
LENGTHS = ("max_length", "max_seq_length")
LONG = 4096
"""Tokens from which sequences count as long: a first guess of ours."""

OFFLOADED = ("offload_optimizer", "offload_param")
"""Parts of `zero_optimization` in DeepSpeed's configuration that name where state is kept."""
OFF_DEVICE = ("cpu", "nvme")
HELP = "Keep it only if the memory buys a larger batch or longer sequences: measure without it"

RECOMPUTES = "recomputes the activations in each backward pass"
MOVES = "keeps state in host memory and moves it between host and device at every step"


class CheckpointingOrOffload(Rule):
    """Memory is saved at the cost of time, in every run of the script.

    ## What it does
    Reports gradient checkpointing and offloading to the CPU that are switched on in the text of the program: of
    transformers' models and TrainingArguments, FSDP, Accelerate's plugins for FSDP and DeepSpeed, and DeepSpeed's
    configuration, be it in the program or in a file that it names.

    ## Why it is slow
    Checkpointing computes the forward pass a second time during the backward pass. Offloading moves parameters,
    gradients or the state of the optimizer over PCIe, which is an order of magnitude slower than the memory of the GPU.
    Either is worth its price where the memory buys a larger batch or longer sequences, and only there.

    ## When it is fine
    The model does not fit otherwise; sequences are long; an option decides.

    ## Example
    ```python
    model.gradient_checkpointing_enable()
    ```

    ## Use instead
    ```python
    if args.gradient_checkpointing:
        model.gradient_checkpointing_enable()
    ```
    and leave the option off while the memory suffices.

    ## Fix safety
    Advice without edits: whether the job fits without it is known by measuring.

    ## How the probe confirms it
    It leaves the verdict open: recomputed work is not told from other work. Where it reports memory headroom (TL905),
    a run without checkpointing or offloading, compared with this one, tells.

    ## References
    - Gradient checkpointing takes the work of a step from 6·N·T to about 8·N·T, 30 to 35 % more (article 000).
    - CPU offload: HBM about 2 TB/s against PCIe 4.0 x16 about 30 GB/s (article 000).
    - PyTorch, torch.utils.checkpoint: https://docs.pytorch.org/docs/stable/checkpoint.html
    """

    code, name, family = "TL501", "checkpointing-or-offload", Family.MEMORY
    severity = Severity.INFO
    fix_class = Applicability.DISPLAY
    default = False
    confirmed_by = "memory headroom while it is on"
    examples = (
        invalid(
            """
            import torch
            from torch.utils.data import DataLoader
            from transformers import AutoModelForCausalLM

            model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
            model.gradient_checkpointing_enable()  # expect: TL501
            optimizer = torch.optim.AdamW(model.parameters())
            for batch in DataLoader(torch.load("tokens.pt"), batch_size=8):
                batch = batch.cuda()
                loss = model(input_ids=batch, labels=batch).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="for every run of the script",
        ),
        invalid(
            """
            import os

            import torch
            from torch import nn
            from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel

            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
            model = FullyShardedDataParallel(model, cpu_offload=CPUOffload(offload_params=True))  # expect: TL501
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="parameters in host memory",
        ),
        invalid(
            """
            from datasets import load_dataset
            from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

            data = load_dataset("text", data_files="corpus.txt")["train"]
            arguments = TrainingArguments("out", bf16=True, gradient_checkpointing=True)  # expect: TL501
            trainer = Trainer(model=AutoModelForCausalLM.from_pretrained("gpt2"), args=arguments, train_dataset=data)
            trainer.train()
            """,
            because="asked of the HF Trainer",
        ),
        invalid(
            """
            from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard


            def shard(model):
                for layer in model:
                    fully_shard(layer, offload_policy=CPUOffloadPolicy())  # expect: TL501
                return fully_shard(model)
            """,
            because="in a helper of another file",
            entry="sharding.py",
            others={
                "train.py": """
                import os

                import torch
                from torch import nn

                from sharding import shard

                torch.distributed.init_process_group("nccl")
                torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
                model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
                model = shard(model)
                optimizer = torch.optim.AdamW(model.parameters())
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                """
            },
        ),
        invalid(
            """
            import torch
            from accelerate import Accelerator, DeepSpeedPlugin
            from torch import nn
            from torch.utils.data import DataLoader

            plugin = DeepSpeedPlugin(zero_stage=2, offload_optimizer_device="cpu")  # expect: TL501
            accelerator = Accelerator(deepspeed_plugin=plugin)
            model = nn.Linear(32, 1)
            optimizer = torch.optim.AdamW(model.parameters())
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            for inputs in loader:
                loss = model(inputs).square().mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            """,
            because="the state of the optimizer in host memory",
        ),
        invalid(
            """
            import deepspeed
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            engine, optimizer, _, _ = deepspeed.initialize(model=model, config="ds_config.json")  # expect: TL501
            for inputs in torch.randn(64, 8, 8):
                loss = engine(inputs.cuda()).mean()
                engine.backward(loss)
                engine.step()
            """,
            because="DeepSpeed's configuration keeps the state of the optimizer in host memory",
            others={
                "ds_config.json": """
                {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
                """
            },
        ),
        invalid(
            """
            from datasets import load_dataset
            from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

            zero = {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/scratch"}}
            args = TrainingArguments("out", deepspeed={"zero_optimization": zero})  # expect: TL501
            blocks = load_dataset("json", data_files="blocks.json", split="train")
            Trainer(AutoModelForCausalLM.from_pretrained("gpt2"), args, train_dataset=blocks).train()
            """,
            because="parameters are fetched from a disk",
        ),
        valid(
            """
            import deepspeed
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            engine, optimizer, _, _ = deepspeed.initialize(model=model, config="ds_config.json")
            for inputs in torch.randn(64, 8, 8):
                loss = engine(inputs.cuda()).mean()
                engine.backward(loss)
                engine.step()
            """,
            because="DeepSpeed's configuration offloads nothing",
            others={
                "ds_config.json": """
                {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "none"}, "overlap_comm": true}}
                """
            },
        ),
        valid(
            """
            import argparse

            import torch
            from torch.utils.data import DataLoader
            from transformers import AutoModelForCausalLM

            parser = argparse.ArgumentParser()
            parser.add_argument("--gradient_checkpointing", action="store_true")
            args = parser.parse_args()
            model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
            if args.gradient_checkpointing:
                model.gradient_checkpointing_enable()
            optimizer = torch.optim.AdamW(model.parameters())
            for batch in DataLoader(torch.load("tokens.pt"), batch_size=8):
                batch = batch.cuda()
                loss = model(input_ids=batch, labels=batch).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="behind an option",
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
            because="neither",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel

            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
            model = FullyShardedDataParallel(model, cpu_offload=CPUOffload(offload_params=False))
            optimizer = torch.optim.AdamW(model.parameters())
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
            import os

            import torch
            from torch import nn
            from torch.distributed.fsdp import FullyShardedDataParallel

            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
            model = FullyShardedDataParallel(model)
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="sharded on the devices",
        ),
        valid(
            """
            from datasets import load_dataset
            from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

            data = load_dataset("text", data_files="corpus.txt")["train"]
            arguments = TrainingArguments("out", bf16=True, gradient_checkpointing=False)
            trainer = Trainer(model=AutoModelForCausalLM.from_pretrained("gpt2"), args=arguments, train_dataset=data)
            trainer.train()
            """,
            because="switched off for the Trainer",
        ),
        valid(
            """
            import os
            from dataclasses import dataclass

            import torch
            from torch import nn
            from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel


            @dataclass
            class Config:
                fsdp_cpu_offload: bool = False


            config = Config()
            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
            model = FullyShardedDataParallel(
                model,
                cpu_offload=CPUOffload(offload_params=True) if config.fsdp_cpu_offload else None,
            )
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a field of a configuration decides",
        ),
        valid(
            """
            from datasets import load_dataset
            from transformers import AutoModelForCausalLM
            from trl import SFTConfig, SFTTrainer

            data = load_dataset("text", data_files="corpus.txt")["train"]
            arguments = SFTConfig("out", max_length=16384, gradient_checkpointing=True)
            trainer = SFTTrainer(AutoModelForCausalLM.from_pretrained("gpt2"), args=arguments, train_dataset=data)
            trainer.train()
            """,
            because="long sequences",
        ),
        valid(
            """
            import torch
            from transformers import AutoModelForCausalLM

            model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
            model.gradient_checkpointing_enable()
            print(sum(parameter.numel() for parameter in model.parameters()))
            """,
            because="no training",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        names = (ENABLE, OFFLOAD, ALWAYS_OFFLOADS, ARGUMENTS, *FSDP_PLUGINS, *DEEPSPEED_PLUGINS)
        for call in project.calls_of(*names):
            effect = _effect(call)
            if effect and call.context.concerns_training and not _is_asked_for(call):
                yield self.finding(call, f"{quote(call.text)} {effect}", help=HELP)
        for configuration in project.deepspeed:
            parts = [configuration.at("zero_optimization", part, "device") for part in OFFLOADED]
            moved = [device for device in parts if held(device) in OFF_DEVICE]
            if moved and configuration.context.entry.trains and not _is_asked_for(configuration):
                yield self.finding(
                    configuration,
                    f"{quote(configuration.text)} {MOVES}{_told_by(moved)}",
                    help=HELP,
                    confidence=max(map(certainty_of, moved)),
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.DISPLAY,
            "Measure 50 steps without it; if the job fits, leave it off, else use what it saves for a larger batch",
        )

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        peak = evidence.memory_peak
        figures = (Measurement("peak memory", peak.reserved / GIB, "GiB", Source.AGENT),) if peak is not None else ()
        unmeasured = "what it costs is not timed; if the peak leaves room, compare with a run without it: --compare"
        return judge_condition(evidence, None, None, figures, unmeasured=unmeasured)


def _is_asked_for(call: Occurrence) -> bool:
    """Whether it depends on what whoever starts the job asks for."""
    return call.context.on_request or any(guard.asked.mentions(NAMES_IT) for guard in call.context.guards)


def _told_by(devices: Sequence[Value]) -> str:
    """Which configuration file alone says so, as the message ends; empty where the program does as well."""
    files = [device.file if isinstance(device, Option) else "" for device in devices]
    return f": {files[0]} says so" if all(files) else ""


def _effect(call: Call) -> str:
    """What a call switches on, as the message says it; empty where it switches on neither."""
    arguments = call.arguments
    if call.name == ENABLE:
        return RECOMPUTES
    if call.name == ARGUMENTS:
        lengths = [arguments.constant(name) for name in LENGTHS]
        long = any(isinstance(length, int) and length >= LONG for length in lengths)
        return RECOMPUTES if arguments.constant("gradient_checkpointing") is True and not long else ""
    if call.name in FSDP_PLUGINS:
        if arguments.constant("activation_checkpointing") is True:
            return RECOMPUTES
        return MOVES if arguments.constant("cpu_offload") is True else ""
    if call.name in DEEPSPEED_PLUGINS:
        targets = {arguments.constant("offload_optimizer_device"), arguments.constant("offload_param_device")}
        return MOVES if not targets.isdisjoint(OFF_DEVICE) else ""
    return MOVES if call.name == ALWAYS_OFFLOADS or arguments.constant("offload_params") is True else ""
