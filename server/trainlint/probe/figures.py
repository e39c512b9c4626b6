"""How reports write measured figures: three digits at most, with their unit; never a zero for what was not measured."""

from __future__ import annotations

from collections.abc import Sequence

GIB = 1 << 30
NOT_MEASURED = "-"
"""Stands in a table's cell for what was not measured."""


def number(value: float) -> str:
    """A figure with three digits or all of its whole ones: `12.3`, `0.0421`, `1870`; below that `under 0.001`."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) < 0.001:
        return "under 0.001" if value > 0 else "above -0.001"
    return f"{float(f'{value:.3g}'):g}"


def milliseconds(seconds: float) -> str:
    return f"{number(seconds * 1e3)} ms"


def seconds_text(seconds: float) -> str:
    """A duration in the unit that reads best."""
    return f"{number(seconds)} s" if seconds >= 1 else milliseconds(seconds)


def percent(share: float) -> str:
    """A share of 0 to 1: `31 %`, `3.1 %`, `under 0.1 %`."""
    value = share * 100
    if 0 < abs(value) < 0.05:
        return "under 0.1 %"
    rounded = round(value, 0 if abs(value) >= 9.95 else 1)
    return f"{rounded:g} %"


def signed_percent(share: float) -> str:
    """A change of 0 to 1, with its sign: `+12 %`, `-3.1 %`."""
    return percent(share) if share <= 0 else f"+{percent(share)}"


def binary_size(count: float) -> str:
    """A size in bytes, in the unit that reads best."""
    size, units = abs(count), ("B", "KiB", "MiB", "GiB", "TiB")
    power = next((index for index in range(len(units)) if size < 1024 ** (index + 1)), len(units) - 1)
    return f"{number(count / 1024**power)} {units[power]}"


def in_unit(value: float, unit: str) -> str:
    """A figure of a verdict's evidence, with its unit."""
    if unit == "share":
        return percent(value)
    if unit == "B":
        return binary_size(value)
    return f"{number(value)} {unit}".rstrip()


def adding_up(parts: Sequence[float], digits: int) -> list[float]:
    """Round the parts so that what is printed adds up to the rounded sum: the largest remainders are rounded up."""
    scale = 10**digits
    exact = [part * scale for part in parts]
    down = [float(int(value // 1)) for value in exact]
    missing = round(sum(exact)) - int(sum(down))
    order = sorted(range(len(parts)), key=lambda index: down[index] - exact[index])
    for index in order[: max(missing, 0)]:
        down[index] += 1
    return [value / scale for value in down]


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
