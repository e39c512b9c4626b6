"""Real tokens among all that the model was given, where the agent could count them, and rates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trainlint.agent import records
from trainlint.probe.analysis.steps import RankSteps


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of regular steps over all ranks."""

    per_s: float
    effective_per_s: float
    per_step: float
    """Of all ranks together."""

    @property
    def effective_share(self) -> float:
        return self.effective_per_s / self.per_s


def tokens_of(ranks: Iterable[RankSteps]) -> Tokens | None:
    """The rates of all ranks together; None unless each of them counted tokens."""
    total = effective = per_step = 0.0
    for steps in ranks:
        found = steps.timed(records.TOKENS, regular_only=True)
        seconds = sum(cycle.duration for cycle in steps.regular)
        # The field of the duration holds the number of all tokens.
        counted = sum(one.duration for one in found)
        if not counted or seconds <= 0:
            return None
        total += counted / seconds
        effective += sum(one.value for one in found) / seconds
        per_step += counted / len(steps.regular)
    return Tokens(total, effective, per_step) if total > 0 else None
