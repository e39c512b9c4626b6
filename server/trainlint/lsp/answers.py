"""What the client asks about a text: diagnostics, code actions, hovers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lsprotocol import types
from pygls.exceptions import JsonRpcContentModified

from trainlint.lsp import actions, figures, hovers
from trainlint.lsp.diagnostics import SOURCE, Shown
from trainlint.lsp.server import Server
from trainlint.lsp.session import result_id


def register_diagnostics(server: Server) -> None:
    """Register handlers that answer with diagnostics."""
    session = server.session
    told: set[str] = set()
    """What the client was told findings of. Of a file that is closed and gone it may keep these, and yet not name the
    file when it asks about the workspace: it has to be told that there are none."""
    options = types.DiagnosticOptions(identifier=SOURCE, inter_file_dependencies=True, workspace_diagnostics=True)

    @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, options)
    async def document_diagnostics(params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
        uri = params.text_document.uri
        published = await session.current(uri)
        shown = () if published is None else published.of(uri)
        if shown:
            told.add(uri)
        known = result_id(shown)
        if known == params.previous_result_id:
            return types.RelatedUnchangedDocumentDiagnosticReport(result_id=known)
        return types.RelatedFullDocumentDiagnosticReport([one.diagnostic for one in shown], result_id=known)

    @server.feature(types.WORKSPACE_DIAGNOSTIC)
    async def workspace_diagnostics(params: types.WorkspaceDiagnosticParams) -> types.WorkspaceDiagnosticReport:
        known = {one.uri: one.value for one in params.previous_result_ids}
        whole = await session.whole()
        closed = {uri for uri in told if session.text(uri) is None}
        by_uri: dict[str, list[Shown]] = {uri: [] for uri in closed.union(known)}
        for shown in whole:
            by_uri.setdefault(shown.uri, []).append(shown)
        told.difference_update(closed)
        told.update(shown.uri for shown in whole)
        return types.WorkspaceDiagnosticReport([_report(uri, by_uri[uri], known.get(uri)) for uri in sorted(by_uri)])

    def _report(uri: str, shown: list[Shown], known: str | None) -> types.WorkspaceDocumentDiagnosticReport:
        name = result_id(shown)
        text = session.text(uri)
        version = None if text is None else text.version
        if name == known:
            return types.WorkspaceUnchangedDocumentDiagnosticReport(uri=uri, result_id=name, version=version)
        items = [one.diagnostic for one in shown]
        return types.WorkspaceFullDocumentDiagnosticReport(uri=uri, items=items, result_id=name, version=version)


def register_code_actions(server: Server) -> None:
    """Register handlers that offer actions and make their edits."""
    session = server.session

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=list(actions.KINDS), resolve_provider=True),
    )
    async def code_actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        if actions.are_asked_for(params.context):
            await session.current(params.text_document.uri)
        return [await _as_the_client_takes_it(action) for action in actions.offered(session, params)]

    @server.feature(types.CODE_ACTION_RESOLVE)
    async def resolve(action: types.CodeAction) -> types.CodeAction:
        with outdated_told():
            action.command = actions.command_of(action)
        if action.command is None:
            action.edit = await _edit(action)
        return action

    async def _as_the_client_takes_it(action: types.CodeAction) -> types.CodeAction:
        """Leave to later what the client asks for later. A command stays within its action: Neovim 0.7 to 0.9 ask for
        the rest of whatever they were offered, which a command alone would have none of."""
        command = actions.command_of(action)
        if command is not None and "command" not in server.resolved_later:
            action.command = command
        if command is None and "edit" not in server.resolved_later:
            action.edit = await _edit(action)
        return action

    async def _edit(action: types.CodeAction) -> types.WorkspaceEdit:
        with outdated_told():
            return await actions.resolved(session, action.data, versioned=server.versions_edits)


@contextmanager
def outdated_told() -> Iterator[None]:
    """Tell the client that what it asks for is not, or no longer, on offer."""
    try:
        yield
    except actions.Outdated:
        raise JsonRpcContentModified("the text changed since this was offered") from None


def register_hovers(server: Server) -> None:
    """Register the handler of hovers."""

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        return hovers.hover(server.session, params)


def register_figures(server: Server) -> None:
    """Register handlers that show what a measured run says in the text itself."""
    session = server.session

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    async def code_lenses(params: types.CodeLensParams) -> list[types.CodeLens]:
        await session.current(params.text_document.uri)
        return list(figures.code_lenses(session, params.text_document.uri))

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
    def inlay_hints(params: types.InlayHintParams) -> list[types.InlayHint]:
        return list(figures.inlay_hints(session, params))
