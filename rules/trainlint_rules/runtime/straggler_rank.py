from __future__ import annotations

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


class StragglerRank(RuntimeRule):
    """One rank is slower than the others, which wait for it.

    ## What it does
    Reports a rank whose own time per step, without its waits for the others and for a core, is at least 10 % above that
    of the median rank: in so many steps that chance does not explain it, with 99 % confidence.

    ## Why it is slow
    Ranks that reduce gradients together are as fast as the slowest of them. The others spend the difference waiting.

    ## When it is fine
    Where the ranks have different hardware on purpose, and work that is shared out accordingly.

    ## Example
    ```text
    TL906 straggler-rank  Rank 3 takes 118 ms of its own per step, 31 % more than the median rank
    ```

    ## Use instead
    Compare what that rank does: its data (length of samples, speed of its disk), code under `if rank == 0:`, its cores
    and clocks, its routing in a mixture of experts. Even out the data with a `DistributedSampler` and length bucketing.

    ## Fix safety
    There is none: what to change is in the code that the measurements name.

    ## How the probe confirms it
    By the steps of each rank without the waits in collectives, without what its backward pass takes longer than the
    quickest one, since that is where DDP waits, and without the time in which it was ready and other work had its core.
    A sign test over the steps tells whether the difference is more than chance.

    ## References
    - Article 000, stragglers in all-to-all, in the list of sources (https://trainlint.readthedocs.io/en/latest/sources/).
    - PyTorch, DistributedDataParallel:
      https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    """

    code, name = "TL906", "straggler-rank"
    confirmed_by = "own time of the ranks"

    def measured(self, run: Measured, evidence: Evidence) -> Iterator[RuntimeFinding]:
        known = [(rank.above_median, rank) for rank in run.ranks if rank.above_median is not None]
        if len(known) < 2 or not measured_enough(run):
            return
        exceeds, slowest = max(known, key=lambda one: one[0])
        name = "own time above the median rank"
        least = reached(f"{name}, at least", slowest.above_median_at_least, thresholds.STRAGGLER, Source.AGENT)
        if least is not None and slowest.own_s is not None:
            above = Measurement(name, exceeds, "share", Source.AGENT, thresholds.STRAGGLER.value)
            own = Measurement(f"own time of rank {slowest.rank}", slowest.own_s * 1e3, "ms/step", Source.AGENT)
            told = f"{slowest.own_s * 1e3:.3g} ms of its own per step, {percent(exceeds)} more than the median rank"
            yield self.shown(f"Rank {slowest.rank} takes {told}", above, least, own)
