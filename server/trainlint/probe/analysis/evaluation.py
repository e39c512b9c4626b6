"""Evaluation between the steps: its share of the time, and whether it records a graph."""

from __future__ import annotations

from trainlint.probe.analysis.observed import Observed
from trainlint.probe.analysis.steps import RankSteps


def evaluation_share(steps: RankSteps) -> float | None:
    """What cycles with evaluation batches take beyond a regular step, of the clean steps' wall time; None where no
    step is known to compare with, or where the batches of evaluation cannot be told from those of training."""
    usual = steps.mean_s
    if usual is None or steps.wall_s <= 0:
        return None
    if is_not_told_apart(steps):
        return None
    evaluating = [cycle for cycle in steps.cycles if cycle.evaluation_batches and not cycle.regular]
    return sum(max(0.0, cycle.duration - usual) for cycle in evaluating) / steps.wall_s


NOT_TOLD_APART = "the model evaluated batches with gradients enabled, which cannot be told from those of training"


def is_not_told_apart(steps: RankSteps) -> bool:
    """Whether the model was in evaluation mode with gradients enabled as batches came, and none is known to be one of
    evaluation."""
    unguarded = any(note.get("gradients_enabled") is True for note in steps.process.noted("evaluation"))
    return unguarded and not any(cycle.evaluation_batches for cycle in steps.cycles)


def records_graph(observed: Observed) -> bool | None:
    """Whether outputs of evaluation batches require gradients; None if no evaluation batch was seen."""
    seen = [note for process in observed.recording.ranks for note in process.noted("evaluation")]
    said = [note["outputs_require_grad"] for note in seen if isinstance(note.get("outputs_require_grad"), bool)]
    if said:
        return any(said)
    # Without gradients no graph is recorded, whatever the model returns.
    enabled = [note["gradients_enabled"] for note in seen if isinstance(note.get("gradients_enabled"), bool)]
    return False if enabled and not any(enabled) else None
