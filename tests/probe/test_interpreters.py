"""The agent in other interpreters than that of the tests: those that `make test-interpreters` has prepared."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.probe.agent_jobs import BEGIN, Job, environment, prepared, run, run_job, run_plain
from tests.probe.interpreters import TELLS_LINES, TRIED, interpreter, python_of
from tests.probe.test_agent_harmless import COMPILED, TRAIN

from trainlint.agent import records
from trainlint.probe import recording
from trainlint.probe.analysis import analyse
from trainlint.probe.evidence import Evidence, Line


def python(version: str) -> str:
    found = python_of(version)
    if found is None:
        pytest.skip(f"there is no environment for Python {version}: make test-interpreters")
    return str(found)


def evidence_of(job: Job) -> Evidence:
    assert [note for process in job.processes for note in process.noted("fault")] == []
    return analyse(recording.read(job.folder))[1]


def unstamped(streams: object) -> str:
    """Without the time and the process that torch's own warnings name, such as that there is no triton."""
    return re.sub(r"([IWE]\d{4}) [\d:.]+ \d+ ", r"\1 ", str(streams))


def row_of(source: str, word: str) -> int:
    return next(row for row, line in enumerate(source.splitlines(), 1) if line.endswith("# " + word))


RANKS = """
import os, time
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 240
    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.full((4,), float(index % 7))
def main():
    dist.init_process_group("gloo")
    net = DistributedDataParallel(torch.nn.Linear(4, 1)); optimizer = torch.optim.SGD(net.parameters(), 0.001)
    rows = Rows()
    loader = DataLoader(rows, batch_size=4, num_workers=2, sampler=DistributedSampler(rows, shuffle=False))
    for x in loader:
        optimizer.zero_grad(); loss = net(x).pow(2).mean(); loss.backward(); optimizer.step()
        value = loss.item()  # read
        if dist.get_rank() == 0:
            print("%.4f" % value, flush=True)  # print
    dist.destroy_process_group()
if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("version", TRIED)
def test_ranks_with_workers_are_measured_and_left_alone(version: str, tmp_path: Path) -> None:
    source = BEGIN + RANKS
    launcher = (python(version), "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    job = run_job(tmp_path, source, python=launcher, warmup=5, steps=10, keep_running=True, watch=True)
    assert (job.code, job.out) == run_plain(tmp_path, source, python=launcher)[:2]
    assert len(job.out.splitlines()) == 30
    measured, evidence = analyse(recording.read(job.folder))
    assert (measured.environment.python or "").startswith(version)
    assert measured.environment.world_size == 2
    assert measured.steps.measured == 10
    (loader,) = evidence.loaders
    assert loader.workers == 2
    script = tmp_path / "job.py"
    assert evidence.syncs[Line(script, row_of(source, "read"))].calls_per_step == 1.0
    assert evidence.calls[Line(script, row_of(source, "print"))].calls_per_step == 1.0
    first, second = evidence.ranks
    assert first.printed_lines and not second.printed_lines
    assert first.batch_digests != second.batch_digests
    assert len(job.of_role("worker")) == 4
    assert evidence.ran.get(Line(script, row_of(source, "read"))) is (True if version in TELLS_LINES else None)


# What feeds a queue may hold the last reference to its semaphore. Where Python ends between the removal of that and the
# note of it, it says that the semaphore leaked, and that it is not there: the job waits for it.
LINES = """
import sys, threading
import other
@torch.jit.script
def scripted(x: torch.Tensor):
    return x + 1  # scripted
def inlined(x):
    return x * 2  # inlined
@torch.compile(backend="eager")
def compiled(x, deep: bool = False):
    y = inlined(x)  # traced
    if deep:
        return y - 1  # not traced
    return y
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 400
    def __getitem__(self, index):
        if index < 0:
            return None  # never in a worker
        return torch.ones(4)  # in a worker
def rarely(step):
    return step  # once in the clean steps
def train(loader):
    net = torch.nn.Linear(4, 1); optimizer = torch.optim.SGD(net.parameters(), 0.001)
    for step, x in enumerate(loader):  # loop
        optimizer.zero_grad(); compiled(scripted(net(x))).pow(2).mean().backward(); optimizer.step()
        if step < 2:
            other.early()  # early
        if step == 12:
            rarely(step)  # rarely
            import later
            later.function()
        if step < 0:
            never(step)  # never
        print(
            "step",  # inner
        )
    return sys.monitoring.get_tool(4), sys.monitoring.get_tool(3)
def never(step):
    return step  # never called
if __name__ == "__main__":
    print(train(DataLoader(Rows(), batch_size=4, num_workers=2, multiprocessing_context=sys.argv[1])))  # set up
    for thread in threading.enumerate():
        if thread.name == "QueueFeederThread": thread.join()
"""
OTHER = """
def early():
    return 1  # within early
def unused():
    return 2  # unused
"""
LATER = """
def function():
    return 1  # within later
def unused():
    return 2  # unused later
"""


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("version", TELLS_LINES)
def test_which_lines_ran(version: str, start: str, tmp_path: Path) -> None:
    source = BEGIN + LINES
    (tmp_path / "other.py").write_text(OTHER, encoding="utf-8")
    (tmp_path / "later.py").write_text(LATER, encoding="utf-8")
    interpreter = (python(version),)
    job = run_job(
        tmp_path, source, start, python=interpreter, watch=True, warmup=5, steps=20, profile=False, keep_running=True
    )
    assert unstamped(job.streams) == unstamped(run_plain(tmp_path, source, start, python=interpreter))
    assert job.out.endswith("(None, None)\n")
    evidence = evidence_of(job)
    ran = {}
    for name, text in {"job.py": source, "other.py": OTHER, "later.py": LATER}.items():
        for row, line in enumerate(text.splitlines(), 1):
            if "  # " in line:
                ran[line.partition("  # ")[2]] = evidence.ran.get(Line(tmp_path / name, row))
    # A worker does not know when the clean steps begin: what it ran before is not known to run again.
    assert ran.pop("in a worker") is not False
    assert ran == {
        **dict.fromkeys(("loop", "inner", "rarely", "once in the clean steps", "within later"), True),
        **dict.fromkeys(("never", "never called", "never in a worker", "unused", "unused later"), False),
        **dict.fromkeys(("scripted", "inlined", "traced", "not traced", "early", "within early", "set up"), None),
    }


BEFORE_TORCH = """
import before
import torch
import after
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
net = torch.nn.Linear(4, 1); optimizer = torch.optim.SGD(net.parameters(), 0.1)
for x, in DataLoader(TensorDataset(torch.randn(60, 4)), batch_size=1):
    net(x).sum().backward(); optimizer.step()
"""


@pytest.mark.parametrize("version", TELLS_LINES)
def test_files_that_were_loaded_before_torch_are_not_watched(version: str, tmp_path: Path) -> None:
    for name in ("before.py", "after.py"):
        (tmp_path / name).write_text(LATER, encoding="utf-8")
    job = run_job(tmp_path, BEFORE_TORCH, python=(python(version),), watch=True, warmup=5, steps=20, profile=False)
    evidence = evidence_of(job)
    row = row_of(LATER, "unused later")
    assert evidence.ran.get(Line(tmp_path / "before.py", row)) is None
    assert evidence.ran.get(Line(tmp_path / "after.py", row)) is False


TOOLS = """
import sys
monitoring, events = sys.monitoring, sys.monitoring.events
lines = []
def told(code, row):
    if code.co_filename == __file__: lines.append(row)
    return monitoring.DISABLE
held = [int(one) for one in sys.argv[1:]]
for tool in held:
    monitoring.use_tool_id(tool, "own")
monitoring.register_callback(held[0], events.LINE, told)
monitoring.set_events(held[0], events.LINE)
def main():
    net = torch.nn.Linear(4, 1); optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step, (x,) in enumerate(DataLoader(TensorDataset(torch.randn(60, 4)), batch_size=1)):
        net(x).sum().backward(); optimizer.step()  # steps
        if step in (3, 20): monitoring.restart_events()
main()
monitoring.set_events(held[0], 0)
print(lines)
print([monitoring.get_tool(one) for one in range(6)])
"""


@pytest.mark.parametrize("held", [("0",), ("1",), ("1", "4")], ids="".join)
@pytest.mark.parametrize("version", TELLS_LINES)
def test_debuggers_and_coverage_see_what_they_would(version: str, held: tuple[str, ...], tmp_path: Path) -> None:
    interpreter = (python(version),)
    source = BEGIN + TOOLS
    plain = run_plain(tmp_path, source, *held, python=interpreter)
    job = run_job(
        tmp_path, source, *held, python=interpreter, watch=True, warmup=5, steps=20, profile=False, keep_running=True
    )
    assert job.streams == plain
    assert plain[0] == 0, plain[2]
    # A job that takes the agent's own number has it.
    ran = evidence_of(job).ran.get(Line(tmp_path / "job.py", row_of(source, "steps")))
    assert ran is (None if "4" in held else True)


TRACED = """
import sys
events = []
def tracer(frame, event, argument):
    if frame.f_code.co_filename == __file__: events.append((event, frame.f_lineno))
    return tracer
def called(step):
    step += 1
    return step
def main():
    net = torch.nn.Linear(4, 1); optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step, (x,) in enumerate(DataLoader(TensorDataset(torch.randn(60, 4)), batch_size=1)):
        net(x).sum().backward(); optimizer.step()
        if step in (3, 20, 50): sys.settrace(tracer)
        called(step)
        sys.settrace(None)
main()
print(events)
"""


@pytest.mark.parametrize("version", TELLS_LINES)
def test_trace_functions_see_what_they_would(version: str, tmp_path: Path) -> None:
    source, interpreter = BEGIN + TRACED, (python(version),)
    plain = run_plain(tmp_path, source, python=interpreter)
    job = run_job(
        tmp_path, source, python=interpreter, watch=True, warmup=5, steps=20, profile=False, keep_running=True
    )
    assert job.streams == plain
    assert plain[1].count("call") == 3


HELD_BEFORE = """
import sys
for tool in (3, 4):
    sys.monitoring.use_tool_id(tool, "own")
import torch
print(torch.ones(1))
"""


@pytest.mark.parametrize("version", TELLS_LINES)
def test_where_others_hold_all_tools_lines_are_not_told(version: str, tmp_path: Path) -> None:
    job = run_job(tmp_path, HELD_BEFORE, python=(python(version),), watch=True)
    assert (job.code, job.out) == (0, "tensor([1.])\n")
    (process,) = job.processes
    assert [note["what"] for note in process.noted("missing")] == ["lines"]


@pytest.mark.parametrize("version", TRIED)
def test_compiled_code_is_compiled_as_without(version: str, tmp_path: Path) -> None:
    source, interpreter = BEGIN + TRAIN + COMPILED, (python(version),)
    code, out, _ = run_plain(tmp_path, source, python=interpreter)
    job = run_job(
        tmp_path, source, python=interpreter, watch=True, warmup=3, steps=10, profile=False, keep_running=True
    )
    told = [[ast.literal_eval(line) for line in text.splitlines() if line.startswith("[")] for text in (out, job.out)]
    assert len(told[0]) == 5
    assert told[1] == told[0]
    assert (job.code, job.out) == (code, out)
    assert [list(process.noted("fault")) for process in job.processes] == [[]] * len(job.processes)


PROBED = """
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset


def train(loader, net, optimizer, loud):
    for (x,) in loader:
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        if loud:
            print("a step")  # heard
        else:
            print("done")  # not heard


def main():
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.001)
    train(DataLoader(TensorDataset(torch.ones(200, 4)), batch_size=2), net, optimizer, len(sys.argv) > 1)


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("version", TRIED)
def test_a_finding_on_a_line_that_does_not_run_is_not_exercised(version: str, tmp_path: Path) -> None:
    script, result = tmp_path / "train.py", tmp_path / "result.json"
    script.write_text(PROBED, encoding="utf-8")
    probe = [sys.executable, "-m", "trainlint", "probe", "--steps", "20", "--no-profile", "--python", python(version)]
    done = subprocess.run(
        [*probe, "--output-file", str(result), str(script), "loud"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    verdicts = {
        one["location"]["row"]: one["verdict"]
        for one in json.loads(result.read_text(encoding="utf-8"))["findings"]
        if one["code"] == "TL202"
    }
    assert verdicts[row_of(PROBED, "heard")]["calls_per_step"] == 1.0
    silent = verdicts[row_of(PROBED, "not heard")]
    if version in TELLS_LINES:
        assert silent["status"] == "not-exercised"
    else:
        assert silent["status"] == "inconclusive"
        assert "Python before 3.12 does not tell which lines run" in silent["note"]


WITHOUT_TORCH = """
import importlib, os, pathlib, sys
sys.modules["torch"] = sys  # so that what reads torch's folder finds one
folder = pathlib.Path(os.environ["TRAINLINT_PROBE_DIR"], "agent")
names = sorted(one.stem for one in folder.glob("*.py") if one.stem != "__init__")
for name in names:
    importlib.import_module("_trainlint_agent." + name)
print(len(names), sys.version_info >= (3, 9))
"""


@pytest.mark.parametrize("version", ["3.9", *TRIED])
def test_all_of_the_agent_can_be_read(version: str, tmp_path: Path) -> None:
    found = interpreter(version)
    if found is None:
        pytest.skip(f"Python {version} is not here")
    plain = "import sys, threading; print(sys.argv[1:], threading.active_count(), sys.path[1:2]); 1 / 0"
    job = run_job(tmp_path, plain, "x", python=(str(found),), watch=True)
    assert job.streams == run_plain(tmp_path, plain, "x", python=(str(found),))
    script = tmp_path / "job.py"
    script.write_text(WITHOUT_TORCH, encoding="utf-8")
    done = run([str(found), str(script)], tmp_path, environment(prepared(tmp_path)))
    modules = len(list((Path(records.__file__).parent).glob("*.py"))) - 1
    assert (done.returncode, done.stdout) == (0, f"{modules} True\n"), done.stderr
