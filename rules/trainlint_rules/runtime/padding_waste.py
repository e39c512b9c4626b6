from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainlint.lint.finding import RuntimeFinding
from trainlint.lint.rule import RuntimeRule
from trainlint.probe import thresholds
from trainlint.probe.evidence import Evidence
from trainlint.probe.figures import percent
from trainlint.probe.verdict import Source
from trainlint_rules.runtime.bounds import undercut

if TYPE_CHECKING:
    from trainlint.probe.measured import Measured


class PaddingWaste(RuntimeRule):
    """Much of what the model is given is padding.

    ## What it does
    Reports a run in which no more than 70 % of the tokens are real ones.

    ## Why it is slow
    The model computes on padding as it does on tokens. The device looks busy, and much of its work is thrown away.

    ## When it is fine
    Where `torch.compile` or the hardware needs fixed shapes, if that gains more than the padding costs.

    ## Example
    ```text
    TL909 padding-waste  41 % of the tokens are real, the rest is padding
    ```

    ## Use instead
    Pad each batch to its longest sample (`padding="longest"` in the collator), sort samples into buckets by length, or
    pack several into one sequence. Then compare effective tokens per second.

    ## Fix safety
    There is none: what to change is in the code that the measurements name.

    ## How the probe confirms it
    By the attention masks of batches on the CPU: tokens that the mask keeps, of all.

    ## References
    - Article 000, "a batch that is 70 % padding", in the list of sources (https://trainlint.readthedocs.io/en/latest/sources/).
    - Hugging Face, padding and truncation:
      https://huggingface.co/docs/transformers/pad_truncation
    """

    code, name = "TL909", "padding-waste"
    confirmed_by = "share of real tokens"

    def measured(self, run: Measured, evidence: Evidence) -> Iterator[RuntimeFinding]:
        share = evidence.effective_token_share
        real = undercut("real tokens", share, thresholds.EFFECTIVE_TOKENS, Source.AGENT)
        if real is not None:
            yield self.shown(f"{percent(real.value)} of the tokens are real, the rest is padding", real)
