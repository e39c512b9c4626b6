from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainlint.lint.finding import RuntimeFinding, Severity
from trainlint.lint.rule import RuntimeRule
from trainlint.probe import thresholds
from trainlint.probe.evidence import Evidence
from trainlint.probe.figures import GIB, percent
from trainlint.probe.verdict import Source
from trainlint_rules.runtime.bounds import undercut

if TYPE_CHECKING:
    from trainlint.probe.measured import Gpu, Measured


class MemoryHeadroom(RuntimeRule):
    """Most of the device's memory stays unused while the device is not busy.

    ## What it does
    Reports a GPU of which no more than half of the memory is ever used, unless it is busy computing.

    ## Why it is slow
    A larger batch gives each kernel more to do and needs fewer steps for the same data. Memory that nothing uses is the
    room for it.

    ## When it is fine
    Where the batch is a matter of the method; where a doubled batch takes twice as long per step, since the device is
    then busy already.

    ## Example
    ```text
    TL905 memory-headroom  GPU 0 uses 16 of 40 GiB at its peak (40 %)
    ```

    ## Use instead
    Double `batch_size` (and scale the learning rate with it), and switch off what trades time for memory, such as
    gradient checkpointing or CPU offload. A step that takes 30 % longer for twice the samples is a win; one that takes
    twice as long is none.

    ## Fix safety
    There is none: what to change is in the code that the measurements name.

    ## How the probe confirms it
    By the peak of the memory in use as the driver tells it, or of what the process reserves.

    ## References
    - Article 000, the case of LoRA with 16 of 40 GB in use, in the list of sources (https://trainlint.readthedocs.io/en/latest/sources/).
    - PyTorch performance tuning guide:
      https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """

    code, name = "TL905", "memory-headroom"
    severity = Severity.INFO
    confirmed_by = "peak memory of the device"

    def measured(self, run: Measured, evidence: Evidence) -> Iterator[RuntimeFinding]:
        busy = run.kernels.busy_share if run.kernels is not None else None
        if busy is not None and busy >= thresholds.COMPUTE_BUSY.value:
            return
        for gpu, used, source in _peaks(run, evidence):
            total = gpu.memory_total_bytes
            fill = undercut("peak memory", used / total if total else None, thresholds.MEMORY_HEADROOM, source)
            if fill is not None and total:
                sizes = f"{used / GIB:.3g} of {total / GIB:.3g} GiB"
                yield self.shown(f"GPU {gpu.index} uses {sizes} at its peak ({percent(fill.value)})", fill)


def _peaks(run: Measured, evidence: Evidence) -> Iterator[tuple[Gpu, float, Source]]:
    """The peak of each GPU as the driver told it; else, where there is only one, that of the process."""
    used = {use.index: use.memory_peak_bytes for use in run.gpu if use.memory_peak_bytes is not None}
    for gpu in run.environment.gpus:
        if gpu.index in used:
            yield gpu, used[gpu.index], Source.NVML
        elif evidence.memory_peak is not None and len(run.environment.gpus) == 1:
            yield gpu, evidence.memory_peak.reserved, Source.AGENT
