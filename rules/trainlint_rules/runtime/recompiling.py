from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainlint.lint.finding import RuntimeFinding
from trainlint.lint.rule import RuntimeRule
from trainlint.probe import thresholds
from trainlint.probe.evidence import Evidence
from trainlint.probe.figures import counted
from trainlint.probe.verdict import Source
from trainlint_rules.runtime.bounds import reached

if TYPE_CHECKING:
    from trainlint.probe.measured import Measured


class Recompiling(RuntimeRule):
    """Compiled code is compiled again while training.

    ## What it does
    Reports a run in which `torch.compile` compiled in the clean steps, after the warm-up.

    ## Why it is slow
    Compiling takes seconds. It happens again whenever something that the compiled code relies on has changed: a shape,
    a Python number, a flag. After eight times for one function PyTorch gives up and runs it uncompiled.

    ## When it is fine
    Where shapes settle after some more steps than the warm-up had: probe with more `--warmup`.

    ## Example
    ```text
    TL908 recompiling  Code was compiled 5 times in 50 steps after the warm-up
    ```

    ## Use instead
    Find the cause with `TORCH_LOGS=recompiles`. Keep shapes fixed (`drop_last=True`, padding to a few lengths), mark
    what varies with `torch._dynamo.mark_dynamic`, or compile with `dynamic=True`.

    ## Fix safety
    There is none: what to change is in the code that the measurements name.

    ## How the probe confirms it
    By the counters of the compiler at the start and at the end of the clean steps.

    ## References
    - PyTorch, dealing with recompilations:
      https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
    - Articles 000 and 003, "dynamic shapes recompile and can lose", in the list of sources (https://trainlint.readthedocs.io/en/latest/sources/).
    """

    code, name = "TL908", "recompiling"
    confirmed_by = "recompilations in the clean steps"

    def measured(self, run: Measured, evidence: Evidence) -> Iterator[RuntimeFinding]:
        again = reached("compilations", evidence.recompilations, thresholds.RECOMPILATIONS, Source.AGENT)
        if again is not None:
            times = "once" if again.value == 1 else f"{again.value:.0f} times"
            yield self.shown(f"Code was compiled {times} in {counted(evidence.steps, 'step')} after the warm-up", again)
