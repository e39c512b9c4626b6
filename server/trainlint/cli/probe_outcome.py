"""What became of a measurement: the status that it gives the probe, and the line that says why."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from trainlint.probe.analysis.steps import TRAINING
from trainlint.probe.figures import counted

if TYPE_CHECKING:
    from trainlint.probe.recording import JobEnd, Recording
    from trainlint.report.probe_result import ProbeResult

JOB_FAILED = 3
"""The job failed before enough steps."""
NOTHING_MEASURED = 4
INTERRUPTED = 128 + signal.SIGINT
NO_TORCH = "no process of the job loaded torch in Python 3.9 or newer; name the training environment by --python"


OTHER_INTERPRETER = "if its environment has no PyTorch, name the interpreter of one that has: --python PATH"


def outcome_of(result: ProbeResult, read: Recording) -> tuple[int, list[str]]:
    """The status that a recording gives, 0 where enough was measured, and what is to be said of it."""
    reason = _why_nothing(result, read)
    end = read.manifest.end
    if end is not None and _has_failed(result, read, end):
        return JOB_FAILED, [_failure(result, read, end)]
    if reason is not None:
        return NOTHING_MEASURED, [f"nothing could be measured: {reason}"]
    return 0, []


def _failure(result: ProbeResult, read: Recording, end: JobEnd) -> str:
    """How the job ended, and where it was then."""
    if shell_status(end) == INTERRUPTED:
        how = "the job was interrupted"
    else:
        how = f"the job failed with {f'signal {end.signal}' if end.signal else f'status {end.exit_code}'}"
    if not read.processes:
        advice = "" if end.signal else f"; {OTHER_INTERPRETER}"
        return f"{how} before it was seen to load torch{advice}"
    return f"{how} after {result.steps.measured} of {counted(read.manifest.options.steps, 'step')}"


def shell_status(end: JobEnd) -> int:
    """The status of a job as a shell reports it."""
    return 128 + end.signal if end.signal is not None else end.exit_code or 0


def tells_something(result: ProbeResult) -> bool:
    """Whether a report for people would say more than that nothing was measured, and why."""
    return bool(result.steps.measured or result.lines or result.gpu)


def _has_failed(result: ProbeResult, read: Recording, end: JobEnd) -> bool:
    """Whether the job failed before enough steps."""
    if end.stopped_by_probe or shell_status(end) == 0:
        return False
    return result.steps.measured < read.manifest.options.steps


def _why_nothing(result: ProbeResult, read: Recording) -> str | None:
    """Why there is nothing to report; None where there is something."""
    manifest = read.manifest
    if result.steps.measured or manifest.kind == "attach":
        return None
    why = [manifest.missing.get("steps", "")]
    faults = [note for process in read.processes for note in process.noted("fault")]
    if faults:
        last = str(faults[-1].get("traceback", "")).strip().rsplit("\n", 1)[-1]
        why.append(f"the agent turned itself off: {last}")
    told = [str(note.get("why")) for process in read.processes for note in process.noted("missing")]
    if told and not faults:
        why += dict.fromkeys(told)
    elif not read.processes:
        why.append(NO_TORCH)
    elif not faults and any(one.kind in TRAINING for process in read.processes for one in process.records):
        why = [result.environment.missing.get("steps", why[0])]
    elif not faults:
        why.append("no optimizer stepped, and no backward pass ran")
    return "; ".join(one for one in why if one)
