from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainlint.lint.finding import RuntimeFinding
from trainlint.lint.rule import RuntimeRule
from trainlint.probe import thresholds
from trainlint.probe.evidence import Evidence
from trainlint.probe.figures import percent
from trainlint.probe.verdict import Source
from trainlint_rules.runtime.bounds import reached

if TYPE_CHECKING:
    from trainlint.probe.measured import Measured


class EvaluationBarrier(RuntimeRule):
    """Ranks wait for one that evaluates or saves.

    ## What it does
    Reports a run in which ranks wait at least 2 % of the time while another one alone evaluates or writes a checkpoint.

    ## Why it is slow
    A rank that goes on meets the others at the next reduction of gradients, and waits there for the one that is still
    at work. All devices but one idle.

    ## When it is fine
    Where an evaluation is rare and short.

    ## Example
    ```text
    TL913 evaluation-barrier  The other ranks wait 12 % of the time for rank 0, which evaluates
    ```

    ## Use instead
    Evaluate on all ranks, each on its share of the data, and reduce the metrics once; save with
    `torch.distributed.checkpoint.async_save` or a sharded checkpoint; evaluate in a job of its own.

    ## Fix safety
    There is none: what to change is in the code that the measurements name.

    ## How the probe confirms it
    By the times of evaluation batches and of saving on one rank, compared with the waits of the others at the same
    time.

    ## References
    - Article 000, "a full evaluation as a barrier leaves GPUs empty", in the list of sources (https://trainlint.readthedocs.io/en/latest/sources/).
    - PyTorch, distributed checkpoints:
      https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """

    code, name = "TL913", "evaluation-barrier"
    confirmed_by = "waits of the other ranks"

    def measured(self, run: Measured, evidence: Evidence) -> Iterator[RuntimeFinding]:
        barrier = evidence.barrier
        if barrier is None:
            return
        waits = reached("waits of the other ranks", barrier.waiting_share, thresholds.FINDING_COST, Source.AGENT)
        if waits is not None:
            whom = f"rank {barrier.rank}, which {barrier.what}"
            yield self.shown(f"The other ranks wait {percent(waits.value)} of the time for {whom}", waits)
