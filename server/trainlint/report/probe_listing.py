"""What lines cost, beside their source: the part of the HTML report that shows code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trainlint.probe.figures import counted
from trainlint.probe.measured import LineCost
from trainlint.report import probe_lines
from trainlint.report import probe_sections as sections
from trainlint.report.json_model import FindingJson
from trainlint.report.markup import Markup, data_table, element, text
from trainlint.report.probe_charts import meter
from trainlint.report.probe_result import ProbeResult
from trainlint.report.verdicts import phrase
from trainlint.report.view import View

CONTEXT = 2
"""Rows shown before and after one that something is said of."""
MOST_FILES, MOST_ROWS = 20, 200
"""Files that are shown, the dearest first, and rows of each that something is said of."""
LONGEST_ROW = 240


@dataclass
class _File:
    """What is said of the rows of a file."""

    filename: str
    costs: dict[int, list[LineCost]] = field(default_factory=dict)
    findings: dict[int, list[FindingJson]] = field(default_factory=dict)

    @property
    def dearest_ms(self) -> float:
        return max((cost.ms_per_step or 0.0 for costs in self.costs.values() for cost in costs), default=0.0)

    @property
    def rows(self) -> list[int]:
        return sorted(self.costs.keys() | self.findings.keys())


def place(label: str, filename: str | None, row: int | None, cell: int | None) -> Markup:
    """A place in the code; the attributes tell an editor that shows the page where it leads."""
    return element(
        "code",
        label,
        data_filename=filename,
        data_row=None if row is None else str(row),
        data_cell=None if cell is None else str(cell),
    )


def listings(result: ProbeResult, view: View) -> Iterator[Markup]:
    """Each file that something was measured in, the dearest first."""
    files = _files(result)
    for file in files[:MOST_FILES]:
        yield from _listing(result, file, view)
    if len(files) > MOST_FILES:
        yield element("p", f"And {counted(len(files) - MOST_FILES, 'file')} more, which the JSON lists.")


def _files(result: ProbeResult) -> list[_File]:
    files: dict[str, _File] = {}
    for line in result.lines:
        files.setdefault(line.filename, _File(line.filename)).costs.setdefault(line.row, []).append(line)
    for finding in result.findings:
        if finding.cell is None and finding.verdict is not None:
            file = files.setdefault(finding.filename, _File(finding.filename))
            file.findings.setdefault(finding.location.row, []).append(finding)
    return sorted(files.values(), key=lambda file: (-file.dearest_ms, file.filename))


def _listing(result: ProbeResult, file: _File, view: View) -> Iterator[Markup]:
    name = sections.file_name(file.filename, view)
    yield element("h3", place(name, file.filename, file.rows[0], None))
    dearest = max((line.ms_per_step or 0.0 for line in result.lines), default=0.0)
    told = file.rows[:MOST_ROWS]
    body, previous = [], 0
    for row in _with_context(told, _row_count(file, view)):
        if previous and row > previous + 1:
            body.append(element("tr", element("td", "⋮", colspan="4"), class_="gap"))
        body.append(_row(result, file, row, view, dearest))
        previous = row
    titles = ("row", "per step", "", "source")
    yield data_table(titles, body, f"Costs in {name}", class_="code", captioned=False)
    if len(file.rows) > len(told):
        yield element("p", f"And {counted(len(file.rows) - len(told), 'row')} more, which the JSON lists.")


def _row_count(file: _File, view: View) -> int:
    document = view.sources.document(Path(file.filename))
    return max(file.rows) if document is None else document.index.rows


def _with_context(rows: list[int], last: int) -> list[int]:
    around = {near for row in rows for near in range(row - CONTEXT, row + CONTEXT + 1)}
    return sorted(row for row in around if 0 < row <= last or row in rows)


def _row(result: ProbeResult, file: _File, row: int, view: View, dearest: float) -> Markup:
    costs, findings = file.costs.get(row, []), file.findings.get(row, [])
    source = probe_lines.source_row(result, file.filename, None, row, view)
    shown = source if len(source) <= LONGEST_ROW else f"{source[:LONGEST_ROW]}…"
    measured = [cost.ms_per_step for cost in costs if cost.ms_per_step is not None]
    return element(
        "tr",
        element("td", str(row), class_="row"),
        element("td", *_lines(probe_lines.line_cost(cost) for cost in costs), class_="figure"),
        meter(max(measured, default=None), dearest, "data_wait"),
        element("td", element("div", shown), *_about(costs, findings)),
        class_="hot" if costs or findings else None,
    )


def _lines(texts: Iterator[str]) -> Iterator[Markup]:
    return (element("div", one) for one in texts)


def _about(costs: list[LineCost], findings: list[FindingJson]) -> Iterator[Markup]:
    """What is said of a row, below its source."""
    yield from (element("div", probe_lines.line_notes(cost), class_="about") for cost in costs)
    for finding in findings:
        if finding.verdict is not None:
            badge = element("span", phrase(finding.verdict.verdict()), class_=f"badge {finding.verdict.status}")
            yield element("div", text(f"{finding.code} {finding.name} "), badge, class_="about")
