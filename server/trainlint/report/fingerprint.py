"""What identifies a finding between runs, so that code hosts and baselines tell old findings from new ones.

It is made of the rule, the symbol and the source line without its spacing: moving lines does not change it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from trainlint.lint.result import Reported
from trainlint.report.paths import slashed
from trainlint.report.sources import Sources
from trainlint.report.view import View


def fingerprints(findings: Sequence[Reported], view: View, root: Path) -> list[str]:
    """Return one fingerprint a finding, in order; equal findings of a file are told apart by their count."""
    seen: Counter[tuple[str, ...]] = Counter()
    result = []
    for reported in findings:
        parts = slashed(reported.path, root), *_identity(reported, view.sources)
        number = seen[parts]
        seen[parts] += 1
        result.append(_digest((*parts, str(number))))
    return result


def fingerprint(reported: Reported, sources: Sources) -> str:
    """Return what equal findings of a file share."""
    return _digest(_identity(reported, sources))


def _identity(reported: Reported, sources: Sources) -> tuple[str, str, str]:
    line = sources.line(reported.path, reported.cell, reported.location.row)
    return reported.finding.code, reported.finding.site.symbol, " ".join(line.split())


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]
