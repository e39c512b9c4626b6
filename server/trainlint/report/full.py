"""`--output-format full`: the source line with the flagged part underlined, why it is hot, and what to do."""

from __future__ import annotations

from collections.abc import Iterator

from trainlint.lint.finding import Applicability, Fix
from trainlint.lint.result import Reported, Result
from trainlint.report.paths import shown
from trainlint.report.style import SEVERITY_INK, Ink, Style, printable
from trainlint.report.view import View
from trainlint.report.width import display_width, expand_tabs

LONGEST_EXCERPT = 4
"""Rows of a longer span are left out in the middle."""
WIDEST_LINE = 160
"""Characters of a source line that are shown; a longer line is cut around what is flagged."""

_LONG_LINE = 10 * WIDEST_LINE

FIX_NOTES = {
    Applicability.SAFE: "safe: `--fix` applies it",
    Applicability.UNSAFE: "unsafe: `--fix --unsafe-fixes` applies it",
    Applicability.DISPLAY: "advice: to be done by hand",
}


def render(result: Result, view: View) -> Iterator[str]:
    style = Style(view.colour)
    for reported in result.findings:
        yield "\n".join([*_heading(reported, view, style), *_excerpt(reported, view, style)])
        yield "\n" + "".join(f"{line}\n" for line in _notes(reported, view, style)) + "\n"


def _heading(reported: Reported, view: View, style: Style) -> Iterator[str]:
    finding = reported.finding
    code = style.paint(finding.code, SEVERITY_INK[reported.severity])
    name = style.paint(finding.name, Ink.BOLD)
    yield f"{code} {name}: {printable(finding.message)}"
    level = f"({reported.severity.label}, {finding.confidence.label} confidence)"
    arrow = style.paint("-->", Ink.BLUE)
    yield f" {arrow} {view.place(reported)} {style.paint(level, Ink.FAINT)}"


def _excerpt(reported: Reported, view: View, style: Style) -> Iterator[str]:
    """The flagged rows, each with its flagged part underlined; nothing where the text cannot be read."""
    first, last = reported.location.row, reported.end_location.row
    rows: list[int | None] = list(range(first, last + 1))
    if len(rows) > LONGEST_EXCERPT:
        rows = [first, first + 1, None, last]
    gutter = len(str(last))
    bar = style.paint("|", Ink.BLUE)
    lines = []
    for row in rows:
        if row is None:
            lines.append(f"{'...':<{gutter}}")
            continue
        text = view.sources.line(reported.path, reported.cell, row)
        if not text.strip():
            continue
        code, underline = _underlined(text, *_flagged_part(reported, row, text))
        number = style.paint(f"{row:>{gutter}}", Ink.BLUE)
        lines.append(f"{number} {bar} {code}".rstrip())
        carets = style.paint(underline.lstrip(), SEVERITY_INK[reported.severity])
        lines.append(f"{' ' * gutter} {bar} {' ' * (len(underline) - len(underline.lstrip()))}{carets}")
    if lines:
        edge = f"{' ' * gutter} {bar}"
        yield from (edge, *lines, edge)


def _flagged_part(reported: Reported, row: int, text: str) -> tuple[int, int]:
    """Return where the finding starts and ends on this row, as character indexes from 0."""
    start = reported.location.column - 1 if row == reported.location.row else len(text) - len(text.lstrip())
    end = reported.end_location.column - 1 if row == reported.end_location.row else len(text.rstrip())
    return start, max(end, start + 1)


def _underlined(text: str, start: int, end: int) -> tuple[str, str]:
    """Return the line as it is shown and the carets below it, aligned by terminal columns."""
    # What is far off is left out before columns are counted, which takes time for a line of a megabyte.
    first = max(0, start - WIDEST_LINE) if len(text) > _LONG_LINE else 0
    last = start + 2 * WIDEST_LINE if len(text) > _LONG_LINE else len(text)
    ends_early = last < len(text)
    text, start, end = text[first:last], start - first, min(end, last) - first
    expanded, start_shown = expand_tabs(text, start)
    _, end_shown = expand_tabs(text, end)
    code = printable(expanded)
    cut = max(0, min(start_shown - 20, len(code) - WIDEST_LINE)) if len(code) > WIDEST_LINE else 0
    visible = code[cut : cut + WIDEST_LINE]
    before = display_width(visible[: start_shown - cut])
    flagged = visible[start_shown - cut : end_shown - cut]
    left = "... " if first or cut else ""
    right = " ..." if ends_early or cut + WIDEST_LINE < len(code) else ""
    return left + visible + right, " " * (len(left) + before) + "^" * max(1, display_width(flagged))


def _notes(reported: Reported, view: View, style: Style) -> Iterator[str]:
    context = reported.finding.context
    if context is not None:
        yield f"{style.paint('why:', Ink.BOLD)}  it {printable(context.why)}"
    yield from advice(reported, view, style)


def advice(reported: Reported, view: View, style: Style) -> Iterator[str]:
    """The other places that a finding names, what a run says of it, and what to do about it."""
    finding = reported.finding
    context = finding.context
    for related in finding.related:
        if context is None or related.site != context.loop:
            place = f"{printable(shown(related.site.path, view.root))}:{related.site.place}"
            yield f"{style.paint('see:', Ink.BOLD)}  {place}: {printable(related.message)}"
    if reported.verdict is not None:
        from trainlint.report.verdicts import phrase

        yield f"{style.paint('run:', Ink.BOLD)}  {printable(phrase(reported.verdict))}"
    if finding.help:
        yield f"{style.paint('help:', Ink.BOLD)} {printable(finding.help)}"
    if finding.fix is not None:
        first, *others = _fix_note(finding.fix)
        yield f"{style.paint('fix:', Ink.BOLD)}  {first}"
        yield from (f"      {line}".rstrip() for line in others)


def _fix_note(fix: Fix) -> list[str]:
    """What the fix does, and how far it goes; advice of several lines, code included, keeps its lines."""
    first, *others = [printable(line) for line in fix.message.splitlines()]
    level, colon, how = FIX_NOTES[fix.applicability].partition(":")
    because = f", since {printable(fix.because)}" if fix.because else ""
    return [f"{first} ({level}{because}{colon}{how})", *others]
