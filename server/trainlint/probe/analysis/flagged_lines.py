"""Which of the flagged lines ran in the measured steps, as far as that is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from trainlint.agent import records
from trainlint.probe.analysis.observed import Observed, line_of, listed, parent_of
from trainlint.probe.evidence import Line
from trainlint.probe.recording import ProcessRecording


@dataclass(frozen=True, slots=True)
class LinesThatRan:
    """What the watch over the flagged lines shows."""

    ran: dict[Line, bool] = field(default_factory=dict)
    """True for lines that a process saw running in the measured steps, False for those that no process saw, though all
    that execute the file watched for them."""
    unsure: frozenset[Line] = frozenset()
    """Lines that may have run in the measured steps without having been seen: those that ran before or after, since
    each process sees them once, and those that a process did not watch."""
    why_unknown: str = ""
    """Why nothing is known of lines that left no measurement; empty where all processes watched."""


def lines_that_ran(observed: Observed) -> LinesThatRan:
    spans = [(_clean_start(steps.process, steps.cycles[0].start), steps.cycles[-1].end) for steps in observed.timed]
    if not spans:
        return LinesThatRan()
    start, end = min(start for start, _ in spans), max(end for _, end in spans)
    seen: set[Line] = set()
    unsure: set[Line] = set()
    watched: set[Line] = set()
    for process in observed.recording.processes:
        for line, clock in _runs(process):
            (seen if start <= clock <= end else unsure).add(line)
        unsure |= _lines(process, "unwatched")
        watched |= _lines(process, "watched")
    ran = dict.fromkeys(seen, True)
    why = _why_unknown(observed)
    if not why:
        ran |= dict.fromkeys(watched - seen - unsure, False)
    return LinesThatRan(ran, frozenset(unsure - seen), why)


def _clean_start(process: ProcessRecording, cycle: float) -> float:
    """When lines began to tell of themselves anew: as the clean steps began, before the first that is timed."""
    phases = (
        record.start for record in process.records if record.kind == records.PHASE and record.value == records.CLEAN
    )
    return min(next(phases, cycle), cycle)


def _runs(process: ProcessRecording) -> Iterator[tuple[Line, float]]:
    for record in process.records:
        line = line_of(record.name) if record.kind == records.LINE else None
        if line is not None:
            yield line, record.start


def _lines(process: ProcessRecording, note: str) -> frozenset[Line]:
    texts = [str(text) for one in process.noted(note) for text in listed(one.get("lines"))]
    return frozenset(line for text in texts if (line := line_of(text)) is not None)


def _why_unknown(observed: Observed) -> str:
    """Why a line that no process saw may have run all the same."""
    by_pid = {process.pid: process for process in observed.recording.processes}
    for process in by_pid.values():
        told = [str(note.get("why")) for note in process.noted("missing") if note.get("what") == "lines"]
        if told:
            return told[0]
        if not _watches(process, by_pid):
            return f"process {process.pid} of the job does not say which lines ran in it"
        if process.lost or any(process.noted("fault")):
            return f"process {process.pid} of the job lost a part of what ran in it"
    return ""


def _watches(process: ProcessRecording, by_pid: dict[int, ProcessRecording]) -> bool:
    """Whether a process says that it watches, or was forked by one that does."""
    seen: set[int] = set()
    while process.pid not in seen:
        seen.add(process.pid)
        if any(process.noted("watched")):
            return True
        forked = any(note.get("started_as") == "fork" for note in process.noted("process"))
        parent = by_pid.get(parent_of(process) or 0) if forked else None
        if parent is None:
            return False
        process = parent
    return False
