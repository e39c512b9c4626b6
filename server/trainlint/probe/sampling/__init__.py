"""Samples of what surrounds the job: its GPUs (NVML), its processes and cores (psutil), its stacks (py-spy).

All samplers run in one process of their own, so that the probe only waits and reads nothing while the job runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.probe.recording import Options
from trainlint.probe.sampling.messages import Ended, Follow, Stop
from trainlint.probe.sampling.process import serve
from trainlint.source.processes import discard, process_context
from trainlint.source.processes import start as start_process
from trainlint.source.system_errors import reason_of

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

LONGEST_END_S = 20.0
"""How long the samplers may take to write what they have: py-spy is told to end and writes its file, which is read."""


class Sampling:
    """The samplers of one job, while they run."""

    def __init__(self, started: tuple[BaseProcess, Connection] | None, ended: Ended | None = None) -> None:
        self._started = started
        self._ended = ended

    @property
    def cpu_s(self) -> float | None:
        """CPU time that the samplers took, py-spy included; None before `stop`, and where it is not known."""
        return None if self._ended is None else self._ended.cpu_s

    def runs(self) -> bool:
        """Whether samples are still taken: the job may have ended, and the samplers with it."""
        return self._started is not None and self._started[0].is_alive()

    def follow(self, pids: Iterable[int]) -> None:
        """Count these processes in with the job, though they are not in its tree."""
        self._send(Follow(tuple(pids)))

    def stop(self) -> dict[str, str]:
        """End the samplers, wait until all is written, and return what could not be sampled, each with the reason."""
        if self._ended is None and self._started is not None:
            self._send(Stop())
            self._ended = _answer(*self._started)
            discard(*self._started)
        return {} if self._ended is None else dict(self._ended.missing)

    def _send(self, message: Follow | Stop) -> None:
        if self._started is not None and self._ended is None:
            with suppress(OSError):  # it has ended, since the job has; its answer waits in the pipe
                self._started[1].send(message)


def _answer(process: BaseProcess, connection: Connection) -> Ended:
    try:
        if connection.poll(LONGEST_END_S):
            answer = connection.recv()
            if not isinstance(answer, Ended):
                raise TypeError(answer)
            process.join(1)
            return answer
    except (EOFError, OSError):
        process.join(1)
        return Ended({"samples": f"the samplers ended early, with status {process.exitcode}"}, None)
    return Ended({"samples": f"the samplers did not end within {LONGEST_END_S:g} s"}, None)


def start(folder: Path, job_pid: int, options: Options, *, attached: bool = False) -> Sampling:
    """Start sampling a job into the recording in `folder`, until told to stop or the job is gone.

    `attached` says that the job runs without an agent, so that nothing tells which of its processes do what. Where the
    system refuses another process or folder, nothing is sampled, and the job is none the worse.
    """
    try:
        (folder / "samples").mkdir(parents=True, exist_ok=True)
        return Sampling(start_process(process_context(), serve, folder, job_pid, options, attached))
    except OSError as error:
        return Sampling(None, Ended({"samples": f"no sampler could be started: {reason_of(error)}"}, None))
