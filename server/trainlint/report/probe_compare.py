"""Two results of the probe side by side: what changed, and what cannot be compared.

A change of speed is claimed only beyond the noise: half the width of the 95 % interval of the ratio, from the spread of
the step times of both runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import hypot, sqrt
from pathlib import PurePath
from statistics import fmean, stdev

from trainlint.probe.command import program_of
from trainlint.probe.figures import percent
from trainlint.probe.measured import MEASURE_AGAIN, LineCost
from trainlint.probe.thresholds import CORE_WAIT, FINDING_COST
from trainlint.probe.verdict import Status
from trainlint.report.json_model import FindingJson
from trainlint.report.probe_result import ProbeResult
from trainlint.report.probe_sections import gpus_text
from trainlint.report.probe_shares import SHARE_LABELS
from trainlint.report.style import printable

BLOCKS = 10
"""Steps follow one another in patterns (two workers deliver in pairs), so the spread is that of means of blocks."""
_QUANTILE = 2.262
"""Of Student's distribution with BLOCKS - 1 degrees of freedom, for an interval of 95 %."""
FEWEST_STEPS = 2 * BLOCKS


@dataclass(frozen=True, slots=True)
class RateChange:
    """The throughput of both runs, in the most telling unit that both measured."""

    unit: str
    earlier: float
    now: float
    noise: float | None
    """What the ratio is uncertain by, relative; None where the spread of the steps is not known."""

    @property
    def change(self) -> float:
        """Relative: -0.1 is a tenth slower."""
        return self.now / self.earlier - 1

    @property
    def is_clear(self) -> bool:
        """Whether the change is beyond the noise."""
        return self.noise is not None and abs(self.change) > self.noise


@dataclass(frozen=True, slots=True)
class ShareChange:
    label: str
    earlier: float
    now: float
    earlier_s: float | None
    now_s: float | None


@dataclass(frozen=True, slots=True)
class VerdictChange:
    finding: FindingJson
    earlier: Status | None
    """None where the finding is new, or had no verdict."""
    now: Status | None
    """None where the finding is gone, or has no verdict."""
    gone: bool = False
    new: bool = False


@dataclass(frozen=True, slots=True)
class LineChange:
    """A line that got dearer or cheaper by more than the cost of a finding."""

    line: LineCost
    earlier_ms: float
    now_ms: float


@dataclass(frozen=True, slots=True)
class Comparison:
    earlier_started: str
    obstacles: tuple[str, ...]
    """Why the speeds of the two runs cannot be compared."""
    differences: tuple[str, ...]
    """What else is not the same, and may be the reason for a change."""
    loads: tuple[str, ...]
    """Which of the runs were on a machine that was busy with other work, so that no change of speed is the job's."""
    rate: RateChange | None
    """None where no throughput can be compared."""
    shares: tuple[ShareChange, ...]
    bottlenecks: tuple[str, str]
    """The kinds, earlier and now."""
    verdicts: tuple[VerdictChange, ...]
    lines: tuple[LineChange, ...]


def compare(earlier: ProbeResult, now: ProbeResult) -> Comparison:
    obstacles = tuple(_obstacles(earlier, now))
    return Comparison(
        earlier_started=earlier.started,
        obstacles=obstacles,
        differences=tuple(_differences(earlier, now)),
        loads=tuple(_loads(earlier, now)),
        rate=None if obstacles else _rate(earlier, now),
        shares=tuple(_share_changes(earlier, now)),
        bottlenecks=(earlier.bottleneck.kind, now.bottleneck.kind),
        verdicts=tuple(_verdict_changes(earlier, now)),
        lines=() if obstacles else tuple(_line_changes(earlier, now)),
    )


def _obstacles(earlier: ProbeResult, now: ProbeResult) -> Iterator[str]:
    before, after = earlier.environment, now.environment
    if before.host != after.host and before.host and after.host:
        yield f"other machine: {printable(after.host)}, before {printable(before.host)}"
    if [gpu.name for gpu in before.gpus] != [gpu.name for gpu in after.gpus]:
        yield f"other devices: {printable(gpus_text(now))}, before {printable(gpus_text(earlier))}"
    if before.cores != after.cores and before.cores and after.cores:
        yield f"other number of cores: {after.cores}, before {before.cores}"
    if before.world_size != after.world_size:
        yield f"other world size: {after.world_size}, before {before.world_size}"
    scripts = program_of(now.command), program_of(earlier.command)
    if scripts[0] != scripts[1]:
        yield f"other command: {printable(scripts[0])}, before {printable(scripts[1])}"
    for result, which in ((earlier, "the earlier run"), (now, "this run")):
        if result.steps.median_s is None:
            yield f"no step was timed in {which}"


def _differences(earlier: ProbeResult, now: ProbeResult) -> Iterator[str]:
    before, after = earlier.environment, now.environment
    pairs = {
        "Python": (before.python, after.python),
        "torch": (before.torch, after.torch),
        "CUDA": (before.cuda, after.cuda),
    }
    for name, (old, new) in pairs.items():
        if old != new:
            yield printable(f"{name} {new or 'unknown'}, before {old or 'unknown'}")
    if earlier.command != now.command and program_of(earlier.command) == program_of(now.command):
        yield printable(f"arguments: {' '.join(now.command)}, before {' '.join(earlier.command)}")


def _loads(earlier: ProbeResult, now: ProbeResult) -> Iterator[str]:
    for result, which in ((earlier, "the earlier run"), (now, "this run")):
        waits, others = result.cpu.core_wait_share, result.cpu.other_work_cores
        # Other work can have held the thread up no longer than it ran; the rest is the job's own doing.
        least = waits if waits is None or others is None else min(waits, others)
        if waits is not None and least is not None and least >= CORE_WAIT.value:
            yield f"other work ran during {which}: its training thread waited for a core {percent(waits)} of the time"
        elif MEASURE_AGAIN in result.bottleneck.next:
            yield f"other work ran during {which}: it waited for data since cores were taken"


def _rate(earlier: ProbeResult, now: ProbeResult) -> RateChange | None:
    """Useful work comes first: a batch that is mostly padding makes many tokens and few effective ones."""
    before, after = earlier.steps, now.steps
    units = {
        "effective tokens per second": (before.effective_tokens_per_s, after.effective_tokens_per_s),
        "tokens per second": (before.tokens_per_s, after.tokens_per_s),
        "samples per second": (before.samples_per_s, after.samples_per_s),
    }
    for unit, (old, new) in units.items():
        if old and new:
            return RateChange(unit, old, new, _noise(earlier, now))
    if earlier.command != now.command:
        return None  # the batch may be another one
    old_s, new_s = (steps.mean_s or steps.median_s for steps in (before, after))
    return RateChange("steps per second", 1 / old_s, 1 / new_s, _noise(earlier, now)) if old_s and new_s else None


def _noise(earlier: ProbeResult, now: ProbeResult) -> float | None:
    errors = [_relative_error(result) for result in (earlier, now)]
    known = [error for error in errors if error is not None]
    return _QUANTILE * hypot(*known) if len(known) == len(errors) else None


def _relative_error(result: ProbeResult) -> float | None:
    """Standard error of the mean step, relative; None where too few regular steps are on the time line."""
    durations = [step.duration_s for step in result.timeline if step.regular]
    if len(durations) < FEWEST_STEPS:
        return None
    edges = [index * len(durations) // BLOCKS for index in range(BLOCKS + 1)]
    means = [fmean(durations[start:end]) for start, end in pairwise(edges)]
    mean = fmean(durations)
    return stdev(means) / sqrt(BLOCKS) / mean if mean > 0 else None


def _share_changes(earlier: ProbeResult, now: ProbeResult) -> Iterator[ShareChange]:
    before_s, after_s = earlier.steps.mean_s, now.steps.mean_s
    for field, label in SHARE_LABELS.items():
        before, after = getattr(earlier.shares, field), getattr(now.shares, field)
        if before is None or after is None or (before == 0 and after == 0):
            continue
        yield ShareChange(
            label,
            before,
            after,
            None if before_s is None else before * before_s,
            None if after_s is None else after * after_s,
        )


def _verdict_changes(earlier: ProbeResult, now: ProbeResult) -> Iterator[VerdictChange]:
    before, after = _by_identity(earlier), _by_identity(now)
    for identity, finding in after.items():
        known = before.get(identity)
        old, new = None if known is None else status_of(known), status_of(finding)
        if known is None or old is not new:
            yield VerdictChange(finding, old, new, new=known is None)
    for identity, finding in before.items():
        if identity not in after:
            yield VerdictChange(finding, status_of(finding), None, gone=True)


def status_of(finding: FindingJson) -> Status | None:
    return None if finding.verdict is None else Status(finding.verdict.status)


def _by_identity(result: ProbeResult) -> dict[tuple[str, ...], FindingJson]:
    """Findings by what they keep when lines move, or when the same code lies elsewhere."""
    found: dict[tuple[str, ...], FindingJson] = {}
    for finding in result.findings:
        row = _row_identity(result, finding.filename, finding.cell, finding.location.row)
        identity = finding.code, PurePath(finding.filename).name, row
        number = 0
        while (*identity, str(number)) in found:
            number += 1
        found[(*identity, str(number))] = finding
    return found


def _line_changes(earlier: ProbeResult, now: ProbeResult) -> Iterator[LineChange]:
    """Only lines that both runs saw: that stack samples miss a line proves nothing."""
    step_s = earlier.steps.mean_s or earlier.steps.median_s
    known = {_line_identity(earlier, line): line for line in earlier.lines}
    for line in now.lines:
        old = known.get(_line_identity(now, line))
        if old is None or old.ms_per_step is None or line.ms_per_step is None or step_s is None:
            continue
        moved = abs(line.ms_per_step - old.ms_per_step)
        if moved >= FINDING_COST.value * step_s * 1e3 and not _overlap(_interval(old), _interval(line)):
            yield LineChange(line, old.ms_per_step, line.ms_per_step)


def _line_identity(result: ProbeResult, line: LineCost) -> tuple[str, str, str, bool]:
    row = _row_identity(result, line.filename, None, line.row)
    return PurePath(line.filename).name, row, line.what, line.in_workers


def _row_identity(result: ProbeResult, filename: str, cell: int | None, row: int) -> str:
    """A row by its text, and by how many rows above it have the same."""
    digests = result.row_digests(filename) if cell is None else ()
    if not 0 < row <= len(digests):
        return f"{cell}:{row}"
    digest = digests[row - 1]
    return f"{digest}:{digests[: row - 1].count(digest)}"


def _interval(line: LineCost) -> tuple[float, float]:
    exact = line.ms_per_step or 0.0
    return line.interval_ms or (exact, exact)


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
