from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainlint.lint.finding import RuntimeFinding
from trainlint.lint.rule import RuntimeRule
from trainlint.probe import thresholds
from trainlint.probe.device_idle import unexplained_idle
from trainlint.probe.evidence import Evidence
from trainlint.probe.figures import percent
from trainlint.probe.verdict import Source
from trainlint_rules.runtime.bounds import measured_enough, reached, undercut

if TYPE_CHECKING:
    from trainlint.probe.measured import Measured


class LaunchBound(RuntimeRule):
    """The device waits for the host to launch its kernels.

    ## What it does
    Reports a run whose device is idle at least 30 % of the time without a wait for data, a sync or another rank, with
    kernels of 50 us or less in the median.

    ## Why it is slow
    The host needs some microseconds to launch a kernel. A kernel of 500 us hides the launch of the next ones; kernels
    of a few microseconds leave the device idle between them, whatever the utilization shows.

    ## When it is fine
    Where the model is so small that it is trained in no time; for LoRA and the like, if the larger batch that the saved
    memory allows is used.

    ## Example
    ```text
    TL902 launch-bound  The device is idle 48 % of the time between kernels of 6 us
    ```

    ## Use instead
    Fuse kernels with `torch.compile`, or record them in CUDA graphs with `mode="reduce-overhead"`; use a fused
    optimizer; double the batch, so that each kernel does more. Then measure again.

    ## Fix safety
    There is none: what to change is in the code that the measurements name.

    ## How the probe confirms it
    By a trace of the device in the profiler window: idle time without a wait of the host, and the median duration of
    kernels.

    ## References
    - Article 000, "launch bound: kernels of tens of microseconds", and 003, in the list of sources (https://trainlint.readthedocs.io/en/latest/sources/).
    - PyTorch, CUDA graphs:
      https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
    """

    code, name = "TL902", "launch-bound"
    confirmed_by = "idle device between short kernels"

    def measured(self, run: Measured, evidence: Evidence) -> Iterator[RuntimeFinding]:
        if run.kernels is None or not measured_enough(run):
            return
        unexplained = unexplained_idle(run.kernels.busy_share, run.shares.data_wait, run.shares.sync_wait)
        idle = reached("device idle without a wait", unexplained, thresholds.LAUNCH_IDLE, Source.KINETO)
        short = undercut("median kernel", run.kernels.median_us, thresholds.LAUNCH_KERNEL, Source.KINETO)
        if idle is not None and short is not None:
            kernels = f"kernels of {short.value:.0f} us"
            yield self.shown(f"The device is idle {percent(idle.value)} of the time between {kernels}", idle, short)
