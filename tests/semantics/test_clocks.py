"""Readings of the host's clock, with work for the device between them that nothing waits for."""

from __future__ import annotations

import inspect

import pytest

from trainlint.lint.analyze import analyze
from trainlint.semantics.link import LinkOptions

HEAD = """
import datetime
import time
import timeit
from contextlib import contextmanager

import torch
from torch import nn

from elsewhere import anything, batches, loss_of, timer, value

model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.AdamW(model.parameters())
other_optimizer = anything()
scaler = torch.amp.GradScaler()
x = torch.randn(8, 8, device="cuda")
mask = x > 0
host = torch.randn(8, 8)
pinned = host.pin_memory()
loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)


class Doubled(nn.Module):
    def forward(self, x):
        return x.float() * 2


class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x.float() * self.scale


class Reading(nn.Module):
    def forward(self, x):
        return x * x.mean().item()


class Stopwatch:
    def start(self):
        self.at = time.time()


def now():
    return time.time()


doubled, reading, late = Doubled().cuda(), Reading().cuda(), Late().cuda()
stopwatch = Stopwatch()
"""

LEFT_OUT = {
    "a layer": "model(x)",
    "a model of the project": "doubled(x)",
    "a function of torch": "torch.exp(x)",
    "a matrix product": "x @ x",
    "arithmetic": "x * 2",
    "arithmetic in place": "x += 2",
    "a model whose constructor was put off": "late(x)",
    "a method": "x.exp()",
    "a backward pass": "model(x).sum().backward()",
    "an update after other work": "model(x)\noptimizer.step()",
    "under a context manager": "with torch.no_grad():\n    model(x)",
    "again and again": "for _ in range(8):\n    model(x)",
    "a copy from pinned memory": "y = pinned.cuda(non_blocking=True)\nmodel(y)",
    "a question about a setting": "if loader:\n    pass\nmodel(x)",
    "text of the host": "print('batch', 8)\nmodel(x)",
    "a value that is read on the host": "host.sum().item()\nmodel(x)",
}

WAITED_FOR = {
    "synchronized": "model(x)\ntorch.cuda.synchronize()",
    "by an object": "model(x)\ntorch.cuda.current_stream().synchronize()",
    "read": "model(x).sum().item()",
    "read before": "x.sum().item()\nmodel(x)",
    "copied to the host": "model(x).cpu()",
    "printed": "print(model(x))",
    "a branch": "if model(x).sum() > 0:\n    pass",
    "a shape that values decide": "model(x)[mask]",
    "a copy to the device": "y = host.cuda()\nmodel(y)",
    "a copy without waiting, from pageable memory": "y = host.to('cuda', non_blocking=True)\nmodel(y)",
    "a tensor that is made on the device": "torch.tensor([1.0], device='cuda')\nmodel(x)",
    "inside a model": "reading(x)",
    "an unknown function": "model(x)\nanything()",
    "an unknown function that is given the result": "anything(model(x))",
    "an unknown method": "model(x)\ntimer.stop()",
    "an unknown context manager": "with timer:\n    model(x)",
    "an unknown number": "model(x)\nfloat(value)",
    "an unknown comparison": "model(x)\nvalue > 0",
    "an unknown condition": "model(x)\nif value:\n    pass",
    "an unknown iterable": "for batch in batches:\n    model(x)",
    "a scaler": "scaler.step(optimizer)\nmodel(x)",
    "an unknown optimizer": "model(x)\nother_optimizer.step()",
    "a collective": "model(x)\ntorch.distributed.barrier()",
    "an empty cache": "model(x)\ntorch.cuda.empty_cache()",
    "a save": "model(x)\ntorch.save(model.state_dict(), 'model.pt')",
    "a sleep": "model(x)\ntime.sleep(1)",
}

NO_WORK = {
    "nothing": "pass",
    "on the host": "host @ host",
    "a view": "x.view(-1).unsqueeze(0)",
    "the shape": "x.shape[0] + x.size(0)",
    "on the host, by name alone": "loss_of(value)",
    "in the other branch": "if loader:\n    model(x)",
    "in a step loop": "for batch in loader:\n    model(x).sum().backward()",
    "in a loop over data": "for batch in loader:\n    model(x)",
    "in a loop of a counter that trains": "for step in range(8):\n    model(x).sum().backward()\n    optimizer.step()",
}


def rows(*between: str, start: str = "start = time.time()", end: str = "taken = time.time() - start") -> list[int]:
    """The rows, from that of `start`, of the later readings, where work is left out of the time between."""
    source = HEAD + "\n".join([start, *between, end]) + "\n"
    first = HEAD.count("\n") + 1
    return [timing.site.row - first for timing in analyze({"train.py": source}).timings]


@pytest.mark.parametrize("work", LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_work_that_nothing_waits_for_is_left_out(work: str) -> None:
    assert rows(work) == [work.count("\n") + 2]


@pytest.mark.parametrize("work", WAITED_FOR.values(), ids=WAITED_FOR.keys())
def test_what_may_wait_counts_as_waiting(work: str) -> None:
    assert rows(work) == []


@pytest.mark.parametrize("work", NO_WORK.values(), ids=NO_WORK.keys())
def test_without_work_of_the_device_that_surely_runs_nothing_is_left_out(work: str) -> None:
    assert rows(work) == []


CLOCKS = {
    "time.time": ("start = time.time()", "taken = time.time() - start"),
    "time.perf_counter": ("start = time.perf_counter()", "taken = round(time.perf_counter() - start, 3)"),
    "timeit.default_timer": ("start = timeit.default_timer()", "taken = timeit.default_timer() - start"),
    "datetime.now": ("start = datetime.datetime.now()", "taken = datetime.datetime.now() - start"),
    "in milliseconds": ("start = time.time_ns()", "taken = (time.time_ns() - start) / 1e6"),
    "both kept": ("start = time.time()", "end = time.time(); taken = end - start"),
    "kept by an object": ("stopwatch.start()", "taken = time.time() - stopwatch.at"),
}


@pytest.mark.parametrize(("start", "end"), CLOCKS.values(), ids=CLOCKS.keys())
def test_clocks_are_known_and_followed_through_variables(start: str, end: str) -> None:
    assert rows("model(x)", start=start, end=end) == [2]


NO_DIFFERENCE = {
    "of another thing": ("start = 8", "taken = time.time() - start"),
    "of unknown origin": ("start = timer.start", "taken = time.time() - start"),
    "two of which one may be meant": (
        "start = time.time()\nif loader:\n    start = time.time()",
        "taken = time.time() - start",
    ),
    "processor time": ("start = time.process_time()", "taken = time.process_time() - start"),
    "no difference": ("start = time.time()", "taken = time.time() > start"),
    "started under a condition": ("if loader:\n    start = time.time()", "taken = time.time() - start"),
    "by a function that is remembered": ("start = now()", "taken = now() - start"),
}


@pytest.mark.parametrize(("start", "end"), NO_DIFFERENCE.values(), ids=NO_DIFFERENCE.keys())
def test_other_differences_are_no_times(start: str, end: str) -> None:
    assert rows("model(x)", start=start, end=end) == []


def test_a_reading_by_an_object_that_is_asked_again_is_not_taken_for_the_first() -> None:
    again = "stopwatch.start()\nmodel(x)\ntorch.cuda.synchronize()\nstopwatch.start()"
    assert rows(start=again) == []
    assert rows("taken = time.time() - stopwatch.at", start="stopwatch.start()\nmodel(x)\nstopwatch.start()") == []


def test_what_a_turn_leaves_out_belongs_to_the_next() -> None:
    source = HEAD + inspect.cleandoc("""
        end = time.time()
        for step in range(8):
            model(x)
            taken = time.time() - end
            end = time.time()
        """)
    assert analyze({"train.py": source}).timings == []


def test_the_work_and_the_earlier_reading_are_named() -> None:
    source = HEAD + "start = time.time()\nmodel(x)\ntorch.exp(x)\ntaken = time.time() - start\n"
    (timing,) = analyze({"train.py": source}).timings
    assert timing.work == "torch.exp(x)"
    assert (timing.start.row, timing.work_site.row, timing.site.row) == tuple(timing.start.row + i for i in (0, 2, 3))


def test_there_is_no_device_where_the_configuration_says_so() -> None:
    source = HEAD + "start = time.time()\nmodel(x)\ntaken = time.time() - start\n"
    (timing,) = analyze({"train.py": source}, LinkOptions(device="cpu")).timings
    assert not timing.context.may_use_gpu
