"""The samplers' own process, cores and processes, and a job that is looked at while it runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from trainlint.probe import attach, recording, sampling
from trainlint.probe.attach import AttachError, ForeignJobError, NoSuchJobError, RefusedError, run
from trainlint.probe.recording import Options

BUSY = """
import signal, subprocess, sys, time

for number in (1, 2, 10, 12, 15, 18):
    signal.signal(number, lambda number, frame: print("signal", number, flush=True))
child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
print("ready", flush=True)
sys.stdin.readline()
child.kill()
child.wait()
print("done", flush=True)
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A program that waits, with one child that computes; it prints the signals that it gets."""
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process
        if process.poll() is None:
            for child in psutil.Process(process.pid).children():
                child.kill()
            process.kill()


def ended(job: subprocess.Popen[str]) -> str:
    """Have the program end by itself, and return what it printed."""
    return job.communicate("\n", timeout=30)[0]


def test_a_running_job_is_seen_and_never_signalled(job: subprocess.Popen[str], tmp_path: Path) -> None:
    manifest = run(job.pid, tmp_path, Options(), duration_s=3)
    assert ended(job) == "done\n"
    seen = recording.read(tmp_path)
    assert (seen.manifest, seen.broken) == (manifest, ())
    assert (manifest.kind, manifest.job_pid, manifest.command[1]) == ("attach", job.pid, "-c")
    assert manifest.folder == str(tmp_path)
    assert {"agent", "kineto"} <= manifest.missing.keys() and "stacks" not in manifest.missing
    assert manifest.probe_cpu_s is not None and manifest.probe_cpu_s < 3
    pids = {one.pid for one in seen.stack_samples}
    assert job.pid in pids and len(pids) == 2, "the child is looked into, too"


def test_cores_and_processes_are_sampled(job: subprocess.Popen[str], tmp_path: Path) -> None:
    run(job.pid, tmp_path, Options(), duration_s=2.5)
    seen = recording.read(tmp_path).system
    assert len(seen) >= 3
    assert all(len(one.cores_busy) == psutil.cpu_count() for one in seen)
    assert all(0 <= share <= 1 for one in seen for share in (*one.cores_busy, one.io_wait or 0))
    (child,) = psutil.Process(job.pid).children()
    of_child = [process for one in seen for process in one.processes if process.pid == child.pid]
    assert of_child[-1].cpu_s > of_child[0].cpu_s and of_child[0].rss_bytes > 0
    assert {process.pid for process in seen[-1].processes} == {job.pid, child.pid}


def test_looking_ends_with_the_job(job: subprocess.Popen[str], tmp_path: Path) -> None:
    job.stdin.write("\n") if job.stdin else None
    job.stdin.flush() if job.stdin else None
    started = time.perf_counter()
    try:
        run(job.pid, tmp_path, Options(), duration_s=120)
    except NoSuchJobError:
        """It had ended before anybody looked."""
    assert time.perf_counter() - started < 60


def test_looking_ends_when_somebody_says_so(job: subprocess.Popen[str], tmp_path: Path) -> None:
    started = time.perf_counter()
    run(job.pid, tmp_path, Options(timeout_s=120), cancelled=lambda: time.perf_counter() > started + 1)
    assert time.perf_counter() - started < 60


def test_samplers_end_with_the_probe(job: subprocess.Popen[str], tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from trainlint.probe import sampling; "
        "from trainlint.probe.recording import Options; "
        f"sampling.start(Path({str(tmp_path)!r}), {job.pid}, Options(), attached=True); "
        "import psutil; print(*(one.pid for one in psutil.Process().children()), flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    (sampler,) = map(int, done.stdout.split())
    until = time.perf_counter() + 60
    while psutil.pid_exists(sampler) and time.perf_counter() < until:
        time.sleep(0.1)
    assert not psutil.pid_exists(sampler)
    assert job.poll() is None


def test_a_full_disk_is_a_reason(job: subprocess.Popen[str], tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    for name in ("system.jsonl", "stacks.jsonl"):
        (tmp_path / "samples" / name).symlink_to("/dev/full")
    samplers = sampling.start(tmp_path, job.pid, Options(), attached=True)
    time.sleep(2)
    missing = samplers.stop()
    assert "no space left on device" in missing["psutil"] and "no space left on device" in missing["stacks"]


WITHOUT = """
import sys
sys.modules["{package}"] = None
from importlib import metadata
known = metadata.distribution
def distribution(name):
    if name == "{package}":
        raise metadata.PackageNotFoundError(name)
    return known(name)
metadata.distribution = distribution
import json, time
from pathlib import Path
from trainlint.probe import sampling
from trainlint.probe.recording import Options
samplers = sampling.start(Path(sys.argv[1]), int(sys.argv[2]), Options(), attached=True)
time.sleep(1)
print(json.dumps(samplers.stop()))
"""


@pytest.mark.parametrize(("package", "sources"), [("psutil", 3), ("pynvml", 1), ("py-spy", 1)])
def test_a_missing_package_is_a_reason_with_what_to_install(
    job: subprocess.Popen[str], tmp_path: Path, package: str, sources: int
) -> None:
    program = WITHOUT.format(package=package)
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path, str(job.pid)], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert done.stdout.count("pip install 'PATH_OF_THE_CLONE[probe]'") == sources


def test_a_process_that_has_ended_is_told_so(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    with pytest.raises(NoSuchJobError, match=f"process {process.pid} has ended already"):
        run(process.pid, tmp_path, Options())
    process.wait()
    with pytest.raises(NoSuchJobError, match=f"there is no process {process.pid}"):
        run(process.pid, tmp_path, Options())


def test_a_process_of_somebody_else_is_told_so(job: subprocess.Popen[str], tmp_path: Path) -> None:
    """As an ordinary user, any process of root; as root, by becoming an ordinary user first."""
    if os.geteuid() != 0:
        with pytest.raises(ForeignJobError, match="belongs to root: run the probe as root"):
            run(1, tmp_path, Options())
        return
    program = (
        "import os, sys, psutil; from pathlib import Path; from trainlint.probe import attach; "
        "from trainlint.probe.recording import Options; os.setuid(65534)\n"
        "try: attach.run(int(sys.argv[1]), Path(sys.argv[2]), Options())\n"
        "except attach.ForeignJobError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(job.pid), tmp_path], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"process {job.pid} belongs to root: run the probe as root, or as root\n"


def test_a_program_without_python_and_without_a_gpu_is_nothing_to_look_at(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            with pytest.raises(RefusedError, match="is no Python program"):
                run(process.pid, tmp_path, Options())
        finally:
            process.kill()


LOOKS = """
from pathlib import Path
from sys import argv
from trainlint.probe import attach, recording
attach.run(int(argv[1]), Path(argv[2]), recording.Options(), duration_s=2)
"""


@pytest.mark.parametrize("beside", [True, False], ids=["with a program", "alone"])
def test_the_probe_is_no_part_of_the_shell_that_it_was_typed_into(beside: bool, tmp_path: Path) -> None:
    program = f"{sys.executable} -c 'while True: pass' & echo $!; sleep 1; " if beside else ""
    typed = f"{program}{sys.executable} -c '{LOOKS}' $$ {tmp_path}; kill %1"
    done = subprocess.run(["bash", "-c", f"set -m; {typed}"], capture_output=True, text=True, timeout=60)
    if beside:
        seen = recording.read(tmp_path)
        assert {one.pid for one in seen.stack_samples} == {int(done.stdout)}
    else:
        assert "is no Python program, nor has it started one" in done.stderr


def test_what_py_spy_may_not_read_is_refused_at_once(
    job: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = tmp_path / "py-spy"
    refusing.write_text("#!/bin/sh\necho 'Permission Denied: Try running again' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setattr("trainlint.probe.sampling.pyspy.program", lambda: refusing)
    with pytest.raises(AttachError, match=r"does not let py-spy read the job's memory.*SYS_PTRACE"):
        attach.run(job.pid, tmp_path, Options())


def test_where_no_folder_can_be_made_nothing_is_sampled_and_nothing_raised(tmp_path: Path) -> None:
    (tmp_path / "samples").write_text("a file stands in the way")
    samplers = sampling.start(tmp_path, os.getpid(), Options())
    samplers.follow([1])
    assert not samplers.runs()
    assert samplers.stop() == {"samples": "no sampler could be started: file exists"}
