"""A probe's result as one HTML page that needs nothing else: no network, no script, readable on paper and by keyboard.

`probe_page.html` and `probe_page.css` beside this file are its frame and its look. All text goes through `markup`, and
the page's own policy forbids browsers to run or to load anything.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from trainlint import __version__
from trainlint.probe.figures import NOT_MEASURED, percent, seconds_text, signed_percent
from trainlint.probe.verdict import Status
from trainlint.report import probe_changes, probe_facts, probe_listing, probe_shares
from trainlint.report import probe_charts as charts
from trainlint.report import probe_sections as sections
from trainlint.report.json_model import FindingJson
from trainlint.report.markup import Markup, data_table, element, joined, text
from trainlint.report.probe_result import ProbeResult
from trainlint.report.verdicts import MEANINGS, evidence_lines, measured_phrase, measurement_text
from trainlint.report.view import View

if TYPE_CHECKING:
    from trainlint.report.probe_compare import Comparison

FRAME = Path(__file__).with_name("probe_page.html")
LOOK = Path(__file__).with_name("probe_page.css")


@dataclass(frozen=True, slots=True)
class _Section:
    id: str
    title: str
    body: tuple[Markup, ...]


def render_html(result: ProbeResult, view: View, *, comparison: Comparison | None = None) -> str:
    """Return the page. The source of lines comes from `view`, as far as it is what it was when the job ran."""
    style = LOOK.read_text("utf-8")
    shown = [section for section in _sections(result, view, comparison) if section.body]
    links = (element("li", element("a", section.title, href=f"#{section.id}")) for section in shown)
    return Template(FRAME.read_text("utf-8")).substitute(
        title=text(f"trainlint probe: {sections.command_text(result)}"),
        style=style,
        style_hash=f"sha256-{b64encode(sha256(style.encode()).digest()).decode()}",
        header=joined(_header(result), "\n"),
        navigation=joined(links, "\n"),
        main=joined((_section(section) for section in shown), "\n"),
        footer=element("p", f"Made by trainlint {__version__}. {sections.overhead_text(result)}"),
    )


def _section(section: _Section) -> Markup:
    heading = element("h2", section.title, id=f"{section.id}-title")
    return element("section", heading, *section.body, id=section.id, aria_labelledby=f"{section.id}-title")


def _sections(result: ProbeResult, view: View, comparison: Comparison | None) -> Iterator[_Section]:
    yield _Section("bottleneck", "Bottleneck", tuple(_bottleneck(result, view)))
    yield _Section("steps", "Steps", tuple(_steps(result)))
    yield _Section("shares", "Where a step goes", tuple(_shares(result)))
    yield _Section("findings", "Findings", tuple(_findings(result, view)))
    yield _Section("run", "Findings about the run", tuple(_runtime_findings(result, view)))
    yield _Section("lines", "Costs by line", tuple(probe_listing.listings(result, view)))
    yield _Section("gpu", "GPU", tuple(_gpu(result)))
    yield _Section("host", "Host and loader", tuple(_host(result)))
    yield _Section("ranks", "Ranks", tuple(_ranks(result)))
    if comparison is not None:
        yield _Section("comparison", "Compared with an earlier run", tuple(_comparison(comparison, view)))
    yield _Section("missing", "Not measured", tuple(_missing(result)))


def _header(result: ProbeResult) -> Iterator[Markup]:
    yield element("h1", "trainlint probe: ", element("code", sections.command_text(result)))
    yield element("p", sections.environment_text(result), class_="muted")
    measured = f"Measured by {sections.sources_text(result)}; started {result.started}. {sections.job_text(result)}"
    yield element("p", measured, class_="muted")


def _bottleneck(result: ProbeResult, view: View) -> Iterator[Markup]:
    heading = element("p", element("strong", sections.bottleneck_text(result)))
    yield element("div", heading, _list("ul", result.bottleneck.why), class_=f"verdict {result.bottleneck.kind}")
    if result.bottleneck.next:
        yield element("h3", "What to do next")
        yield _list("ol", sections.advice(result, view))


def _list(name: str, items: Iterable[str]) -> Markup:
    return element(name, *(element("li", item) for item in items))


def _steps(result: ProbeResult) -> Iterator[Markup]:
    yield element("p", sections.steps_text(result))
    yield from _tiles(probe_facts.step_facts(result))
    yield from charts.step_timeline(result)


def _tiles(facts: Iterable[probe_facts.Fact]) -> Iterator[Markup]:
    tiles = [element("div", element("dt", fact.name), element("dd", fact.figure)) for fact in facts]
    if tiles:
        yield element("dl", *tiles, class_="tiles")


def _shares(result: ProbeResult) -> Iterator[Markup]:
    rows, total = probe_shares.share_rows(result), probe_shares.share_total(result)
    if total is None:
        return
    yield charts.share_strip(rows)
    body = [_row(charts.labelled(row.field, row.label), *_figures(row.milliseconds, row.percent)) for row in rows]
    body.append(_row(total.label, *_figures(total.milliseconds, total.percent), class_="total"))
    yield data_table(("part", "time", "share"), body, "Parts of a regular step", figures=range(1, 3))
    yield from _tiles(probe_facts.beside_facts(result))


def _figures(*cells: str) -> Iterator[Markup]:
    return (element("td", cell, class_="figure") for cell in cells)


def _row(*cells: str, class_: str | None = None) -> Markup:
    """A row of a table; what is no cell yet becomes one."""
    made = (cell if cell.startswith("<td") and isinstance(cell, Markup) else element("td", cell) for cell in cells)
    return element("tr", *made, class_=class_)


def _findings(result: ProbeResult, view: View) -> Iterator[Markup]:
    groups = list(sections.groups(result))
    if not groups:
        yield element("p", "None in the files that the run loaded.")
    for status, findings in groups:
        meaning = sections.NO_VERDICT if status is None else MEANINGS[status]
        title = f"{len(findings)} {sections.status_word(status)} ({meaning})"
        table = data_table(
            ("place", "rule", "measured", "finding"),
            (_finding(finding, view) for finding in findings),
            f"Findings: {title}",
            class_="cards",
        )
        is_open = "" if status is Status.CONFIRMED else None
        yield element(
            "details", element("summary", title, class_=status.value if status else None), table, open=is_open
        )


def _finding(finding: FindingJson, view: View) -> Markup:
    verdict = None if finding.verdict is None else finding.verdict.verdict()
    address = sections.address(finding)
    rule = element("a", finding.code, href=address) if address else text(finding.code)
    told = [finding.message] if verdict is None else [finding.message, *evidence_lines(verdict), verdict.note]
    measured = "" if verdict is None else measured_phrase(verdict).removeprefix("measured ")
    return _row(
        probe_listing.place(sections.place(finding, view), finding.filename, finding.location.row, finding.cell),
        joined((rule, text(f" {finding.name}"))),
        element("td", measured or NOT_MEASURED, class_="figure"),
        element("td", *(element("p", one) for one in told if one)),
    )


def _runtime_findings(result: ProbeResult, view: View) -> Iterator[Markup]:
    if not result.runtime_findings:
        return
    rows = []
    for finding in result.runtime_findings:
        row = finding.location.row if finding.location else None
        where = sections.runtime_place(finding, view)
        told = [finding.message, *(measurement_text(one.measurement()) for one in finding.evidence)]
        rows.append(
            _row(
                f"{finding.code} {finding.name}",
                probe_listing.place(where, finding.filename, row, None) if where else text(NOT_MEASURED),
                element("td", *(element("p", one) for one in told)),
            )
        )
    yield data_table(("rule", "place", "finding"), rows, "What only a run shows", class_="cards")


def _gpu(result: ProbeResult) -> Iterator[Markup]:
    for use in result.gpu:
        facts = list(probe_facts.gpu_facts(result, use))
        if facts:
            yield element("h3", probe_facts.gpu_title(result, use))
            yield from _tiles(facts)
    yield from charts.gpu_curves(result)
    if any(use.util_mean is not None for use in result.gpu):
        yield element("p", probe_facts.GPU_NOTE, class_="muted")
    kernels = list(probe_facts.kernel_facts(result))
    if kernels:
        yield element("h3", probe_facts.DEVICE_WORK)
        yield from _tiles(kernels)


def _host(result: ProbeResult) -> Iterator[Markup]:
    for title, facts in (
        ("CPU and memory", list(probe_facts.cpu_facts(result))),
        ("Loader", list(probe_facts.loader_facts(result))),
    ):
        if facts:
            yield element("h3", title)
            yield from _tiles(facts)


def _ranks(result: ProbeResult) -> Iterator[Markup]:
    if len(result.ranks) < 2:
        return
    slowest = max((rank.median_s or 0.0 for rank in result.ranks), default=0.0)
    rows = [
        _row(
            *_figures(*probe_facts.rank_cells(rank)),
            charts.meter(rank.own_s if rank.own_s is not None else rank.median_s, slowest, "forward"),
        )
        for rank in result.ranks
    ]
    titles = (*probe_facts.RANK_TITLES, "own time")
    yield data_table(titles, rows, "Ranks side by side", figures=range(4))


def _comparison(comparison: Comparison, view: View) -> Iterator[Markup]:
    yield element("p", f"The earlier run started {comparison.earlier_started}.")
    yield _list("ul", probe_changes.headlines(comparison))
    rows = [
        _row(
            share.label,
            *_figures(*(_share(share.earlier, share.earlier_s), _share(share.now, share.now_s))),
            *_figures(signed_percent(share.now - share.earlier).replace(" %", " points")),
        )
        for share in comparison.shares
    ]
    if rows:
        yield data_table(
            ("part", "earlier", "now", "change of the share"),
            rows,
            "Parts of the step, earlier and now",
            figures=range(1, 4),
        )
    changes = list(probe_changes.changes(comparison, view))
    if changes:
        yield _list("ul", changes)


def _share(share: float, seconds: float | None) -> str:
    return percent(share) if seconds is None else f"{seconds_text(seconds)} ({percent(share)})"


def _missing(result: ProbeResult) -> Iterator[Markup]:
    missing = result.environment.missing
    if missing:
        rows = [_row(name, reason) for name, reason in missing.items()]
        yield data_table(("what", "why"), rows, "What was not measured, and why")
