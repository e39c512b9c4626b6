"""How many workers rules advise, and where a setting that says so is to be changed."""

from __future__ import annotations

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.semantics.values import Option

HALF_THE_CORES = "min(8, (os.cpu_count() or 2) // 2)"
"""Half of the cores (article 000), at most 8 per GPU (article 003), never above the core count (article 001)."""


def raise_setting(setting: Option) -> Fix:
    """Advice to raise the setting that a loader takes its number of workers from."""
    place = f"in {setting.file}" if setting.file else "by default"
    return Fix(Applicability.DISPLAY, f"Set {setting.name} to half of the cores {place}, and at most 8 per GPU")
