from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainlint.lint.finding import RuntimeFinding
from trainlint.lint.rule import RuntimeRule
from trainlint.probe import thresholds
from trainlint.probe.evidence import Evidence
from trainlint_rules.runtime.bounds import measured_enough, reached

if TYPE_CHECKING:
    from trainlint.probe.measured import Measured


class UnpredictedSync(RuntimeRule):
    """A line makes the host wait for the device, and no rule flagged it.

    ## What it does
    Reports a line on which the host waits for the device at least 2 % of the step, unless a finding of any rule is on
    that line.

    ## Why it is slow
    PyTorch queues work on the device and runs ahead. A wait empties the queue, and the device idles until new work
    arrives. Some waits cannot be seen in the code: in libraries, behind calls that need a size from the device.

    ## When it is fine
    Where the wait is the point, as before a measurement of time; where the device is busy all the time in spite of it.

    ## Example
    ```text
    train.py:88  TL910 unpredicted-sync  The host waits 4.1 ms per step for the device here, and no rule predicted it
    ```

    ## Use instead
    Keep the value on the device, read it every so many steps, or avoid shapes that depend on values: `torch.where(mask,
    a, b)` instead of `a[mask]`, `repeat_interleave(..., output_size=n)`.

    ## Fix safety
    There is none: what to change is in the code that the measurements name.

    ## How the probe confirms it
    By the time of reads of tensor values per line, and by the waits in the profiler window's trace.

    ## References
    - PyTorch, asynchronous execution:
      https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
    - Article 000, "scattered syncs", in the list of sources (https://trainlint.readthedocs.io/en/latest/sources/).
    """

    code, name = "TL910", "unpredicted-sync"
    confirmed_by = "waits for the device on a line without a finding"

    def measured(self, run: Measured, evidence: Evidence) -> Iterator[RuntimeFinding]:
        if evidence.step_s <= 0 or not measured_enough(run):
            return
        for line, sync in sorted(evidence.syncs.items(), key=lambda one: -(one[1].wait_s_per_step or 0.0)):
            waited = sync.wait_s_per_step
            share = waited / evidence.step_s if waited is not None else None
            cost = reached("wait for the device", share, thresholds.FINDING_COST, sync.source)
            if cost is not None and waited is not None and line not in evidence.predicted:
                message = f"The host waits {waited * 1e3:.3g} ms per step for the device here, and no rule predicted it"
                yield self.shown(message, cost, path=line.path, row=line.row)
