from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, EnsureImport, Fix, GuardStatement, ReplaceExpression
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_condition
from trainlint.probe.verdict import Measurement, Source, Verdict
from trainlint.semantics.duties import Duty
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import Project, Report, ReportKind
from trainlint.semantics.vocabulary import Confidence, Framework, Frequency, GuardKind, Known, Region
from trainlint_rules.distributed.first_rank import FIRST_RANK

SPOKEN_FOR = (
    GuardKind.RANK,
    GuardKind.NOT_DISTRIBUTED,
    GuardKind.EXCEPTIONAL,
    GuardKind.DEBUG,
)
"""Guards under which printing on every rank does not happen, or is meant."""


class EveryRankPrint(Rule):
    """All ranks of a distributed job print or log, over and over.

    ## What it does
    Reports `print` and logging calls inside loops of a job that runs on several ranks, where neither a guard nor the
    printer leaves one rank. A line in each epoch, one beside an evaluation or a checkpoint that pauses training every
    so many steps, and one that names its rank have low confidence.

    ## Why it is slow
    Every process formats and writes each line; formatting a device value makes each of them wait for its GPU, and all
    of them write to one terminal or file. The slowest rank holds up the others at the next all-reduce.

    ## When it is fine
    Code under `rank == 0` or `is_main_process`, here or in a caller; a `print` or a logger that is silent on other
    ranks; lines that name their rank, which are meant to come from each; start-up code that runs once; `logger.debug`,
    which loggers drop by default.

    ## Example
    ```python
    if step % 100 == 0:
        print(f"step {step} loss {loss.item():.3f}")
    ```

    ## Use instead
    ```python
    if step % 100 == 0 and dist.get_rank() == 0:
        print(f"step {step} loss {loss.item():.3f}")
    # in a LightningModule; Fabric and Accelerate have a print of the same kind:
    self.print(f"step {step} loss {loss:.3f}")
    ```

    ## Fix safety
    Unsafe: the other ranks fall silent, and with them what the arguments of the call do there. Where a printer of the
    framework is at hand, such as `self.print`, the fix calls that; else it puts the call under a test of the rank.

    ## How the probe confirms it
    By lines that were printed from here on ranks other than the first. A run on one rank cannot tell.

    ## References
    - Print and log every N steps, on rank 0 only (article 000).
    - PyTorch, torch.distributed.get_rank: https://docs.pytorch.org/docs/stable/distributed.html
    """

    code, name, family = "TL213", "every-rank-print", Family.STEP
    fix_class = Applicability.UNSAFE
    confirmed_by = "lines from ranks > 0"
    examples = (
        invalid(
            """
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            dataset = torch.utils.data.TensorDataset(torch.randn(64, 8))
            sampler = DistributedSampler(dataset)
            loader = DataLoader(dataset, batch_size=8, sampler=sampler)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(local_rank), device_ids=[local_rank])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(3):
                sampler.set_epoch(epoch)
                for step, (inputs,) in enumerate(loader):
                    loss = model(inputs.cuda(local_rank)).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    if step % 100 == 0:
                        print("step", step, "loss", loss.item())  # expect: TL213
            """,
            because="an interval thins out steps, not ranks",
            fixed="""
            import os

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler

            torch.distributed.init_process_group("nccl")
            local_rank = int(os.environ["LOCAL_RANK"])
            dataset = torch.utils.data.TensorDataset(torch.randn(64, 8))
            sampler = DistributedSampler(dataset)
            loader = DataLoader(dataset, batch_size=8, sampler=sampler)
            model = DistributedDataParallel(nn.Linear(8, 1).cuda(local_rank), device_ids=[local_rank])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(3):
                sampler.set_epoch(epoch)
                for step, (inputs,) in enumerate(loader):
                    loss = model(inputs.cuda(local_rank)).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    if step % 100 == 0:
                        if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0:
                            print("step", step, "loss", loss.item())
            """,
        ),
        invalid(
            """
            class Progress:
                def __init__(self, batches):
                    self.batches = batches

                def display(self, batch, loss):
                    print(f"[{batch}/{self.batches}] {loss:.3f}")  # expect: TL213
            """,
            because="the loop that calls it, in another file, runs on all ranks",
            entry="progress.py",
            others={
                "train.py": """
                import os

                import torch
                from torch import nn
                from torch.nn.parallel import DistributedDataParallel
                from torch.utils.data import DataLoader, DistributedSampler

                from progress import Progress

                torch.distributed.init_process_group("nccl")
                local_rank = int(os.environ["LOCAL_RANK"])
                dataset = torch.utils.data.TensorDataset(torch.randn(64, 8))
                loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
                model = DistributedDataParallel(nn.Linear(8, 1).cuda(local_rank))
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                progress = Progress(len(loader))
                for step, (inputs,) in enumerate(loader):
                    loss = model(inputs.cuda(local_rank)).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    if step % 10 == 0:
                        progress.display(step, loss.item())
                """
            },
        ),
        invalid(
            """
            import logging

            import torch
            from torch import nn
            from torch.distributed.fsdp import FullyShardedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler

            logging.basicConfig(level=logging.INFO)
            logger = logging.getLogger(__name__)


            def main():
                torch.distributed.init_process_group("nccl")
                dataset = torch.utils.data.TensorDataset(torch.randn(64, 8))
                loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
                model = FullyShardedDataParallel(nn.Linear(8, 1).cuda())
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for step, (inputs,) in enumerate(loader):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    logger.info("step %d", step)  # expect: TL213


            main()
            """,
            because="the logger speaks on every rank",
        ),
        invalid(
            """
            import lightning as L
            import torch
            from torch import nn


            class Model(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(8, 1)

                def training_step(self, batch, batch_idx):
                    print("batch", batch_idx)  # expect: TL213
                    return self.layer(batch).mean()

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(accelerator="gpu", devices=4, strategy="ddp_find_unused_parameters_true")
            trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8))
            """,
            because="the strategy of the Trainer starts a process for each GPU",
            fixed="""
            import lightning as L
            import torch
            from torch import nn


            class Model(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(8, 1)

                def training_step(self, batch, batch_idx):
                    self.print("batch", batch_idx)
                    return self.layer(batch).mean()

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(accelerator="gpu", devices=4, strategy="ddp_find_unused_parameters_true")
            trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8))
            """,
        ),
        invalid(
            """
            import lightning as L
            import torch
            from torch import nn


            class Model(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(8, 1)

                def training_step(self, batch, batch_idx):
                    print("batch", batch_idx)  # expect: TL213
                    return self.layer(batch).mean()

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(devices=[0, 1])
            trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8))
            """,
            because="with two devices a Trainer starts two processes",
            fixed="""
            import lightning as L
            import torch
            from torch import nn


            class Model(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(8, 1)

                def training_step(self, batch, batch_idx):
                    self.print("batch", batch_idx)
                    return self.layer(batch).mean()

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(devices=[0, 1])
            trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8))
            """,
        ),
        valid(
            """
            import logging

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler

            logger = logging.getLogger(__name__)


            def evaluate(model, loader):
                logger.info("evaluation starts")
                model.eval()
                with torch.no_grad():
                    losses = [model(inputs.cuda()).square().mean() for inputs in loader]
                model.train()
                return torch.stack(losses).mean()


            def save_model(model, path):
                logger.info("saving to %s", path)
                torch.save(model.state_dict(), path)


            dist.init_process_group("nccl")
            dataset = torch.load("inputs.pt")
            loader = DataLoader(dataset, batch_size=64, sampler=DistributedSampler(dataset))
            held_out = DataLoader(torch.load("held_out.pt"), batch_size=64)
            model = DistributedDataParallel(nn.Linear(32, 1).cuda())
            optimizer = torch.optim.AdamW(model.parameters())
            best = None
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 1000 == 0:
                    score = evaluate(model, held_out)
                    if best is not None and score > best:
                        logger.info("no improvement")
                    best = score if best is None else min(best, score)
                if step % 5000 == 0:
                    save_model(model, f"model-{step}.pt")
            """,
            because="a line is nothing beside an evaluation, or a checkpoint, that pauses training every so many steps",
        ),
        valid(
            """
            import logging

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler

            dist.init_process_group("nccl")
            device = dist.get_rank() % torch.cuda.device_count()
            logger = logging.getLogger(__name__)
            dataset = torch.load("inputs.pt")
            loader = DataLoader(dataset, batch_size=64, sampler=DistributedSampler(dataset))
            model = DistributedDataParallel(nn.Linear(32, 1).to(device), device_ids=[device])
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(10):
                loader.sampler.set_epoch(epoch)
                for inputs in loader:
                    if inputs.size(0) < 64:
                        logger.warning("a batch of %d samples only", inputs.size(0))
                    loss = model(inputs.to(device)).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="a warning under a condition is written where something is wrong, on the rank that has the trouble",
        ),
        valid(
            """
            import lightning as L
            import torch
            from torch import nn


            class Model(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(8, 1)

                def training_step(self, batch, batch_idx):
                    print("batch", batch_idx)
                    return self.layer(batch).mean()

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(devices=1, strategy="ddp")
            trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8))
            """,
            because="with one device there is one rank",
        ),
        valid(
            """
            import lightning as L
            import torch
            from torch import nn


            class Model(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(8, 1)

                def training_step(self, batch, batch_idx):
                    print("batch", batch_idx)
                    return self.layer(batch).mean()

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(devices=2, strategy="dp")
            trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8))
            """,
            because="DataParallel runs in one process",
        ),
        valid(
            """
            import lightning as L
            import torch
            from torch import nn


            class Model(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(8, 1)

                def training_step(self, batch, batch_idx):
                    self.print("batch", batch_idx)
                    return self.layer(batch).mean()

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(devices=4, strategy="ddp")
            trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8))
            """,
            because="self.print speaks on the first rank only",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler

            torch.distributed.init_process_group("nccl")
            rank = torch.distributed.get_rank()
            is_main = rank == 0
            dataset = torch.utils.data.TensorDataset(torch.randn(64, 8))
            loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, (inputs,) in enumerate(loader):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 100 == 0 and is_main:
                    print("step", step, "loss", loss.item())
            """,
            because="a rank guard, kept in a variable",
        ),
        valid(
            """
            import builtins

            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler


            def setup_for_distributed(is_master):
                builtin_print = builtins.print

                def print(*args, **kwargs):
                    if is_master:
                        builtin_print(*args, **kwargs)

                builtins.print = print


            torch.distributed.init_process_group("nccl")
            setup_for_distributed(torch.distributed.get_rank() == 0)
            dataset = torch.utils.data.TensorDataset(torch.randn(64, 8))
            loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, (inputs,) in enumerate(loader):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 100 == 0:
                    print("step", step, "loss", loss.item())
            """,
            because="print is replaced on all ranks but one",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel
            from torch.utils.data import DataLoader, DistributedSampler

            torch.distributed.init_process_group("nccl")
            print("world size", torch.distributed.get_world_size())
            dataset = torch.utils.data.TensorDataset(torch.randn(64, 8))
            loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
            model = DistributedDataParallel(nn.Linear(8, 1).cuda())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for (inputs,) in loader:
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="once, at start-up",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            for step, inputs in enumerate(loader):
                loss = model(inputs).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print("step", step, "loss", loss.item())
            """,
            because="one process: there is no other rank",
        ),
        valid(
            """
            import torch
            from accelerate import Accelerator
            from torch import nn

            accelerator = Accelerator()
            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            for step, inputs in enumerate(loader):
                loss = model(inputs).mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                accelerator.print("step", step)
            """,
            because="accelerator.print speaks on the main process only",
        ),
        valid(
            """
            import logging

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP

            logger = logging.getLogger(__name__)


            def train(loader, options):
                dist.init_process_group("nccl")
                model = DDP(nn.Linear(8, 1).cuda())
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for inputs in loader:
                    if options.regex is not None:
                        if options.grammar is not None:
                            logger.warning("both a regex and a grammar are set; the regex takes precedence")
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="a warning about settings that exclude each other",
        ),
        valid(
            """
            import logging

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP

            logger = logging.getLogger(__name__)


            def train(loader):
                dist.init_process_group("nccl")
                model = DDP(nn.Linear(8, 1).cuda())
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for step, inputs in enumerate(loader):
                    logger.debug("step %d", step)
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="a line for whoever looks for a fault, which loggers drop by default",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for report in project.reports:
            if _runs_on_several_ranks(report) and _repeats(report) and not _one_rank_speaks(report):
                yield self.finding(
                    report,
                    f"{quote(report.text)} writes a line on every rank, {report.context.phrase}",
                    help=_help(report),
                    confidence=_confidence(report),
                )

    def fix(self, finding: Finding) -> Fix | None:
        report = finding.subject
        if isinstance(report, Report) and report.speaker:
            site = finding.site
            printer = replace(site, end_row=site.row, end_column=site.column + len(report.name))
            message = f"Print by `{report.speaker}`, which is silent on the other ranks"
            return Fix(Applicability.UNSAFE, message, (ReplaceExpression(printer, report.speaker),))
        if isinstance(report, Report) and not report.only_reads:
            # a forward or a collective that one rank alone runs leaves the others waiting
            return Fix(Applicability.DISPLAY, "Print on the first rank only; what it computes runs on all")
        return Fix(
            Applicability.UNSAFE,
            "Print on the first rank only",
            (GuardStatement(finding.site, FIRST_RANK), EnsureImport(finding.site, "torch")),
        )

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        here = frozenset(evidence.lines(finding.site))
        speakers = [rank.rank for rank in evidence.ranks if here & rank.printed_lines]
        several = len(evidence.ranks) > 1
        figure = Measurement("ranks that print this line", len(speakers), "ranks", Source.AGENT, 2)
        return judge_condition(
            evidence,
            finding.site,
            any(rank > 0 for rank in speakers) if several and speakers else None,
            (figure,) if several else (),
            unmeasured="no rank was seen printing here" if several else "one rank cannot tell; probe on several ranks",
        )


def _help(report: Report) -> str:
    """How to print on one rank, in the words of the framework that owns the loop."""
    if report.speaker:
        return f"Print on one rank: `{report.speaker}(…)`"
    if report.context.entry.framework is Framework.LIGHTNING:
        return "Print on one rank: `rank_zero_info(…)`, or in a function under `@rank_zero_only`"
    return "Print on one rank: put it under `rank == 0`"


def _runs_on_several_ranks(report: Report) -> bool:
    """Whether the program is written for several processes: it says so, or a framework starts it that way."""
    entry = report.context.entry
    launched = entry.spared(Duty.START_PROCESSES) and entry.distributed is not Known.NO
    return entry.distributed is Known.YES or launched


def _repeats(report: Report) -> bool:
    """Whether it is output of a loop in the training process."""
    context = report.context
    return (
        report.kind in (ReportKind.PRINT, ReportKind.LOGGER)
        and not report.warns
        and not report.dropped
        and context.entry.trains
        and context.frequency >= Frequency.PER_EPOCH
        and context.region not in (Region.DATA, Region.COLLATE)
    )


def _confidence(report: Report) -> Confidence:
    """Low where each rank's line may be meant, or where it costs nothing beside what else is done there."""
    context = report.context
    beside_work = context.frequency is Frequency.PER_N_STEPS and context.under(GuardKind.PAUSE)
    low = report.names_rank or context.frequency is Frequency.PER_EPOCH or beside_work
    return Confidence.LOW if low else Confidence.HIGH


def _one_rank_speaks(report: Report) -> bool:
    """Whether a guard or the printer leaves one rank, or the line is not part of a normal distributed run."""
    entry = report.context.entry
    silent = entry.rank_aware_print if report.kind is ReportKind.PRINT else entry.silent_loggers
    return report.rank_aware or silent or report.context.under(*SPOKEN_FOR)
