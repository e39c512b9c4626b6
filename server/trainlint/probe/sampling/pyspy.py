"""py-spy: where it is, what it refuses, and what it recorded.

py-spy reads the job's memory from outside and runs nothing in it. It is told not to stop the process while it reads
(`--nonblocking`), which costs the job nothing measurable, and to count waiting threads in (`--idle`): a line that waits
for a disk, a lock or a GPU takes as long as one that computes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from trainlint.probe.extra import EXTRA, absence_of
from trainlint.source.system_errors import reason_of

PTRACE_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
LONGEST_LOOK_S = 10.0
MAIN_THREAD = "MainThread"
COUNTED = re.compile(r"Samples: (\d+) Errors: (\d+)")

TO_BE_ALLOWED = (
    "run the probe as root or with the capability SYS_PTRACE (Docker: --cap-add SYS_PTRACE; Kubernetes: "
    "securityContext.capabilities.add), or have root run: sysctl kernel.yama.ptrace_scope=0"
)


class PySpyUnavailableError(Exception):
    """py-spy cannot be run here at all; the message says what to do."""


def program() -> Path:
    """The program that the package py-spy installed.

    Raises:
        PySpyUnavailableError: it is not installed.
    """
    try:
        files = metadata.distribution("py-spy").files or []
    except metadata.PackageNotFoundError as error:
        raise PySpyUnavailableError(absence_of("py-spy")) from error
    for file in files:
        if file.name in ("py-spy", "py-spy.exe"):
            return Path(os.path.normpath(file.locate()))
    raise PySpyUnavailableError(f"the package py-spy is installed without its program; install it again: {EXTRA}")


class Frame(NamedTuple):
    """One call of a stack, as py-spy tells it; a tuple, since there are many and each is looked up."""

    path: str
    row: int
    function: str


@dataclass(frozen=True, slots=True)
class Held:
    """A thread was seen with this stack at a time, and with another one `duration_s` later."""

    start_s: float
    """Since the recording started."""
    duration_s: float
    thread: str
    frames: tuple[Frame, ...]
    """The innermost first."""
    last: bool
    """Whether it was so until the recording ended, or the thread: py-spy does not tell which."""


class Recorder:
    """A running `py-spy record` of one process."""

    def __init__(self, py_spy: Path, pid: int, rate: int, longest_s: int, output: Path) -> None:
        """Start it.

        Raises:
            PySpyUnavailableError: the program cannot be run.
        """
        self.pid, self.rate = pid, rate
        self._output = output
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 - it stays open while py-spy writes
        command = [str(py_spy), "record", "--pid", str(pid), "--nonblocking", "--idle", "--threads", "--hideprogress"]
        command += ["--rate", str(rate), "--duration", str(longest_s), "--format", "chrometrace"]
        command += ["--output", str(output)]
        self._ended = float("inf")
        self.counted: tuple[int, int] | None = None
        """Stacks that it read, each thread's by itself, and reads that failed; None where it said nothing."""
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._messages,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that an interrupt at the terminal does not reach it
            )
        except OSError as error:
            raise PySpyUnavailableError(f"py-spy ({py_spy}) cannot be run: {reason_of(error)}") from error
        self.started = time.perf_counter()
        """The program runs by now; it counts time from when it has read its arguments, a few milliseconds later."""

    @property
    def samples(self) -> float:
        """About how many samples it has taken, at least one."""
        return max(1.0, self.rate * (self._ended - self.started))

    def is_over(self) -> bool:
        if self._process.poll() is None:
            return False
        self._ended = min(self._ended, time.perf_counter())
        return True

    def interrupt(self) -> None:
        """Have it write what it has and end."""
        if not self.is_over():
            self._process.send_signal(2)

    def finish(self, longest_s: float) -> str | None:
        """Wait for its end; return why it recorded nothing, or None where it did."""
        try:
            self._process.wait(longest_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return f"py-spy did not end within {longest_s:g} s"
        self.is_over()
        with self._messages as messages:
            messages.seek(0)
            said = messages.read().decode(errors="replace")
        if found := COUNTED.search(said):
            self.counted = int(found[1]), int(found[2])
        return None if self._process.returncode == 0 else failure(said)

    def held(self) -> Iterator[Held]:
        """What it recorded, in the order of time; nothing where its file is missing or broken. The file is removed."""
        try:
            events = json.loads(self._output.read_bytes())
            self._output.unlink()
        except (OSError, ValueError):
            return iter(())
        return parse(events)


def parse(events: list[dict[str, object]]) -> Iterator[Held]:
    """Stacks from py-spy's Chrome trace, in which a frame begins when it is first seen and ends when it no longer is.

    With `--threads` the outermost frame of each stack is `thread (NUMBER): NAME`.
    """
    stacks: dict[object, list[Frame]] = {}
    since: dict[object, float] = {}
    clocks = [float(str(event.get("ts", 0))) / 1e6 for event in events]
    end = max(clocks, default=0.0)
    for event, clock in zip(events, clocks, strict=True):
        thread, phase = event.get("tid"), event.get("ph")
        if phase not in ("B", "E"):
            continue
        stack = stacks.setdefault(thread, [])
        started = since.setdefault(thread, clock)
        if clock > started and stack:
            yield _held(stack, started, clock, last=clock >= end, pid=event.get("pid"))
        since[thread] = clock
        if phase == "B":
            arguments = event.get("args")
            told = arguments if isinstance(arguments, dict) else {}
            path, row = str(told.get("filename") or ""), told.get("line")
            stack.append(Frame(path, row if isinstance(row, int) else 0, str(event.get("name"))))
        elif stack:
            stack.pop()


def _held(stack: list[Frame], started: float, ended: float, *, last: bool, pid: object) -> Held:
    number, _, name = stack[0].function.removeprefix("thread (").partition("): ")
    calls = stack[1:]
    if not name and (number.removesuffix(")") == str(pid) or (calls and calls[0].function == "<module>")):
        # Threads have names once a program has imported `threading`; the main thread has the number of its process.
        name = MAIN_THREAD
    return Held(started, ended - started, name, tuple(reversed(calls)), last)


def failure(said: str) -> str:
    """What went wrong, from what py-spy wrote, with what to do."""
    lines = [line.strip() for line in said.partition("Stack backtrace:")[0].splitlines()]
    text = " ".join(line.removeprefix("Error:").strip() for line in lines if line)
    if "Permission denied" in text or "Permission Denied" in text or "Operation not permitted" in text:
        return f"the system does not let py-spy read the job's memory{_scope()}; {TO_BE_ALLOWED}"
    if any(words in text for words in ("No such process", "Check that the process is running", "(os error 2)")):
        return "the process ended before py-spy could read it"
    if "Failed to find python version" in text or "Failed to find a python interpreter" in text:
        return "py-spy finds no Python that it knows in the process"
    if "Unsupported version of Python" in text:
        return f"{text}; a newer py-spy may know it: pip install --upgrade py-spy"
    return f"py-spy failed: {text or 'it said nothing'}"


def _scope() -> str:
    try:
        return f" (kernel.yama.ptrace_scope is {PTRACE_SCOPE.read_text().strip()})"
    except OSError:
        return ""


def first_look(pid: int) -> str | None:
    """Read a process's stacks once; return why that is not possible, or None where it is.

    Raises:
        PySpyUnavailableError: py-spy cannot be run at all.
    """
    py_spy = program()
    try:
        done = subprocess.run(
            [str(py_spy), "dump", "--nonblocking", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LONGEST_LOOK_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"py-spy did not answer within {LONGEST_LOOK_S:g} s"
    except OSError as error:
        raise PySpyUnavailableError(f"py-spy ({py_spy}) cannot be run: {reason_of(error)}") from error
    return None if done.returncode == 0 else failure(done.stdout.decode(errors="replace"))
