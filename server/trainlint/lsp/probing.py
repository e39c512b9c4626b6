"""Runs `trainlint probe` for the editor: as a process of its own, one at a time, told of and ended at any time."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from trainlint.lsp.addresses import path_of
from trainlint.probe.figures import counted

if TYPE_CHECKING:
    from trainlint.report.probe_result import ProbeResult

_LOG = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.3
_PATIENCE_S = 35.0
"""How long a probe that is cancelled has to end its job, before both are killed; it escalates within that time."""
_TAIL_BYTES = 4000


class NotProbed(Exception):  # noqa: N818
    """There is no result; the message says why, in one line."""


class Cancelled(NotProbed):
    """Somebody ended the probe."""


class ProbeRequest(BaseModel):
    """What to probe: a script, a module, or a job that runs already."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str | None = None
    """The script."""
    module: str | None = None
    """The module to run in its place, as `python -m` does."""
    pid: int | None = Field(default=None, gt=0)
    """The job to look at in their place."""
    args: list[str] = []
    """Arguments of the script."""
    steps: int | None = Field(default=None, gt=0)
    """Clean steps to measure."""
    python: str | None = None
    """Interpreter of the training environment."""
    pythonArgs: list[str] = []  # noqa: N815 - as it travels
    """Arguments of the interpreter itself."""
    cwd: str | None = None
    """Working directory; where there is none, the folder of the workspace that the script lies in, or its own."""
    env: dict[str, str | None] = {}
    """Variables of the environment of the job, besides those of the server; null for one that is not to be set."""

    @property
    def script(self) -> Path | None:
        return None if self.uri is None else path_of(self.uri)

    def words(self) -> list[str]:
        """The arguments of `trainlint probe` that say what to probe.

        Raises:
            NotProbed: it says nothing.
        """
        options = [] if self.steps is None else ["--steps", str(self.steps)]
        if self.pid is not None:
            return [*options, "--pid", str(self.pid)]
        if self.python is not None:
            options += ["--python", self.python]
        if self.module is not None:
            program = ["-m", self.module]
        elif self.script is not None:
            program = [str(self.script)]
        else:
            raise NotProbed(f"there is no script at {self.uri!r}; save the file first")
        starts_itself = self.module is None and not self.pythonArgs
        interpreter = [] if starts_itself else [self.python or "python", *self.pythonArgs]
        return [*options, "--", *interpreter, *program, *self.args]


def own_program() -> list[str]:
    """How this server's own trainlint is started, for its other verbs."""
    return [sys.executable, *sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]]


class Probing:
    """The probe that runs, if there is one."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._is_cancelled = False
        self._is_busy = False

    @property
    def is_running(self) -> bool:
        return self._is_busy

    async def run(self, request: ProbeRequest, folder: Path, tell: Callable[[str, int], None]) -> ProbeResult:
        """Run a probe to its end, in a working directory; `tell` hears how far it is, in words and in per cent.

        Raises:
            NotProbed: with the reason, one line.
        """
        if self._is_busy:
            raise NotProbed("a probe is running; cancel it first")
        self._is_busy, self._is_cancelled = True, False
        place = Path(tempfile.mkdtemp(prefix="trainlint-probe-"))
        try:
            return await self._run(request, folder, place, tell)
        finally:
            self._is_busy = False
            shutil.rmtree(place, ignore_errors=True)

    def cancel(self) -> bool:
        """End the probe and its job; whether there was one."""
        if not self._is_busy:
            return False
        self._is_cancelled = True
        if self._process is not None and self._process.returncode is None:
            self._signal(signal.SIGTERM)
            asyncio.get_running_loop().call_later(_PATIENCE_S, self._kill, self._process)
        return True

    def close(self) -> None:
        """End it at once, as the server ends."""
        if self._process is not None:
            self._is_cancelled = True
            self._kill(self._process)

    async def _run(
        self, request: ProbeRequest, folder: Path, place: Path, tell: Callable[[str, int], None]
    ) -> ProbeResult:
        result, recording, output = place / "result.json", place / "recording", place / "output.txt"
        options = ("--quiet", "--output-file", str(result), "--recording", str(recording))
        command = [*own_program(), "probe", *options, *request.words()]
        environment = {**os.environ, **{name: value for name, value in request.env.items() if value is not None}}
        for name in (name for name, value in request.env.items() if value is None):
            environment.pop(name, None)
        _LOG.info("probe: %s", command)
        with output.open("wb") as stream:
            try:
                # The streams of the server are the editor's. In a session of its own, the job is ended as a whole.
                self._process = process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=stream,
                    stderr=asyncio.subprocess.STDOUT,
                    cwd=folder,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as error:
                raise NotProbed(f"the probe does not start in {folder}: {error.strerror or error}") from error
            try:
                if self._is_cancelled:
                    self._signal(signal.SIGTERM)
                await self._follow(process, recording, request.steps, tell)
            except asyncio.CancelledError:
                self.cancel()
                raise
        return await asyncio.to_thread(self._outcome, process.returncode, result, output)

    async def _follow(
        self, process: asyncio.subprocess.Process, recording: Path, steps: int | None, tell: Callable[[str, int], None]
    ) -> None:
        """Tell how far the job is until it has ended."""
        from trainlint.probe.progress import furthest, states
        from trainlint.probe.recording import Options

        wanted = steps or Options().steps
        told = ("", -1)
        while process.returncode is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _LOOK_EVERY_S)
            state = furthest(await asyncio.to_thread(states, recording))
            if not state.steps:
                now = ("starting", 0)
            elif state.phase_name == "warmup":
                now = (f"warming up, step {state.steps}", 0)
            else:
                clean = min(state.clean_steps, wanted)
                now = (f"{clean} of {counted(wanted, 'step')}", min(99, 100 * clean // wanted))
            if now != told:
                tell(*now)
                told = now

    def _outcome(self, code: int | None, result: Path, output: Path) -> ProbeResult:
        """What the probe left."""
        from trainlint.report.probe_result import BrokenResult, read_result

        if self._is_cancelled:
            raise Cancelled("the probe was cancelled")
        if code != 0:
            raise NotProbed(_last_words(output) or f"the probe ended with status {code}")
        try:
            return read_result(result.read_bytes())
        except OSError as error:
            raise NotProbed(f"the probe left no result: {error.strerror or error}") from error
        except BrokenResult as error:
            raise NotProbed(f"what the probe left {error}") from error

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _kill(self, process: asyncio.subprocess.Process) -> None:
        """Kill a probe that has not ended, with its job."""
        if process.returncode is not None:
            return
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()


def _last_words(output: Path) -> str:
    """What trainlint itself said last, or else the job."""
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - _TAIL_BYTES))
        lines: Sequence[str] = file.read().decode("utf-8", "replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    own = [line.removeprefix("trainlint: ").removeprefix("error: ") for line in said if line.startswith("trainlint")]
    return (own or said or [""])[-1]
