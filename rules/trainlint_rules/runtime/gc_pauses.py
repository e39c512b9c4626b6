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


class GcPauses(RuntimeRule):
    """Python's garbage collector takes much of the step.

    ## What it does
    Reports a run in which collections take at least 3 % of the step.

    ## Why it is slow
    A collection of the oldest generation looks at every object of the process: a model, a dataset and a tokenizer are
    millions. Meanwhile no kernel is launched, and with several ranks the others wait.

    ## When it is fine
    Where code relies on collections to free device memory in reference cycles.

    ## Example
    ```text
    TL911 gc-pauses  Garbage collection takes 5 % of the step
    ```

    ## Use instead
    Call `gc.freeze()` once before training, so that what exists then is not looked at again, and raise the thresholds
    with `gc.set_threshold`; with several ranks, collect on all of them at the same step.

    ## Fix safety
    There is none: what to change is in the code that the measurements name.

    ## How the probe confirms it
    By `gc.callbacks` in the processes that train: the pauses in the clean steps, without waits for a core. One long
    pause alone, such as a full collection that happens to fall into them, is not reported.

    ## References
    - Python, `gc.freeze`:
      https://docs.python.org/3/library/gc.html#gc.freeze
    - Article 000, garbage collection, in the list of sources (https://trainlint.readthedocs.io/en/latest/sources/).
    """

    code, name = "TL911", "gc-pauses"
    confirmed_by = "collection time per step"

    def measured(self, run: Measured, evidence: Evidence) -> Iterator[RuntimeFinding]:
        pauses = reached("garbage collection", evidence.collection_share, thresholds.GC_PAUSES, Source.AGENT)
        if pauses is None or not measured_enough(run):
            return
        # A full collection of all that was imported may fall into any few steps, and not come again for hundreds.
        if pauses.value - evidence.longest_collection_share >= thresholds.GC_PAUSES.value:
            yield self.shown(f"Garbage collection takes {percent(pauses.value)} of the step", pauses)
