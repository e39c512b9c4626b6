"""Which of the flagged lines ran in the measured steps, as far as that is known."""

from __future__ import annotations

from trainlint.agent import records
from trainlint.probe.analysis.observed import Observed, line_of, listed
from trainlint.probe.evidence import Line
from trainlint.probe.recording import ProcessRecording


def lines_that_ran(observed: Observed) -> dict[Line, bool]:
    """True for lines that a process saw running after the warm-up, False for those that no process saw, though all
    watched for them. What ran before only is not known to run or not to run later: it is left out."""
    start = min((steps.cycles[0].start for steps in observed.timed), default=None)
    if start is None:
        return {}
    ran: dict[Line, bool] = {}
    earlier: set[Line] = set()
    watching = [one for one in observed.recording.processes if one.role in ("rank", "worker")]
    for process in watching:
        for record in process.records:
            line = line_of(record.name) if record.kind == records.LINE else None
            if line is not None and record.start >= start:
                ran[line] = True
            elif line is not None:
                earlier.add(line)
    watched = [_watched(process) for process in watching]
    for line in frozenset.intersection(*watched) if watched else ():
        if line not in earlier:
            ran.setdefault(line, False)
    return ran


def _watched(process: ProcessRecording) -> frozenset[Line]:
    """The lines whose runs a process records."""
    texts = [str(text) for note in process.noted("watched") for text in listed(note.get("lines"))]
    return frozenset(line for text in texts if (line := line_of(text)) is not None)
