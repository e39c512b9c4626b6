"""What the agent records of a real job: lines that read, print and wait, workers, and what is left after a kill."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from tests.probe.agent_jobs import BEGIN, environment, prepared, processes_of, run, run_job, run_plain
from tests.probe.compiled import compiled

from trainlint.agent import records
from trainlint.probe import recording
from trainlint.probe.analysis import analyse
from trainlint.probe.evidence import Line
from trainlint.probe.recording import ProcessRecording

pytest.importorskip("torch")

LOOP = """
import gc, logging, os, sys, signal
net = torch.nn.Linear(4, 1); optimizer = torch.optim.AdamW(net.parameters())
logging.basicConfig(stream=sys.stdout)
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 400
    def __getitem__(self, index): return {"x": torch.ones(4), "attention_mask": torch.tensor([1, 1, 0, 0])}
def main():
    start = sys.argv[1] if sys.argv[1:] else None
    workers = {"num_workers": 2, "multiprocessing_context": start} if start else {}
    for index, batch in enumerate(DataLoader(Rows(), batch_size=4, **workers), 1):
        optimizer.zero_grad()
        loss = net(batch["x"]).pow(2).mean()
        loss.backward()
        optimizer.step()
        float(loss.detach())  # read
        print("loss")  # print
        logging.warning("loss")  # logging
        if index == 20:
            gc.collect()  # collect
            torch.save(net.state_dict(), os.devnull)  # save
        if index == 25 and "--kill" in sys.argv:
            os.kill(os.getpid(), signal.SIGKILL)
if __name__ == "__main__":
    main()
"""
SCRIPT = BEGIN + LOOP


def row_of(word: str) -> int:
    return next(row for row, line in enumerate(SCRIPT.splitlines(), 1) if line.endswith("# " + word))


def names(process: ProcessRecording, kind: int) -> Counter[str]:
    return Counter(record.name for record in process.records if record.kind == kind)


def test_reads_prints_and_the_like_are_recorded_by_line(tmp_path: Path) -> None:
    job = run_job(tmp_path, SCRIPT, warmup=5, steps=20, profile_steps=2)
    path = tmp_path / "job.py"
    calls = names(job.rank, records.CALL)
    assert names(job.rank, records.SYNC)[f"{path}:{row_of('read')}"] >= 25
    assert calls[f"print {path}:{row_of('print')}"] >= 25
    assert calls[f"logging {path}:{row_of('logging')}"] >= 25
    assert calls[f"collect {path}:{row_of('collect')}"] == 1
    assert calls[f"save {path}:{row_of('save')}"] == 1
    assert {record.value for record in job.rank.records if record.kind == records.TOKENS} == {8.0}
    (trace,) = job.rank.noted("trace")
    assert Path(str(trace["path"])).exists()
    assert (trace["steps"], trace["stacks"]) == (2, None)
    assert [bool(note["without_stacks"]) for note in job.rank.noted("window")] == [True]
    assert [note["planned"] for note in job.rank.noted("stop")] == [True]
    assert str(path) in str(next(job.rank.noted("files"))["paths"])
    phases = [int(record.value) for record in job.rank.records if record.kind == records.PHASE]
    assert phases == [records.CLEAN, records.WINDOW, records.CLEAN, records.DETACHED]


@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="the kernel does not count it")
def test_waits_for_a_core_are_counted_around_each_backward_pass(tmp_path: Path) -> None:
    job = run_job(tmp_path, SCRIPT, warmup=5, steps=20, profile=False)
    waits = [record for record in job.rank.records if record.kind == records.CORE_WAIT]
    passes = [record for record in job.rank.records if record.kind == records.BACKWARD]
    assert len(waits) >= 2 * len(passes) > 40
    values = [record.value for record in waits]
    assert values == sorted(values)
    for one in passes[5:]:
        assert any(wait.start <= one.start for wait in waits)
        assert any(wait.start >= one.end for wait in waits)


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_workers_are_followed_however_they_start(tmp_path: Path, start: str) -> None:
    job = run_job(tmp_path, SCRIPT, start, warmup=5, steps=10, profile=False)
    assert job.code == 0, job.err
    assert sorted(next(process.noted("role"))["worker"] for process in job.of_role("worker")) == [0, 1]
    (loader,) = job.rank.noted("loader")
    assert loader["workers"] == 2
    ready = [record.value for record in job.rank.records if record.kind == records.BATCH]
    assert all(0 <= value <= 4 for value in ready)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems ask the user, not the process")
def test_ranks_and_workers_let_the_probe_and_nobody_else_look_into_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, told = Path(__file__).with_name("ptracer") / "told_ptracer.c", tmp_path / "told"
    monkeypatch.setenv("LD_PRELOAD", str(compiled(source, tmp_path / "told_ptracer.so")))
    monkeypatch.setenv("TOLD_PTRACER", str(told))
    job = run_job(tmp_path, SCRIPT, "fork", warmup=5, steps=10, profile=False)
    assert job.code == 0, job.err
    allowed = dict(line.split() for line in told.read_text().splitlines())
    assert {str(process.pid) for process in [job.rank, *job.of_role("worker")]} <= allowed.keys()
    assert set(allowed.values()) == {str(os.getpid())}


PARTS = """
from torch.utils.data import Subset, random_split
rows = TensorDataset(torch.randn(40, 4))
half, _ = random_split(rows, [20, 20])
class Shown(Subset):
    "A part with code of its own."
for rank in range(2):
    for part in (
        Subset(rows, range(rank, 40, 2)),
        Shown(rows, list(range(rank, 40, 2))),
        Subset(half, list(range(rank, 20, 2))),
        Subset(rows, range(0, 40, 2)),
        Subset(rows, torch.arange(rank, 40, 2)),
        rows,
    ):
        for _ in DataLoader(part, batch_size=10):
            pass
"""


def test_parts_of_a_dataset_are_told_apart(tmp_path: Path) -> None:
    job = run_job(tmp_path, BEGIN + PARTS)
    assert job.code == 0, job.err
    (process,) = job.processes
    noted = list(process.noted("loader"))
    strided, listed, nested, same, of_a_tensor, whole = zip(noted[:6], noted[6:], strict=True)
    for pair in (strided, listed, nested, same):
        assert all(isinstance(note["part"], str) and note["part_of_length"] == 40 for note in pair)
        assert (pair[0]["part"] != pair[1]["part"]) is (pair is not same)
    assert [(note["part"], note["part_of_length"]) for note in of_a_tensor] == [(None, 40)] * 2
    assert not any("part" in note for note in whole)


COMPILES_AT_EACH_STEP = """
import torch
torch._dynamo.config.recompile_limit = 64
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_of = torch.compile(lambda out, step: out.mean() if step else out.sum(), backend="eager")
for step in range(1, 40):
    optimizer.zero_grad()
    loss_of(model(torch.ones(2, 4)), str(step)).backward()
    optimizer.step()
"""


@pytest.mark.parametrize("profile", [True, False])
def test_compilations_are_counted_in_all_clean_steps_with_and_without_a_profiler(profile: bool, tmp_path: Path) -> None:
    rank = run_job(tmp_path, COMPILES_AT_EACH_STEP, steps=10, warmup=3, profile=profile, profile_steps=1).rank
    counted = [int(str(note["end"])) - int(str(note["start"])) for note in rank.noted("recompilations")]
    assert counted == ([8, 2] if profile else [10])


def test_records_outlive_a_kill(tmp_path: Path) -> None:
    job = run_job(tmp_path, SCRIPT, "", "--kill", warmup=5, steps=40)
    assert job.code == -signal.SIGKILL
    assert sum(record.kind == records.UPDATE for record in job.rank.records) == 25


PADDED = """
import sys
idx = {"none": None, "one": 3}.get(sys.argv[1], 3)
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(10, 4, padding_idx=idx); self.places = torch.nn.Embedding(10, 4)
        if sys.argv[1] == "two":
            self.places = torch.nn.Embedding(10, 4, padding_idx=0)
    def forward(self, ids): return self.words(ids) + self.places(ids)
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 120
    def __getitem__(self, index):
        row = {"input_ids": torch.tensor([5, 0, 3, 3, 3])}
        return {**row, "attention_mask": torch.tensor([1, 1, 1, 0, 0])} if sys.argv[1] == "mask" else row
net = Model(); optimizer = torch.optim.SGD(net.parameters(), 0.1)
for batch in DataLoader(Rows(), batch_size=4):
    optimizer.zero_grad(); net(batch["input_ids"]).sum().backward(); optimizer.step()
"""


@pytest.mark.parametrize(("model", "real"), {"one": 8, "mask": 12, "none": None, "two": None}.items())
def test_ids_that_are_no_padding_are_counted_where_the_model_says_what_padding_is(
    tmp_path: Path, model: str, real: int | None
) -> None:
    job = run_job(tmp_path, BEGIN + PADDED, model, warmup=3, steps=10, profile=False)
    assert list(job.rank.noted("fault")) == []
    counted = {(one.duration, one.value) for one in job.rank.records if one.kind == records.TOKENS}
    assert counted == ({(20.0, float(real))} if real is not None else set())


ANOMALY = """
import sys
net = torch.nn.Linear(4, 1); optimizer = torch.optim.SGD(net.parameters(), 0.1)
if sys.argv[1] == "on": torch.autograd.set_detect_anomaly(True)
for index, (x,) in enumerate(DataLoader(TensorDataset(torch.randn(60, 4)), batch_size=1)):
    if sys.argv[1] == "forward" and index % 2:
        with torch.autograd.detect_anomaly(): loss = net(x).sum()
    else:
        loss = net(x).sum()
    loss.backward(); optimizer.step()
"""


@pytest.mark.parametrize(("mode", "share"), [("on", 1.0), ("off", 0.0), ("forward", 0.5)])
def test_whether_anomaly_mode_was_on_is_told(tmp_path: Path, mode: str, share: float) -> None:
    job = run_job(tmp_path, BEGIN + ANOMALY, mode, warmup=4, steps=20, profile=False)
    assert list(job.rank.noted("fault")) == []
    assert analyse(recording.read(job.folder))[1].anomaly_passes_share == share


PRINTS = """
import sys
net = torch.nn.Linear(4, 1); optimizer = torch.optim.SGD(net.parameters(), 0.1)
@torch.compile(backend="eager")
def loss_of(x):
    if sys.argv[1] == "prints": print("inside")
    return net(x).pow(2).sum()
@torch.compile(backend="eager")
def silent(x): return net(x).pow(2).sum()
for x, in DataLoader(TensorDataset(torch.randn(60, 4)), batch_size=1):
    loss = (silent if sys.argv[1] == "silent" else loss_of)(x)
    loss.backward(); optimizer.step()
    print("step")  # outside
print(torch._dynamo.utils.counters["stats"], torch._dynamo.utils.counters["graph_break"])
"""


@pytest.mark.parametrize("code", ["silent", "prints"])
def test_prints_are_timed_as_long_as_no_compiled_code_prints(tmp_path: Path, code: str) -> None:
    job = run_job(tmp_path, BEGIN + PRINTS, code, warmup=5, steps=20, profile=False, keep_running=True)
    assert job.streams == run_plain(tmp_path, BEGIN + PRINTS, code)
    assert list(job.rank.noted("fault")) == []
    row = next(number for number, line in enumerate((BEGIN + PRINTS).splitlines(), 1) if line.endswith("# outside"))
    calls = analyse(recording.read(job.folder))[1].calls
    told = [note["what"] for note in job.rank.noted("missing")]
    if code == "silent":
        assert calls[Line(tmp_path / "job.py", row)].calls_per_step == 1.0
        assert told == []
    else:
        assert told == ["print"]


DEVICE = """
import torch.utils.backend_registration as registration
registration._setup_privateuseone_for_python_backend("npy")
class OnDevice(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device="npy")
    def __init__(self, inner): self.inner = inner
    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return function(*[one.inner if isinstance(one, cls) else one for one in args], **(kwargs or {}))
net = torch.nn.Linear(4, 1); optimizer = torch.optim.AdamW(net.parameters())
device = OnDevice(torch.tensor(3.0))
for x, in DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=1):
    net(x).sum().backward(); optimizer.step()
    x.sum().item()
    device.item()  # device
"""


def test_reads_of_a_device_count_and_those_of_the_processor_do_not(tmp_path: Path) -> None:
    job = run_job(tmp_path, BEGIN + DEVICE, warmup=3, steps=10, profile=False)
    rows = (BEGIN + DEVICE).splitlines()
    row = next(number for number, line in enumerate(rows, 1) if line.endswith("# device"))
    assert set(names(job.rank, records.SYNC)) == {f"{tmp_path / 'job.py'}:{row}"}


SAVES = """
import io, os, subprocess, time
net = torch.nn.Linear(4, 1); optimizer = torch.optim.SGD(net.parameters(), 0.1)
class Slow(io.BytesIO):
    def flush(self): time.sleep(0.1)
def pipe():
    subprocess.Popen(["sh", "-c", "sleep 0.1; cat state.pt"], stdout=subprocess.DEVNULL)
    return "state.pt"
os.mkfifo("state.pt")
for step, (x,) in enumerate(DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=1), 1):
    net(x).sum().backward(); optimizer.step()
    if step == 8:
        torch.save(net.state_dict(), pipe())  # opens
        torch.save(net.state_dict(), Slow())  # closes
        torch.save(net.state_dict(), pipe(), _use_new_zipfile_serialization=False)  # old
        torch.save(net.state_dict(), io.BytesIO(), _use_new_zipfile_serialization=False)  # quick
        torch.save(net.state_dict(), os.devnull)
"""


def test_saving_takes_from_the_opening_of_the_file_to_its_closing(tmp_path: Path) -> None:
    job = run_job(tmp_path, BEGIN + SAVES, warmup=3, steps=10, profile=False)
    rows = {line.rpartition("# ")[2]: row for row, line in enumerate((BEGIN + SAVES).splitlines(), 1) if "  # " in line}
    saves = [one for one in job.rank.records if one.kind == records.CALL and one.name.startswith("save ")]
    took = {int(one.name.rpartition(":")[2]): one.duration for one in saves}
    assert [took[rows[word]] >= 0.1 for word in ("opens", "closes", "old", "quick")] == [True, True, True, False]
    assert len(saves) == len(took) == 5


DETACHED = """
import builtins, gc, logging
net = torch.nn.Linear(4, 1); optimizer = torch.optim.SGD(net.parameters(), 0.1)
def places():
    scope = torch.autograd.profiler.record_function
    return [scope.__enter__, scope.__exit__, torch.autograd._engine_run_backward, DataLoader.__iter__, print,
            torch.save, torch.serialization.save, torch.serialization._save,
            torch.serialization._legacy_save, torch.serialization._open_zipfile_writer_file.__exit__,
            torch.serialization._open_file.__init__, logging.Logger.handle, torch.amp.GradScaler.update,
            torch.amp.GradScaler.step, len(gc.callbacks),
            __import__("importlib.machinery").machinery.PathFinder.find_spec.__func__]
for x, in DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=1):
    net(x).sum().backward(); optimizer.step()
print([getattr(getattr(one, "__code__", one), "co_firstlineno", one) for one in places()])
"""


def test_after_the_measurement_nothing_of_the_hooks_is_left(tmp_path: Path) -> None:
    job = run_job(tmp_path, BEGIN + DETACHED, warmup=3, steps=10, profile=False, keep_running=True)
    assert job.streams == run_plain(tmp_path, BEGIN + DETACHED)
    assert list(job.rank.noted("fault")) == []


MANY_CALLS = """
net = torch.nn.Linear(4, 1); optimizer = torch.optim.SGD(net.parameters(), 0.1)
def token(number):
    return len("a" * 3) + number
for x, in DataLoader(TensorDataset(torch.randn(80, 4)), batch_size=1):
    tokens = [token(number) for number in range(20_000)]
    net(x).sum().backward(); optimizer.step()
"""


def test_the_window_of_a_job_with_many_small_calls_takes_about_as_long_as_its_steps(tmp_path: Path) -> None:
    job = run_job(tmp_path, BEGIN + MANY_CALLS, warmup=3, steps=20)
    (window,) = job.rank.noted("window")
    steps = [record for record in job.rank.records if record.kind == records.UPDATE]
    took = [after.start - before.start for before, after in pairwise(steps)]
    ordinary = sorted(took)[len(took) // 2]
    assert list(job.rank.noted("fault")) == []
    assert float(str(window["seconds"])) < 9 * 3 * ordinary + 2.0
    assert int(str(window["peak_bytes"])) < 60_000_000


PROFILED = """
net = torch.nn.Linear(4, 1); optimizer = torch.optim.SGD(net.parameters(), 0.1)
with torch.profiler.profile() as profiler:
    for x, in DataLoader(TensorDataset(torch.randn(80, 4)), batch_size=1):
        net(x).sum().backward(); optimizer.step()
print(len(profiler.events()) > 1000)
"""


def test_a_job_that_profiles_itself_keeps_its_profiler(tmp_path: Path) -> None:
    job = run_job(tmp_path, BEGIN + PROFILED, warmup=3, steps=20, keep_running=True)
    assert (job.code, job.out) == (0, "True\n")
    assert [note["what"] for note in job.rank.noted("missing")] == ["kineto"]
    assert list(job.rank.noted("trace")) == []


@pytest.mark.parametrize("options", [["-I"], ["-E"], ["-S"]])
def test_interpreters_that_read_no_environment_run_the_script_through_the_agent(
    tmp_path: Path, options: list[str]
) -> None:
    script = tmp_path / "job.py"
    script.write_text("import sys\nprint(sys.argv, __name__, __file__)\nsys.path.sort()\n1 / 0\n", encoding="utf-8")
    into = prepared(tmp_path)
    plain = run([sys.executable, *options, str(script), "x"], tmp_path, environment(into))
    runner = str(into / "agent" / "bootstrap" / "run.py")
    done = run([sys.executable, *options, runner, str(script), "x"], tmp_path, environment(into))
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert processes_of(into) == ()


SHORT = (
    BEGIN
    + """
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for x, y in DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1))):
    ((net(x) - y) ** 2).mean().backward()
    optimizer.step()
"""
)


def test_a_job_that_ends_by_itself_says_which_script_it_ran(tmp_path: Path) -> None:
    job = run_job(tmp_path, SHORT, warmup=100)
    (note,) = job.rank.noted("files")
    assert note["paths"] == [str(tmp_path / "job.py")]


SAMPLERS = """
import sys
from torch.utils.data import BatchSampler, DistributedSampler, TensorDataset
rows = TensorDataset(torch.arange(12.0).reshape(12, 1)); shard = DistributedSampler(rows, num_replicas=2, rank=0)
loaders = {
    "none": DataLoader(rows, batch_size=2, shuffle=True),
    "sampler": DataLoader(rows, batch_size=2, sampler=shard),
    "batch sampler": DataLoader(rows, batch_sampler=BatchSampler(shard, 2, drop_last=False)),
}
net = torch.nn.Linear(1, 1); optimizer = torch.optim.SGD(net.parameters())
for (batch,) in loaders[sys.argv[1]]:
    net(batch).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("given", "distributed"), [("none", False), ("sampler", True), ("batch sampler", True)])
def test_whether_a_loader_draws_from_a_distributed_sampler(given: str, distributed: bool, tmp_path: Path) -> None:
    job = run_job(tmp_path, BEGIN + SAMPLERS, given, warmup=1, steps=1, profile_steps=0)
    (loader,) = job.rank.noted("loader")
    assert loader["distributed_sampler"] is distributed
