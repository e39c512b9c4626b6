"""Runs a job to its end with the agent in it, and leaves a recording.

The job is a child in the same process group with the same descriptors; nothing of ours reads or writes its streams.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from trainlint.agent import control
from trainlint.probe import machine, recording, sampling
from trainlint.probe.command import PythonCall, UnusableCommandError, started, with_agent
from trainlint.probe.ending import PATIENCE_S, Ending, Means
from trainlint.probe.evidence import Line
from trainlint.probe.forwarding import Forwarding
from trainlint.probe.injection import Injection
from trainlint.probe.progress import State, furthest, states
from trainlint.probe.recording import JobEnd, Manifest, Options
from trainlint.source.system_errors import reason_of

POLL_S = 0.2
"""How often the rings are looked at; the end of the job is noticed at once."""
STEPS_TO_END = 2
"""An order to end names the step after this many more, which no rank has passed when it reads the order."""


class FaultBesideJobError(Exception):
    """Something of the probe's own failed, which is the cause, once the job had been started. The job has ended since,
    by itself where it was to run on."""

    def __init__(self, end: JobEnd) -> None:
        super().__init__("the probe failed beside the job")
        self.end = end
        """How the job ended."""


def run(
    command: Sequence[str],
    folder: Path,
    options: Options,
    *,
    flagged: Iterable[Line] = (),
    python: str | None = None,
    on_state: Callable[[State], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Manifest:
    """Run a job to its end and leave a recording in `folder`.

    Args:
        command: what a person would write; a script may stand without its interpreter.
        flagged: lines of which the recording is to say whether they ran.
        python: the interpreter of the training environment, in place of the one that the command names.
        on_state: is told how far the job is, whenever that changes.
        cancelled: is asked whether to end the job now.

    Raises:
        UnusableCommandError: it cannot be started.
        OSError: the folder cannot be written; nothing was started.
        FaultBesideJobError: whatever failed later.
    """
    words = started(command, python, os.environ)
    injection = Injection.into(folder, options, flagged)
    with Forwarding() as forwarding:
        job = _Job(words, injection, options, forwarding)
        try:
            job.look_on()
            job.follow(on_state, cancelled)
            return job.manifest()
        except Exception as error:
            raise FaultBesideJobError(job.outlasted()) from error


def run_plainly(command: Sequence[str], *, python: str | None = None) -> int:
    """Run a job without measuring anything, and return its status: negative for a signal.

    Raises:
        UnusableCommandError: it cannot be started.
    """
    with Forwarding() as forwarding:
        process = _popen(started(command, python, os.environ), None)
        forwarding.pass_to(process)
        while process.poll() is None:
            forwarding.wait(POLL_S)
    return process.returncode


def _popen(words: Sequence[str], environment: dict[str, str] | None) -> subprocess.Popen[bytes]:
    try:
        # Descriptors that the probe was given are the job's, too.
        return subprocess.Popen(words, env=environment, close_fds=False)
    except OSError as error:
        raise UnusableCommandError(f"`{words[0]}` cannot be started: {_why_unusable(words[0], error)}") from error


def _why_unusable(program: str, error: OSError) -> str:
    """Why the system starts a program not, and what to do."""
    if os.path.isdir(program):  # noqa: PTH112 - of a word, which names no program on the path
        return "it is a folder; name the script in it that trains"
    if isinstance(error, FileNotFoundError):
        there = os.sep in program and os.path.exists(program)  # noqa: PTH110 - of a word
        return "the interpreter that its first line names is not there" if there else "there is no such program"
    if isinstance(error, PermissionError):
        return "it is not executable; name its interpreter before it, or run: chmod +x"
    if error.errno == errno.ENOEXEC:
        return "it is no program, and no script whose first line names an interpreter; name that before it"
    return reason_of(error)


class _Job:
    """A job while it runs."""

    def __init__(self, words: list[str], injection: Injection, options: Options, forwarding: Forwarding) -> None:
        self._options = options
        self._injection = injection
        self._forwarding = forwarding
        self._cpu_before = _own_cpu_s()
        self._manifest = machine.manifest("run", words, Path.cwd(), options, injection.folder)
        self._process = _popen(with_agent(words, injection.agent), injection.environment(os.environ))
        forwarding.pass_to(self._process)
        self._sampling: sampling.Sampling | None = None
        self._ending = Ending(self._process, injection.folder)
        self._seen: dict[str, State] = {}
        self._changed = time.perf_counter()
        self._first_step: tuple[float, int] | None = None
        """When the first steps were seen, and how many they were."""
        self._missing = dict(_unseen(words))
        self._ended = 0.0
        self._escalated: Means | None = None

    def look_on(self) -> None:
        """Begin to sample the job, which has been started."""
        folder, pid = self._injection.folder, self._process.pid
        self._manifest = self._manifest.model_copy(update={"job_pid": pid})
        with suppress(OSError):  # the disk is full; the job goes on
            recording.write_manifest(folder, self._manifest)
        self._sampling = sampling.start(folder, pid, self._options)

    def follow(self, on_state: Callable[[State], None] | None, cancelled: Callable[[], bool] | None) -> None:
        """Wait until the job has ended, and see to it that it does, and leaves nothing behind where it was made to."""
        limit = self._options.timeout_s
        began, said = time.perf_counter(), None
        while self._process.poll() is None:
            self._forwarding.wait(POLL_S)
            now = time.perf_counter()
            self._look(now)
            state = furthest(self._seen)
            if on_state is not None and state != said:
                said = state
                on_state(state)
            if not self._ending.begun:
                if cancelled is not None and cancelled():
                    self._stop(now, "the measurement was cancelled")
                elif limit is not None and now - began > limit:
                    limit = None
                    self._time_out(now)
            if state.is_done and (self._ending.begun or not self._options.keep_running):
                self._ending.begin(self._changed + PATIENCE_S)
            self._ending.go_on(now)
        self._ended, self._escalated = time.perf_counter(), self._ending.used
        self._finish_ending()

    def _finish_ending(self) -> None:
        while self._ending.is_unfinished(now := time.perf_counter()):
            self._ending.go_on(now)
            self._forwarding.wait(POLL_S)

    def outlasted(self) -> JobEnd:
        """Wait until the job has ended, and look at it no more; end it where it is not to run on."""
        if self._sampling is not None:
            with suppress(Exception):
                self._sampling.stop()
        if not self._options.keep_running:
            self._ending.begin(time.perf_counter())
        while self._process.poll() is None:
            self._forwarding.wait(POLL_S)
            self._ending.go_on(time.perf_counter())
        self._ended, self._escalated = self._ended or time.perf_counter(), self._ending.used
        self._finish_ending()
        return self._end()

    def manifest(self) -> Manifest:
        """Write and return what is to be said of the run, once the job has ended."""
        assert self._sampling is not None, "the job was not looked on"
        missing = {**self._sampling.stop(), **self._missing}
        sampled = self._sampling.cpu_s or 0.0
        cpu_s = _own_cpu_s() - self._cpu_before + sampled
        self._manifest = self._manifest.model_copy(
            update={"end": self._end(), "missing": missing, "probe_cpu_s": cpu_s}
        )
        recording.write_manifest(self._injection.folder, self._manifest)
        return self._manifest

    def _end(self) -> JobEnd:
        status = self._process.returncode
        return JobEnd(
            exit_code=status if status >= 0 else None,
            signal=-status if status < 0 else None,
            stopped_by_probe=self._escalated is not None or any(_stops(self._injection.folder)),
            clock=self._ended,
            escalated=self._escalated,
        )

    def _look(self, now: float) -> None:
        seen = states(self._injection.folder)
        if seen != self._seen:
            self._seen, self._changed = seen, now
            self._first_step = self._first_step or next(((now, one.steps) for one in seen.values() if one.steps), None)
            assert self._sampling is not None, "the job was not looked on"
            self._sampling.follow(int(name.partition("-")[0]) for name in seen)

    def _time_out(self, now: float) -> None:
        reason = f"the measurement was not complete after {self._options.timeout_s:g} s"
        if self._options.keep_running:
            self._missing["steps"] = reason
            self._injection.command(control.DETACH, 0)
        else:
            self._stop(now, reason)

    def _stop(self, now: float, reason: str) -> None:
        """Have the job end at a step, the same on every rank; at once where it does not step."""
        self._missing["steps"] = reason
        steps = [state.steps for state in self._seen.values() if state.is_training]
        if steps:
            self._injection.command(control.END, max(steps) + STEPS_TO_END)
        self._ending.begin(now + (PATIENCE_S + (STEPS_TO_END + 1) * self._step_s(now) if steps else 0.0))

    def _step_s(self, now: float) -> float:
        """How long a step takes, as far as is known: an interrupt in the middle of a long one would do harm."""
        if self._first_step is None:
            return 0.0
        began, before = self._first_step
        steps = max(state.steps for state in self._seen.values())
        return max(now - self._changed, (now - began) / max(1, steps - before))


def _unseen(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    call = PythonCall.of(words)
    if call is not None and call.keeps_agent_out and not call.program:
        yield "agent", "the code comes from standard input and an option of the interpreter ignores PYTHONPATH"


def _stops(folder: Path) -> Iterator[bool]:
    """Whether processes were ended by the agent in them."""
    for notes in (folder / "processes").glob("*.notes"):
        for line in notes.read_bytes().splitlines():
            if b'"stop"' in line:
                try:
                    yield json.loads(line).get("note") == "stop"
                except ValueError:
                    continue


def _own_cpu_s() -> float:
    times = os.times()
    return times.user + times.system
