from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainlint.lint.finding import RuntimeFinding, Severity
from trainlint.lint.rule import RuntimeRule
from trainlint.probe import thresholds
from trainlint.probe.evidence import Evidence
from trainlint.probe.figures import binary_size
from trainlint.probe.verdict import Source
from trainlint_rules.runtime.bounds import reached

if TYPE_CHECKING:
    from trainlint.probe.measured import Measured


class MemoryFragmentation(RuntimeRule):
    """The allocator reserves far more device memory than is ever in use.

    ## What it does
    Reports a process whose allocator reserves at least 1.5 times what is allocated at the peak, and at least 1 GiB
    more.

    ## Why it is slow
    Memory that lies broken up into pieces of the wrong size cannot be used. Near the limit, the allocator frees its
    cache and asks the driver again, which waits for the device.

    ## When it is fine
    Where another phase of the job, such as an evaluation with larger batches, needed what is reserved.

    ## Example
    ```text
    TL912 memory-fragmentation  31 GiB are reserved at the peak, 18 GiB allocated
    ```

    ## Use instead
    Set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` before the job starts, and keep the shapes of batches to a
    few sizes.

    ## Fix safety
    There is none: what to change is in the code that the measurements name.

    ## How the probe confirms it
    By the allocator's own peaks of allocated and of reserved memory at the end of the clean steps.

    ## References
    - PyTorch, CUDA memory management:
      https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management
    - Article 000, `expandable_segments`, in the list of sources (https://trainlint.readthedocs.io/en/latest/sources/).
    """

    code, name = "TL912", "memory-fragmentation"
    severity = Severity.INFO
    confirmed_by = "reserved against allocated memory"

    def measured(self, run: Measured, evidence: Evidence) -> Iterator[RuntimeFinding]:
        peak = evidence.memory_peak
        if peak is None or peak.allocated <= 0:
            return
        ratio, gap = peak.reserved / peak.allocated, peak.reserved - peak.allocated
        times = reached("reserved to allocated memory", ratio, thresholds.FRAGMENTATION_RATIO, Source.AGENT)
        above = reached("reserved above allocated memory", gap, thresholds.FRAGMENTATION_GAP, Source.AGENT)
        if times is not None and above is not None:
            reserved, allocated = binary_size(peak.reserved), binary_size(peak.allocated)
            yield self.shown(f"{reserved} are reserved at the peak, {allocated} allocated", times, above)
