"""What reports say about a verdict: one spelling for the linter's formats, the probe's report and editors."""

from __future__ import annotations

from collections.abc import Iterator

from trainlint.probe.figures import in_unit, number, percent
from trainlint.probe.verdict import COST_TO_STEP, WORKER_TIME, Measurement, Status, Verdict

ORDER = (Status.CONFIRMED, Status.INCONCLUSIVE, Status.REFUTED, Status.NOT_EXERCISED)
"""What asks for something to be done first."""

MEANINGS = {
    Status.CONFIRMED: "measured, and at or above the rule's threshold",
    Status.INCONCLUSIVE: "this run could not tell",
    Status.REFUTED: "it ran, and did not cost what the rule fears",
    Status.NOT_EXERCISED: "the line did not run",
}


def phrase(verdict: Verdict) -> str:
    """Return the verdict on one line: `confirmed: measured 12.3 ms per step, 31 %`."""
    reason = measured_phrase(verdict) or verdict.note
    word = verdict.status.value.replace("-", " ")
    return f"{word}: {reason}" if reason else word


def measured_phrase(verdict: Verdict) -> str:
    """Return the cost that decided: `measured 12.3 ms per step, 31 %`; empty where none did.

    The time of loader workers is told apart from the part of the step that it can cost.
    """
    if verdict.ms_per_step is None or verdict.status not in (Status.CONFIRMED, Status.REFUTED):
        return ""
    if any(one.unit == WORKER_TIME for one in verdict.evidence):
        costs = [one.value for one in verdict.evidence if one.metric == COST_TO_STEP]
        share = "" if verdict.share is None else f" ({percent(verdict.share)} of it)"
        cost = f", which cost the step {number(costs[0])} ms at most{share}" if costs else ""
        return f"measured {number(verdict.ms_per_step)} ms of workers per step{cost}"
    share = "" if verdict.share is None else f", {percent(verdict.share)}"
    return f"measured {number(verdict.ms_per_step)} ms per step{share}"


def evidence_lines(verdict: Verdict) -> Iterator[str]:
    """Each figure behind the verdict, and how often the line ran."""
    if verdict.calls_per_step is not None:
        yield calls_text(verdict.calls_per_step)
    yield from (measurement_text(one) for one in verdict.evidence)


def calls_text(calls_per_step: float) -> str:
    """Return how often a line ran: `1 call per step`."""
    count = number(calls_per_step)
    return f"{count} {'call' if count == '1' else 'calls'} per step"


def measurement_text(one: Measurement) -> str:
    """Return `data wait 31 % (threshold 20 %; agent)`."""
    threshold = "" if one.threshold is None else f"threshold {in_unit(one.threshold, one.unit)}; "
    return f"{one.metric} {in_unit(one.value, one.unit)} ({threshold}{one.source.value})"
