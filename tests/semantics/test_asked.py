"""What conditions ask about, whatever they stand for."""

from __future__ import annotations

import pytest

from trainlint.lint.analyze import analyze
from trainlint.semantics.context import Asked, Interval


def asked_by(condition: str) -> Asked:
    """What the model says that a condition asks about."""
    source = f"""
import torch
import torch.distributed as dist
from lightning.utilities import rank_zero_only

def train(args, cfg, model, optimizer, loader, rank, turn, group, limit, step, self):
    for batch in loader:
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        if {condition}:
            print("a step")
"""
    (report,) = analyze({"report.py": source}).reports
    (guard, *_) = report.context.guards
    return guard.asked


WORDS = {
    "names and attributes": ("args.save_best and loss < limit", {"args", "save_best", "loss", "limit"}),
    "texts that they are held against": ("args.mode == 'offload'", {"args", "mode", "offload"}),
    "arguments": ("is_due(rank, force=cfg.force)", {"is_due", "rank", "force", "cfg"}),
    "more than messages quote": (
        f"{' or '.join(f'args.save_at_the_end_of_phase_{number}' for number in range(4))} or should_write",
        {"args", *(f"save_at_the_end_of_phase_{number}" for number in range(4)), "should_write"},
    ),
}


@pytest.mark.parametrize(("condition", "words"), WORDS.values(), ids=WORDS.keys())
def test_words_of_a_condition(condition: str, words: set[str]) -> None:
    assert asked_by(condition).words == words


@pytest.mark.parametrize(
    ("condition", "begins"),
    [
        ("args.save", True),
        ("not args.save", True),
        ("cfg.train.save_every > 0", True),
        ("(cfg.save or loss < 1) and loss > 0", True),
        ("args.names[0] == 'last'", True),
        ("self.config.save", True),
        ("self.save", False),
        ("args", False),
        ("len(args.names) > 1", False),
        ("model.save", False),
    ],
)
def test_a_condition_may_begin_with_a_setting(condition: str, begins: bool) -> None:
    assert asked_by(condition).settings is begins


@pytest.mark.parametrize(
    ("condition", "tells_apart"),
    [
        ("rank == 0", True),
        ("0 == rank", True),
        ("dist.get_rank() == 0", True),
        ("rank in (0, 1)", True),
        ("rank == 0 and not args.eval_only", True),
        ("rank_zero_only.rank == 0", True),
        ("rank == turn", False),
        ("turn != rank", False),
        ("dist.get_rank(group) == 0", False),
        ("dist.get_rank(group=args.group) == 0", False),
        ("args.node_rank == 0", False),
        ("model.get_tensor_parallel_rank() == 0", False),
        ("args.rank_zero_only", False),
    ],
)
def test_a_condition_on_the_rank_tells_the_processes_of_the_job_apart(condition: str, tells_apart: bool) -> None:
    assert asked_by(condition).ranks_of_all is tells_apart


@pytest.mark.parametrize(
    ("condition", "asks"), [("model.training", True), ("not model.training", True), ("args.train", False)]
)
def test_a_condition_may_ask_a_module_for_its_mode(condition: str, asks: bool) -> None:
    assert asked_by(condition).module_mode is asks


@pytest.mark.parametrize(
    ("condition", "interval"),
    [
        ("step % args.log_every == 0", Interval("step", False, "args.log_every")),
        ("(self.step + 1) % limit == 0", Interval("self.step", True, "limit")),
        ("step % 50 == 0", None),
        ("step % limit == 1", None),
        ("(step + 2) % limit == 0", None),
        ("step % limit == 0 and rank == 0", None),
    ],
)
def test_an_interval_is_a_counter_against_a_name(condition: str, interval: Interval | None) -> None:
    assert asked_by(condition).interval == interval
    assert interval is None or interval.text == condition
