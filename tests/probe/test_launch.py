"""Jobs are started, followed and ended as documented: real probes, real jobs, real signals."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from tests.probe.probe_program import PLAIN, PROBE, TIMEOUT_S, UNSEEN, Ran, ended, job, line_of, probe, script, start

from trainlint.probe import launch
from trainlint.probe.ending import PATIENCE_S
from trainlint.probe.progress import State
from trainlint.probe.recording import Options

PASSED_ON = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGINT", "SIGQUIT")
SAYS_SIGNALS = f"""\
import os, select, signal, sys
def told(number, frame):
    os.write(1, signal.Signals(number).name.encode() + b"\\n")
for name in {PASSED_ON}:
    signal.signal(getattr(signal, name), told)
os.write(1, b"ready\\n")
given = int(sys.argv[1]) if sys.argv[1:] else 0
while not select.select([given], [], [], 0.1)[0]:
    pass
os.read(given, 1)
"""
"""Says which signals it gets until it has something to read. Python runs a handler between two steps of a program: one
for a signal that comes just before a read begins would wait for the end of the read."""
SETTLED_S = 0.6
"""Longer than the probe takes to pass on what it gets."""


# --------------------------------------------------------------------------------------------------------- signals


def test_signals_for_the_probe_reach_the_job_once(tmp_path: Path) -> None:
    script(tmp_path, SAYS_SIGNALS)
    process = start(tmp_path, *UNSEEN, *job())
    assert line_of(process) == "ready\n"
    for name in PASSED_ON:
        process.send_signal(getattr(signal, name))
        assert line_of(process) == f"{name}\n"
    ran = ended(process, tmp_path, "\n")
    assert (ran.status, ran.out, ran.err) == (0, "", "")


def shell_that_says(signal_name: str) -> str:
    """A script that tells of a signal until there is a file `stop`.

    A shell is ready before the probe has done all that it does at the start of a job. It looks for signals between two
    commands; a read with a limit would do for that but for a line that comes with the limit, which is lost.
    """
    return f"trap 'echo {signal_name}' {signal_name}; echo ready; until test -e stop; do sleep 0.1; done"


def test_a_signal_that_comes_at_once_reaches_the_job_once(tmp_path: Path) -> None:
    says = shell_that_says("TERM")
    process = start(tmp_path, *UNSEEN, "--", "bash", "-c", says)
    assert line_of(process) == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert line_of(process) == "TERM\n"
    time.sleep(SETTLED_S)
    (tmp_path / "stop").touch()
    assert ended(process, tmp_path).out == ""


@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP", "SIGTERM"])
def test_a_signal_that_is_ignored_stays_so(name: str, tmp_path: Path) -> None:
    """As under nohup, or in the background of a shell."""
    number = getattr(signal, name)
    looks = f"import signal, sys\nprint(signal.getsignal(signal.{name}) is signal.SIG_IGN, flush=True)\n"
    text = looks + "sys.stdin.readline()\nprint('done')"
    script(tmp_path, text)
    process = start(tmp_path, *UNSEEN, *job(), preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
    assert line_of(process) == "True\n"
    process.send_signal(number)
    ran = ended(process, tmp_path, "\n")
    assert (ran.status, ran.out, ran.err) == (0, "done\n", "")


@contextmanager
def in_terminal(folder: Path, *words: str, **how: object) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A probe in the foreground of a terminal of its own; with it the terminal's other end."""
    outer, inner = pty.openpty()

    def take() -> None:
        fcntl.ioctl(inner, termios.TIOCSCTTY, 0)

    streams = {"stdin": inner, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how
    process = subprocess.Popen(
        [*PROBE, *words], cwd=folder, env=PLAIN, start_new_session=True, preexec_fn=take, **streams
    )
    os.close(inner)
    try:
        yield process, outer
    finally:
        with suppress(OSError):
            os.close(outer)
        process.wait(TIMEOUT_S)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


KEYS = {"SIGINT": b"\x03", "SIGQUIT": b"\x1c"}
INPUTS: dict[str, Mapping[str, object]] = {"the terminal": {}, "nothing": {"stdin": subprocess.DEVNULL}}


@pytest.mark.parametrize("stdin", INPUTS)
@pytest.mark.parametrize("name", KEYS)
def test_a_key_of_the_terminal_reaches_the_job_once(name: str, stdin: str, tmp_path: Path) -> None:
    """The terminal tells all of its foreground, so that there is nothing to pass on."""
    reads, writes = os.pipe()
    script(tmp_path, SAYS_SIGNALS)
    words = (*UNSEEN, *job(str(reads)))
    with in_terminal(tmp_path, *words, **INPUTS[stdin], pass_fds=(reads,)) as (process, terminal):
        assert process.stdout is not None and process.stderr is not None
        assert line_of(process) == b"ready\n"
        os.write(terminal, KEYS[name])
        assert line_of(process) == f"{name}\n".encode()
        process.send_signal(signal.SIGUSR1)
        assert line_of(process) == b"SIGUSR1\n"
        time.sleep(SETTLED_S)
        os.write(writes, b"\n")
        assert (process.stdout.read(), process.stderr.read(), process.wait(TIMEOUT_S)) == (b"", b"", 0)
    os.close(reads)
    os.close(writes)


def test_a_key_that_is_pressed_at_once_reaches_the_job_once(tmp_path: Path) -> None:
    with in_terminal(tmp_path, *UNSEEN, "--", "bash", "-c", shell_that_says("INT")) as (process, terminal):
        assert line_of(process) == b"ready\n"
        os.write(terminal, KEYS["SIGINT"])
        assert line_of(process) == b"INT\n"
        time.sleep(SETTLED_S)
        (tmp_path / "stop").touch()
        assert process.stdout is not None
        assert process.stdout.read() == b""


def test_a_job_hears_of_a_terminal_that_was_closed_once(tmp_path: Path) -> None:
    script(tmp_path, SAYS_SIGNALS)
    reads, writes = os.pipe()
    with in_terminal(tmp_path, *UNSEEN, *job(str(reads)), pass_fds=(reads,)) as (process, terminal):
        assert line_of(process) == b"ready\n"
        os.close(terminal)
        assert line_of(process) == b"SIGHUP\n"
        time.sleep(SETTLED_S)
        os.write(writes, b"\n")
        assert (process.stdout.read(), process.wait(TIMEOUT_S)) == (b"", 0)
    os.close(reads)
    os.close(writes)


def test_a_job_is_stopped_and_goes_on_with_the_terminal(tmp_path: Path) -> None:
    script(tmp_path, "import time\nprint('ready', flush=True)\nfor _ in range(20): time.sleep(0.1)\nprint('done')")
    with in_terminal(tmp_path, *UNSEEN, *job()) as (process, _):
        assert line_of(process) == b"ready\n"
        # A session's first group, being orphaned, takes no ^Z: it is stopped as a shell would stop it.
        os.killpg(process.pid, signal.SIGSTOP)
        (child,) = [one for one in psutil.Process(process.pid).children() if one.cmdline()[1:] == ["job.py"]]
        while child.status() != psutil.STATUS_STOPPED:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGCONT)
        assert (process.stdout.read(), process.wait(TIMEOUT_S)) == (b"done\n", 0)


# ------------------------------------------------------------------------------------------------------------- end


ENDS: dict[str, tuple[str, int, dict[str, object]]] = {
    "well": ("print('done')", 0, {"exit_code": 0, "signal": None}),
    "with a status": ("raise SystemExit(5)", 5, {"exit_code": 5, "signal": None}),
    "by an exception": ("raise ValueError('x')", 1, {"exit_code": 1, "signal": None}),
    "by SIGTERM": ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 143, {"exit_code": None, "signal": 15}),
    "by SIGKILL": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137, {"exit_code": None, "signal": 9}),
    "by SIGSEGV": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 139, {"exit_code": None, "signal": 11}),
}


@pytest.mark.parametrize("runs_on", [True, False], ids=["--continue", "measured only"])
@pytest.mark.parametrize("how", ENDS)
def test_a_job_that_ends_by_itself(how: str, runs_on: bool, tmp_path: Path) -> None:
    """Its status is in the result, and is the probe's own where the job was to run on."""
    text, status, end = ENDS[how]
    script(tmp_path, text)
    ran = probe(tmp_path, *(["--continue"] if runs_on else []), "--output-file", "result.json", *job())
    told = ran.result.job
    assert told is not None
    assert {"exit_code": told.exit_code, "signal": told.signal} == end
    assert not told.stopped_by_probe
    assert ran.status == (status if runs_on else 3 if status else 4)
    assert len(ran.said) == 1


STEPS_AND_SAYS = """
import os, time
steps = 0
def train():
    global steps
    try:
        for batch in loader:
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            time.sleep(0.02)
    finally:
        os.write(1, f"cleaned up after {steps}\\n".encode())  # whole, though other ranks write as well
"""
ONE_RANK = "import torch\nmodel = torch.nn.Linear(4, 2)\n"
RANKS = """\
import atexit, os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
atexit.register(lambda: os.write(1, b"at exit\\n"))
"""
OPTIMIZER = """\
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(100_000, 4), batch_size=4)
"""
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
FEW = ("--steps", "6", "--warmup", "2", "--no-profile", "--output-file", "result.json")


def test_all_ranks_end_after_the_same_step(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script(tmp_path, RANKS + OPTIMIZER + STEPS_AND_SAYS + "train()\n")
    ran = probe(tmp_path, *FEW, "--", sys.executable, *TORCHRUN, "job.py", env=PLAIN | {"OMP_NUM_THREADS": "1"})
    assert ran.status == 0, ran.err
    assert_both_cleaned_up(ran.out)
    result = ran.result
    assert result.job is not None
    assert (result.job.stopped_by_probe, result.steps.measured) == (True, 6)


def test_all_ranks_end_after_the_same_step_when_they_are_told_to(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    script(tmp_path, RANKS + OPTIMIZER + STEPS_AND_SAYS.replace("0.02", "0.3") + "train()\n")
    seen: list[State] = []
    manifest = launch.run(
        [sys.executable, *TORCHRUN, "job.py"],
        tmp_path / "recording",
        Options(),
        on_state=seen.append,
        cancelled=lambda: any(state.steps >= 2 for state in seen),
    )
    assert manifest.end is not None
    assert manifest.end.stopped_by_probe
    assert_both_cleaned_up(capfd.readouterr().out)


def assert_both_cleaned_up(out: str) -> None:
    steps = [line for line in out.splitlines() if line.startswith("cleaned up after ")]
    assert len(steps) == 2, out
    assert steps[0] == steps[1]
    assert out.splitlines().count("at exit") == 2


def test_with_continue_the_job_runs_on(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = ONE_RANK + OPTIMIZER.replace("100_000", "200") + STEPS_AND_SAYS.replace("0.02", "0.001")
    script(tmp_path, text + "train()\nraise SystemExit(6)\n")
    ran = probe(tmp_path, "--continue", *FEW, *job())
    assert (ran.status, ran.out) == (6, "cleaned up after 50\n")
    result = ran.result
    assert result.job is not None
    assert (result.steps.measured, result.job.exit_code, result.job.stopped_by_probe) == (6, 6, False)


# ------------------------------------------------------------------------------------------------ jobs that don't end


NOTES_SIGNALS = """\
import os, signal, sys, time
def noted(number, frame):
    with open("signals", "a") as file:
        file.write(f"{signal.Signals(number).name} {time.monotonic()}\\n")
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, noted)
"""
FOR_EVER = "while True: time.sleep(0.1)\n"
IGNORES_EXIT = """\
try:
    train()
except SystemExit:
    with open("signals", "a") as file:
        file.write(f"SystemExit {time.monotonic()}\\n")
"""
DESCENDANTS = """\
import os, subprocess, sys, time
stubborn = "import signal, time\\nsignal.signal(2, signal.SIG_IGN)\\ntime.sleep(1000)"
orphaned = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=2).pid)"
child = subprocess.Popen([sys.executable, "-c", stubborn])
orphan = subprocess.run(
    [sys.executable, "-c", orphaned, "import time; time.sleep(1000)"],
    stdout=subprocess.PIPE, text=True, start_new_session=True,
)
open("new", "w").write(f"{child.pid} {orphan.stdout}")
os.rename("new", "started")
time.sleep(1000)
"""
ENOUGH_S = "15"
"""For a script to have begun, also on a machine that is busy."""
LASTING: dict[str, tuple[tuple[str, ...], str]] = {
    "never steps": (("--timeout", ENOUGH_S), "import time\ntime.sleep(1000)\n"),
    "takes no signal": (("--timeout", ENOUGH_S), NOTES_SIGNALS + FOR_EVER),
    "takes no exit": (FEW, ONE_RANK + OPTIMIZER + NOTES_SIGNALS + STEPS_AND_SAYS + IGNORES_EXIT + FOR_EVER),
    "runs on": (("--timeout", ENOUGH_S, "--continue"), "import time\ntime.sleep(20)\nprint('done')"),
}
"""By what the job does, the options and the script."""


def test_jobs_that_do_not_end_by_themselves(tmp_path: Path) -> None:
    """All at the same time, since most of it is waiting."""
    pytest.importorskip("torch")
    started = {}
    for name, (options, text) in LASTING.items():
        folder = tmp_path / name
        folder.mkdir()
        script(folder, text)
        started[name] = start(folder, *options, "-o", "result.json", *job()), folder
    ran = {name: ended(process, folder) for name, (process, folder) in started.items()}

    assert_timed_out(ran["never steps"], signal.SIGINT)
    assert_timed_out(ran["takes no signal"], signal.SIGKILL)
    assert signals_noted(ran["takes no signal"]) == ["SIGINT", "SIGTERM"]

    assert signals_noted(ran["takes no exit"]) == ["SystemExit", "SIGINT", "SIGTERM"]
    stubborn = ran["takes no exit"].result
    assert stubborn.job is not None
    assert (stubborn.job.signal, stubborn.job.stopped_by_probe) == (signal.SIGKILL, True)
    assert (stubborn.steps.measured, ran["takes no exit"].status) == (6, 0)

    runs_on = ran["runs on"]
    assert (runs_on.status, runs_on.out, len(runs_on.said)) == (0, "done\n", 1)
    assert f"the measurement was not complete after {ENOUGH_S} s" in runs_on.said[0]


def test_processes_that_a_job_has_started_are_ended_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that outlives the job, and one whose parent has ended."""
    monkeypatch.chdir(tmp_path)
    script(tmp_path, DESCENDANTS)
    started = tmp_path / "started"
    manifest = launch.run(
        [sys.executable, "job.py"], tmp_path / "recording", Options(), cancelled=lambda: started.exists()
    )
    assert manifest.end is not None
    assert manifest.end.escalated == "SIGINT"
    child, orphan = map(int, started.read_text("utf-8").split())
    assert (is_alive(child), is_alive(orphan)) == (False, False)


def assert_timed_out(ran: Ran, by: signal.Signals) -> None:
    end = ran.result.job
    assert end is not None
    assert end.stopped_by_probe
    assert (end.signal or -(end.exit_code or 0)) in (by, -1), (
        "a script that is interrupted ends with a KeyboardInterrupt"
    )
    assert ran.status == 4
    (said,) = ran.said
    assert f"nothing could be measured: the measurement was not complete after {ENOUGH_S} s" in said


def signals_noted(ran: Ran) -> list[str]:
    """What reached the job, each long after the one before."""
    lines = [line.split() for line in (ran.folder / "signals").read_text().splitlines()]
    times = [float(clock) for _, clock in lines]
    assert all(after - before > PATIENCE_S - 0.5 for before, after in pairwise(times)), times
    return [name for name, _ in lines]


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


# --------------------------------------------------------------------------------------------------- what is the job's


def test_arguments_folder_input_and_environment_are_the_jobs_own(tmp_path: Path) -> None:
    script(tmp_path, "import os, sys\nprint(sys.argv[1:], os.getcwd(), sys.stdin.read(), os.environ['OF_JOB'])")
    arguments = ["--steps", "5", "--", "", "two words", "é\n", "--timeout=1"]
    process = start(tmp_path, *UNSEEN, *job(*arguments), env=PLAIN | {"OF_JOB": "yes"})
    ran = ended(process, tmp_path, "in\nput")
    assert (ran.status, ran.out, ran.err) == (0, f"{arguments} {tmp_path} in\nput yes\n", "")


def test_descriptors_that_the_probe_was_given_are_the_jobs(tmp_path: Path) -> None:
    reads, writes = os.pipe()
    script(tmp_path, f"import os; os.write({writes}, b'said')")
    assert probe(tmp_path, *UNSEEN, *job(), pass_fds=(writes,)).status == 0
    os.close(writes)
    assert os.read(reads, 10) == b"said"
    os.close(reads)


CLOSED: dict[str, Callable[[], None]] = {
    "input": lambda: os.close(0),
    "output": lambda: os.close(1),
    "errors": lambda: os.close(2),
    "all streams": lambda: os.closerange(0, 3),
}


@pytest.mark.parametrize("which", CLOSED)
def test_a_job_with_closed(which: str, tmp_path: Path) -> None:
    text = "import os, sys\nopen('seen', 'w').write(f'{sorted(map(int, os.listdir(\"/proc/self/fd\")))}')\nsys.exit(4)"
    script(tmp_path, text)
    plain = subprocess.run(
        [sys.executable, "job.py"], cwd=tmp_path, preexec_fn=CLOSED[which], capture_output=True, check=False
    )
    seen = (tmp_path / "seen").read_text()
    ran = probe(tmp_path, *UNSEEN, *job(), preexec_fn=CLOSED[which])
    assert (ran.status, ran.out, ran.err) == (plain.returncode, "", "")
    assert (tmp_path / "seen").read_text() == seen


UNREAD = "import sys\nfor _ in range(100_000): print('x' * 80)"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_job_whose_reader_is_gone(stream: str, tmp_path: Path) -> None:
    """It is told that by the system, as in a plain run."""
    script(tmp_path, UNREAD if stream == "stdout" else UNREAD.replace("80)", "80, file=sys.stderr)"))
    plain = run_unread([sys.executable, "job.py"], stream, tmp_path)
    assert plain[0] != 0
    assert run_unread([*PROBE, *UNSEEN, *job()], stream, tmp_path) == plain


def run_unread(words: list[str], stream: str, folder: Path) -> tuple[int, str]:
    """Status, and what the other stream says, of a program of which one stream leads to nobody."""
    reads, writes = os.pipe()
    os.close(reads)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | {stream: writes}
    done = subprocess.run(words, cwd=folder, env=PLAIN, encoding="utf-8", timeout=TIMEOUT_S, check=False, **streams)
    os.close(writes)
    return done.returncode, (done.stderr if stream == "stdout" else done.stdout) or ""


@pytest.mark.parametrize(("text", "status"), [("import sys; sys.exit(7)", 3), ("print('done')", 4)])
def test_the_status_is_right_though_nobody_reads_the_report(text: str, status: int, tmp_path: Path) -> None:
    script(tmp_path, text)
    assert run_unread([*PROBE, *job()], "stderr", tmp_path)[0] == status
