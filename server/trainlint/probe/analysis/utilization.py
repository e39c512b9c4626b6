"""Model FLOPs utilization, where both the work of a step and the peak rate of the devices are known."""

from __future__ import annotations

from collections.abc import Sequence

from trainlint.probe.analysis.tokens import Tokens
from trainlint.probe.measured import Gpu
from trainlint.probe.peak_flops import Precision, peak_rate, training_flops, utilization
from trainlint.probe.recording import Options

PRECISION = Precision.BFLOAT16
"""Utilization is told against the rate in this precision, whatever the job computes in, as papers do."""


def work_of_step(options: Options, tokens: Tokens | None) -> float | None:
    """Floating-point operations of a step of the whole job: as given, or from the parameters, and tokens given or
    counted. A trace holds no counts of operations."""
    if options.flops_per_step is not None:
        return options.flops_per_step
    per_step = float(options.tokens_per_step) if options.tokens_per_step is not None else None
    if per_step is None and tokens is not None:
        per_step = tokens.per_step
    if options.parameters is not None and per_step is not None:
        return training_flops(options.parameters, per_step)
    return None


def model_flops_utilization(
    work: float | None, step_s: float | None, gpus: Sequence[Gpu], doubt: str | None
) -> tuple[float | None, str | None]:
    """The utilization, 0 to 1, and why it is not known.

    Args:
        work: floating-point operations of a step of the whole job.
        step_s: the mean step in seconds.
        gpus: the devices that the job used.
        doubt: why these may be others.
    """
    if not gpus:
        return None, "the job ran without a GPU"
    if doubt is not None:
        return None, doubt
    if work is None:
        return None, "the operations of a step are not known: give --flops-per-step, or --params and --tokens-per-step"
    rates = {gpu.name: row.rate(PRECISION) if (row := peak_rate(gpu.name)) is not None else None for gpu in gpus}
    unknown = [name for name, rate in rates.items() if rate is None]
    if unknown or len(rates) > 1:
        why = f"the peak rate of {unknown[0]} is not listed" if unknown else "the devices are of different kinds"
        return None, why
    (rate,) = rates.values()
    if rate is None or step_s is None:
        return None, "no step was timed"
    return utilization(work, step_s, rate, len(gpus)), None
