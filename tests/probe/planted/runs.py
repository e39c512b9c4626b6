"""Probes a planted program, and says where the result and the program's own truth disagree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.probe.planted.expectations import PROGRAMS, ExpectedFinding, ExpectedLine, Platform, Program, row_of
from tests.probe.planted.truths import Span, Truth, read_truth, watched_rows

from trainlint.agent import records
from trainlint.probe import recording
from trainlint.report.json_model import FindingJson, VerdictJson
from trainlint.report.probe_result import ProbeResult, read_result

STEPS, WARMUP = 40, 5
TIMEOUT_S = 600
"""Far above what a run takes, for machines that are busy."""
CLOSE = 0.15
"""How far a figure may be from the truth where it rests on timed events or 200 samples."""
CLOSE_SHARE = 0.06
"""Likewise for a share of the step, of which irregular steps are no part."""
RIGHT = {"figure": ("confirmed", "refuted")}
if sys.version_info < (3, 12):
    # Which lines ran is known by `sys.monitoring` only; before it, that a line left no record proves nothing.
    RIGHT["not-exercised"] = ("not-exercised", "inconclusive")
OTHER_STEPS = 2
"""As many steps at most are counted by only one of the two, at the ends of the stretches that are measured."""
WORKER_METRIC = "worker time, all workers together"
SHORTEST_MS = 0.05
"""What a call costs besides the time between its ends."""


@dataclass(frozen=True, slots=True)
class Probed:
    """A program after its probe."""

    program: Program
    platform: Platform
    result: ProbeResult
    truths: tuple[Truth, ...]
    """Of each process, in the clean steps alone."""
    output: str

    @property
    def ranks(self) -> list[Truth]:
        """The truths of the processes that train."""
        return [truth for truth in self.truths if truth.steps]


def platform_here() -> Platform:
    import torch

    return "gpu" if torch.cuda.is_available() else "cpu"


def probe(program: Program, folder: Path, platform: Platform) -> Probed:
    """Run `trainlint probe` on a program; `folder` must be empty."""
    result, kept, truth = folder / "result.json", folder / "recording", folder / "truth"
    ranks = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={program.ranks}")
    launcher = (sys.executable, *(ranks if program.ranks > 1 else ()))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "trainlint", "probe", "--steps", str(STEPS), "--warmup", str(WARMUP)),
            *("--output-file", str(result), "--recording", str(kept), "--quiet"),
            *("--", *launcher, str(program.script)),
        ],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1", "TRAINLINT_EXAMPLE_TRUTH": str(truth)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, f"{program} ended with {done.returncode}:\n{done.stderr[-4000:]}"
    truths = tuple(read_truth(truth, clean_spans(kept)))
    return Probed(program, platform, read_result(result.read_bytes()), truths, done.stdout)


def clean_spans(kept: Path) -> list[Span]:
    """When the steps were timed, by the first rank's records."""
    rank = recording.read(kept).ranks[0]
    phases = [record for record in rank.records if record.kind == records.PHASE]
    ends = [*(record.start for record in phases[1:]), rank.records[-1].end]
    timed = (records.CLEAN, records.AFTER)
    return [(phase.start, end) for phase, end in zip(phases, ends, strict=True) if int(phase.value) in timed]


def disagreements(probed: Probed) -> list[str]:
    """What is wrong with a result, each in a sentence."""
    return [
        *_about_the_bottleneck(probed),
        *_about_steps(probed),
        *_about_shares(probed),
        *_about_findings(probed),
        *_about_lines(probed),
        *_about_throughput(probed),
        *_about_its_own_profiler(probed),
    ]


def _about_the_bottleneck(probed: Probed) -> Iterator[str]:
    result, program = probed.result, probed.program
    kinds = program.bottleneck.cpu if probed.platform == "cpu" else program.bottleneck.gpu
    if result.bottleneck.kind not in kinds:
        yield f"bottleneck {result.bottleneck.kind}, not {' or '.join(kinds)}: {result.bottleneck.why}"
    codes = {finding.code for finding in result.runtime_findings}
    if probed.platform == "cpu" and codes != set(program.runtime.cpu):
        yield f"runtime findings {sorted(codes)}, not {program.runtime.cpu}"
    if probed.platform == "gpu" and not codes >= set(program.runtime.gpu):
        yield f"runtime findings {sorted(codes)} are not all of {program.runtime.gpu}"


def _about_steps(probed: Probed) -> Iterator[str]:
    steps, truth = probed.result.steps, probed.ranks
    if len(truth) != probed.program.ranks or len(probed.result.ranks) != probed.program.ranks:
        yield f"{len(probed.result.ranks)} ranks, of which {len(truth)} know their steps, not {probed.program.ranks}"
        return
    if not abs(steps.measured - truth[0].steps) <= OTHER_STEPS:
        yield f"{steps.measured} steps, where the program counts {truth[0].steps}"
    low, high = truth[0].medians_s(OTHER_STEPS)
    if steps.median_s is None or not low * (1 - CLOSE) <= steps.median_s <= high * (1 + CLOSE):
        yield f"a step takes {steps.median_s} s, where the program measures {truth[0].median_step_s():.4f} s"
    slowest = probed.program.slowest_rank
    own = {one.rank: one.own_s or 0.0 for one in probed.result.ranks}
    if slowest is not None and max(own, key=lambda rank: own[rank]) != slowest:
        yield f"rank {slowest} is not the slowest: {own}"


def _about_shares(probed: Probed) -> Iterator[str]:
    shares = [share for _, share in probed.result.shares if share is not None]
    if abs(sum(shares) - 1) > 0.001:
        yield f"the shares add up to {sum(shares):.4f}"
    if probed.program.data_wait:
        share, known = probed.result.shares.data_wait, probed.ranks[0].data_wait_share()
        if share is None or abs(share - known) > CLOSE_SHARE:
            yield f"data wait is {share}, where the program measures {known:.3f}"
    if probed.program.evaluation:
        share, known = probed.result.overlapping.evaluation, probed.ranks[0].share_of("evaluation")
        if share is None or abs(share - known) > CLOSE_SHARE:
            yield f"evaluation is {share}, where the program measures {known:.3f}"


# ----------------------------------------------------------------------------------------------------------- findings


def _about_findings(probed: Probed) -> Iterator[str]:
    script = probed.program.script
    found = {
        (finding.code, finding.location.row): finding
        for finding in probed.result.findings
        if Path(finding.filename).name == script.name and finding.location is not None
    }
    expected = {(one.code, row_of(one.at, one.code, script)): one for one in probed.program.findings}
    yield from (f"{code} at row {row} was not reported" for code, row in sorted(expected.keys() - found.keys()))
    yield from (f"{code} at row {row} was reported" for code, row in sorted(found.keys() - expected.keys()))
    for place in sorted(expected.keys() & found.keys()):
        yield from _about_a_verdict(probed, expected[place], found[place])
    elsewhere = [one for one in probed.result.findings if Path(one.filename).name != script.name]
    yield from (f"{one.code} was reported in {one.filename}" for one in elsewhere)


def _about_a_verdict(probed: Probed, expected: ExpectedFinding, finding: FindingJson) -> Iterator[str]:
    verdict = finding.verdict
    right = expected.cpu if probed.platform == "cpu" else expected.gpu
    name = f"{expected.code} at {expected.at!r}"
    if verdict is None:
        yield f"{name} has no verdict"
    elif verdict.status not in RIGHT.get(right, (right,)):
        yield f"{name} is {verdict.status}, not {right}: {verdict.note} {verdict.evidence}"
    elif expected.watch is not None:
        yield from _about_worker_time(probed, expected.watch, verdict)


def _about_worker_time(probed: Probed, watch: str, verdict: VerdictJson) -> Iterator[str]:
    known = _true_ms(probed, watch)
    figures = {one.metric: one.value for one in verdict.evidence}
    low, high = (figures.get(f"{WORKER_METRIC}, {end}") for end in ("at least", "at most"))
    if low is None or high is None:
        figure = figures.get(WORKER_METRIC, 0.0)
        low, high = figure * (1 - CLOSE), figure * (1 + CLOSE)
    if not low <= known <= high:
        yield f"worker time is {low:.3f} to {high:.3f} ms, where the program measures {known:.3f} ms"


# -------------------------------------------------------------------------------------------------------------- lines


def _true_ms(probed: Probed, watch: str) -> float:
    """Per step: of the rank where it takes longest, or of all workers together."""
    in_ranks = [truth.seconds(watch) / truth.steps for truth in probed.ranks]
    if any(in_ranks):
        return max(in_ranks) * 1e3
    return sum(truth.seconds(watch) for truth in probed.truths) / probed.ranks[0].steps * 1e3


def _about_lines(probed: Probed) -> Iterator[str]:
    for line in probed.program.lines:
        yield from _about_a_line(probed, line)


def _about_a_line(probed: Probed, line: ExpectedLine) -> Iterator[str]:
    path, rows = watched_rows(line.watch, sources(probed.program))
    known = _true_ms(probed, line.watch)
    costs = [
        cost
        for cost in probed.result.lines
        if Path(cost.filename).name == path.name and cost.row in rows and cost.what == line.what
    ]
    if len(costs) != 1 or costs[0].ms_per_step is None:
        yield f"{line.watch}: {len(costs)} costs of {line.what} at {path.name}:{rows.start}, not 1"
        return
    (cost,) = costs
    if cost.in_workers != line.in_workers:
        yield f"{line.watch}: {'in' if cost.in_workers else 'not in'} the workers"
    if cost.interval_ms is not None:
        low, high = cost.interval_ms
        if not low - SHORTEST_MS <= known <= high + SHORTEST_MS:
            yield f"{line.watch}: {low:.3f} to {high:.3f} ms per step, where the program measures {known:.3f} ms"
    elif cost.ms_per_step is None or abs(cost.ms_per_step - known) > max(CLOSE * known, SHORTEST_MS):
        yield f"{line.watch}: {cost.ms_per_step} ms per step, where the program measures {known:.3f} ms"


def sources(program: Program) -> list[Path]:
    """The program, and the modules beside it that it imports."""
    imported = re.findall(r"^from (\w+) import", program.script.read_text(encoding="utf-8"), re.MULTILINE)
    modules = [PROGRAMS / f"{name}.py" for name in imported]
    return [program.script, *(path for path in modules if path.exists())]


def _about_throughput(probed: Probed) -> Iterator[str]:
    steps, program = probed.result.steps, probed.program
    if program.samples_per_step is not None:
        samples = (steps.samples_per_s or 0.0) * (steps.mean_s or 0.0)
        if abs(samples / program.samples_per_step - 1) > 0.01:
            yield f"{samples:.2f} samples per step, not {program.samples_per_step}"
    if program.tokens:
        shares = [note.seconds for note in probed.ranks[0].named("tokens")]
        known = sum(shares) / len(shares)
        if not steps.tokens_per_s or steps.effective_tokens_per_s is None:
            yield "tokens were not counted"
        elif abs(steps.effective_tokens_per_s / steps.tokens_per_s - known) > CLOSE_SHARE:
            yield f"{steps.effective_tokens_per_s / steps.tokens_per_s:.3f} of the tokens are real, not {known:.3f}"


def _about_its_own_profiler(probed: Probed) -> Iterator[str]:
    """A program that profiles itself keeps its profile, and the result says that there is no other."""
    if not probed.program.own_profiler:
        return
    events = [int(count) for count in re.findall(r"^(\d+) events$", probed.output, re.MULTILINE)]
    if not events or min(events) == 0:
        yield f"the program's own profiles hold {events} events"
    if not any("profil" in f"{what} {why}" for what, why in probed.result.environment.missing.items()):
        yield f"nothing says that the profiler window was left out: {probed.result.environment.missing}"
