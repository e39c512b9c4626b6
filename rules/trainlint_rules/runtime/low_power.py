from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainlint.lint.finding import RuntimeFinding, Severity
from trainlint.lint.rule import RuntimeRule
from trainlint.probe import thresholds
from trainlint.probe.evidence import Evidence
from trainlint.probe.figures import percent
from trainlint.probe.verdict import Source
from trainlint_rules.runtime.bounds import undercut

if TYPE_CHECKING:
    from trainlint.probe.measured import Measured


class LowPower(RuntimeRule):
    """The device draws little power while it is said to be in use.

    ## What it does
    Reports a GPU that draws no more than 60 % of its power limit over at least five seconds of training.

    ## Why it is slow
    Utilization only says that some kernel ran. Power tells how much of the chip worked: a card at half its limit is
    starved or waits, whatever its utilization.

    ## When it is fine
    With models that are bound by memory bandwidth, and on cards whose limit was raised beyond what they can use.

    ## Example
    ```text
    TL907 low-power  GPU 0 draws 150 of 300 W (50 %) at 97 % utilization
    ```

    ## Use instead
    Look for what keeps it waiting: `data-bound`, `launch-bound`, `transfer-bound` and `communication-bound` name it.
    Mixed precision and larger batches fill the chip. Then measure again.

    ## Fix safety
    There is none: what to change is in the code that the measurements name.

    ## How the probe confirms it
    By the energy counter of the driver, or by its readings of the power, over at least five seconds of training outside
    the profiler window.

    ## References
    - Article 003, "150 W on a 300 W card means starved or waiting", in the list of sources (https://trainlint.readthedocs.io/en/latest/sources/).
    - NVIDIA Management Library, device queries:
      https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html
    """

    code, name = "TL907", "low-power"
    severity = Severity.INFO
    confirmed_by = "mean power of the limit"

    def measured(self, run: Measured, evidence: Evidence) -> Iterator[RuntimeFinding]:
        for gpu in run.gpu:
            power = undercut("mean power, of the limit", gpu.power_share, thresholds.LOW_POWER, Source.NVML)
            if power is not None and gpu.power_mean_w is not None:
                limit = gpu.power_mean_w / power.value if power.value else 0.0
                util = f" at {percent(gpu.util_mean)} utilization" if gpu.util_mean is not None else ""
                watts = f"{gpu.power_mean_w:.0f} of {limit:.0f} W ({percent(power.value)})"
                yield self.shown(f"GPU {gpu.index} draws {watts}{util}", power)
