"""What is shown over a finding or a suppression: the rule's page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from lsprotocol import types

from trainlint.lsp.diagnostics import Shown
from trainlint.lsp.documents import OpenText
from trainlint.lsp.session import Session
from trainlint.source.suppressions import Suppression, Suppressions

if TYPE_CHECKING:
    from trainlint.lint.registry import Registry


@lru_cache(maxsize=1)
def registry() -> Registry:
    """All rules. Loading them takes a while, the first time, which the start of the server does not wait for."""
    from trainlint.lint.registry import load_registry

    return load_registry()


def page(code_or_name: str) -> str | None:
    """The page of a rule, in Markdown; None where there is no such rule."""
    from trainlint.report.rule_page import page_of

    rule = registry().find(code_or_name)
    return None if rule is None else page_of(rule)


def hover(session: Session, params: types.HoverParams) -> types.Hover | None:
    """What there is to say about a place in a text."""
    uri, place = params.text_document.uri, params.position
    published, text = session.published(uri), session.text(uri)
    if published is None or text is None:
        return None
    covering = []
    if session.is_current(uri):
        covering = [one for one in published.of(uri) if _covers(one.diagnostic.range, place)]
    pages = dict.fromkeys([*map(_verdict_of, covering), *(page(one.code) for one in covering)])
    spans = [one.diagnostic.range for one in covering]
    suppression = _suppression_at(session, text, place)
    if suppression is not None:
        named = [found for pattern in suppression.patterns if (found := page(pattern)) is not None]
        pages |= dict.fromkeys(named or [_says(suppression)])
        spans.append(session.units.range(text.index, *text.index.offsets(suppression.span)))
    return _hover([one for one in pages if one is not None], spans)


def _verdict_of(shown: Shown) -> str | None:
    """What a measured run says about a finding."""
    verdict = shown.reported.verdict
    if verdict is None:
        return None
    from trainlint.report.verdicts import evidence_lines, phrase

    head = phrase(verdict)
    lines = [f"**{head[0].upper()}{head[1:]}** ({shown.code})", "", *(f"- {line}" for line in evidence_lines(verdict))]
    if verdict.note and verdict.note not in head:
        lines += ["", f"{verdict.note[0].upper()}{verdict.note[1:]}."]
    return "\n".join(lines)


def _suppression_at(session: Session, text: OpenText, place: types.Position) -> Suppression | None:
    line = text.index.line(place.line + 1)
    if "trainlint" not in line and "noqa" not in line.lower():
        return None
    offset = session.units.offset(text.index, place)
    for suppression in Suppressions.parse(text.text, text.index).all:
        start, end = text.index.offsets(suppression.span)
        if start <= offset <= end:
            return suppression
    return None


def _says(suppression: Suppression) -> str:
    return f"Silences what trainlint says under `{', '.join(suppression.patterns) or 'any rule'}`."


def _hover(pages: Sequence[str], spans: Sequence[types.Range]) -> types.Hover | None:
    if not pages:
        return None
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, "\n\n---\n\n".join(pages)), spans[0])


def _covers(span: types.Range, place: types.Position) -> bool:
    return span.start <= place <= span.end
