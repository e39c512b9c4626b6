"""The processes of a job as the analysis sees them: ranks with their steps, and the loader workers of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from trainlint.agent import records
from trainlint.probe.analysis.steps import RankSteps, Spans, steps_of
from trainlint.probe.evidence import Line
from trainlint.probe.recording import ProcessRecording, Recording
from trainlint.probe.traces.sites import JobCode


@dataclass(frozen=True)
class Observed:
    """A recording, and the steps in it."""

    recording: Recording
    ranks: tuple[RankSteps, ...]
    """By rank."""

    @classmethod
    def of(cls, recording: Recording) -> Observed:
        warmup = recording.manifest.options.warmup
        return cls(recording, tuple(steps_of(process, warmup) for process in recording.ranks))

    @cached_property
    def accelerator(self) -> bool:
        """Whether the job ran on a device that the host can wait for: one that torch named, or whose memory it held."""
        named = any(note.get("devices") for process in self.recording.processes for note in process.noted("torch"))
        held = any(record.kind == records.MEMORY for process in self.recording.ranks for record in process.records)
        return named or held

    @property
    def timed(self) -> tuple[RankSteps, ...]:
        """The ranks with clean steps."""
        return tuple(steps for steps in self.ranks if steps.cycles)

    @cached_property
    def first(self) -> RankSteps | None:
        """The rank that stands for all: the first with clean steps, else the first."""
        return next(iter(self.timed), next(iter(self.ranks), None))

    @cached_property
    def workers(self) -> Mapping[int, RankSteps]:
        """The rank that a loader worker works for, by the worker's process id."""
        by_pid = {steps.process.pid: steps for steps in self.ranks}
        parents = {process.pid: parent_of(process) for process in self.recording.processes}
        found: dict[int, RankSteps] = {}
        for process in self.recording.processes:
            owner = _ancestor(process.pid, parents, by_pid) if process.role == "worker" else None
            if owner is not None:
                found[process.pid] = owner
        return found

    @cached_property
    def world_size(self) -> int:
        """What the ranks say, or their number."""
        said = [
            size
            for process in self.recording.ranks
            for note in process.noted("role")
            if isinstance(size := note.get("world_size"), int)
        ]
        return max([*said, len(self.ranks), 1])

    def clean_spans(self, steps: RankSteps) -> Spans:
        return Spans((cycle.start, cycle.end) for cycle in steps.cycles)

    @cached_property
    def clean(self) -> Spans:
        """The clean steps of the rank that stands for all."""
        return self.clean_spans(self.first) if self.first is not None else Spans(())


def parent_of(process: ProcessRecording) -> int | None:
    parents = [note.get("parent") for note in process.noted("process")]
    return next((parent for parent in parents if isinstance(parent, int)), None)


def _ancestor(pid: int, parents: Mapping[int, int | None], ranks: Mapping[int, RankSteps]) -> RankSteps | None:
    seen: set[int] = set()
    parent = parents.get(pid)
    while parent is not None and parent not in seen:
        if parent in ranks:
            return ranks[parent]
        seen.add(parent)
        parent = parents.get(parent)
    return None


def own_code(recording: Recording) -> JobCode:
    """What the job's own code is: not the agent."""
    return JobCode([Path(recording.manifest.cwd)], agent_folders(recording))


def agent_folders(recording: Recording) -> list[Path]:
    """Where the agent lies: in the recording, which may have been in another folder when the job ran."""
    folders = {recording.folder.absolute(), Path(recording.manifest.folder or recording.folder).absolute()}
    return [folder / "agent" for folder in folders]


def number(value: object) -> float | None:
    """A number that a note holds; None for anything else."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def whole(value: object) -> int | None:
    """A whole number that a note holds; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def listed(value: object) -> list[object]:
    """A list that a note holds; empty for anything else."""
    return value if isinstance(value, list) else []


def line_of(text: str) -> Line | None:
    """The line that a name such as `/project/train.py:41` means."""
    path, _, row = text.rpartition(":")
    return Line(Path(path), int(row)) if path and row.isdecimal() else None
