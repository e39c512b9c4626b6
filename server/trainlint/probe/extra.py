"""The packages that only a probe needs."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import trainlint

EXTRA = "pip install 'PATH_OF_THE_CLONE[probe]'"
"""What to do where one of them is not there: as the README installs trainlint, which is on no package index."""


def absence_of(package: str) -> str:
    """That a package is not there, and what to do; the editor extension carries those with a wheel for its platform."""
    target = _platform_of_the_extension()
    if target is None:
        return f"{package} is not installed: {EXTRA}"
    return f"the editor extension carries no {package} for {target}, since no wheel is published for that platform"


def _platform_of_the_extension() -> str | None:
    """The platform that the editor extension is packaged for, where trainlint is the one that it carries."""
    with suppress(OSError):
        description = json.loads((Path(trainlint.__file__).parents[2] / "bundle.json").read_bytes())
        return str(description["target"])
    return None
