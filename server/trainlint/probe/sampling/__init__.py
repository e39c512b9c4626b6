"""Samples of what surrounds the job: its GPUs (NVML), its processes and cores (psutil), its stacks (py-spy).

All samplers run in one process of their own, so that the probe only waits and reads nothing while the job runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.probe.recording import Options
from trainlint.probe.sampling.messages import Ended, Follow, Stop
from trainlint.probe.sampling.process import serve
from trainlint.source.processes import discard, process_context
from trainlint.source.processes import start as start_process

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

LONGEST_END_S = 20.0
"""How long the samplers may take to write what they have: py-spy is told to end and writes its file, which is read."""


class Sampling:
    """The samplers of one job, while they run."""

    def __init__(self, process: BaseProcess, connection: Connection) -> None:
        self._process = process
        self._connection = connection
        self._ended: Ended | None = None

    @property
    def cpu_s(self) -> float | None:
        """CPU time that the samplers took, py-spy included; None before `stop`, and where it is not known."""
        return None if self._ended is None else self._ended.cpu_s

    def runs(self) -> bool:
        """Whether samples are still taken: the job may have ended, and the samplers with it."""
        return self._process.is_alive()

    def follow(self, pids: Iterable[int]) -> None:
        """Count these processes in with the job, though they are not in its tree."""
        self._send(Follow(tuple(pids)))

    def stop(self) -> dict[str, str]:
        """End the samplers, wait until all is written, and return what could not be sampled, each with the reason."""
        if self._ended is None:
            self._send(Stop())
            self._ended = self._answer()
            discard(self._process, self._connection)
        return dict(self._ended.missing)

    def _send(self, message: Follow | Stop) -> None:
        try:
            self._connection.send(message)
        except OSError:
            """It has ended, since the job has; its answer waits in the pipe."""

    def _answer(self) -> Ended:
        try:
            if self._connection.poll(LONGEST_END_S):
                answer = self._connection.recv()
                if isinstance(answer, Ended):
                    self._process.join(1)
                    return answer
                raise TypeError(answer)
        except (EOFError, OSError):
            self._process.join(1)
            return Ended({"samples": f"the samplers ended early, with status {self._process.exitcode}"}, None)
        return Ended({"samples": f"the samplers did not end within {LONGEST_END_S:g} s"}, None)


def start(folder: Path, job_pid: int, options: Options, *, attached: bool = False) -> Sampling:
    """Start sampling a job into the recording in `folder`, until told to stop or the job is gone.

    `attached` says that the job runs without an agent, so that nothing tells which of its processes do what.
    """
    (folder / "samples").mkdir(parents=True, exist_ok=True)
    process, connection = start_process(process_context(), serve, folder, job_pid, options, attached)
    return Sampling(process, connection)
