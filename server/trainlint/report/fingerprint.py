"""What identifies a finding between runs, so that code hosts tell old findings from new ones.

It is made of the rule, the symbol and the source line without its spacing: moving lines does not change it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from trainlint.lint.result import Reported
from trainlint.report.paths import shown
from trainlint.report.view import View


def fingerprints(findings: Sequence[Reported], view: View, root: Path) -> list[str]:
    """Return one fingerprint a finding, in order; equal findings of a file are told apart by their count."""
    seen: Counter[tuple[str, ...]] = Counter()
    result = []
    for reported in findings:
        line = view.sources.line(reported.path, reported.cell, reported.location.row)
        parts = (
            shown(reported.path, root).replace("\\", "/"),
            reported.finding.code,
            reported.finding.site.symbol,
            " ".join(line.split()),
        )
        number = seen[parts]
        seen[parts] += 1
        result.append(hashlib.sha256("\0".join((*parts, str(number))).encode("utf-8", "replace")).hexdigest()[:32])
    return result
