"""The conditions of `--fail-on`: which results make `trainlint probe` fail."""

from __future__ import annotations

from dataclasses import dataclass

from trainlint.probe.figures import percent
from trainlint.probe.verdict import Status
from trainlint.report.probe_changes import rate_text
from trainlint.report.probe_compare import Comparison, status_of
from trainlint.report.probe_result import ProbeResult

DEFAULT_REGRESSION = 0.05
"""A loss of throughput that `--fail-on regression` takes for one: two runs of the same job on a shared machine were
seen to differ by 2 to 4 %."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """`--fail-on confirmed`: a finding of the linter is confirmed."""


@dataclass(frozen=True, slots=True)
class Regression:
    """`--fail-on regression[=PCT]`: throughput fell by this much, by more than the noise, and on no busy machine."""

    least: float = DEFAULT_REGRESSION
    """Relative."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a condition is met, and why, in a sentence."""

    met: bool
    reason: str


def fail_condition(text: str) -> Confirmed | Regression:
    """Read the value of `--fail-on`.

    Raises:
        ValueError: with what it may be.
    """
    name, equals, value = text.partition("=")
    if text == "confirmed":
        return Confirmed()
    if name == "regression":
        if not equals:
            return Regression()
        try:
            percentage = float(value.removesuffix("%"))
        except ValueError:
            percentage = -1.0
        if 0 <= percentage < 100:
            return Regression(percentage / 100)
        raise ValueError(f"`{value}` is no percentage of 0 to 100")
    raise ValueError(f"`{text}` is none of `confirmed`, `regression`, `regression=PCT`")


def outcome(condition: Confirmed | Regression, result: ProbeResult, comparison: Comparison | None) -> Outcome:
    """Judge a condition; without a comparison there is no regression."""
    if isinstance(condition, Confirmed):
        count = sum(status_of(finding) is Status.CONFIRMED for finding in result.findings)
        return Outcome(count > 0, f"{count} of {len(result.findings)} findings confirmed")
    if comparison is None:
        return Outcome(False, "no earlier result to compare with")
    if comparison.obstacles:
        return Outcome(False, f"no regression can be claimed: {'; '.join(comparison.obstacles)}")
    rate = comparison.rate
    if rate is None:
        return Outcome(False, "no regression can be claimed: the runs measured no throughput that can be compared")
    fell = -rate.change
    met = rate.is_clear and fell > 0 and fell >= condition.least
    if met and comparison.loads:
        busy = "; ".join(comparison.loads)
        return Outcome(False, f"no regression can be claimed: {busy}; {rate_text(comparison)}; measure again")
    return Outcome(met, f"{rate_text(comparison)}; a regression is a loss of {percent(condition.least)} or more")
