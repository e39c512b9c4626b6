"""A job with the agent in it is as one without: what it sees, what it prints, how it ends, what is compiled."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
from tests.probe.agent_jobs import BEGIN, environment, prepared, run, run_job, run_plain

pytest.importorskip("torch")

QUICK = {"warmup": 3, "steps": 10, "keep_running": True}

TRAIN = """
def model(): return torch.nn.Linear(4, 1)
def loss_of(net, x, y): return ((net(x) - y) ** 2).mean()
def batches(count=40): return DataLoader(TensorDataset(torch.randn(count, 4), torch.randn(count, 1)), batch_size=1)
"""
SEEN_AND_SAID = """
import gc, logging, os, sys, threading, traceback, warnings
print([type(one) for one in sys.meta_path], sys.path, threading.active_count(), gc.isenabled(), gc.get_threshold())
print(sys.flags, sorted(name for name in os.environ if not name.startswith(("TRAINLINT_", "PYTHONPATH", "KINETO_"))))
net = model(); optimizer = torch.optim.AdamW(net.parameters())
for x, y in batches(60):
    optimizer.zero_grad(); loss = loss_of(net, x, y); loss.backward(); optimizer.step()
    print("loss", float(loss))
for x in DataLoader(TensorDataset(torch.ones(4)), num_workers=9, pin_memory=True): print(x)
logging.error("%d", "no number")
class Bad(torch.utils.data.Dataset):
    def __len__(self): return 5
    def __getitem__(self, index): raise KeyError("bad")
try:
    for x in DataLoader(Bad()): pass
except KeyError:
    traceback.print_exc()
@torch.jit.script
def scripted(x: torch.Tensor):
    with torch.autograd.profiler.record_function("scope"):
        return x + 1
print(scripted(torch.ones(1)))
torch.ones(2, requires_grad=True).backward()
"""


def test_what_a_job_sees_says_and_raises_is_as_without(tmp_path: Path) -> None:
    plain = run_plain(tmp_path, BEGIN + TRAIN + SEEN_AND_SAID)
    job = run_job(tmp_path, BEGIN + TRAIN + SEEN_AND_SAID, **QUICK)
    assert job.streams == plain
    assert plain[0] == 1
    assert "RuntimeError: grad can be implicitly created" in plain[2]
    assert [note for process in job.processes for note in process.noted("fault")] == []
    assert job.rank.records


COMPILED = """
import logging, os, sys
def compiled_model():
    net = torch.compile(model(), backend="eager"); optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for x, y in batches():
        loss = loss_of(net, x, y); loss.backward(); optimizer.step(); optimizer.zero_grad()
    return loss
def step_with_breaks():
    net = model(); optimizer = torch.optim.AdamW(net.parameters())
    @torch.compile(backend="eager")
    def step(x, y):
        loss = loss_of(net, x, y); print("in step"); loss.backward(); logging.getLogger("x").warning("in step")
        optimizer.step(); optimizer.zero_grad(); return loss.item()
    for x, y in batches():
        loss = step(x, y)
    return torch.tensor(loss)
def compiled_optimizer():
    net = model(); optimizer = torch.optim.SGD(net.parameters(), 0.1)
    step = torch.compile(optimizer.step, backend="eager")
    for x, y in batches():
        loss = loss_of(net, x, y); loss.backward(); step(); optimizer.zero_grad()
    return loss
def gradients():
    net = model()
    @torch.compile(backend="eager")
    def step(x, y): return torch.autograd.grad(loss_of(net, x, y), list(net.parameters()))[0].sum()
    for x, y in batches():
        loss = step(x, y)
    return loss
def scaled():
    net = model(); optimizer = torch.optim.SGD(net.parameters(), 0.1); scaler = torch.amp.GradScaler("cpu")
    @torch.compile(backend="eager")
    def step(x, y):
        loss = loss_of(net, x, y); scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update(); return loss
    for x, y in batches():
        loss = step(x, y)
    return loss
for name in ("compiled_model", "step_with_breaks", "compiled_optimizer", "gradients", "scaled"):
    if name == "compiled_optimizer":
        # Until here each process loads it, which takes seconds; from here on they have it already.
        import torch._dynamo
    pid = os.fork()
    if not pid:
        loss = globals()[name]().item()
        from torch._dynamo.utils import counters
        told = {kind: dict(counters[kind]) for kind in ("stats", "graph_break", "unimplemented", "resumes")}
        print([name, loss, told], flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""


def _without_times(text: str) -> str:
    return re.sub(r"\bW\d{4} [\d:.]+ \d+ ", "", text)


def test_compiled_code_is_compiled_as_without(tmp_path: Path) -> None:
    code, out, err = run_plain(tmp_path, BEGIN + TRAIN + COMPILED)
    job = run_job(tmp_path, BEGIN + TRAIN + COMPILED, **QUICK)
    told = [[ast.literal_eval(line) for line in text.splitlines() if line.startswith("[")] for text in (out, job.out)]
    assert len(told[0]) == 5
    assert told[1] == told[0]
    assert (job.code, job.out) == (code, out)
    assert _without_times(job.err) == _without_times(err)
    assert [list(process.noted("fault")) for process in job.processes] == [[]] * len(job.processes)


@pytest.mark.parametrize("broken", ["options.json", "agent/agent.py", "agent/start.py", "processes"])
def test_a_broken_recording_leaves_the_job_alone(tmp_path: Path, broken: str) -> None:
    """The agent's code or options are nonsense, or the folder is none."""
    script = tmp_path / "job.py"
    script.write_text(BEGIN + "print(torch.ones(1).item())\n", encoding="utf-8")
    into = prepared(tmp_path)
    place = into / broken
    if place.is_dir():
        place.rmdir()
    place.write_text("nonsense (", encoding="utf-8")
    done = run([sys.executable, str(script)], tmp_path, environment(into))
    assert (done.returncode, done.stdout, done.stderr) == (0, "1.0\n", "")


FAILING_SAVES = """
import pickle, traceback
net = torch.nn.Linear(4, 1); optimizer = torch.optim.SGD(net.parameters(), 0.1)
class Broken:
    def write(self, data): raise OSError("no space")
    def flush(self): raise OSError("no flush")
for step, (x,) in enumerate(DataLoader(TensorDataset(torch.randn(20, 4)), batch_size=1), 1):
    net(x).sum().backward(); optimizer.step()
    if step == 8:
        for into in ("missing/state.pt", "/dev/full", Broken()):
            for zipped in (True, False):
                try:
                    torch.save({"net": net.state_dict(), "more": list(range(100000))}, into,
                               _use_new_zipfile_serialization=zipped)
                except Exception:
                    traceback.print_exc()
        print(pickle.loads(pickle.dumps(torch.save)) is torch.save)
"""


def test_saves_that_fail_raise_what_they_raise_without_the_agent(tmp_path: Path) -> None:
    job = run_job(tmp_path, BEGIN + FAILING_SAVES, warmup=3, steps=10, profile=False, keep_running=True)
    plain = run_plain(tmp_path, BEGIN + FAILING_SAVES)
    assert plain[2].count("Traceback") >= 5
    assert job.streams == plain
    assert list(job.rank.noted("fault")) == []
