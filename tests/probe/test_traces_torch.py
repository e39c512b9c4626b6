"""Traces that torch's own profiler writes, of jobs on the CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trainlint.probe.traces import RankTrace, analyse
from trainlint.probe.traces.operators import graph_operators
from trainlint.probe.traces.reading import read
from trainlint.probe.traces.sites import JobCode, origins
from trainlint.probe.traces.trace_analysis import StepSource

pytestmark = pytest.mark.torch

STEPS = 3
PROFILED = """
from torch.profiler import ProfilerActivity, profile, schedule

def profiled(path, stack):
    return profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(path),
        with_stack=stack,
    )
"""
JOB = """
import sys
import torch
from profiled import profiled

def report(loss):
    return loss.item()

def main():
    model = torch.nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(640, 64), batch_size=64)
    with profiled(sys.argv[1], stack=True) as profiler:
        for batch in loader:
            loss = model(batch).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            report(loss)
            profiler.step()

main()
"""
RANKS = """
import contextlib, sys
import torch
import torch.distributed as dist
from profiled import profiled

def main(rank):
    dist.init_process_group("gloo", init_method="file://" + sys.argv[1] + "/meeting", rank=rank, world_size=2)
    for name, reduces_each_time in ("each", True), ("last", False):
        train(f"{sys.argv[1]}/{name}-{rank}.json.gz", reduces_each_time)
    dist.destroy_process_group()

def train(path, reduces_each_time):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with profiled(path, stack=False) as profiler:
        for _ in range(6):
            for micro_batch in range(3):
                last = micro_batch == 2
                with contextlib.nullcontext() if last or reduces_each_time else model.no_sync():
                    model(torch.randn(8, 64)).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()

torch.multiprocessing.start_processes(main, nprocs=2, start_method="fork")
"""


def run(folder: Path, script: str, *arguments: str) -> None:
    (folder / "profiled.py").write_text(PROFILED, encoding="utf-8")
    (folder / "train.py").write_text(script, encoding="utf-8")
    command = [sys.executable, "train.py", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a job on the CPU, with stacks; its script lies beside it."""
    folder = tmp_path_factory.mktemp("job")
    run(folder, JOB, "trace.json")
    return folder / "trace.json"


@pytest.fixture(scope="module")
def rank(job: Path) -> RankTrace:
    (rank,) = analyse([job], [job.parent]).ranks
    return rank


def test_a_trace_of_the_cpu_has_steps_and_no_device(rank: RankTrace) -> None:
    assert (rank.steps.source, rank.steps.count, rank.updates) == (StepSource.PROFILER, STEPS, STEPS)
    assert rank.uses == () and rank.main is None
    assert not (rank.waits or rank.copies or rank.fills)
    assert rank.has_stacks and not rank.skipped
    assert rank.reductions_per_update is None


def test_the_parts_of_a_step_are_within_it(rank: RankTrace) -> None:
    parts = rank.parts
    found = [parts.forward_s, parts.backward_s, parts.optimizer_s, parts.data_wait_s]
    assert all(part is not None and part > 0 for part in found)
    assert sum(part or 0.0 for part in found) <= rank.span_s


def test_operators_come_from_functions_of_the_job(job: Path) -> None:
    trace = read(job)
    reads = [operator for operator in trace.operators if operator.name == "aten::item"]
    sites = [origin.site for origin in origins(trace, reads, JobCode([job.parent]))]
    assert len(sites) == STEPS
    assert {(site.path, site.function) for site in sites if site} == {(job.parent / "train.py", "report")}


MAKING = """
import sys
import torch
from profiled import profiled

model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with profiled(sys.argv[1], stack=False) as profiler:
    for _ in range(6):
        rows = torch.randn(2000, 2000).cumsum(1)[:, :256]
        loss = model(rows).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profiler.step()
"""


def test_operators_that_no_backward_pass_went_through_are_not_surely_the_models(tmp_path: Path) -> None:
    run(tmp_path, MAKING, "trace.json")
    trace = read(tmp_path / "trace.json")
    names = [operator.name for operator in graph_operators(trace)]
    models = {"aten::addmm": 2 * STEPS, "aten::relu": STEPS, "aten::pow": STEPS, "aten::mean": STEPS}
    assert {name: names.count(name) for name in models} == models
    assert not {"aten::randn", "aten::normal_", "aten::cumsum", "aten::slice"}.intersection(names)
    (rank,) = analyse([tmp_path / "trace.json"]).ranks
    making = sum(one.seconds for one in trace.operators if one.name in ("aten::randn", "aten::cumsum"))
    assert rank.parts.graph_s is not None
    assert 0 < rank.parts.graph_s < rank.span_s - making


FROZEN = """
import sys
import torch
from profiled import profiled

teacher = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(8)))
model = torch.nn.Linear(512, 512)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with profiled(sys.argv[1], stack=False) as profiler:
    for _ in range(6):
        rows = torch.randn(256, 512)
        with torch.no_grad():
            target = teacher(rows)
        loss = torch.nn.functional.mse_loss(model(rows), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profiler.step()
"""


def test_the_work_of_a_frozen_model_can_be_the_models(tmp_path: Path) -> None:
    run(tmp_path, FROZEN, "trace.json")
    trace = read(tmp_path / "trace.json")
    (rank,) = analyse([tmp_path / "trace.json"]).ranks
    frozen = [
        one.seconds
        for one in trace.operators
        if one.name == "aten::linear" and not one.arguments.get("Sequence number")
    ]
    assert len(frozen) == 8 * STEPS
    assert rank.parts.operators_s is not None and rank.parts.forward_s is not None
    assert rank.parts.operators_s >= rank.parts.forward_s + sum(frozen)


@pytest.fixture(scope="module")
def gloo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces of two ranks that accumulate over three micro-batches."""
    folder = tmp_path_factory.mktemp("gloo")
    run(folder, RANKS, str(folder))
    return folder


@pytest.mark.parametrize(("reduces", "rounds"), [("each", 3.0), ("last", 1.0)])
def test_reductions_for_each_update_are_counted_on_gloo(reduces: str, rounds: float, gloo: Path) -> None:
    analysis = analyse(sorted(gloo.glob(f"{reduces}-*.json.gz")))
    assert [rank.rank for rank in analysis.ranks] == [0, 1]
    for rank in analysis.ranks:
        assert (rank.updates, rank.reductions_per_update) == (STEPS, rounds)
