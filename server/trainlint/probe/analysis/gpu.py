"""The state of the GPUs while the job trained, from NVML's samples.

A utilization sample of the driver covers up to a second, and power is an average over one: less than five seconds of
samples say nothing, and are given as not measured. Time in the profiler window does not count.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter

from trainlint.agent import records
from trainlint.probe import thresholds
from trainlint.probe.analysis.observed import Observed
from trainlint.probe.analysis.percentile import percentile
from trainlint.probe.analysis.steps import Phases, Spans
from trainlint.probe.measured import Gpu, GpuPoint, GpuUse
from trainlint.probe.recording import GpuDevice, GpuSample


def gpu_uses(observed: Observed, spans: Spans, advice: str) -> tuple[list[GpuUse], dict[str, str]]:
    """The use of each GPU of the job in some stretches of time, and why figures are missing; `advice` says what would
    give more samples."""
    uses: list[GpuUse] = []
    missing: dict[str, str] = {}
    for device in _devices_of_job(observed):
        inside = [one for one in observed.recording.gpu if one.uuid == device.uuid and one.clock in spans]
        missing |= {f"gpu.{device.index}.{metric}": why for metric, why in device.missing.items()}
        covered = _covered(inside, spans)
        if covered < thresholds.SHORTEST_GPU_SAMPLING.value:
            missing[f"gpu.{device.index}"] = (
                f"{covered:.1f} s of samples in training, {thresholds.SHORTEST_GPU_SAMPLING.text} are needed; {advice}"
            )
            inside = []
        uses.append(_use(device, inside, spans))
    return uses, missing


def largest_fill(uses: Iterable[GpuUse], gpus: Iterable[Gpu]) -> float | None:
    """Peak memory as a share of the device's, of the fullest one; None where it was not measured."""
    totals = {one.index: one.memory_total_bytes for one in gpus}
    known = [
        use.memory_peak_bytes / total
        for use in uses
        if use.memory_peak_bytes is not None and (total := totals.get(use.index))
    ]
    return max(known, default=None)


def gpu_points(observed: Observed, spans: Spans) -> list[GpuPoint]:
    """All samples of the job's GPUs since the first of these stretches of time began, for plotting."""
    origin = next((start for start, _ in spans), None)
    indices = {device.uuid: device.index for device in _devices_of_job(observed)}
    if origin is None:
        return []
    return [
        GpuPoint(
            start_s=one.clock - origin,
            index=indices[one.uuid],
            util=one.util,
            power_w=one.power_w,
            memory_used_bytes=one.memory_used_bytes,
        )
        for one in observed.recording.gpu
        if one.uuid in indices and one.clock >= origin
    ]


def training_spans(observed: Observed) -> Spans:
    """When the job trained undisturbed: from the first clean step on, without the profiler window."""
    steps = observed.first
    if steps is None or not steps.cycles:
        return Spans(())
    start, last = steps.cycles[0].start, max(one.start for one in steps.process.records)
    windows = Phases(steps.process).spans(records.WINDOW, until=last)
    spans: list[tuple[float, float]] = []
    for begin, end in windows:
        spans.append((start, max(start, begin)))
        start = max(start, end)
    return Spans([*spans, (start, max(start, last))])


def _devices_of_job(observed: Observed) -> Sequence[GpuDevice]:
    devices = observed.recording.devices
    return [device for device in devices if device.used_by_job]


def _covered(samples: Sequence[GpuSample], spans: Spans) -> float:
    """The seconds between the first and the last sample of each stretch."""
    return sum(own[-1].clock - own[0].clock for own in _by_span(samples, spans))


def _by_span(samples: Sequence[GpuSample], spans: Spans) -> Iterator[list[GpuSample]]:
    """The samples of each stretch that has any, in order."""
    for start, end in spans:
        own = sorted((one for one in samples if start <= one.clock < end), key=attrgetter("clock"))
        if own:
            yield own


def _use(device: GpuDevice, samples: Sequence[GpuSample], spans: Spans) -> GpuUse:
    """What the samples show, all of which lie within `spans`."""
    util = _known(samples, lambda one: one.util)
    power = _mean_power(samples, spans)
    memory = _known(samples, lambda one: one.memory_used_bytes)
    limit = device.power_limit_w
    return GpuUse(
        index=device.index,
        util_mean=statistics.fmean(util) if util else None,
        util_p10=percentile(util, 10) if util else None,
        memory_peak_bytes=int(max(memory)) if memory else None,
        power_mean_w=power,
        power_share=power / limit if power is not None and limit else None,
        sm_clock_mean_mhz=_mean(_known(samples, lambda one: one.sm_clock_mhz)),
        pcie_rx_bytes_per_s=_mean(_known(samples, lambda one: one.pcie_rx_bytes_per_s)),
        pcie_tx_bytes_per_s=_mean(_known(samples, lambda one: one.pcie_tx_bytes_per_s)),
        throttle_reasons=sorted({reason for one in samples for reason in one.throttle_reasons}),
    )


def _mean_power(samples: Sequence[GpuSample], spans: Spans) -> float | None:
    """In watts: from the energy counter where the device has one, which misses nothing between the samples of a
    stretch; else from the samples."""
    joules = seconds = 0.0
    for own in _by_span(samples, spans):
        counted = [(one.clock, one.energy_j) for one in own if one.energy_j is not None]
        if counted:
            joules += counted[-1][1] - counted[0][1]
            seconds += counted[-1][0] - counted[0][0]
    if joules > 0 and seconds > 0:
        return joules / seconds
    return _mean(_known(samples, lambda one: one.power_w))


def _known(samples: Iterable[GpuSample], metric: Callable[[GpuSample], float | None]) -> list[float]:
    return [float(value) for one in samples if (value := metric(one)) is not None]


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None
