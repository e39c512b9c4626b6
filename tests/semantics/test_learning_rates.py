"""Numbers that grow with the number of processes, and what else may decide a learning rate than the optimizer's own."""

from __future__ import annotations

import inspect

import pytest
from marked_programs import plain

from trainlint.lint.analyze import analyze
from trainlint.semantics.values import Host

HEAD = """
import argparse
import os
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

args = argparse.ArgumentParser().parse_args()
"""

RANKS = {
    "8 * torch.cuda.device_count()": 1,
    "dist.get_world_size() * args.batch_size": 1,
    "8 * int(os.environ['WORLD_SIZE'])": 1,
    "int(8 * max(1, torch.cuda.device_count()))": 1,
    "8 * (dist.get_world_size() if dist.is_initialized() else 1)": 1,
    "8 * args.world_size": 1,
    "8 * dist.get_world_size() // 2": 1,
    "dist.get_world_size() * dist.get_world_size()": 2,
    "args.batch_size // dist.get_world_size()": -1,
    "int(args.batch_size / dist.get_world_size())": -1,
    "args.batch_size // dist.get_world_size() * dist.get_world_size()": 0,
    "args.batch_size + dist.get_world_size()": 0,
    "8 * dist.get_rank()": 0,
    "2 * args.batch_size": 0,
}


@pytest.mark.parametrize(("size", "expected"), RANKS.items(), ids=RANKS.keys())
def test_a_number_tells_how_the_number_of_processes_goes_into_it(size: str, expected: int) -> None:
    (loader,) = analyze({"train.py": f"{HEAD}loader = DataLoader([], batch_size={size})\n"}).loaders
    value = loader.arguments.value("batch_size")
    assert isinstance(value, Host)
    assert value.ranks == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("steps = 16 // dist.get_world_size()", True),
        ("args.steps //= torch.cuda.device_count()", True),
        ("steps = 16 * dist.get_world_size() // 2", False),
        ("loss = torch.ones(8) / dist.get_world_size()", False),
    ],
)
def test_it_is_known_whether_processes_share_a_number(statement: str, expected: bool) -> None:
    (entry,) = analyze({"train.py": f"{HEAD}{statement}\n"}).entries
    assert entry.divides_by_ranks is expected


@pytest.mark.parametrize(
    "changes",
    [
        "size *= torch.cuda.device_count()",
        "size = size * torch.cuda.device_count()",
        "if args.parallel:\n    size *= torch.cuda.device_count()",
    ],
)
def test_a_number_that_is_multiplied_in_place_grows(changes: str) -> None:
    (loader,) = analyze({"train.py": f"{HEAD}size = 8\n{changes}\nloader = DataLoader([], batch_size=size)\n"}).loaders
    value = loader.arguments.value("batch_size")
    assert isinstance(value, Host)
    assert value.ranks == 1


SCHEDULES = {
    "schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)": False,
    "schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=90)": False,
    "schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step)": True,
    "schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.4, total_steps=9)": True,
    "schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=torch.cuda.device_count())": True,
    "schedule = warmup.GradualWarmupScheduler(optimizer, multiplier=8)": True,
    "schedule = make_schedule(optimizer)": True,
    "adjust_lr(optimizer, 8)": True,
    "optimizer.param_groups[0]['lr'] *= 8": True,
    "print(optimizer.param_groups[0]['lr'])": False,
    """
    class Warmup(torch.optim.lr_scheduler.LRScheduler):
        def get_lr(self):
            return [0.8]


    schedule = Warmup(optimizer)
    """: True,
    """
    def adjust(optimizer):
        for group in optimizer.param_groups:
            group["lr"] = 0.8


    adjust(optimizer)
    """: True,
}


@pytest.mark.parametrize(("schedule", "expected"), SCHEDULES.items(), ids=SCHEDULES.keys())
def test_it_is_known_what_else_may_decide_the_learning_rate(schedule: str, expected: bool) -> None:
    text = plain(
        inspect.cleandoc("import warmup\nfrom other import adjust_lr, make_schedule")
        + "\n"
        + inspect.cleandoc(schedule)
    )
    (entry,) = analyze({"train.py": text}).entries
    assert entry.resets_learning_rate is expected


def test_the_learning_rate_of_an_optimizer_is_known_by_position_too() -> None:
    (optimizer,) = analyze({"train.py": plain("torch.optim.RMSprop(model.parameters(), 0.3)")}).calls_of(
        "torch.optim.RMSprop"
    )
    assert optimizer.arguments.constant("lr") == 0.3
