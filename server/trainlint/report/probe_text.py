"""A probe's result as people read it at a terminal: with or without colour, in any width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trainlint.probe.verdict import Status
from trainlint.report import probe_facts, probe_lines, probe_shares
from trainlint.report import probe_sections as sections
from trainlint.report.json_model import FindingJson
from trainlint.report.probe_changes import comparison_texts
from trainlint.report.probe_result import ProbeResult, RuntimeFindingJson
from trainlint.report.style import printable
from trainlint.report.verdicts import MEANINGS, evidence_lines, measured_phrase, measurement_text
from trainlint.report.view import View

if TYPE_CHECKING:
    from trainlint.report.probe_compare import Comparison

NARROWEST = 30
WIDEST_BAR = 40
_WIDTH_BESIDE_A_BAR = 46

_STATUS_STYLES = {
    Status.CONFIRMED: "bold red",
    Status.INCONCLUSIVE: "yellow",
    Status.REFUTED: "green",
    Status.NOT_EXERCISED: "cyan",
}
_SEVERITY_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold blue", "hint": "bold cyan"}
_PLAIN = str.maketrans({"█": "#", "—": "-", "…": "..."})


def render_text(
    result: ProbeResult,
    view: View,
    *,
    width: int = 80,
    encoding: str = "utf-8",
    comparison: Comparison | None = None,
) -> str:
    """Return the report. `width` is that of the terminal in columns, `encoding` what it can show."""
    page = _Page(view, max(width, NARROWEST))
    _head(page, result)
    _bottleneck(page, result)
    _steps(page, result)
    _machine(page, result)
    _ranks(page, result)
    _lines(page, result)
    _findings(page, result)
    _runtime_findings(page, result)
    if comparison is not None:
        _comparison(page, comparison)
    _unmeasured(page, result)
    _next(page, result)
    text = page.text()
    try:
        "█—…".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return text.translate(_PLAIN)
    return text


class _Page:
    """What is written, line by line."""

    def __init__(self, view: View, width: int) -> None:
        self.view = view
        self.width = width
        self._out = StringIO()
        self._console = Console(
            file=self._out,
            width=width,
            force_terminal=view.colour,
            color_system="standard" if view.colour else None,
            no_color=not view.colour,
            legacy_windows=False,
            markup=False,
            emoji=False,
            highlight=False,
        )

    def heading(self, title: str, rest: str = "") -> None:
        self.line()
        self.line(title, style="bold", rest=rest)

    def line(self, text: str = "", *, indent: int = 0, style: str = "", rest: str = "") -> None:
        """Write a line, wrapped where it is too long; `rest` follows it without the style."""
        whole = Text(overflow="fold")
        whole.append(text, style)
        whole.append(rest)
        self._console.print(Padding(whole, (0, 0, 0, min(indent, self.width // 4))))

    def facts(self, facts: Iterable[probe_facts.Fact], *, indent: int = 2) -> None:
        """Figures on as few lines as they take."""
        listed = probe_facts.facts_text(facts)
        if listed:
            self.line(listed, indent=indent)

    def table(self, table: Table, *, indent: int = 2) -> None:
        self._console.print(Padding(table, (0, 0, 0, indent)))

    def text(self) -> str:
        return "".join(f"{line.rstrip()}\n" for line in self._out.getvalue().splitlines()).lstrip("\n")


def _plain_table(*columns: tuple[str, bool]) -> Table:
    """A table without lines; each column has a title and is for figures, which stand right, or not."""
    table = Table(box=None, pad_edge=False, show_header=any(title for title, _ in columns), header_style="none")
    for title, figures in columns:
        table.add_column(title, justify="right" if figures else "left", overflow="fold")
    return table


def _head(page: _Page, result: ProbeResult) -> None:
    page.line("trainlint probe: ", style="bold", rest=sections.command_text(result))
    page.line(sections.environment_text(result), indent=2)
    page.line(f"measured by {sections.sources_text(result)}; started {printable(result.started)}", indent=2)
    overhead = sections.overhead_text(result)
    page.line(f"{sections.job_text(result)} {overhead}".rstrip(), indent=2)


def _bottleneck(page: _Page, result: ProbeResult) -> None:
    page.heading("Bottleneck: ", sections.bottleneck_text(result))
    for reason in result.bottleneck.why:
        page.line(printable(reason), indent=2)


def _steps(page: _Page, result: ProbeResult) -> None:
    page.heading("Steps: ", sections.steps_text(result))
    page.facts(probe_facts.step_facts(result))
    rows = probe_shares.share_rows(result)
    total = probe_shares.share_total(result)
    if total is None:
        page.line("where the time of a step goes was not measured", indent=2)
        return
    page.line()
    room = min(WIDEST_BAR, page.width - _WIDTH_BESIDE_A_BAR)
    table = _plain_table(("", False), ("", True), ("", True), ("", False))
    longest = max((row.share or 0.0 for row in rows), default=0.0) or 1.0
    for row in rows:
        bar = "█" * round((row.share or 0.0) / longest * room) if room >= 5 else ""
        table.add_row(row.label, row.milliseconds, row.percent, bar)
    table.add_row(total.label, total.milliseconds, total.percent, "")
    page.table(table)
    beside = probe_facts.facts_text(probe_facts.beside_facts(result))
    if beside:
        page.line(f"beside these: {beside}", indent=2)


def _machine(page: _Page, result: ProbeResult) -> None:
    for title, facts in probe_facts.machine_texts(result):
        page.heading(f"{title}: ", facts)
    if any(use.util_mean is not None for use in result.gpu):
        page.line(probe_facts.GPU_NOTE, indent=2, style="dim")


def _ranks(page: _Page, result: ProbeResult) -> None:
    if len(result.ranks) < 2:
        return
    page.heading("Ranks")
    table = _plain_table(*((title, True) for title in probe_facts.RANK_TITLES))
    for rank in result.ranks:
        table.add_row(*probe_facts.rank_cells(rank))
    page.table(table)


def _lines(page: _Page, result: ProbeResult) -> None:
    if not result.lines:
        return
    page.heading("Dearest lines", " (per step)" if result.steps.measured else "")
    for line in result.lines[: probe_lines.MOST_LINES]:
        cost = ", ".join(part for part in (probe_lines.line_cost(line), probe_lines.line_share(line)) if part)
        page.line(
            f"{probe_lines.line_place(line, page.view)} ",
            indent=2,
            style="bold",
            rest=f"{cost} ({probe_lines.line_notes(line)})",
        )
        source = probe_lines.source_text(result, line.filename, None, line.row, page.view)
        if source:
            page.line(_cut(source, page.width - 6), indent=6, style="dim")
    _rest(page, len(result.lines) - probe_lines.MOST_LINES)


def _findings(page: _Page, result: ProbeResult) -> None:
    groups = list(sections.groups(result))
    if not groups:
        page.heading("Findings: ", "none in the files that the run loaded")
        return
    counts = ", ".join(f"{len(findings)} {sections.status_word(status)}" for status, findings in groups)
    page.heading("Findings: ", counts)
    for status, findings in groups:
        page.line()
        meaning = sections.NO_VERDICT if status is None else MEANINGS[status]
        style = "" if status is None else _STATUS_STYLES[status]
        page.line(sections.status_word(status), style=style, rest=f" ({meaning})")
        listed = findings if status is Status.CONFIRMED else findings[: sections.LONGEST_LIST]
        for finding in listed:
            _finding(page, result, finding, style)
        _rest(page, len(findings) - len(listed))


def _finding(page: _Page, result: ProbeResult, finding: FindingJson, style: str) -> None:
    verdict = None if finding.verdict is None else finding.verdict.verdict()
    measured = "" if verdict is None else measured_phrase(verdict)
    whole = f" {finding.name}" + (f" — {measured}" if measured else "")
    page.line(f"{sections.place(finding, page.view)} {finding.code}", indent=2, style=style, rest=whole)
    if verdict is None or verdict.status in (Status.CONFIRMED, Status.INCONCLUSIVE):
        page.line(printable(finding.message), indent=6)
    if verdict is None:
        return
    if verdict.status is Status.CONFIRMED:
        source = probe_lines.source_text(result, finding.filename, finding.cell, finding.location.row, page.view)
        if source:
            page.line(_cut(source, page.width - 6), indent=6, style="dim")
    evidence = "; ".join(evidence_lines(verdict))
    for text in (evidence, verdict.note):
        if text:
            page.line(printable(text), indent=6)


def _runtime_findings(page: _Page, result: ProbeResult) -> None:
    if not result.runtime_findings:
        return
    page.heading("Findings about the run")
    for finding in result.runtime_findings:
        for number, text in enumerate(_runtime_lines(finding, page.view)):
            if number == 0:
                style = _SEVERITY_STYLES[finding.severity]
                page.line(finding.code, indent=2, style=style, rest=text)
            else:
                page.line(text, indent=6)


def _runtime_lines(finding: RuntimeFindingJson, view: View) -> Iterator[str]:
    place = sections.runtime_place(finding, view)
    yield f" {finding.name}" + (f" at {place}" if place else "")
    yield printable(finding.message)
    if finding.evidence:
        yield printable("; ".join(measurement_text(one.measurement()) for one in finding.evidence))


def _comparison(page: _Page, comparison: Comparison) -> None:
    page.heading("Compared with the run of ", printable(comparison.earlier_started))
    for line in comparison_texts(comparison, page.view):
        page.line(line, indent=2)


def _unmeasured(page: _Page, result: ProbeResult) -> None:
    missing = result.environment.missing
    if not missing:
        return
    page.heading("Not measured")
    for name, reason in missing.items():
        page.line(f"{printable(name)}: ", indent=2, style="bold", rest=printable(reason))


def _next(page: _Page, result: ProbeResult) -> None:
    if not result.bottleneck.next:
        return
    page.heading("What to do next")
    for number, advice in enumerate(sections.advice(result, page.view), 1):
        page.line(f"{number}. {advice}", indent=2)


def _rest(page: _Page, count: int) -> None:
    if count > 0:
        page.line(f"and {count} more, which the JSON lists", indent=2)


def _cut(source: str, width: int) -> str:
    return source if len(source) <= width else f"{source[: max(width - 1, 1)]}…"
