"""The plots of the HTML report, as inline SVG without scripts or styles of their own; the page's classes colour them.

A plot stretches to the width of the page, so it holds no text: labels stand around it as HTML, and each mark has a
title that browsers show and screen readers read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainlint.report.markup import Markup, element

WIDTH, HEIGHT = 1000.0, 100.0
"""Of the plotting area, in units of its own."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a bar."""

    value: float
    class_: str


@dataclass(frozen=True, slots=True)
class Bar:
    """Parts that stand on one another."""

    title: str
    parts: tuple[Part, ...]
    class_: str = ""

    @property
    def total(self) -> float:
        return sum(part.value for part in self.parts)


@dataclass(frozen=True, slots=True)
class Curve:
    """Values over time; None breaks the line."""

    class_: str
    points: tuple[tuple[float, float | None], ...]


def columns(bars: Sequence[Bar], highest: float, label: str) -> Markup:
    """Upright bars side by side; `highest` is the value at the upper edge."""
    width = WIDTH / max(len(bars), 1)
    drawn = [
        element("g", *_column(bar, index * width, width, highest), class_=bar.class_ or None)
        for index, bar in enumerate(bars)
    ]
    return _plot(drawn, label)


def _column(bar: Bar, left: float, width: float, highest: float) -> Iterator[Markup]:
    yield element("title", bar.title)
    bottom = HEIGHT
    for part in bar.parts:
        height = part.value / highest * HEIGHT if highest > 0 else 0.0
        bottom -= height
        gap = width * 0.1
        yield element("rect", x=left + gap / 2, y=bottom, width=width - gap, height=height, class_=part.class_)


def strip(parts: Sequence[tuple[str, Part]], whole: float, label: str, *, class_: str = "strip") -> Markup:
    """One bar across, each part with its title; `whole` is the value at the right edge."""
    left, drawn = 0.0, []
    for title, part in parts:
        width = part.value / whole * WIDTH if whole > 0 else 0.0
        drawn.append(
            element("rect", element("title", title), x=left, y=0.0, width=width, height=HEIGHT, class_=part.class_)
        )
        left += width
    return _plot(drawn, label, class_=class_)


def curves(lines: Sequence[Curve], highest: float, label: str, *, bound: float | None = None) -> Markup:
    """Lines over time from 0 to `highest`, with a level line at `bound`."""
    times = [time for line in lines for time, _ in line.points]
    first, span = (min(times), max(times) - min(times)) if times else (0.0, 0.0)
    drawn = []
    if bound is not None and 0 < bound <= highest:
        level = _height(bound, highest)
        drawn.append(element("line", x1=0.0, x2=WIDTH, y1=level, y2=level, class_="bound"))
    for line in lines:
        drawn += [
            element(
                "polyline",
                points=" ".join(
                    f"{(time - first) / span * WIDTH if span else 0:.2f},{_height(value, highest):.2f}"
                    for time, value in stretch
                ),
                class_=line.class_,
            )
            for stretch in _stretches(line)
        ]
    return _plot(drawn, label)


def _height(value: float, highest: float) -> float:
    return HEIGHT - (min(value / highest, 1.0) * HEIGHT if highest > 0 else 0.0)


def _stretches(line: Curve) -> Iterator[list[tuple[float, float]]]:
    """The pieces of a curve between gaps; a point on its own becomes a short level line."""
    stretch: list[tuple[float, float]] = []
    for time, value in (*line.points, (0.0, None)):
        if value is not None:
            stretch.append((time, value))
        elif stretch:
            yield stretch if len(stretch) > 1 else [stretch[0], stretch[0]]
            stretch = []


def _plot(drawn: Sequence[Markup], label: str, *, class_: str = "plot") -> Markup:
    return element(
        "svg",
        *drawn,
        class_=class_,
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )
