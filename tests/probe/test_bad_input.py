"""What cannot be probed: the documented status, and one line that says what happened, where, and what to do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.probe.gpu_driver import built
from tests.probe.probe_program import PLAIN, PROBE, TIMEOUT_S, Ran, probe

from trainlint.probe.recording import Manifest, Options

USAGE, JOB_FAILED, NOTHING_MEASURED = 2, 3, 4
"""The statuses in the order of docs: wrong usage, a job that failed too early, nothing to measure."""


@dataclass(frozen=True)
class Case:
    """Words for the probe, what they meet, and what it says about that."""

    words: tuple[str, ...]
    status: int
    said: tuple[str, ...]
    """Parts of the one line."""
    files: Mapping[str, str] = field(default_factory=dict)
    """What lies in the working directory."""


PYTHON = ("--", sys.executable)
TRACE = {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1.0, "dur": 2.0}]}
MANIFEST = Manifest(
    command=["python", "train.py"],
    started="2026-01-01T00:00:00+00:00",
    clock=1.0,
    cwd="/project",
    probe_pid=1,
    host="there",
    platform="Linux",
    cores=2,
    options=Options(),
)
OLD_TORCH = {"torch/__init__.py": "from torch import _C\n__version__ = '1.13.1+cu117'\n", "torch/_C.py": ""}
"""As much of an old release as it takes to tell that it is one."""

FOUR_STEPS = """
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(4):
    model(torch.ones(2)).sum().backward()
    optimizer.step()
"""
RUNS = {
    "a script that does without torch": Case(
        ("job.py",), NOTHING_MEASURED, ("no process of the job loaded torch", "--python"), {"job.py": "print('x')"}
    ),
    "an environment without torch": Case(
        (*PYTHON, "-S", "job.py"),
        JOB_FAILED,
        ("the job failed with status 1 before it was seen to load torch", "--python PATH"),
        {"job.py": "import torch"},
    ),
    "a script that fails at once": Case(
        ("job.py",), JOB_FAILED, ("the job failed with status 1 before it was seen to load torch",), {"job.py": "1 / 0"}
    ),
    "a script that does not parse": Case(
        ("job.py",),
        JOB_FAILED,
        ("the job failed with status 1 before it was seen to load torch",),
        {"job.py": "print("},
    ),
    "a script that is killed": Case(
        ("job.py",),
        JOB_FAILED,
        ("the job failed with signal 9 before it was seen to load torch",),
        {"job.py": "import os; os.kill(os.getpid(), 9)"},
    ),
    "a script that is interrupted while it loads torch": Case(
        ("job.py",),
        JOB_FAILED,
        ("the job was interrupted before it was seen to load torch",),
        {"job.py": "import os, signal; os.kill(os.getpid(), signal.SIGINT); signal.pause()"},
    ),
    "a script that is interrupted": Case(
        ("job.py",),
        JOB_FAILED,
        ("the job was interrupted after 0 of 50 steps",),
        {"job.py": "import torch, os, signal; os.kill(os.getpid(), signal.SIGINT); signal.pause()"},
    ),
    "a script that loads torch and does not train": Case(
        ("job.py",), NOTHING_MEASURED, ("no optimizer stepped, and no backward pass ran",), {"job.py": "import torch"}
    ),
    "a script that is done before the warm-up is": Case(
        ("job.py",),
        NOTHING_MEASURED,
        ("nothing could be measured: the job ended after 3 steps, in the warm-up",),
        {"job.py": FOUR_STEPS},
    ),
    "a script that is not done in time": Case(
        ("--timeout", "0.5", "job.py"),
        NOTHING_MEASURED,
        ("the measurement was not complete after 0.5 s",),
        {"job.py": "import time\ntime.sleep(1000)"},
    ),
    "an old torch": Case(
        ("job.py",),
        NOTHING_MEASURED,
        ("the job's torch is 1.13.1+cu117, and 2.4 is the oldest that can be looked into", "install"),
        {"job.py": "import torch"} | OLD_TORCH,
    ),
}
REFUSED = {
    "a script that is not there": Case(("job.py",), USAGE, ("`job.py`: there is no such file in ",)),
    "a program that is not there": Case(("--", "no-such-program"), USAGE, ("`no-such-program`", "no such program")),
    "a folder without `--`": Case(("job",), USAGE, ("`job` cannot be started: it is a folder",), {"job/job.py": ""}),
    "a path that is not there": Case(("--", "./job"), USAGE, ("`./job` cannot be started: there is no such program",)),
    "a file that is not executable": Case(
        ("--", "./job"), USAGE, ("`./job` cannot be started: it is not executable", "chmod +x"), {"job": "print(1)"}
    ),
    "a folder": Case(("--", "./job"), USAGE, ("`./job` cannot be started: it is a folder",), {"job/job.py": ""}),
    "an interpreter that is not there": Case(
        ("--python", "/no/python", "job.py"), USAGE, ("`/no/python`", "no such program"), {"job.py": ""}
    ),
    "a trace that is not there": Case(("--trace", "a.json"), USAGE, ("`--trace a.json`: there is no such file",)),
    "a folder of traces": Case(
        ("--trace", "traces"), USAGE, ("`--trace traces` is a folder; name the trace files",), {"traces/a.json": "{}"}
    ),
    "a trace that is cut off": Case(
        ("--trace", "a.json"),
        NOTHING_MEASURED,
        ("a.json is cut off",),
        {"a.json": json.dumps(TRACE)[:-20]},
    ),
    "a file that is no trace": Case(
        ("--trace", "a.json"),
        NOTHING_MEASURED,
        ("a.json is no trace of torch.profiler: it has no list of traceEvents",),
        {"a.json": '{"version": "2.1.0", "runs": []}'},
    ),
    "a trace without steps": Case(
        ("--trace", "a.json"),
        NOTHING_MEASURED,
        ("the trace marks no steps; call profiler.step()",),
        {"a.json": json.dumps(TRACE)},
    ),
    "a process that is not there": Case(
        ("--pid", str(2**22 + 1)), NOTHING_MEASURED, (f"there is no process {2**22 + 1}", "container")
    ),
    "a recording that is not there": Case(
        ("--from-recording", "kept"), USAGE, ("`--from-recording kept`: there is no such folder",)
    ),
    "a folder of something else": Case(
        ("--from-recording", "kept"),
        NOTHING_MEASURED,
        ("kept holds no recording, as it has no manifest.json", "--recording"),
        {"kept/notes.txt": ""},
    ),
    "a file instead of a recording": Case(
        ("--from-recording", "kept"), NOTHING_MEASURED, ("kept holds no recording", "--recording"), {"kept": ""}
    ),
    "a recording of another version": Case(
        ("--from-recording", "kept"),
        NOTHING_MEASURED,
        ("kept/manifest.json is not of this version of trainlint (schema_version:", "record it again"),
        {"kept/manifest.json": MANIFEST.model_copy(update={"schema_version": 7}).model_dump_json(warnings=False)},
    ),
    "a recording that is cut off": Case(
        ("--from-recording", "kept"),
        NOTHING_MEASURED,
        ("kept/manifest.json", "record it again"),
        {"kept/manifest.json": MANIFEST.model_dump_json()[:-50]},
    ),
    "a recording of nothing": Case(
        ("--from-recording", "kept"),
        NOTHING_MEASURED,
        ("no process of the job loaded torch",),
        {"kept/manifest.json": MANIFEST.model_dump_json()},
    ),
    "a result whose folder is not there": Case(
        ("--output-file", "no/result.json", "job.py"),
        USAGE,
        ("`--output-file no/result.json` cannot be written: there is no folder no",),
        {"job.py": "print('ran')"},
    ),
    "a result that is a folder": Case(
        ("--output-file", "results", "job.py"),
        USAGE,
        ("`--output-file results` cannot be written: it is a folder",),
        {"job.py": "print('ran')", "results/a": ""},
    ),
    "a page whose folder is not there": Case(
        ("--html", "no/page.html", "job.py"), USAGE, ("`--html no/page.html` cannot be written",), {"job.py": ""}
    ),
    "a result that would destroy code": Case(
        ("--output-file", "job.py", "job.py"), USAGE, ("would destroy code; name another file",), {"job.py": ""}
    ),
    "a recording that is there already": Case(
        ("--recording", "kept", "job.py"),
        USAGE,
        ("`--recording kept` is there already; name a new folder",),
        {"job.py": "", "kept/a": ""},
    ),
    "a recording that cannot be written": Case(
        ("--recording", "/proc/kept", "job.py"),
        NOTHING_MEASURED,
        ("the recording cannot be written to /proc/kept",),
        {"job.py": "print('ran')"},
    ),
    "nothing to measure": Case((), USAGE, ("nothing to measure: name a script",)),
    "a process and traces": Case(
        ("--pid", "1", "--trace", "a.json"), USAGE, ("`--pid` cannot be given together with `--trace`",)
    ),
    "a process and a script": Case(("--pid", "1", "job.py"), USAGE, ("`--pid` starts nothing", "leave one of them")),
    "a recording and an interpreter": Case(
        ("--from-recording", "kept", "--python", "python"), USAGE, ("`--python` is about a job that is started",)
    ),
    "a regression from nothing": Case(
        ("--fail-on", "regression", "job.py"), USAGE, ("`--fail-on regression` needs `--compare FILE`",)
    ),
    "an unknown condition": Case(("--fail-on", "slow", "job.py"), USAGE, ("--fail-on: `slow` is none of `confirmed`",)),
    "no steps": Case(("--steps", "0", "job.py"), USAGE, ("--steps: expected a whole number from 1, got `0`",)),
    "no time": Case(("--timeout", "0", "job.py"), USAGE, ("--timeout: expected a number above 0, got `0`",)),
    "half of the work of a step": Case(("--params", "5", "job.py"), USAGE, ("`--params` and `--tokens-per-step`",)),
    "an earlier result that is none": Case(
        ("--compare", "a.json", "job.py"), USAGE, ("`--compare a.json` is no result",), {"a.json": "{}", "job.py": ""}
    ),
    "an earlier result that is not there": Case(
        ("--compare", "a.json", "job.py"), USAGE, ("`--compare a.json` cannot be read: no such file",), {"job.py": ""}
    ),
    "a wrong path map": Case(
        ("--path-map", "here", "job.py"), USAGE, ("`--path-map here` has no `=`",), {"job.py": "print('ran')"}
    ),
    "an unknown option": Case(("--stepz", "5", "job.py"), USAGE, ("unknown option `--stepz`",)),
}


def assert_told(ran: Ran, status: int, said: tuple[str, ...]) -> None:
    assert ran.status == status, ran.err
    (line,) = ran.said
    assert [part for part in said if part not in line] == [], line


def laid(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", RUNS)
def test_a_job_that_cannot_be_measured(name: str, tmp_path: Path) -> None:
    """What the job says itself is its own; trainlint adds a line."""
    case = RUNS[name]
    laid(tmp_path, case.files)
    assert_told(probe(tmp_path, *case.words), case.status, case.said)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, tmp_path: Path) -> None:
    """Nothing else is printed, and where the words are wrong, nothing runs."""
    case = REFUSED[name]
    laid(tmp_path, case.files)
    ran = probe(tmp_path, *case.words)
    assert_told(ran, case.status, case.said)
    assert ran.out == ""
    rest = [line for line in ran.err.splitlines() if line not in ran.said]
    assert rest in ([], ["Try `trainlint probe --help`."])


# ------------------------------------------------------------------------------------------------------ running jobs


@contextmanager
def running(words: Sequence[str]) -> Iterator[int]:
    """The id of a process that runs meanwhile."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        process.stdout.read(1)
        yield process.pid
        assert process.poll() is None, "a job that is looked at is left alone"
    finally:
        process.kill()
        process.communicate()


SLEEPS = ("sh", "-c", "echo; exec sleep 1000")


def test_a_process_that_is_no_python(tmp_path: Path) -> None:
    with running(SLEEPS) as pid:
        assert_told(
            probe(tmp_path, "--pid", str(pid)),
            NOTHING_MEASURED,
            (f"process {pid} is no Python program, nor has it started one", "nor is there a GPU to look at"),
        )


def test_a_process_that_has_ended(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert_told(probe(tmp_path, "--pid", str(process.pid)), NOTHING_MEASURED, (f"process {process.pid} has ended",))
    process.wait()


def test_a_process_of_somebody_else(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv, to become two users")
    with running(("setpriv", "--reuid=nobody", "--clear-groups", *SLEEPS)) as pid:
        # The capability lets the other user read the interpreter of the tests, wherever it lies.
        other = ("setpriv", "--reuid=daemon", "--clear-groups", "--inh-caps=+dac_read_search")
        words = (*other, "--ambient-caps=+dac_read_search", *PROBE, "--pid", str(pid))
        done = subprocess.run(words, env=PLAIN, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        said = (f"process {pid} belongs to nobody: run the probe as nobody, or as root",)
        assert_told(Ran(done.returncode, done.stdout, done.stderr, tmp_path), NOTHING_MEASURED, said)


# -------------------------------------------------------------------------------------------------------------- GPUs


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of a machine whose driver refuses the user."""
    folder = tmp_path_factory.mktemp("driver")
    (folder / "script").write_text("gpus 1\ninit 4\n", encoding="utf-8")
    return PLAIN | {"LD_LIBRARY_PATH": str(built(folder)), "FAKE_NVML": str(folder / "script")}


def test_a_driver_that_refuses_is_named_where_nothing_else_is_to_be_seen(
    refusing: Mapping[str, str], tmp_path: Path
) -> None:
    with running(SLEEPS) as pid:
        ran = probe(tmp_path, "--pid", str(pid), env=refusing)
        assert_told(ran, NOTHING_MEASURED, ("the NVIDIA driver refuses this user", "/dev/nvidiactl"))


def test_a_driver_that_refuses_is_named_in_the_result(refusing: Mapping[str, str], tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("print('x')", encoding="utf-8")
    ran = probe(tmp_path, "--output-file", "result.json", "job.py", env=refusing)
    assert "the NVIDIA driver refuses this user" in ran.result.environment.missing["nvml"]
    assert_told(ran, NOTHING_MEASURED, ("no process of the job loaded torch",))


# ------------------------------------------------------------------------------------------- what is lost after a run


def test_a_result_that_can_no_longer_be_written_is_told_after_the_report(tmp_path: Path) -> None:
    """Its folder was there before the run. The report is not lost with it."""
    (tmp_path / "out").mkdir()
    (tmp_path / "job.py").write_text("import os; os.rmdir('out')", encoding="utf-8")
    ran = probe(tmp_path, "--output-file", "out/result.json", "--output-format", "markdown", "job.py")
    assert ran.status == USAGE
    assert ran.err.startswith("#")
    *_, last = ran.said
    assert "`--output-file out/result.json` cannot be written: no such file or directory" in last
    assert "Traceback" not in ran.err


NOTED = {
    "an option after the script": (("job.py", "--steps", "3"), "note: --steps after the script goes to the script"),
    "an option of the script alone": (("job.py", "--epochs", "3"), ""),
    "an option after two dashes": (("--", sys.executable, "job.py", "--steps", "3"), ""),
    "an option of a run without a report": (("--quiet", "job.py", "--steps=3"), ""),
}


@pytest.mark.parametrize("name", NOTED)
def test_options_that_go_to_the_script_are_noted(name: str, tmp_path: Path) -> None:
    words, said = NOTED[name]
    laid(tmp_path, {"job.py": "import sys; print(sys.argv[1:])"})
    ran = probe(tmp_path, *words)
    assert [line for line in ran.err.splitlines() if line.startswith("note: ")] == ([said] if said else [])
    assert "3" in ran.out
