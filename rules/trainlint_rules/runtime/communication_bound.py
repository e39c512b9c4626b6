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


class CommunicationBound(RuntimeRule):
    """The device waits for communication between ranks.

    ## What it does
    Reports a run in which communication takes at least 15 % of the step with nothing computed meanwhile.

    ## Why it is slow
    Gradients that are reduced while others are still computed cost nothing. What is left over, exposed, is time in
    which all devices wait.

    ## When it is fine
    With a model that is so large for its devices that there is too little work to hide the transfers behind.

    ## Example
    ```text
    TL903 communication-bound  Communication that nothing hides takes 24 % of the step
    ```

    ## Use instead
    Reduce once per optimizer step (`no_sync()` around the other micro-batches), set `gradient_as_bucket_view=True`, try
    `bucket_cap_mb` of 50 to 100; with FSDP look at `forward_prefetch` and `backward_prefetch`. Look at the topology
    with `nvidia-smi topo -m`. Then measure again.

    ## Fix safety
    There is none: what to change is in the code that the measurements name.

    ## How the probe confirms it
    By a trace of the device in the profiler window: time with communication kernels and none that computes. The share
    of all communication, hidden or not, is reported beside it.

    ## References
    - Articles 001 (15 % of the step) and 003 (20 %), in the list of sources (https://trainlint.readthedocs.io/en/latest/sources/).
    - PyTorch, DistributedDataParallel:
      https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    """

    code, name = "TL903", "communication-bound"
    confirmed_by = "exposed communication share"

    def measured(self, run: Measured, evidence: Evidence) -> Iterator[RuntimeFinding]:
        if run.kernels is None or not measured_enough(run):
            return
        exposed = reached(
            "exposed communication", run.kernels.nccl_exposed_share, thresholds.COMMUNICATION_EXPOSED, Source.KINETO
        )
        if exposed is not None:
            bound = thresholds.COMMUNICATION_RAW.value
            whole = Measurement("communication", run.kernels.nccl_share, "share", Source.KINETO, bound)
            message = f"Communication that nothing hides takes {percent(exposed.value)} of the step"
            yield self.shown(message, exposed, whole)
