"""The charts of the HTML report: plots with their scales, legends, and the figures as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from trainlint.probe.figures import binary_size, counted, milliseconds, number, percent, seconds_text
from trainlint.probe.measured import GpuPoint, StepPoint
from trainlint.report.markup import Markup, data_table, element
from trainlint.report.plots import Bar, Curve, Part, columns, curves, strip
from trainlint.report.probe_result import ProbeResult
from trainlint.report.probe_shares import ShareRow

MOST_BARS = 250
"""More steps than these share a bar, which then shows their mean."""
MOST_POINTS = 500
"""Likewise of each curve."""
COLOURS, DASHES = 4, 3


def chart(
    plot: Markup, top: str, bottom: str, first: str, last: str, caption: str, legend: Markup | None = None
) -> Markup:
    """A plot with the ends of its scales, which are HTML so that they keep their size on a small screen."""
    scale = element("div", element("span", top), element("span", bottom), class_="scale")
    times = element("div", element("span", first), element("span", last), class_="times")
    parts = [element("div", scale, plot, times, class_="chart"), element("figcaption", caption)]
    return element("figure", *parts, *([legend] if legend else []))


def labelled(class_: str, label: str) -> Markup:
    """A label behind a patch of its colour."""
    patch = element("rect", width="100%", height="100%", class_=class_)
    return element("span", element("svg", patch, class_="swatch", aria_hidden="true"), label)


def _legend(entries: Sequence[Markup]) -> Markup:
    return element("ul", *(element("li", entry) for entry in entries), class_="legend")


def meter(value: float | None, highest: float, class_: str) -> Markup:
    """A small bar for a table's cell."""
    if value is None or highest <= 0:
        return element("td")
    part = Part(min(value, highest), class_)
    return element("td", strip([("", part)], highest, percent(part.value / highest), class_="meter"))


def share_strip(rows: Sequence[ShareRow]) -> Markup:
    """The step as one bar across."""
    measured = [(row, row.share) for row in rows if row.share]
    parts = [(f"{row.label} {row.percent}", Part(share, row.field)) for row, share in measured]
    return strip(parts, sum(share for _, share in measured), "Parts of a regular step: the table below has the figures")


def step_timeline(result: ProbeResult) -> Iterator[Markup]:
    """The steps one after the other, with what each waited for."""
    steps = result.timeline
    if not steps:
        return
    regular = [step.duration_s for step in steps if step.regular]
    highest = max(regular or [step.duration_s for step in steps])
    groups = _grouped(steps, MOST_BARS)
    bars = [_bar(group, number_of_first) for number_of_first, group in groups]
    legend = _legend(
        [labelled("data_wait", "data wait"), labelled("sync_wait", "host stalls"), labelled("forward", "the rest")]
    )
    caption = "Clean steps in their order; pale ones hold an evaluation or a new epoch, and may reach beyond the scale."
    if len(groups) < len(steps):
        caption += f" Each bar is the mean of up to {counted(len(groups[0][1]), 'step')}."
    end = steps[-1].start_s + steps[-1].duration_s
    plot = columns(bars, highest, f"Time of {counted(len(steps), 'step')}; the table below has the figures")
    yield chart(plot, milliseconds(highest), "0", "first clean step", seconds_text(end), caption, legend)
    yield _step_table(bars)


def _grouped(steps: Sequence[StepPoint], most: int) -> list[tuple[int, Sequence[StepPoint]]]:
    """Steps that share a bar, with the number of the first."""
    size = -(-len(steps) // most)
    return [(start + 1, steps[start : start + size]) for start in range(0, len(steps), size)]


def _bar(group: Sequence[StepPoint], first: int) -> Bar:
    duration, data, stalls = (
        fmean(getattr(step, name) for step in group) for name in ("duration_s", "data_wait_s", "sync_wait_s")
    )
    name = f"step {first}" if len(group) == 1 else f"steps {first} to {first + len(group) - 1}"
    title = f"{name}: {milliseconds(duration)}, data wait {milliseconds(data)}, host stalls {milliseconds(stalls)}"
    rest = max(duration - data - stalls, 0.0)
    parts = (Part(data, "data_wait"), Part(stalls, "sync_wait"), Part(rest, "forward"))
    return Bar(title, parts, "" if all(step.regular for step in group) else "irregular")


def _step_table(bars: Sequence[Bar]) -> Markup:
    titles = ("steps", "time", "data wait", "host stalls")
    rows = []
    for bar in bars:
        data, stalls, _ = (part.value for part in bar.parts)
        name = bar.title.partition(":")[0] + (" (irregular)" if bar.class_ else "")
        figures = (milliseconds(value) for value in (bar.total, data, stalls))
        rows.append(element("tr", element("td", name), *(element("td", one, class_="figure") for one in figures)))
    table = data_table(titles, rows, "Steps as a table", captioned=False)
    return element("details", element("summary", "The steps as a table"), table)


def gpu_curves(result: ProbeResult) -> Iterator[Markup]:
    """Use, power and memory of the GPUs over the run."""
    limits = [gpu.power_limit_w for gpu in result.environment.gpus if gpu.power_limit_w]
    sizes = [gpu.memory_total_bytes for gpu in result.environment.gpus if gpu.memory_total_bytes]
    yield from _gpu_chart(result, "GPU-Util", lambda point: point.util, percent, whole=1.0)
    power = max(limits, default=None)
    yield from _gpu_chart(result, "Power", lambda point: point.power_w, lambda watts: f"{number(watts)} W", bound=power)
    memory = float(max(sizes)) if sizes else None
    yield from _gpu_chart(result, "Memory", lambda point: point.memory_used_bytes, binary_size, bound=memory)


def _gpu_chart(
    result: ProbeResult,
    title: str,
    read: Callable[[GpuPoint], float | None],
    write: Callable[[float], str],
    *,
    whole: float | None = None,
    bound: float | None = None,
) -> Iterator[Markup]:
    by_gpu: dict[int, list[tuple[float, float | None]]] = {}
    for point in result.gpu_timeline:
        by_gpu.setdefault(point.index, []).append((point.start_s, read(point)))
    values = [value for points in by_gpu.values() for _, value in points if value is not None]
    if not values:
        return
    highest = whole or max([*values, bound or 0.0])
    lines = [Curve(_curve_class(place), _thinned(points)) for place, points in enumerate(by_gpu.values())]
    times = [time for points in by_gpu.values() for time, _ in points]
    label = f"{title} over {seconds_text(max(times) - min(times))}: {write(min(values))} to {write(max(values))}"
    legend = _legend([_curve_label(place, f"GPU {index}") for place, index in enumerate(by_gpu)])
    caption = label if bound is None else f"{label}; the dashed line is the limit, {write(bound)}"
    plot = curves(lines, highest, label, bound=bound)
    first, last = (seconds_text(time) for time in (min(times), max(times)))
    yield chart(plot, write(highest), "0", first, last, caption, legend)


def _curve_class(place: int) -> str:
    return f"curve{place % COLOURS} dash{place // COLOURS % DASHES}"


def _curve_label(place: int, label: str) -> Markup:
    line = element("line", x1="0", x2="100%", y1="50%", y2="50%", class_=_curve_class(place))
    return element("span", element("svg", line, class_="swatch", aria_hidden="true"), label)


def _thinned(points: Sequence[tuple[float, float | None]]) -> tuple[tuple[float, float | None], ...]:
    """At most `MOST_POINTS` points, each the mean of its neighbours; a gap stays one."""
    size = -(-len(points) // MOST_POINTS)
    groups = (points[start : start + size] for start in range(0, len(points), size))
    return tuple((group[0][0], _mean([value for _, value in group])) for group in groups)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
