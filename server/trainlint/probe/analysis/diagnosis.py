"""What holds the job up, by which figure and threshold, and what to look at in which order.

The order of the advice is that of the articles (000, 003): data supply first, then compute, then communication. A gain
is never promised: change one thing, measure again, and keep what raises the throughput.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from trainlint.probe import thresholds
from trainlint.probe.analysis.core_waits import wait_for_others
from trainlint.probe.analysis.loaders import TrainingLoader
from trainlint.probe.analysis.ranks import OwnTime
from trainlint.probe.device_idle import stall_that_costs, unexplained_idle
from trainlint.probe.figures import counted, percent
from trainlint.probe.measured import MEASURE_AGAIN, Bottleneck, Kernels, LineCost, Shares
from trainlint.probe.thresholds import Threshold

Kind = Literal["data", "sync", "transfer", "launch", "communication", "compute", "memory", "balanced", "insufficient"]
ORDER: tuple[Kind, ...] = ("data", "sync", "transfer", "launch", "memory", "compute", "communication")
"""Of advice, where several things hold the job up."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What the diagnosis rests on."""

    regular_steps: int
    missing: str
    """Why there are no steps, or too few."""
    shares: Shares
    accelerator: bool
    kernels: Kernels | None
    memory_fill: float | None
    """Peak memory of the fullest GPU, as a share of its own; None where it was not measured."""
    loader: TrainingLoader | None
    lines: tuple[LineCost, ...]
    """The dearest first."""
    straggler: tuple[OwnTime, float] | None
    physical_cores: int | None
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Where `data_wait`, `sync_wait` and the `model`'s share lie, as the steps differ from each other."""
    core_wait_share: float | None = None
    """Of the steps, in which the training thread waited for a core."""
    explained_wait: float = 0.0
    """Of the steps, a wait for data because the training thread or the loader's workers waited for a core that other
    work had."""
    traced_forward_share: float | None = None
    """Of the profiled steps, the most in which models can have been on their way forward."""
    graph_per_backward: float | None = None
    """The time in operators through which a backward pass went, over that of the backward pass, in profiled steps."""
    other_work: float | None = None
    """Cores that work outside the job kept busy; None where that is not known."""
    fewest: Threshold = thresholds.FEWEST_STEPS
    """How many steps a diagnosis needs."""


@dataclass(frozen=True, slots=True)
class Reason:
    kind: Kind
    share: float
    why: str


def diagnose(found: Findings) -> Bottleneck:
    """The bottleneck: of what reaches its threshold, what takes the most of the step. On a busy machine the first
    advice is to measure again."""
    bottleneck = _bottleneck(found)
    if not _is_busy(found):
        return bottleneck
    return bottleneck.model_copy(update={"next": [MEASURE_AGAIN, *bottleneck.next]})


def _is_busy(found: Findings) -> bool:
    return max(found.explained_wait, _wait_for_others(found)) >= thresholds.CORE_WAIT.value


def _wait_for_others(found: Findings) -> float:
    return wait_for_others(found.core_wait_share, found.other_work)


def _bottleneck(found: Findings) -> Bottleneck:
    if found.regular_steps < found.fewest.value:
        why = found.missing or f"{_timed(found.regular_steps)} ({found.fewest.text} are needed)"
        return Bottleneck(kind="insufficient", score=0.0, why=[why], next=["Probe more steps: --steps"])
    reasons = list(_reasons(found))
    if not reasons and found.kernels is None and found.shares.data_wait is None and found.shares.forward is None:
        why = "neither the wait for data nor the forward pass could be measured"
        if found.shares.other is not None:
            why += f": {percent(found.shares.other)} of the step is not known to be one or the other"
        advice = list(_dearest_lines(found, ("data", "stack"))) or [NOTHING]
        return Bottleneck(kind="insufficient", score=0.0, why=[why, *_about_doubts(found)], next=advice)
    if not reasons:
        return Bottleneck(
            kind="balanced",
            score=0.0,
            why=list(_why_balanced(found)),
            next=list(_advice("balanced", found)) or [NOTHING],
        )
    first = max(reasons, key=lambda one: one.share)
    others = [one for one in reasons if one is not first]
    kinds = {one.kind for one in reasons}
    advice = [line for kind in ORDER if kind in kinds for line in _advice(kind, found)]
    return Bottleneck(
        kind=first.kind,
        score=first.share,
        why=[
            # A share that is about its threshold is told so, once.
            *([] if first.kind == "compute" and _is_near(found, "model", thresholds.COMPUTE_BUSY) else [first.why]),
            *(one.why for one in others),
            *_about_doubts(found),
            *_about_straggler(found),
        ],
        next=[*advice, AGAIN],
    )


def _timed(steps: int) -> str:
    return f"{counted(steps, 'regular step')} {'was' if steps == 1 else 'were'} timed"


MODEL = "forward with all that precedes it after a batch, backward and optimizer"
TRACED_MODEL = "forward as far as the profiled steps show it, backward and optimizer"
NOTHING = "Nothing stands out; see the lines that cost the most, and the findings that were confirmed"
AGAIN = "Change one thing at a time, measure again, and keep what raises the throughput: --compare with this result"


def _reasons(found: Findings) -> Iterator[Reason]:
    """What reaches its threshold. Compute is what is left: it counts only if nothing else is in the way."""
    held = [*_host_reasons(found), *(_device_reasons(found) if found.accelerator else ())]
    yield from held
    if not held:
        yield from _good_or_roomy(found)


def _host_reasons(found: Findings) -> Iterator[Reason]:
    for kind, what, share, bound, low in _host_shares(found):
        if low >= bound.value:
            yield Reason(kind, share, _told(what, share, bound))


def _host_shares(found: Findings) -> Iterator[tuple[Kind, str, float, Threshold, float]]:
    """The shares of the host that decide, with their threshold and what they are at least: what may be chance holds
    nothing up."""
    wait, stall = found.shares.data_wait, _stall_that_costs(found, found.shares.sync_wait)
    if wait is not None:
        yield "data", "data wait", wait, thresholds.DATA_WAIT, found.intervals.get("data_wait", (wait, wait))[0]
    if stall is not None:
        what = "syncs, print, logging, saving and garbage collection"
        low = _stall_that_costs(found, found.intervals.get("sync_wait", (stall, stall))[0])
        yield "sync", what, stall, thresholds.HOST_STALL, stall if low is None else low


def _stall_that_costs(found: Findings, stall: float | None) -> float | None:
    return stall_that_costs(stall, found.kernels.busy_share if found.kernels is not None else None)


def _device_reasons(found: Findings) -> Iterator[Reason]:
    kernels = found.kernels
    if kernels is None:
        return
    if kernels.memcpy_share >= thresholds.MEMCPY.value:
        yield Reason("transfer", kernels.memcpy_share, _told("memcpy", kernels.memcpy_share, thresholds.MEMCPY))
    exposed, raw = kernels.nccl_exposed_share, kernels.nccl_share
    if exposed >= thresholds.COMMUNICATION_EXPOSED.value:
        why = _told("exposed communication", exposed, thresholds.COMMUNICATION_EXPOSED)
        why += f"; {percent(raw)} with what is overlapped (threshold {thresholds.COMMUNICATION_RAW.text})"
        yield Reason("communication", exposed, why)
    unexplained = unexplained_idle(kernels.busy_share, found.shares.data_wait, found.shares.sync_wait)
    small = kernels.median_us <= thresholds.LAUNCH_KERNEL.value
    if unexplained >= thresholds.LAUNCH_IDLE.value and small:
        why = _told("device idle without a wait for data or a sync", unexplained, thresholds.LAUNCH_IDLE)
        why += f"; median kernel {kernels.median_us:.0f} us (threshold {thresholds.LAUNCH_KERNEL.text})"
        yield Reason("launch", unexplained, why)


def _good_or_roomy(found: Findings) -> Iterator[Reason]:
    """Bound by compute; or nothing is in the way and the memory has room for more work at once."""
    bound = thresholds.COMPUTE_BUSY
    if not found.accelerator:
        share, what = _model_share(found.shares), MODEL
        forward = _traced_forward(found)
        if share is not None and forward is not None:
            share, what = share + forward, TRACED_MODEL
        # Other work on the machine is no part of what the job does.
        enough = share is not None and share >= bound.value * (1 - found.explained_wait)
        if share is not None and enough and not _works_outside(found):
            why = _told(what, share, bound)
            if share < bound.value:
                alone = percent(share / (1 - found.explained_wait))
                why += f", and {alone} of it without the wait for data that waits for a core explain"
            yield Reason("compute", share, why)
        return
    if found.kernels is not None and found.kernels.busy_share >= bound.value:
        yield Reason("compute", found.kernels.busy_share, _told("device busy", found.kernels.busy_share, bound))
        return
    filled = found.memory_fill
    if filled is not None and filled <= thresholds.MEMORY_HEADROOM.value and found.kernels is not None:
        why = f"peak memory is {percent(filled)} of the device's (threshold {thresholds.MEMORY_HEADROOM.text})"
        why += f", and the device is busy {percent(found.kernels.busy_share)} of the time"
        yield Reason("memory", 1.0 - found.kernels.busy_share, why)


def _traced_forward(found: Findings) -> float | None:
    """The forward pass's share as far as the profiled steps show it, where no batch says when it begins: no more than
    what of the step has no other name."""
    shares, ratio = found.shares, found.graph_per_backward
    if shares.forward is not None or shares.backward is None or ratio is None:
        return None
    return min(shares.backward * ratio, 1.0 if shares.other is None else shares.other)


def _works_outside(found: Findings) -> bool:
    """Whether so much of the model's work is none that what is left is less than its threshold: what stands between a
    batch and its backward pass counts as forward, while a profiler sees which of it is in operators. That is no exact
    share of other steps, so less than half of it is asked for."""
    model, forward, seen = _model_share(found.shares), found.shares.forward, found.traced_forward_share
    if found.accelerator or model is None or forward is None or seen is None:
        return False
    enough = thresholds.COMPUTE_BUSY.value * (1 - found.explained_wait)
    return seen < forward / 2 and model - forward + seen < enough


def _is_mostly_other(shares: Shares) -> bool:
    """Whether the largest part of the step is one that the agent has no name for."""
    known = [shares.data_wait, shares.sync_wait, _model_share(shares)]
    return shares.other is not None and shares.other > max(share for share in (*known, 0.0) if share is not None)


def _model_share(shares: Shares) -> float | None:
    known = [shares.forward, shares.backward, shares.optimizer]
    return sum(one for one in known if one is not None) if any(one is not None for one in known) else None


def _told(what: str, share: float, bound: Threshold) -> str:
    return f"{what}: {percent(share)} of the step (threshold {bound.text})"


def _why_balanced(found: Findings) -> Iterator[str]:
    for name, what, share, bound in (
        ("data_wait", "data wait", found.shares.data_wait, thresholds.DATA_WAIT),
        ("sync_wait", "host stalls", found.shares.sync_wait, thresholds.HOST_STALL),
        ("model", MODEL, _model_share(found.shares), thresholds.COMPUTE_BUSY),
    ):
        if share is not None and share < bound.value and not _is_near(found, name, bound):
            yield f"{what}: {percent(share)} of the step, below the threshold of {bound.text}"
    if _works_outside(found):
        yield (
            f"forward: {percent(found.shares.forward or 0.0)} of the step, but at most "
            f"{percent(found.traced_forward_share or 0.0)} of the profiled steps is the model's: the rest is other "
            "code between a batch and its backward pass"
        )
    if _is_mostly_other(found.shares):
        yield f"what is none of these: {percent(found.shares.other or 0.0)} of the step, the largest part of it"
    if found.accelerator and found.kernels is None:
        yield "the device was not traced, so what it did is not known"
    yield from _about_doubts(found)
    yield from _about_straggler(found)


def _about_doubts(found: Findings) -> Iterator[str]:
    """Shares so close to their threshold that other steps may fall on its other side; a machine too busy for any."""
    for name, what, share, bound in (
        ("data_wait", "data wait", found.shares.data_wait, thresholds.DATA_WAIT),
        ("sync_wait", "host stalls", found.shares.sync_wait, thresholds.HOST_STALL),
        ("model", MODEL, _model_share(found.shares), thresholds.COMPUTE_BUSY),
    ):
        if share is not None and _is_near(found, name, bound):
            low, high = found.intervals[name]
            between = f"between {percent(low)} and {percent(high)} as steps differ and cores are free"
            yield f"{what}: {percent(share)} of the step, {between}, so about the threshold of {bound.text}"
    bound = thresholds.CORE_WAIT
    if found.explained_wait >= bound.value:
        explained = f"{percent(found.explained_wait)} of the step is a wait for data that waits for a core explain"
        yield f"{explained} (threshold {bound.text})"
    waits = found.core_wait_share
    if waits is not None and waits >= bound.value:
        told = f"the training thread was ready and waited for a core {percent(waits)} of the time"
        is_own = _wait_for_others(found) < bound.value
        whose = ", which the job's own processes and threads had" if is_own else ""
        yield f"{told}{whose} (threshold {bound.text})"


def _is_near(found: Findings, name: str, bound: Threshold) -> bool:
    low, high = found.intervals.get(name, (0.0, 0.0))
    return low < bound.value <= high


def _about_straggler(found: Findings) -> Iterator[str]:
    if found.straggler is not None:
        slowest, above = found.straggler
        bound = thresholds.STRAGGLER.text
        yield f"rank {slowest.steps.rank} takes {percent(above)} longer than the median rank (threshold {bound})"


# ------------------------------------------------------------------------------------------------------------- advice


def _advice(kind: Kind, found: Findings) -> Iterator[str]:
    match kind:
        case "data":
            yield from _for_data(found)
        case "sync":
            yield from _dearest_lines(found, ("sync", "print", "logging", "tracker", "save", "collect"))
            yield "Read values, print and log every so many steps, on rank 0 only (000)"
        case "transfer":
            yield "Pin the loader's memory, copy with non_blocking=True, and create tensors on the device (001)"
        case "launch":
            yield "Fuse kernels with torch.compile, or use CUDA graphs (mode='reduce-overhead') (000, 003)"
        case "memory":
            yield (
                "Double the batch: a step that takes 30 % longer is a win, one that takes twice as long is not (000)"
            )
        case "compute":
            yield from _dearest_lines(found, ("stack",))
            yield "Where that is the model's own work: mixed precision, torch.compile (001, 003)"
        case "communication":
            yield "Reduce once per optimizer step (no_sync), then try bucket_cap_mb of 50 to 100 (000, 003)"
        case "balanced" if _is_mostly_other(found.shares) or _works_outside(found):
            yield from _dearest_lines(found, ("stack",))
        case "balanced":
            yield NOTHING


def _for_data(found: Findings) -> Iterator[str]:
    loader = found.loader
    if loader is not None and loader.workers == 0:
        cores = found.physical_cores
        few, many = (max(1, cores // 2), max(1, cores * 2 // 3)) if cores is not None else (0, 0)
        half = f": {few} to {many} here" if few < many else f": {few} here" if few else ""
        yield f"Load with workers, half to two thirds of the physical cores{half} (000)"
    if loader is not None and loader.keeps_up:
        # What stood ready may be other batches than the next one: they are delivered in order.
        ready = f"Batches stood ready at {percent(1.0 - (loader.queue_empty_share or 0.0))} of the requests"
        yield (
            f"{ready}: the step waits for the hand-over of a batch (fewer and larger tensors are quicker), "
            "for a core (fewer workers, fewer threads per rank), or for a batch that takes longer than those after it"
        )
        return
    yield from _dearest_lines(found, ("data",))
    if loader is not None and loader.workers > 0:
        yield "Do the work per item once, ahead of training (tokens to Arrow or npy), or on the device (000, 003)"


def _dearest_lines(found: Findings, kinds: tuple[str, ...]) -> Iterator[str]:
    """Where to look first."""
    costly = [line for line in found.lines if line.what in kinds and line.ms_per_step]
    dearest = next((line for line in costly if line.in_workers), next(iter(costly), None))
    if dearest is not None:
        yield f"Look at {dearest.filename}:{dearest.row}{_cost(dearest, found)}"


def _cost(line: LineCost, found: Findings) -> str:
    """What a line costs, with how sure that is; nothing where the wait for data is known better than by samples."""
    wait = found.shares.data_wait
    is_wait = line.what == "data" and not line.in_workers
    if is_wait and wait is not None and (line.share or 0.0) >= wait:
        return ", which takes the wait for data"
    told = f"{line.ms_per_step:.3g}"
    if line.interval_ms is not None:
        low, high = line.interval_ms
        told = f"between {low:.3g} and {high:.3g}"
    return f": {told} ms{' of worker time' if line.in_workers else ''} per step"
