"""What only a run shows: for each rule the measurements on which it speaks, and those on which it stays silent."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median_low
from typing import Any

import pytest

from trainlint.lint.finding import RuntimeFinding
from trainlint.lint.registry import load_registry
from trainlint.lint.rule import RuntimeRule
from trainlint.probe.evidence import Barrier, Evidence, Line, MemoryPeak, SyncCount
from trainlint.probe.measured import (
    Bottleneck,
    Cpu,
    Environment,
    Gpu,
    GpuUse,
    Job,
    Kernels,
    LoaderUse,
    Measured,
    Overhead,
    Overlapping,
    RankUse,
    Shares,
    Steps,
)
from trainlint.probe.verdict import Source

RULES = {code: rule for code, rule in load_registry().rules.items() if issubclass(rule, RuntimeRule)}
LINE, OTHER = Line(Path("/project/train.py"), 12), Line(Path("/project/train.py"), 40)
GIB = 1 << 30
LEAST_FIRING = LEAST_SILENT = 4


def share(**parts: float) -> dict[str, Any]:
    """The shares of a step: those given, and the rest forward."""
    known = {name: parts.get(name, 0.0) for name in Shares.model_fields}
    known["forward"] = 1.0 - sum(parts.values())
    return {"shares": Shares(**known)}


def kernels(busy: float = 0.9, **figures: float) -> dict[str, Any]:
    told = {"count_per_step": 900.0, "median_us": 80.0, "busy_share": busy, "memcpy_share": 0.0}
    return {"kernels": Kernels.model_validate(told | {"nccl_share": 0.0, "nccl_exposed_share": 0.0} | figures)}


def gpu(index: int = 0, **figures: float | None) -> GpuUse:
    nothing = dict.fromkeys(GpuUse.model_fields)
    return GpuUse.model_validate(nothing | {"throttle_reasons": []} | figures | {"index": index})


def gpus(*totals: int, uses: tuple[GpuUse, ...] = ()) -> dict[str, Any]:
    devices = [Gpu(index=i, name="GPU", memory_total_bytes=total, power_limit_w=300) for i, total in enumerate(totals)]
    return {"environment": environment(devices), "gpu": list(uses)}


def environment(devices: list[Gpu]) -> Environment:
    return Environment(
        python="3.11.7", torch="2.13.0", cuda=None, gpus=devices, world_size=1, sources=["agent"], missing={}
    )


def own(*seconds: float | None, sure: bool = True) -> dict[str, Any]:
    """Ranks with these own times, in all steps or in too few of them to be sure."""
    known = [own_s for own_s in seconds if own_s is not None]
    usual = median_low(known) if len(known) > 1 else None
    return {"ranks": [_rank(i, own_s, usual, sure) for i, own_s in enumerate(seconds)]}


def _rank(index: int, own_s: float | None, usual: float | None, sure: bool) -> RankUse:
    above = None if own_s is None or usual is None else own_s / usual - 1
    least = above if sure else None
    told = {"above_median": above, "above_median_at_least": least}
    return RankUse(rank=index, median_s=0.1, data_wait=0.0, own_s=own_s, **told)


RUN = Measured(
    command=["python", "train.py"],
    started="2026-01-01T00:00:00Z",
    environment=environment([]),
    steps=Steps(measured=50, warmup=10, median_s=0.1, p90_s=0.11),
    shares=share()["shares"],
    overlapping=Overlapping(),
    gpu=[],
    cpu=Cpu(util_mean=None, busiest_core_mean=None, rss_peak_bytes=None, io_wait_share=None),
    kernels=None,
    loader=LoaderUse(alone_batch_s=None, workers=2, queue_empty_share=None),
    bottleneck=Bottleneck(kind="balanced", score=0.0, why=[], next=[]),
    ranks=[],
    job=Job(exit_code=0, signal=None, stopped_by_probe=True),
    overhead=Overhead(agent_share=0.0),
)
EVIDENCE = Evidence(step_s=0.1, steps=50, accelerator=True)
TOO_FEW = {"bottleneck": Bottleneck(kind="insufficient", score=0.0, why=["2 steps"], next=[])}
UNKNOWN_SHARES = {"shares": Shares.model_validate(dict.fromkeys(Shares.model_fields))}


@dataclass(frozen=True)
class Case:
    """What was measured, and how many findings the rule reports."""

    code: str
    behaviour: str
    findings: int
    run: dict[str, Any] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)


def loader(alone_s: float) -> dict[str, Any]:
    return {"loader": LoaderUse(alone_batch_s=alone_s, workers=2, queue_empty_share=None)}


def waits(seconds: float | None, line: Line = LINE, source: Source = Source.AGENT) -> dict[str, Any]:
    return {"syncs": {line: SyncCount(1.0, seconds, source)}}


def barrier(waiting: float, what: str = "evaluates") -> dict[str, Any]:
    return {"barrier": Barrier(0, what, waiting)}


def peak(allocated: float, reserved: float) -> dict[str, Any]:
    return {"memory_peak": MemoryPeak(allocated * GIB, reserved * GIB)}


CASES = (
    Case("TL901", "most of the step", 1, share(data_wait=0.61)),
    Case("TL901", "just at the threshold", 1, share(data_wait=0.20)),
    Case("TL901", "a loader that is slow by itself too", 1, share(data_wait=0.5) | loader(0.2)),
    Case("TL901", "beside another bottleneck", 1, share(data_wait=0.3, sync_wait=0.4)),
    Case("TL901", "a little", 0, share(data_wait=0.19)),
    Case("TL901", "not measured", 0, UNKNOWN_SHARES),
    Case("TL901", "too few steps", 0, share(data_wait=0.9) | TOO_FEW),
    Case("TL901", "a loader that is faster than the step by itself", 0, share(data_wait=0.3) | loader(0.05)),
    Case("TL902", "idle between short kernels", 1, kernels(0.39, median_us=3.0)),
    Case("TL902", "just at both thresholds", 1, kernels(0.70, median_us=50.0)),
    Case("TL902", "idle beyond the wait for data", 1, share(data_wait=0.1) | kernels(0.5, median_us=6.0)),
    Case("TL902", "idle beyond the host's stalls", 1, share(sync_wait=0.2) | kernels(0.4, median_us=6.0)),
    Case("TL902", "a busy device", 0, kernels(0.95, median_us=3.0)),
    Case("TL902", "idle between long kernels", 0, kernels(0.4, median_us=500.0)),
    Case("TL902", "idle while the host waits for data", 0, share(data_wait=0.5) | kernels(0.45, median_us=6.0)),
    Case("TL902", "idle while the host stalls", 0, share(sync_wait=0.5) | kernels(0.45, median_us=6.0)),
    Case("TL902", "not traced", 0),
    Case("TL903", "a quarter of the step", 1, kernels(nccl_exposed_share=0.25, nccl_share=0.4)),
    Case("TL903", "just at the threshold", 1, kernels(nccl_exposed_share=0.15, nccl_share=0.15)),
    Case("TL903", "nothing but communication", 1, kernels(nccl_exposed_share=0.9, nccl_share=0.9)),
    Case("TL903", "exposed, on an idle device", 1, kernels(0.3, nccl_exposed_share=0.2, nccl_share=0.2)),
    Case("TL903", "all of it hidden", 0, kernels(nccl_exposed_share=0.02, nccl_share=0.5)),
    Case("TL903", "none", 0, kernels()),
    Case("TL903", "not traced", 0),
    Case("TL903", "too few steps", 0, kernels(nccl_exposed_share=0.5) | TOO_FEW),
    Case("TL904", "a third of the step", 1, kernels(memcpy_share=0.33)),
    Case("TL904", "just at the threshold", 1, kernels(memcpy_share=0.20)),
    Case("TL904", "nothing but copies", 1, kernels(0.95, memcpy_share=0.9)),
    Case("TL904", "on an idle device", 1, kernels(0.4, memcpy_share=0.3)),
    Case("TL904", "few copies", 0, kernels(memcpy_share=0.1)),
    Case("TL904", "none", 0, kernels()),
    Case("TL904", "not traced", 0),
    Case("TL904", "too few steps", 0, kernels(memcpy_share=0.5) | TOO_FEW),
    Case("TL905", "16 of 40 GiB", 1, gpus(40 * GIB, uses=(gpu(memory_peak_bytes=16 * GIB),))),
    Case("TL905", "just at the threshold", 1, gpus(40 * GIB, uses=(gpu(memory_peak_bytes=20 * GIB),))),
    Case(
        "TL905",
        "each GPU for itself",
        2,
        gpus(8 * GIB, 8 * GIB, 8 * GIB, uses=tuple(gpu(i, memory_peak_bytes=(7, 1, 2)[i] * GIB) for i in range(3))),
    ),
    Case("TL905", "as the process reserves it, where the driver does not tell", 1, gpus(40 * GIB), peak(4, 5)),
    Case("TL905", "a full device", 0, gpus(40 * GIB, uses=(gpu(memory_peak_bytes=39 * GIB),))),
    Case("TL905", "a busy device", 0, gpus(40 * GIB, uses=(gpu(memory_peak_bytes=GIB),)) | kernels(0.9)),
    Case("TL905", "no GPU", 0, evidence=peak(1, 2)),
    Case("TL905", "not measured", 0, gpus(40 * GIB, uses=(gpu(),))),
    Case("TL906", "one of four", 1, own(0.1, 0.1, 0.131, 0.1)),
    Case("TL906", "one of two", 1, own(0.1, 0.2)),
    Case("TL906", "the first", 1, own(0.5, 0.1, 0.1)),
    Case("TL906", "half of the ranks", 1, own(0.1, 0.1, 0.2, 0.2)),
    Case("TL906", "in too few steps to be sure", 0, own(0.1, 0.2, sure=False)),
    Case("TL906", "alike", 0, own(0.1, 0.101, 0.099, 0.102)),
    Case("TL906", "a single rank", 0, own(0.1)),
    Case("TL906", "not measured", 0, own(None, None)),
    Case("TL906", "all slow alike", 0, own(0.9, 0.9)),
    Case("TL906", "too few steps", 0, own(0.1, 0.9) | TOO_FEW),
    Case("TL907", "half of the limit", 1, {"gpu": [gpu(power_mean_w=150.0, power_share=0.5)]}),
    Case("TL907", "just at the threshold", 1, {"gpu": [gpu(power_mean_w=180.0, power_share=0.6)]}),
    Case("TL907", "with full utilization", 1, {"gpu": [gpu(power_mean_w=90.0, power_share=0.3, util_mean=1.0)]}),
    Case("TL907", "two GPUs", 2, {"gpu": [gpu(i, power_mean_w=90.0, power_share=0.3) for i in range(2)]}),
    Case("TL907", "near the limit", 0, {"gpu": [gpu(power_mean_w=290.0, power_share=0.97)]}),
    Case("TL907", "no limit is known", 0, {"gpu": [gpu(power_mean_w=90.0)]}),
    Case("TL907", "sampled for less than five seconds", 0, {"gpu": [gpu()]}),
    Case("TL907", "no GPU", 0),
    Case("TL908", "once", 1, evidence={"recompilations": 1}),
    Case("TL908", "five times", 1, evidence={"recompilations": 5}),
    Case("TL908", "in every step", 1, evidence={"recompilations": 50}),
    Case("TL908", "on a CPU", 1, evidence={"recompilations": 2, "accelerator": False}),
    Case("TL908", "never", 0, evidence={"recompilations": 0}),
    Case("TL908", "not compiled at all", 0, evidence={"recompilations": None}),
    Case("TL908", "not counted, beside other figures", 0, share(data_wait=0.5)),
    Case("TL908", "never, in few steps", 0, TOO_FEW, {"recompilations": 0}),
    Case("TL909", "30 % are real", 1, evidence={"effective_token_share": 0.3}),
    Case("TL909", "just at the threshold", 1, evidence={"effective_token_share": 0.7}),
    Case("TL909", "hardly any are real", 1, evidence={"effective_token_share": 0.01}),
    Case("TL909", "on a CPU", 1, evidence={"effective_token_share": 0.5, "accelerator": False}),
    Case("TL909", "most are real", 0, evidence={"effective_token_share": 0.71}),
    Case("TL909", "all are real", 0, evidence={"effective_token_share": 1.0}),
    Case("TL909", "not counted", 0),
    Case("TL909", "not counted, on a CPU", 0, evidence={"accelerator": False}),
    Case("TL910", "a read that waits", 1, evidence=waits(0.01)),
    Case("TL910", "just at the threshold", 1, evidence=waits(0.002)),
    Case("TL910", "a wait that only the trace shows", 1, evidence=waits(0.02, source=Source.KINETO)),
    Case("TL910", "beside a line that was flagged", 1, evidence=waits(0.01, OTHER) | {"predicted": frozenset({LINE})}),
    Case("TL910", "a line that was flagged", 0, evidence=waits(0.01) | {"predicted": frozenset({LINE})}),
    Case("TL910", "a read that hardly waits", 0, evidence=waits(0.0001)),
    Case("TL910", "without an accelerator there is nothing to wait for", 0, evidence=waits(None)),
    Case("TL910", "no reads", 0),
    Case("TL910", "no steps", 0, evidence=waits(0.01) | {"step_s": 0.0}),
    Case("TL911", "5 % of the step", 1, evidence={"collection_share": 0.05}),
    Case("TL911", "just at the threshold", 1, evidence={"collection_share": 0.03}),
    Case("TL911", "half of the step", 1, evidence={"collection_share": 0.5}),
    Case("TL911", "many pauses", 1, evidence={"collection_share": 0.1, "longest_collection_share": 0.05}),
    Case("TL911", "one that came by chance", 0, evidence={"collection_share": 0.1, "longest_collection_share": 0.09}),
    Case("TL911", "on a CPU", 1, evidence={"collection_share": 0.1, "accelerator": False}),
    Case("TL911", "a little", 0, evidence={"collection_share": 0.01}),
    Case("TL911", "none", 0, evidence={"collection_share": 0.0}),
    Case("TL911", "not measured", 0),
    Case("TL911", "too few steps", 0, TOO_FEW, {"collection_share": 0.5}),
    Case("TL912", "far more is reserved", 1, evidence=peak(18, 31)),
    Case("TL912", "just at both thresholds", 1, evidence=peak(2, 3)),
    Case("TL912", "ten times as much", 1, evidence=peak(1, 10)),
    Case("TL912", "on a large device", 1, evidence=peak(40, 79)),
    Case("TL912", "a little more is reserved", 0, evidence=peak(18, 20)),
    Case("TL912", "far more, of little", 0, evidence=peak(0.1, 0.5)),
    Case("TL912", "nothing is allocated", 0, evidence=peak(0, 2)),
    Case("TL912", "not measured", 0),
    Case("TL913", "an eighth of the time", 1, evidence=barrier(0.12)),
    Case("TL913", "just at the threshold", 1, evidence=barrier(0.02)),
    Case("TL913", "for one that saves", 1, evidence=barrier(0.1, "saves")),
    Case("TL913", "most of the time", 1, evidence=barrier(0.9)),
    Case("TL913", "hardly", 0, evidence=barrier(0.01)),
    Case("TL913", "not at all", 0, evidence=barrier(0.0)),
    Case("TL913", "nobody waits", 0),
    Case("TL913", "ranks that all evaluate", 0, {"overlapping": Overlapping(evaluation=0.3)}),
)


def found(case: Case) -> list[RuntimeFinding]:
    run = RUN.model_copy(update=case.run)
    return list(RULES[case.code]().measured(run, replace(EVIDENCE, **case.evidence)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code}: {case.behaviour}")
def test_findings(case: Case) -> None:
    assert len(found(case)) == case.findings


@pytest.mark.parametrize("case", [case for case in CASES if case.findings], ids=lambda case: case.behaviour)
def test_a_finding_is_one_sentence_with_figures_and_the_threshold(case: Case) -> None:
    for finding in found(case):
        assert (finding.code, finding.name) == (case.code, RULES[case.code].name)
        assert finding.message[0].isupper() or finding.message[0].isdigit()
        assert not finding.message.endswith(".")
        assert finding.evidence[0].threshold is not None


def test_a_sync_that_no_rule_predicted_is_reported_at_its_line() -> None:
    (finding,) = found(Case("TL910", "", 1, evidence=waits(0.0041)))
    assert (finding.path, finding.row) == (LINE.path, LINE.row)
    assert finding.message == "The host waits 4.1 ms per step for the device here, and no rule predicted it"


def test_each_rule_speaks_and_stays_silent_often_enough() -> None:
    firing = Counter(case.code for case in CASES if case.findings)
    silent = Counter(case.code for case in CASES if not case.findings)
    assert len(RULES) == 13
    assert {code for code in RULES if firing[code] < LEAST_FIRING or silent[code] < LEAST_SILENT} == set()
