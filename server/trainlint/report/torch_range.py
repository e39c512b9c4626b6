"""The PyTorch releases that a rule holds for, as users write such ranges."""

from __future__ import annotations

from trainlint.lint.rule import Rule


def torch_range(rule: type[Rule]) -> str:
    """Return the torch releases that the rule holds for as a version specifier, empty for all."""
    first, last = rule.torch
    bounds = []
    if first is not None:
        bounds.append(f">={first[0]}.{first[1]}")
    if last is not None:
        bounds.append(f"<{last[0]}.{last[1] + 1}")
    return ",".join(bounds)
