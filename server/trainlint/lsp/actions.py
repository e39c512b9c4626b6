"""Code actions: what can be done about a finding, and the edits that do it, which are made once they are asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from lsprotocol import types

from trainlint.fixes.edits import TextEdit
from trainlint.fixes.recipe import Applicability, Fix
from trainlint.fixes.suppress import Silenced, comment_for, suppress
from trainlint.lint.finding import CANNOT_LINT
from trainlint.lint.result import Position, Reported
from trainlint.lsp.diagnostics import Shown
from trainlint.lsp.documents import Opened, OpenText
from trainlint.lsp.messages import RealizeAll, Realized, RealizeFix
from trainlint.lsp.session import Session
from trainlint.report.sources import PlacedEdit, placed, target_of
from trainlint.source.documents import Document

FIX_ALL = "source.fixAll.trainlint"
KINDS = (types.CodeActionKind.QuickFix, FIX_ALL)
EXPLAIN = "trainlint.explain"
_STAYS_AT_TOP = re.compile(r"#!.*|[ \t\f]*#.*?coding[:=].*")
_ABOUT_COMMENTS = frozenset({"TL003", "TL004"})


class Outdated(Exception):  # noqa: N818
    """The text changed since the action was offered."""


class What(StrEnum):
    """What an action does."""

    FIX = "fix"
    IGNORE_ON_LINE = "ignore-on-line"
    IGNORE_IN_FILE = "ignore-in-file"
    FIX_ALL = "fix-all"
    EXPLAIN = "explain"


@dataclass(frozen=True, slots=True)
class Offer:
    """An action that was offered for a version of a text; it travels as the action's data."""

    what: What
    uri: str
    version: int
    code: str = ""
    """The rule of the finding, for what is about one."""
    place: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Where it is shown: the first line and column, the last ones, in terms of the protocol."""

    @property
    def data(self) -> dict[str, object]:
        """As it travels."""
        return asdict(self)

    @classmethod
    def of(cls, data: Any) -> Offer:
        """Read the data of an action. Raises Outdated where it is none of ours."""
        try:
            return cls(What(data["what"]), str(data["uri"]), int(data["version"]), str(data["code"]), (*data["place"],))
        except (TypeError, KeyError, ValueError):
            raise Outdated from None


def are_asked_for(context: types.CodeActionContext) -> bool:
    """Whether a person waits for the actions, or a text is about to be saved, rather than the cursor having moved."""
    return context.only is not None or context.trigger_kind is types.CodeActionTriggerKind.Invoked


def offered(session: Session, params: types.CodeActionParams) -> Iterator[types.CodeAction]:
    """Yield what can be done about the findings in a range of a text, without what does it; nothing while the text is
    being checked."""
    uri = params.text_document.uri
    text, published = session.text(uri), session.published(uri)
    if text is None or published is None or not session.is_current(uri):
        return
    only = params.context.only
    if _is_wanted(types.CodeActionKind.QuickFix, only):
        for shown in published.of(uri):
            if _touch(shown.diagnostic.range, params.range):
                yield from _about(shown, uri, text.version)
    if _is_wanted(FIX_ALL, only) and any(_safe_fix(one) for one in published.shown):
        offer = Offer(What.FIX_ALL, uri, text.version)
        yield types.CodeAction("Fix all safe problems (trainlint)", kind=FIX_ALL, data=offer.data)


def _about(shown: Shown, uri: str, version: int) -> Iterator[types.CodeAction]:
    finding = shown.reported.finding
    code, fix = finding.code, finding.fix

    def action(title: str, what: What, *, preferred: bool | None = None) -> types.CodeAction:
        return types.CodeAction(
            title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[shown.diagnostic],
            is_preferred=preferred,
            data=Offer(what, uri, version, code, _place(shown)).data,
        )

    if fix is not None and shown.is_current and target_of(fix) == shown.reported.path:
        safe = fix.applicability is Applicability.SAFE
        yield action(f"{fix.message} ({code}{'' if safe else ', unsafe'})", What.FIX, preferred=safe or None)
    if shown.is_current and code not in CANNOT_LINT:
        yield action(f"Ignore {code} on this line", What.IGNORE_ON_LINE)
        if code not in _ABOUT_COMMENTS:
            yield action(f"Ignore {code} in this file", What.IGNORE_IN_FILE)
    yield action(f"Why is {code} reported?", What.EXPLAIN)


def command_of(action: types.CodeAction) -> types.Command | None:
    """The command of an action that is a command and no edit."""
    offer = Offer.of(action.data)
    return (
        types.Command(action.title, EXPLAIN, arguments=[{"code": offer.code}]) if offer.what is What.EXPLAIN else None
    )


async def resolved(session: Session, data: Any, *, versioned: bool) -> types.WorkspaceEdit:
    """The edit of an action that was offered; with `versioned`, it names the versions of the texts.

    Raises:
        Outdated: the text changed since then.
    """
    offer = Offer.of(data)
    opened, text = session.documents.get(offer.uri), session.text(offer.uri)
    if opened is None or text is None or text.version != offer.version or not session.is_current(offer.uri):
        raise Outdated
    edits = await _edits(session, opened, offer)
    if text.version != offer.version:
        raise Outdated
    return _workspace_edit(session, opened, edits, versioned=versioned)


async def _edits(session: Session, opened: Opened, offer: Offer) -> Iterable[PlacedEdit]:
    published = session.published(offer.uri)
    if published is None:
        raise Outdated
    if offer.what is What.FIX_ALL:
        fixes = tuple(fix for fix in map(_safe_fix, published.shown) if fix is not None)
        answer = await session.ask(RealizeAll(opened.path, fixes, opened.data))
        return answer.edits if isinstance(answer, Realized) else ()
    # Another file may have changed what is shown in this one.
    shown = next((one for one in published.of(offer.uri) if (one.code, _place(one)) == (offer.code, offer.place)), None)
    if shown is None:
        raise Outdated
    reported = shown.reported
    if offer.what is What.FIX:
        answer = await session.ask(RealizeFix(reported, opened.data))
        return answer.edits if isinstance(answer, Realized) else ()
    document = opened.document()
    if document is None:
        return ()
    if offer.what is What.IGNORE_ON_LINE:
        return placed(document, _ignore_on_line(document, reported))
    return placed(document, _ignore_in_file(document, reported.finding.code))


def _ignore_on_line(document: Document, reported: Reported) -> list[TextEdit]:
    finding = reported.finding
    row = finding.site.row
    silenced = Silenced(finding.code, finding.name, row, about_comment=finding.code in _ABOUT_COMMENTS)
    return suppress(document.index, [silenced], "")


def _ignore_in_file(document: Document, code: str) -> list[TextEdit]:
    """A row of its own, at the top, below what must stay there."""
    index = document.index
    row = 1
    while row <= 2 and _STAYS_AT_TOP.fullmatch(index.line(row)):
        row += 1
    start, _ = index.bounds(row)
    end = "\r\n" if "\r\n" in document.text else "\n"
    comment = comment_for([code], "", directive="ignore-file")
    return [TextEdit(start, start, comment + end)]


def _workspace_edit(
    session: Session, opened: Opened, edits: Iterable[PlacedEdit], *, versioned: bool
) -> types.WorkspaceEdit:
    by_text: dict[str, tuple[OpenText, list[types.TextEdit]]] = {}
    for edit in edits:
        text = opened.text_of(edit.cell)
        if text is not None:
            span = types.Range(_position(session, text, edit.location), _position(session, text, edit.end_location))
            by_text.setdefault(text.uri, (text, []))[1].append(types.TextEdit(span, edit.content))
    if not versioned:
        return types.WorkspaceEdit(changes={uri: changes for uri, (_, changes) in by_text.items()})
    return types.WorkspaceEdit(
        document_changes=[
            types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(text.uri, text.version), list(changes))
            for text, changes in by_text.values()
        ]
    )


def _position(session: Session, text: OpenText, position: Position) -> types.Position:
    column = session.units.of_line(text.index.line(position.row), position.column - 1)
    return types.Position(position.row - 1, column)


def _safe_fix(shown: Shown) -> Fix | None:
    fix = shown.reported.finding.fix
    is_safe = fix is not None and fix.applicability is Applicability.SAFE and target_of(fix) == shown.reported.path
    return fix if is_safe and shown.is_current else None


def _is_wanted(kind: str, only: Iterable[str] | None) -> bool:
    """Whether the client wants actions of a kind: it may name the kind, or one above it."""
    return only is None or any(kind == wanted or kind.startswith(f"{wanted}.") for wanted in only)


def _place(shown: Shown) -> tuple[int, int, int, int]:
    span = shown.diagnostic.range
    return span.start.line, span.start.character, span.end.line, span.end.character


def _touch(one: types.Range, other: types.Range) -> bool:
    return not (one.end < other.start or other.end < one.start)
