"""What a measured run shows in the text itself: costs at the ends of lines, and lenses over step loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from trainlint.lsp.documents import is_notebook
from trainlint.lsp.evidence import FileEvidence
from trainlint.lsp.session import Session
from trainlint.probe.figures import counted

if TYPE_CHECKING:
    from trainlint.probe.measured import LineCost
    from trainlint.report.probe_result import ProbeResult

PROBE = "trainlint.probe"
OPEN_REPORT = "trainlint.openReport"


def inlay_hints(session: Session, params: types.InlayHintParams) -> Iterator[types.InlayHint]:
    """Yield what lines in a range cost, where they are still those that ran."""
    uri, span = params.text_document.uri, params.range
    opened, text = session.documents.get(uri), session.text(uri)
    evidence = None if opened is None or is_notebook(opened.path) else session.evidence.of(opened.path)
    if text is None or evidence is None:
        return
    from trainlint.report.probe_lines import line_figure

    rows = evidence.rows_in(text.index)
    by_row: dict[int, list[LineCost]] = {}
    for cost in evidence.costs:
        row = rows.get(cost.row)
        if row is not None and span.start.line <= row - 1 <= span.end.line and line_figure(cost):
            by_row.setdefault(row, []).append(cost)
    for row, costs in sorted(by_row.items()):
        line = text.index.line(row)
        place = types.Position(row - 1, session.units.of_line(line, len(line)))
        yield types.InlayHint(place, _label(costs), tooltip=_tooltip(evidence, costs), padding_left=True)


def _label(costs: Sequence[LineCost]) -> str:
    from trainlint.report.probe_lines import line_figure

    if len(costs) == 1:
        return f"{line_figure(costs[0])} ms/step{' in workers' if costs[0].in_workers else ''}"
    return ", ".join(f"{cost.what} {line_figure(cost)}" for cost in costs) + " ms/step"


def _tooltip(evidence: FileEvidence, costs: Sequence[LineCost]) -> types.MarkupContent:
    lines = [*(f"- {_explained(cost)}" for cost in costs), "", _when(evidence.result)]
    return types.MarkupContent(types.MarkupKind.Markdown, "\n".join(lines))


def _explained(cost: LineCost) -> str:
    from trainlint.report.probe_lines import line_cost, line_notes, line_share

    share = line_share(cost)
    figures = f"{line_cost(cost)} per step{f', {share} of the step' if share else ''}"
    return f"{line_notes(cost)}: {figures} ({cost.source})"


def _when(result: ProbeResult) -> str:
    return f"Measured over {counted(result.steps.measured, 'step')} of a run on {result.started}."


def code_lenses(session: Session, uri: str) -> Iterator[types.CodeLens]:
    """Yield what can be done at the step loops of a text, and what is known about them."""
    opened, text = session.documents.get(uri), session.text(uri)
    if opened is None or text is None:
        return
    evidence = session.evidence.of(opened.path)
    rows = frozenset() if evidence is None else frozenset(evidence.rows_in(text.index).values())
    for loop in session.loops(uri):
        if loop.uri != uri:
            continue
        place = types.Range(types.Position(loop.row - 1, 0), types.Position(loop.row - 1, 0))
        if session.trusted and not is_notebook(loop.entry):
            yield types.CodeLens(place, _probing(loop.entry, opened.path))
        if evidence is not None and loop.row in rows and evidence.is_of(loop.entry):
            yield types.CodeLens(place, types.Command(step_text(evidence.result), OPEN_REPORT, arguments=[{}]))


def _probing(entry: Path, path: Path) -> types.Command:
    title = "Probe this script" if entry == path else f"Probe {entry.name}"
    return types.Command(title, PROBE, arguments=[{"uri": entry.as_uri()}])


def summary(result: ProbeResult) -> str:
    """`39.7 ms per step, bottleneck: data (61 %); findings: 1 confirmed, 2 refuted`."""
    statuses = Counter(one.verdict.status for one in result.findings if one.verdict is not None)
    counts = [f"{statuses[status]} {status}" for status in ("confirmed", "refuted") if statuses[status]]
    return f"{step_text(result)}; findings: {', '.join(counts)}" if counts else step_text(result)


def step_text(result: ProbeResult) -> str:
    """`39.7 ms per step, bottleneck: data (61 %)`."""
    from trainlint.probe.figures import milliseconds, percent

    steps, bottleneck = result.steps, result.bottleneck
    time = "no step was timed" if steps.median_s is None else f"{milliseconds(steps.median_s)} per step"
    share = f" ({percent(bottleneck.score)})" if bottleneck.score else ""
    return f"{time}, bottleneck: {bottleneck.kind}{share}"
