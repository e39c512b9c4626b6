from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainlint.lint.finding import RuntimeFinding
from trainlint.lint.rule import RuntimeRule
from trainlint.probe import thresholds
from trainlint.probe.evidence import Evidence
from trainlint.probe.figures import percent
from trainlint.probe.verdict import Source
from trainlint_rules.runtime.bounds import measured_enough, reached

if TYPE_CHECKING:
    from trainlint.probe.measured import Measured


class TransferBound(RuntimeRule):
    """Copies between host and device take much of the step.

    ## What it does
    Reports a run in which copies between host and device take at least 20 % of the step. Copies within a device do not
    count.

    ## Why it is slow
    A copy from pageable memory goes through a buffer, and the host waits for it. A copy from pinned memory can run
    beside the kernels of the step before.

    ## When it is fine
    With parameters or optimizer states that are kept in host memory on purpose, since the device has no room for them.

    ## Example
    ```text
    TL904 transfer-bound  Copies between host and device take 31 % of the step
    ```

    ## Use instead
    Pin the loader's memory with `pin_memory=True`, copy with `non_blocking=True`, make tensors on the device instead of
    copying them there, and move what is the same at every step once. Then measure again.

    ## Fix safety
    There is none: what to change is in the code that the measurements name.

    ## How the probe confirms it
    By a trace of the device in the profiler window: time with at least one copy between host and device.

    ## References
    - Article 001, "cudaMemcpyAsync above 20 %", in the list of sources (https://trainlint.readthedocs.io/en/latest/sources/).
    - PyTorch, pinned memory buffers:
      https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers
    """

    code, name = "TL904", "transfer-bound"
    confirmed_by = "memcpy share"

    def measured(self, run: Measured, evidence: Evidence) -> Iterator[RuntimeFinding]:
        if run.kernels is None or not measured_enough(run):
            return
        copies = reached("memcpy", run.kernels.memcpy_share, thresholds.MEMCPY, Source.KINETO)
        if copies is not None:
            yield self.shown(f"Copies between host and device take {percent(copies.value)} of the step", copies)
