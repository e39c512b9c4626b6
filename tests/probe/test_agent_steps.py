"""Steps are told for every way of training, while the job runs: one process for all, which forks for each."""

from __future__ import annotations

import pytest
from tests.probe.agent_jobs import BEGIN, Job, run_job

from trainlint.agent import records

pytest.importorskip("torch")

LOOPS = """
def batches(count=200):
    return DataLoader(TensorDataset(torch.randn(count, 4), torch.randn(count, 1)), batch_size=1)

def model():
    return torch.nn.Linear(4, 1)

def loss_of(net, x, y):
    return ((net(x) - y) ** 2).mean()

def plain():
    net = model(); optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for x, y in batches():
        loss_of(net, x, y).backward(); optimizer.step(); yield

class Subclass(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)

def subclass_that_calls_super():
    net = model(); optimizer = Subclass(net.parameters(), 0.1)
    for x, y in batches():
        loss_of(net, x, y).backward(); optimizer.step(); yield

def accumulation():
    net = model(); optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for index, (x, y) in enumerate(batches(), 1):
        loss_of(net, x, y).backward()
        if index % 3 == 0:
            optimizer.step(); yield

def lbfgs():
    net = model(); optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)
    for x, y in batches():
        def closure():
            loss = loss_of(net, x, y); loss.backward(); return loss
        optimizer.step(closure); yield

def gan():
    one, two = model(), model()
    first, second = torch.optim.SGD(one.parameters(), 0.1), torch.optim.Adam(two.parameters())
    for x, y in batches():
        loss_of(one, x, y).backward(); first.step(); loss_of(two, x, y).backward(); second.step(); yield

def several_critic_steps():
    one, two = model(), model()
    critic, generator = torch.optim.SGD(one.parameters(), 0.1), torch.optim.Adam(two.parameters())
    for index, (x, y) in enumerate(batches(), 1):
        loss_of(one, x, y).backward(); critic.step()
        if index % 3 == 0:
            loss_of(two, x, y).backward(); generator.step(); yield

def skipped_for_infinities():
    net = model(); optimizer = torch.optim.SGD(net.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu")
    for index, (x, y) in enumerate(batches(), 1):
        optimizer.zero_grad()
        loss = scaler.scale(loss_of(net, x, y)); (loss * (float("inf") if index % 4 == 0 else 1)).backward()
        scaler.step(optimizer); scaler.update(); yield

def evaluation_in_between():
    net = model(); optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for index, (x, y) in enumerate(batches(), 1):
        loss_of(net, x, y).backward(); optimizer.step(); yield
        if index % 5 == 0:
            with torch.no_grad():
                for a, b in batches(3):
                    net(a)

def optimizer_in_backward():
    net = torch.nn.Sequential(model(), torch.nn.Linear(1, 1))
    for parameter in net.parameters():
        optimizer = torch.optim.SGD([parameter], 0.1)
        parameter.register_post_accumulate_grad_hook(lambda _, optimizer=optimizer: optimizer.step())
    for x, y in batches():
        loss_of(net, x, y).backward(); yield

def no_loader():
    net = model(); optimizer = torch.optim.SGD(net.parameters(), 0.1)
    while True:
        loss_of(net, torch.randn(1, 4), torch.randn(1, 1)).backward(); optimizer.step(); yield

def gradients_without_backward():
    net = model(); optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for x, y in batches():
        for parameter, gradient in zip(net.parameters(), torch.autograd.grad(loss_of(net, x, y), net.parameters())):
            parameter.grad = gradient
        optimizer.step(); yield

def updates_by_hand():
    net = model()
    for x, y in batches():
        loss_of(net, x, y).backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= 0.1 * parameter.grad; parameter.grad = None
        yield

def batches_only():
    for x, y in batches():
        x.sum(); yield
"""
CASES = (
    "plain",
    "subclass_that_calls_super",
    "accumulation",
    "lbfgs",
    "gan",
    "several_critic_steps",
    "skipped_for_infinities",
    "evaluation_in_between",
    "optimizer_in_backward",
    "no_loader",
    "gradients_without_backward",
    "updates_by_hand",
    "batches_only",
)
FORK_EACH = """
import os, sys
for name in sys.argv[1:]:
    pid = os.fork()
    if not pid:
        done = 0
        try:
            for _ in globals()[name]():
                done += 1
        except SystemExit:
            print(os.getpid(), name, "ended after", done, flush=True)
        else:
            print(os.getpid(), name, "ran out after", done, flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""
WARMUP, STEPS = 6, 12


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("steps")
    return run_job(folder, BEGIN + LOOPS + FORK_EACH, *CASES, warmup=WARMUP, steps=STEPS, profile=False)


@pytest.mark.parametrize("name", CASES)
def test_the_job_ends_after_the_steps_that_were_asked_for(jobs: Job, name: str) -> None:
    (line,) = [line.split() for line in jobs.out.splitlines() if line.split()[1] == name]
    (process,) = [process for process in jobs.processes if process.pid == int(line[0])]
    assert list(process.noted("fault")) == []
    assert line[2:4] == ["ended", "after"], jobs.err
    # A step by hand shows late: at the first batch after it, and once it is known that no optimizer will come.
    assert WARMUP + STEPS <= int(line[4]) <= WARMUP + STEPS + 8


def test_steps_that_a_scaler_skipped_are_told(jobs: Job) -> None:
    (line,) = [line.split() for line in jobs.out.splitlines() if line.split()[1] == "skipped_for_infinities"]
    (process,) = [process for process in jobs.processes if process.pid == int(line[0])]
    skipped = [bool(record.value) for record in process.records if record.kind == records.SCALER_UPDATE]
    assert len(skipped) >= WARMUP + STEPS
    assert skipped == [index % 4 == 0 for index in range(1, len(skipped) + 1)]
