"""Keeps a report from taking the place of a file that the run reads."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from trainlint.cli.failure import Failure
from trainlint.fixes.write import replaces
from trainlint.source.discovery import CODE_SUFFIXES, CONFIGURATION_FILES


def require_own(report: Path, inputs: Iterable[Path], option: str = "--output-file") -> None:
    """Refuse to write a report, which `option` names, over code, configuration, or a file that the run reads besides.

    Raises:
        Failure: with the reason.
    """
    if not replaces(report):
        return
    if report.suffix in CODE_SUFFIXES:
        what = "code"
    elif report.name in CONFIGURATION_FILES:
        what = "configuration"
    elif any(_is_same(report, path) for path in inputs):
        what = "an input of this run"
    else:
        return
    raise Failure(f"`{option} {report}` would destroy {what}; name another file")


def _is_same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
