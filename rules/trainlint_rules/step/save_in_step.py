from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_calls, judge_stacks
from trainlint.probe.verdict import Verdict
from trainlint.semantics.naming import EPOCH_INDEX
from trainlint.semantics.project import Context, Project
from trainlint.semantics.vocabulary import GuardKind

SAVES = (
    "torch.save",
    "torch.distributed.checkpoint.save",
    "torch.distributed.checkpoint.save_state_dict",
    "torch.distributed.checkpoint.state_dict_saver.save",
    "safetensors.torch.save_file",
    "safetensors.torch.save_model",
    "transformers.PreTrainedModel.save_pretrained",
    "transformers.Trainer.save_model",
    "accelerate.Accelerator.save",
    "accelerate.Accelerator.save_model",
    "accelerate.Accelerator.save_state",
    "lightning.Fabric.save",
    "pytorch_lightning.Trainer.save_checkpoint",
    "deepspeed.Engine.save_checkpoint",
)
"""What writes before it returns; `torch.distributed.checkpoint.async_save` does not."""

MAY_BE_RARE = frozenset({GuardKind.FLAG, GuardKind.DATA, GuardKind.OFF})
"""Conditions of which nobody can tell how often they hold: a better score, a signal to stop, a request."""


class SaveInStep(Rule):
    """A checkpoint is written at every training step.

    ## What it does
    Reports `torch.save`, `save_pretrained`, and what safetensors, Accelerate, DeepSpeed, Lightning and
    `torch.distributed.checkpoint` save with, per training step.

    ## Why it is slow
    Saving copies the state from the GPU, waits until all work that changes it is done, serializes it and writes it to
    disk. The next step starts after that. Of several ranks one writes, and the others wait for it at their next
    collective.

    ## When it is fine
    Every N steps, or by the clock; once per epoch; when a score got better; on a signal to stop. Where a step is an
    epoch, because all data goes through the model at once, a checkpoint per step is one per epoch. `async_save` of
    `torch.distributed.checkpoint` writes beside the steps.

    ## Example
    ```python
    for step, batch in enumerate(loader):
        train_step(batch)
        torch.save(model.state_dict(), "last.pt")
    ```

    ## Use instead
    ```python
    for step, batch in enumerate(loader):
        train_step(batch)
        if step % args.save_every == 0:
            torch.save(model.state_dict(), "last.pt")
    ```

    ## Fix safety
    Advice without edits: how many steps may be lost is the author's choice.

    ## How the probe confirms it
    By the time spent in `torch.save`; for other ways to save, by stack samples under the line.

    ## References
    - Printing and logging belong every N steps, on rank 0 only (article 000); saving costs more than either.
    - PyTorch, asynchronous saving with distributed checkpoint:
      https://docs.pytorch.org/tutorials/recipes/distributed_async_checkpoint_recipe.html
    """

    code, name, family = "TL212", "save-in-step", Family.STEP
    fix_class = Applicability.DISPLAY
    confirmed_by = "time in the call"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                torch.save({"step": step, "model": model.state_dict()}, "last.pt")  # expect: TL212
            """,
            because="at the end of every step",
        ),
        invalid(
            """
            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP
            from torch.utils.data import DataLoader, DistributedSampler

            from checkpoints import Checkpointer

            dist.init_process_group("nccl")
            rank = dist.get_rank()
            dataset = torch.load("inputs.pt")
            loader = DataLoader(dataset, batch_size=64, sampler=DistributedSampler(dataset))
            model = DDP(nn.Linear(32, 1).cuda(rank), device_ids=[rank])
            optimizer = torch.optim.AdamW(model.parameters())
            checkpointer = Checkpointer("checkpoints", rank)
            for inputs in loader:
                loss = model(inputs.cuda(rank)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                checkpointer.save(model, optimizer)
            """,
            because="on one rank, in another file: the other ranks wait for it",
            others={
                "checkpoints.py": """
                import os

                import torch


                class Checkpointer:
                    def __init__(self, folder, rank):
                        self.folder = folder
                        self.rank = rank

                    def save(self, model, optimizer):
                        if self.rank == 0:
                            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
                            torch.save(state, os.path.join(self.folder, "last.pt"))  # expect: TL212
                """
            },
        ),
        invalid(
            """
            from accelerate import Accelerator
            from torch.optim import AdamW
            from torch.utils.data import DataLoader
            from transformers import AutoModelForCausalLM, default_data_collator

            from corpus import blocks

            accelerator = Accelerator(gradient_accumulation_steps=8)
            model = AutoModelForCausalLM.from_pretrained("gpt2")
            optimizer = AdamW(model.parameters(), lr=2e-5)
            loader = DataLoader(blocks("train"), batch_size=4, collate_fn=default_data_collator)
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            for batch in loader:
                with accelerator.accumulate(model):
                    accelerator.backward(model(**batch).loss)
                    optimizer.step()
                    optimizer.zero_grad()
                accelerator.save_state("state")  # expect: TL212
            """,
            because="Accelerate saves model, optimizer and random states at once",
            others={
                "corpus.py": """
                from datasets import load_dataset


                def blocks(split):
                    return load_dataset("wikitext", "wikitext-2-raw-v1", split=split)
                """
            },
        ),
        invalid(
            """
            import torch
            from torch.utils.data import DataLoader
            from transformers import AutoModelForCausalLM


            def train(model, loader, accumulation_steps):
                optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
                for step, ids in enumerate(loader):
                    ids = ids.cuda()
                    loss = model(input_ids=ids, labels=ids).loss / accumulation_steps
                    loss.backward()
                    if (step + 1) % accumulation_steps == 0:
                        optimizer.step()
                        optimizer.zero_grad()
                        model.save_pretrained("latest")  # expect: TL212


            gpt2 = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
            train(gpt2, DataLoader(torch.load("ids.pt"), batch_size=8), 4)
            """,
            because="at every update; an accumulation test is no interval",
        ),
        invalid(
            """
            import lightning as L
            import torch
            from safetensors.torch import save_file
            from torch import nn
            from torch.utils.data import DataLoader


            class Regression(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.model = nn.Linear(32, 1)

                def training_step(self, batch, batch_idx):
                    return self.model(batch).square().mean()

                def on_train_batch_end(self, outputs, batch, batch_idx):
                    save_file(self.model.state_dict(), "last.safetensors")  # expect: TL212

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(accelerator="gpu", max_epochs=3)
            trainer.fit(Regression(), DataLoader(torch.load("inputs.pt"), batch_size=64))
            """,
            because="in a hook that Lightning calls after every batch",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step and step % 1000 == 0:
                    torch.save(model.state_dict(), f"{step}.pt")
            torch.save(model.state_dict(), "final.pt")
            """,
            because="behind an interval guard, and at the end",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            def train_epoch(model, loader, optimizer):
                for inputs in loader:
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(10):
                train_epoch(model, loader, optimizer)
                torch.save({"epoch": epoch, "model": model.state_dict()}, f"epoch{epoch}.pt")
            """,
            because="once per epoch",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            best = float("inf")
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                score = loss.item()
                if score < best:
                    best = score
                    torch.save(model.state_dict(), "best.pt")
            """,
            because="a better score decides, and scores get better rarely",
        ),
        valid(
            """
            import signal

            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Trainer:
                def __init__(self):
                    self.model = nn.Linear(32, 1).cuda()
                    self.optimizer = torch.optim.AdamW(self.model.parameters())
                    self.preempted = False
                    signal.signal(signal.SIGUSR1, self.on_signal)

                def on_signal(self, number, frame):
                    self.preempted = True

                def fit(self, loader):
                    for inputs in loader:
                        loss = self.model(inputs.cuda()).square().mean()
                        self.optimizer.zero_grad()
                        loss.backward()
                        self.optimizer.step()
                        if self.preempted:
                            torch.save(self.model.state_dict(), "preempted.pt")


            Trainer().fit(DataLoader(torch.load("inputs.pt"), batch_size=64))
            """,
            because="only after a signal of the scheduler",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step >= 20_000:
                    torch.save(model.state_dict(), "final.pt")
                    break
            """,
            because="the loop ends there",
        ),
        valid(
            """
            import torch
            from torch import nn

            points, values = (tensor.cuda() for tensor in torch.load("grid.pt"))
            model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 1)).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for epoch in range(500):
                loss = nn.functional.mse_loss(model(points), values)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                torch.save(model.state_dict(), "model.pt")
            """,
            because="all data in one step: a checkpoint per step is one per epoch",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Spectra(Dataset):
                def __init__(self, paths):
                    self.paths = paths

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    kept = self.paths[index] + ".spectrum.pt"
                    if os.path.exists(kept):
                        return torch.load(kept)
                    spectrum = torch.stft(torch.load(self.paths[index]), 512, return_complex=True).abs()
                    torch.save(spectrum, kept)
                    return spectrum


            with open("recordings.txt") as file:
                loader = DataLoader(Spectra(file.read().split()), batch_size=16, num_workers=4)
            model = nn.Linear(257, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for spectra in loader:
                loss = model(spectra.cuda().mT).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a dataset that keeps what it computed, once per sample",
        ),
        valid(
            """
            import torch
            import torch.distributed.checkpoint as dcp
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            writing = None
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if writing is None or writing.done():
                    writing = dcp.async_save({"model": model.state_dict()}, checkpoint_id="last")
            """,
            because="written beside the steps",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in project.calls_of(*SAVES):
            if call.context.hot and call.context.routine and _is_sure(call.context) and not _is_epoch(call.context):
                yield self.finding(
                    call,
                    f"{quote(call.text)} writes a checkpoint {call.context.frequency.phrase}, and the next step waits "
                    "for it",
                    help="Save every few hundred steps, or by the clock",
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, "Save under an interval guard: `if step % save_every == 0:`")

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        timed = any(line in evidence.calls for line in evidence.lines(finding.site))
        return judge_calls(evidence, finding.site) if timed else judge_stacks(evidence, finding.site)


def _is_sure(context: Context) -> bool:
    """Whether no condition inside the step may keep the save from most steps."""
    return not any(guard.in_step and guard.kind in MAY_BE_RARE for guard in context.guards)


def _is_epoch(context: Context) -> bool:
    """Whether each turn of the step loop is an epoch, by the name that counts them."""
    return EPOCH_INDEX.search(context.counter)
