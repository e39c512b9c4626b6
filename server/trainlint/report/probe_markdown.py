"""A probe's result in Markdown, for a pull request, an issue or a job's summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from trainlint.probe.figures import NOT_MEASURED
from trainlint.probe.verdict import Status
from trainlint.report import probe_facts, probe_lines, probe_shares
from trainlint.report import probe_sections as sections
from trainlint.report.json_model import FindingJson
from trainlint.report.markdown_text import code, literal, prose
from trainlint.report.probe_changes import comparison_texts
from trainlint.report.probe_result import ProbeResult
from trainlint.report.verdicts import MEANINGS, evidence_lines, measured_phrase, measurement_text
from trainlint.report.view import View

if TYPE_CHECKING:
    from trainlint.report.probe_compare import Comparison


def render_markdown(result: ProbeResult, view: View, *, comparison: Comparison | None = None) -> str:
    """Return the report; what asks for nothing to be done is folded."""
    parts = [
        _head(result),
        _steps(result),
        _machine(result),
        _ranks(result),
        _lines(result, view),
        _findings(result, view),
        _runtime_findings(result, view),
        _comparison(comparison, view),
        _unmeasured(result),
        _next(result, view),
    ]
    return "\n\n".join(text for text in ("\n".join(part) for part in parts) if text) + "\n"


def _head(result: ProbeResult) -> Iterator[str]:
    yield f"## trainlint probe: {code(sections.command_text(result))}"
    yield ""
    yield f"**Bottleneck: {prose(sections.bottleneck_text(result))}**"
    yield ""
    yield from (f"- {prose(reason)}" for reason in result.bottleneck.why)
    yield f"- {prose(sections.steps_text(result))}"
    yield f"- {prose(sections.environment_text(result))}; measured by {literal(sections.sources_text(result))}"
    yield f"- {literal(sections.job_text(result))} {literal(sections.overhead_text(result))}".rstrip()


def _steps(result: ProbeResult) -> Iterator[str]:
    facts = list(probe_facts.step_facts(result))
    if facts:
        yield "### Steps"
        yield ""
        yield from _table(("step", "figure"), ((fact.name, fact.figure) for fact in facts))
    total = probe_shares.share_total(result)
    if total is None:
        return
    yield ""
    rows = [*probe_shares.share_rows(result), total]
    yield from _table(
        ("part of the step", "time", "share"), ((row.label, row.milliseconds, row.percent) for row in rows), figures=1
    )
    beside = probe_facts.facts_text(probe_facts.beside_facts(result))
    if beside:
        yield ""
        yield f"Beside these: {literal(beside)}"


def _machine(result: ProbeResult) -> Iterator[str]:
    for title, facts in probe_facts.machine_texts(result):
        yield f"- **{literal(title)}**: {literal(facts)}"


def _ranks(result: ProbeResult) -> Iterator[str]:
    if len(result.ranks) < 2:
        return
    yield "### Ranks"
    yield ""
    yield from _table(probe_facts.RANK_TITLES, map(probe_facts.rank_cells, result.ranks), figures=1)


def _lines(result: ProbeResult, view: View) -> Iterator[str]:
    if not result.lines:
        return
    yield "### Dearest lines"
    yield ""
    rows = (
        (
            code(probe_lines.line_place(line, view)),
            probe_lines.line_cost(line),
            probe_lines.line_share(line) or NOT_MEASURED,
            probe_lines.line_notes(line),
            _quoted(probe_lines.source_text(result, line.filename, None, line.row, view)),
        )
        for line in result.lines[: probe_lines.MOST_LINES]
    )
    yield from _table(("line", "per step", "share", "what", "source"), rows)
    if len(result.lines) > probe_lines.MOST_LINES:
        yield ""
        yield f"And {len(result.lines) - probe_lines.MOST_LINES} more, which the JSON lists."


def _quoted(source: str) -> str:
    return code(source) if source else ""


def _findings(result: ProbeResult, view: View) -> Iterator[str]:
    groups = list(sections.groups(result))
    yield "### Findings"
    yield ""
    if not groups:
        yield "None in the files that the run loaded."
    for status, findings in groups:
        word = sections.status_word(status)
        title = f"{len(findings)} {word}"
        meaning = sections.NO_VERDICT if status is None else MEANINGS[status]
        listed = findings if status is Status.CONFIRMED else findings[: sections.LONGEST_LIST]
        rows = list(_table(("place", "rule", "measured", "finding"), (_finding(one, view) for one in listed)))
        if len(listed) < len(findings):
            rows += ["", f"And {len(findings) - len(listed)} more, which the JSON lists."]
        if status is Status.CONFIRMED:
            yield from (f"**{title}** ({meaning})", "", *rows, "")
        else:
            yield from (f"<details><summary>{title} ({meaning})</summary>", "", *rows, "", "</details>", "")


def _finding(finding: FindingJson, view: View) -> tuple[str, ...]:
    verdict = None if finding.verdict is None else finding.verdict.verdict()
    address = sections.address(finding)
    linked = f"[{finding.code}]({address})" if address else literal(finding.code)
    told = [] if verdict is None else [*evidence_lines(verdict), verdict.note]
    return (
        code(sections.place(finding, view)),
        f"{linked} {literal(finding.name)}",
        NOT_MEASURED if verdict is None else measured_phrase(verdict).removeprefix("measured ") or NOT_MEASURED,
        "; ".join(prose(text) for text in (finding.message, *told) if text),
    )


def _runtime_findings(result: ProbeResult, view: View) -> Iterator[str]:
    if not result.runtime_findings:
        return
    yield "### Findings about the run"
    yield ""
    for finding in result.runtime_findings:
        place = sections.runtime_place(finding, view)
        where = f" at {code(place)}" if place else ""
        figures = "; ".join(measurement_text(one.measurement()) for one in finding.evidence)
        because = f" ({literal(figures)})" if figures else ""
        yield f"- **{finding.code} {literal(finding.name)}**{where}: {prose(finding.message)}{because}"


def _comparison(comparison: Comparison | None, view: View) -> Iterator[str]:
    if comparison is None:
        return
    yield f"### Compared with the run of {literal(comparison.earlier_started)}"
    yield ""
    yield from (f"- {prose(line)}" for line in comparison_texts(comparison, view))


def _unmeasured(result: ProbeResult) -> Iterator[str]:
    missing = result.environment.missing
    if not missing:
        return
    yield "### Not measured"
    yield ""
    yield from (f"- {literal(name)}: {prose(reason)}" for name, reason in missing.items())


def _next(result: ProbeResult, view: View) -> Iterator[str]:
    if not result.bottleneck.next:
        return
    yield "### What to do next"
    yield ""
    yield from (f"{number}. {prose(advice)}" for number, advice in enumerate(sections.advice(result, view), 1))


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]], *, figures: int | None = None) -> Iterator[str]:
    """A table; its columns from the one numbered `figures` stand right."""
    right = len(titles) if figures is None else figures
    yield f"| {' | '.join(titles)} |"
    yield f"| {' | '.join('---' if number < right else '---:' for number, _ in enumerate(titles))} |"
    yield from (f"| {' | '.join(row)} |" for row in rows)
