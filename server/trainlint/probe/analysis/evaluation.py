"""Evaluation between the steps: its share of the time, and whether it records a graph."""

from __future__ import annotations

from trainlint.probe.analysis.observed import Observed
from trainlint.probe.analysis.steps import RankSteps


def evaluation_share(steps: RankSteps) -> float | None:
    """What cycles with evaluation batches take beyond a regular step, of the clean steps' wall time; None where no
    step is known to compare with."""
    usual = steps.mean_s
    if usual is None or steps.wall_s <= 0:
        return None
    evaluating = [cycle for cycle in steps.cycles if cycle.evaluation_batches and not cycle.regular]
    return sum(max(0.0, cycle.duration - usual) for cycle in evaluating) / steps.wall_s


def records_graph(observed: Observed) -> bool | None:
    """Whether outputs of evaluation batches require gradients; None if no evaluation batch was seen."""
    seen = [note for process in observed.recording.ranks for note in process.noted("evaluation")]
    said = [note["outputs_require_grad"] for note in seen if isinstance(note.get("outputs_require_grad"), bool)]
    if said:
        return any(said)
    # Without gradients no graph is recorded, whatever the model returns.
    enabled = [note["gradients_enabled"] for note in seen if isinstance(note.get("gradients_enabled"), bool)]
    return False if enabled and not any(enabled) else None
