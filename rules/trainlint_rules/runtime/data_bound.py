from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainlint.lint.finding import RuntimeFinding
from trainlint.lint.rule import RuntimeRule
from trainlint.probe import thresholds
from trainlint.probe.evidence import Evidence
from trainlint.probe.figures import percent
from trainlint.probe.verdict import Measurement, Source
from trainlint_rules.runtime.bounds import measured_enough, reached

if TYPE_CHECKING:
    from trainlint.probe.measured import Measured


class DataBound(RuntimeRule):
    """The training step waits for its data.

    ## What it does
    Reports a run whose steps wait at least 20 % of their time for the loader to deliver a batch. What may be less, as
    the steps differ from each other, is not reported.

    ## Why it is slow
    While a step waits for its batch, the device has nothing to do. No change to the model makes such a run faster.

    ## When it is fine
    In the first steps of an epoch, which are not counted; where the data arrive at the rate of a source that cannot be
    sped up.

    ## Example
    ```text
    TL901 data-bound  The step waits 61 % of its time for data
    ```

    ## Use instead
    Load with `num_workers` of half to two thirds of the physical cores, `pin_memory=True` and
    `persistent_workers=True`. Do once, ahead of training, what is done per item at every epoch: tokenize into Arrow or
    npy files, resize images. Then measure again. Where batches stand ready all the same, the workers are quick enough:
    hand over fewer and larger tensors, and leave cores to the training thread.

    ## Fix safety
    There is none: what to change is in the code that the measurements name.

    ## How the probe confirms it
    By the time between the request of a batch and its arrival, in regular steps; by the share of requests at which no
    batch stood ready, where there are workers.

    ## References
    - Article 000, "data supply" and 001, in the list of sources (https://trainlint.readthedocs.io/en/latest/sources/).
    - PyTorch, `torch.utils.data.DataLoader`:
      https://docs.pytorch.org/docs/stable/data.html
    """

    code, name = "TL901", "data-bound"
    confirmed_by = "data wait share"

    def measured(self, run: Measured, evidence: Evidence) -> Iterator[RuntimeFinding]:
        wait = reached("data wait", run.shares.data_wait, thresholds.DATA_WAIT, Source.AGENT)
        sure = run.share_intervals.get("data_wait", (math.inf, math.inf))[0] >= thresholds.DATA_WAIT.value
        if wait is not None and sure and measured_enough(run) and not _faster_alone(run):
            told = f"The step waits {percent(wait.value)} of its time for data"
            loader = run.loader
            if loader is None or loader.workers == 0 or loader.queue_empty_share is None:
                yield self.shown(told, wait)
                return
            bound, empty = thresholds.QUEUE_EMPTY, loader.queue_empty_share
            if empty < bound.value:
                told += (
                    ", though batches stand ready: for the hand-over of one, for a core, or for a slow one among them"
                )
            yield self.shown(told, wait, Measurement("queue found empty", empty, bound.unit, Source.AGENT, bound.value))


def _faster_alone(run: Measured) -> bool:
    """Whether the loader by itself is faster than the step, so that something else makes it late."""
    alone, step_s = run.loader.alone_batch_s if run.loader is not None else None, run.steps.median_s
    return alone is not None and step_s is not None and alone < step_s
