"""The language server: handlers that turn the protocol's messages into calls of the session, and back.

All of them are quick, or wait for the analysis process without holding up the others.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import sys
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any
from uuid import uuid4

from lsprotocol import types
from pygls import uris
from pygls.exceptions import JsonRpcContentModified, JsonRpcException, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from trainlint import __version__
from trainlint.lsp import actions, hovers
from trainlint.lsp.analysis import Analysis
from trainlint.lsp.diagnostics import SOURCE, Shown
from trainlint.lsp.documents import Opened, OpenFile, OpenNotebook, OpenText, Units, is_notebook
from trainlint.lsp.messages import Progress
from trainlint.lsp.protocol import Protocol
from trainlint.lsp.session import NO_FOLDER, Folder, Published, Session, result_id
from trainlint.lsp.settings import SECTION, Settings, SettingsError, Start
from trainlint.lsp.watching import watch

_LOG = logging.getLogger(__name__)
_WATCHED = (
    "**/*.py",
    "**/*.ipynb",
    "**/trainlint.toml",
    "**/pyproject.toml",
    "**/*requirements*.txt",
    "**/requirements/*.txt",
    "**/setup.cfg",
    "**/.gitignore",
    "**/.git/HEAD",
)
"""Files whose changes on disk may change what is found. One pattern each, since not every client knows patterns within
braces."""
_EDITS_BETWEEN = 100
_PATIENCE_S = 10.0
"""How long to wait for what a client should answer at once."""
_PROGRESS_FROM = 20
"""Files to parse from which on a check is worth telling about."""


class Server(LanguageServer):
    """The server; the session's client."""

    def __init__(self, analysis: Analysis) -> None:
        notebooks = types.NotebookDocumentFilterWithNotebook(
            notebook=types.NotebookDocumentFilterNotebookType(notebook_type="jupyter-notebook"),
            cells=[types.NotebookCellLanguage(language="python")],
        )
        super().__init__(
            SOURCE,
            __version__,
            protocol_cls=Protocol,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            notebook_document_sync=types.NotebookDocumentSyncOptions(notebook_selector=[notebooks], save=True),
        )
        self.session = Session(self, analysis)
        self.start_options = Start()
        self.told_settings: Any = None
        """The settings that the client last told of by itself, for all folders."""
        self.tasks: set[asyncio.Task[Any]] = set()
        self._edits = 0
        self._progress_token: str | None = None

    # ------------------------------------------------------------------------------------ what the session tells

    def show(self, opened: Opened, before: Published | None, now: Published) -> None:
        if before == now:
            return
        if not self.pulls:
            for text in opened.texts:
                self._publish(text, now.of(text.uri))
        elif before is not None and before.versions == now.versions:
            # The client asks by itself where it changed a text; here something else changed what is found in it.
            self.refresh_diagnostics()

    def complain(self, message: str) -> None:
        self.window_show_message(types.ShowMessageParams(types.MessageType.Error, message))

    def tell_progress(self, progress: Progress | None) -> None:
        window = self.client_capabilities.window
        if window is None or not window.work_done_progress:
            return
        if progress is None:
            if self._progress_token is not None:
                self.work_done_progress.end(self._progress_token, types.WorkDoneProgressEnd())
                self._progress_token = None
        elif self._progress_token is not None:
            share = 100 * progress.done // progress.total
            report = types.WorkDoneProgressReport(
                message=f"{progress.done} of {progress.total} files", percentage=share
            )
            self.work_done_progress.report(self._progress_token, report)
        elif progress.total >= _PROGRESS_FROM and progress.done < progress.total:
            self._progress_token = token = f"trainlint-{uuid4()}"
            self.work_done_progress.create(token)
            begin = types.WorkDoneProgressBegin("trainlint: reading the project", percentage=0, cancellable=False)
            self.work_done_progress.begin(token, begin)

    # -------------------------------------------------------------------------------------- what the client can do

    @property
    def pulls(self) -> bool:
        """Whether the client asks for diagnostics."""
        text_document = self.client_capabilities.text_document
        return text_document is not None and text_document.diagnostic is not None

    @property
    def versions_edits(self) -> bool:
        """Whether edits may name the versions of the texts that they are for."""
        workspace = self.client_capabilities.workspace
        return bool(workspace and workspace.workspace_edit and workspace.workspace_edit.document_changes)

    @property
    def resolved_later(self) -> Sequence[str]:
        """The parts of an action that the client asks for once it is chosen."""
        text_document = self.client_capabilities.text_document
        support = text_document and text_document.code_action and text_document.code_action.resolve_support
        return support.properties if support else ()

    def note_edit(self) -> None:
        """Let go, now and then, of what pygls keeps of each notification that it has handled."""
        self._edits += 1
        if self._edits % _EDITS_BETWEEN == 0:
            futures = getattr(self.protocol, "_request_futures", {})
            for number in [number for number, future in futures.items() if future.done()]:
                del futures[number]

    @property
    def has_shut_down(self) -> bool:
        """Whether the client has announced the end, as it should."""
        assert isinstance(self.protocol, Protocol)
        return self.protocol.has_shut_down

    def refresh_diagnostics(self) -> None:
        """Have the client ask again."""
        workspace = self.client_capabilities.workspace
        if workspace and workspace.diagnostics and workspace.diagnostics.refresh_support:
            self.workspace_diagnostic_refresh(None)

    def start_task(self, task: Any) -> None:
        """Let something run beside the handlers."""
        running = asyncio.ensure_future(task)
        self.tasks.add(running)
        running.add_done_callback(self._end_task)

    async def read_settings(self) -> None:
        """Have the settings of each folder, from the client if it can be asked."""
        folders = list(self.session.folders.values())
        answers = await self._ask_settings(folders)
        self.settle(
            (folder, self.told_settings if answer is None else answer)
            for folder, answer in zip_longest(folders, answers[: len(folders)])
        )

    async def _ask_settings(self, folders: Sequence[Folder]) -> Sequence[Any]:
        """What the client answers when it is asked for the settings of folders; nothing where it cannot be asked."""
        workspace = self.client_capabilities.workspace
        if not (workspace and workspace.configuration):
            return ()
        items = [types.ConfigurationItem(scope_uri=folder.uri or None, section=SECTION) for folder in folders]
        try:
            return await _answer(self.workspace_configuration_async(types.ConfigurationParams(items))) or ()
        except _Unanswered as error:
            _LOG.warning("the client does not say what the settings are: %s", error)
            return ()

    def settle(self, given: Iterable[tuple[Folder, Any]]) -> None:
        """Use settings for folders, or say what is wrong with them, each thing once."""
        wrong: dict[str, None] = {}
        for folder, settings in given:
            try:
                self.session.settle(folder, Settings.of(settings))
            except SettingsError as error:
                wrong[str(error)] = None
        for message in wrong:
            self.complain(f"trainlint: {message}; until it is mended, the settings from before are used")

    def _publish(self, text: OpenText, shown: Iterable[Shown]) -> None:
        diagnostics = [one.diagnostic for one in shown]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(text.uri, diagnostics, text.version))

    def _end_task(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a task of the server failed", exc_info=error)
            self.complain(f"trainlint: internal error: {error}; the log has more, and restarting the server helps")


def make_server(analysis: Analysis) -> Server:
    """A server that uses the given analysis process, which has been started."""
    server = Server(analysis)
    for register in (_lifecycle, _synchronization, _diagnostics, _code_actions, _hovers, _commands):
        register(server)
    return server


# ------------------------------------------------------------------------------------------------------------ lifecycle


def _lifecycle(server: Server) -> None:
    session = server.session

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        session.units = Units(server.workspace.position_encoding)
        server.start_options = Start.of(params.initialization_options)
        server.told_settings = server.start_options.settings
        session.trusted = server.start_options.trusted
        for uri, path in _folders(params):
            session.add_folder(uri, path)

    @server.feature(types.INITIALIZED)
    async def initialized(params: types.InitializedParams) -> None:
        session.analysis.listen()
        server.start_task(asyncio.to_thread(hovers.registry))
        server.start_task(_have_changes_told(server))
        await server.read_settings()
        server.start_task(session.run())

    @server.feature(types.SHUTDOWN)
    def shutdown(params: None) -> None:
        session.analysis.close()

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    async def change_folders(params: types.DidChangeWorkspaceFoldersParams) -> None:
        for removed in params.event.removed:
            session.remove_folder(removed.uri)
        for added in params.event.added:
            if (path := _path(added.uri)) is not None:
                session.add_folder(added.uri, path)
        await server.read_settings()

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def change_configuration(params: types.DidChangeConfigurationParams) -> None:
        if isinstance(params.settings, dict) and params.settings:
            server.told_settings = params.settings.get(SECTION, params.settings)
        await server.read_settings()

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def change_files(params: types.DidChangeWatchedFilesParams) -> None:
        paths = [path for change in params.changes if (path := _path(change.uri)) is not None]
        session.changed_on_disk(paths)


async def _have_changes_told(server: Server) -> None:
    """Ask the client to tell of changes on disk, and of settings; look after the disk ourselves where it does not."""
    workspace = server.client_capabilities.workspace
    watching = workspace and workspace.did_change_watched_files
    is_watched = False
    if watching and watching.dynamic_registration:
        watchers = [types.FileSystemWatcher(glob_pattern=pattern) for pattern in _WATCHED]
        options: Any = types.DidChangeWatchedFilesRegistrationOptions(watchers=watchers)
        is_watched = await _register(server, types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
    if not is_watched:
        server.start_task(watch(server.session))
    configuring = workspace and workspace.did_change_configuration
    if configuring and configuring.dynamic_registration:
        options = types.DidChangeConfigurationRegistrationOptions(section=SECTION)
        await _register(server, types.WORKSPACE_DID_CHANGE_CONFIGURATION, options)


async def _register(server: Server, method: str, options: Any) -> bool:
    """Have the client tell us of something; whether it agreed."""
    registration = types.Registration(str(uuid4()), method, options)
    try:
        await _answer(server.client_register_capability_async(types.RegistrationParams([registration])))
    except _Unanswered as error:
        _LOG.warning("the client refuses %s: %s", method, error)
        return False
    return True


class _Unanswered(Exception):  # noqa: N818
    """The client cannot answer, or does not."""


async def _answer(answer: Awaitable[Any]) -> Any:
    """What the client answers. Raises _Unanswered where it does not within some time, or with an error."""
    try:
        return await asyncio.wait_for(answer, _PATIENCE_S)
    except TimeoutError:
        raise _Unanswered(f"no answer within {_PATIENCE_S:g} s") from None
    except JsonRpcException as error:
        raise _Unanswered(str(error)) from None


def _folders(params: types.InitializeParams) -> Iterable[tuple[str, Path]]:
    """The folders that the client starts with."""
    folders = [folder.uri for folder in params.workspace_folders or ()]
    if not folders and params.root_uri:
        folders = [params.root_uri]
    return [(uri, path) for uri in folders if (path := _path(uri)) is not None]


def _path(uri: str) -> Path | None:
    """The absolute path of a file address; None for what is not in a file, or in none that this system could have, as
    with the letter of a drive where there are no drives."""
    path = uris.to_fs_path(uri)
    if path is None or uris.urlparse(uri)[0] != "file" or "\0" in path or not os.path.isabs(path):  # noqa: PTH117
        return None
    return Path(os.path.abspath(path))  # noqa: PTH100


# ------------------------------------------------------------------------------------------------------ synchronization


def _synchronization(server: Server) -> None:
    session = server.session

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def open_file(params: types.DidOpenTextDocumentParams) -> None:
        item = params.text_document
        path = _path(item.uri) or _place_of_unsaved(server, item.uri)
        if item.language_id == "python" or path.suffix == ".py":
            opened = OpenFile(item.uri, path, item.version, item.text)
            session.documents.open(opened)
            session.changed(opened)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def change_file(params: types.DidChangeTextDocumentParams) -> None:
        opened = session.documents.get(params.text_document.uri)
        if isinstance(opened, OpenFile):
            opened.change(params.content_changes, params.text_document.version, session.units)
            session.changed(opened)
            server.note_edit()

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def save_file(params: types.DidSaveTextDocumentParams) -> None:
        opened = session.documents.get(params.text_document.uri)
        if opened is not None:
            session.changed(opened)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def close_file(params: types.DidCloseTextDocumentParams) -> None:
        _close(params.text_document.uri)

    def _close(uri: str) -> None:
        opened = session.documents.close(uri)
        if opened is None:
            return
        session.closed(opened)
        if not server.pulls:
            for text in opened.texts:
                server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(text.uri, []))

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def open_notebook(params: types.DidOpenNotebookDocumentParams) -> None:
        item = params.notebook_document
        path = _path(item.uri) or _place_of_unsaved(server, item.uri)
        texts = {text.uri: OpenText(text.uri, text.version, text.text) for text in params.cell_text_documents}
        cells = [texts[cell.document] for cell in item.cells if cell.document in texts]
        if is_notebook(path):
            opened = OpenNotebook(item.uri, path, item.version, cells)
            session.documents.open(opened)
            session.changed(opened)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def change_notebook(params: types.DidChangeNotebookDocumentParams) -> None:
        opened = session.documents.get(params.notebook_document.uri)
        if isinstance(opened, OpenNotebook):
            opened.version = params.notebook_document.version
            if params.change.cells is not None:
                _change_cells(server, opened, params.change.cells)
            session.documents.adopt(opened)
            session.changed(opened)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def close_notebook(params: types.DidCloseNotebookDocumentParams) -> None:
        _close(params.notebook_document.uri)


def _change_cells(server: Server, notebook: OpenNotebook, changes: types.NotebookDocumentCellChanges) -> None:
    structure = changes.structure
    if structure is not None:
        known = {cell.uri: cell for cell in notebook.cells}
        known |= {text.uri: OpenText(text.uri, text.version, text.text) for text in structure.did_open or ()}
        array = structure.array
        new = [known[cell.document] for cell in array.cells or () if cell.document in known]
        notebook.cells[array.start : array.start + array.delete_count] = new
        for removed in structure.did_close or ():
            if not server.pulls:
                server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(removed.uri, []))
    cells = {cell.uri: cell for cell in notebook.cells}
    for change in changes.text_content or ():
        if (cell := cells.get(change.document.uri)) is not None:
            cell.change(change.changes, change.document.version, server.session.units)


def _place_of_unsaved(server: Server, uri: str) -> Path:
    """A path for what has none yet: in the first folder of the workspace."""
    folders = [folder.path for folder in server.session.folders.values() if folder.path is not None]
    name = "".join(character if character.isalnum() else "-" for character in uri).strip("-")
    suffix = ".ipynb" if uri.endswith(".ipynb") else ".py"
    return (folders[0] if folders else Path.cwd()) / f"{name}{suffix}"


# ---------------------------------------------------------------------------------------------------------- diagnostics


def _diagnostics(server: Server) -> None:
    session = server.session
    options = types.DiagnosticOptions(identifier=SOURCE, inter_file_dependencies=True, workspace_diagnostics=True)

    @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, options)
    async def document_diagnostics(params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
        uri = params.text_document.uri
        published = await session.current(uri)
        shown = () if published is None else published.of(uri)
        known = result_id(shown)
        if known == params.previous_result_id:
            return types.RelatedUnchangedDocumentDiagnosticReport(result_id=known)
        return types.RelatedFullDocumentDiagnosticReport([one.diagnostic for one in shown], result_id=known)

    @server.feature(types.WORKSPACE_DIAGNOSTIC)
    async def workspace_diagnostics(params: types.WorkspaceDiagnosticParams) -> types.WorkspaceDiagnosticReport:
        known = {one.uri: one.value for one in params.previous_result_ids}
        by_uri: dict[str, list[Shown]] = {uri: [] for uri in known}
        for shown in await session.whole():
            by_uri.setdefault(shown.uri, []).append(shown)
        return types.WorkspaceDiagnosticReport([_report(uri, by_uri[uri], known.get(uri)) for uri in sorted(by_uri)])

    def _report(uri: str, shown: list[Shown], known: str | None) -> types.WorkspaceDocumentDiagnosticReport:
        name = result_id(shown)
        text = session.text(uri)
        version = None if text is None else text.version
        if name == known:
            return types.WorkspaceUnchangedDocumentDiagnosticReport(uri=uri, result_id=name, version=version)
        items = [one.diagnostic for one in shown]
        return types.WorkspaceFullDocumentDiagnosticReport(uri=uri, items=items, result_id=name, version=version)


# --------------------------------------------------------------------------------------------------------- code actions


def _code_actions(server: Server) -> None:
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
        with _outdated_told():
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
        with _outdated_told():
            return await actions.resolved(session, action.data, versioned=server.versions_edits)


@contextmanager
def _outdated_told() -> Iterator[None]:
    """Tell the client that what it asks for is not, or no longer, on offer."""
    try:
        yield
    except actions.Outdated:
        raise JsonRpcContentModified("the text changed since this was offered") from None


# --------------------------------------------------------------------------------------------------------------- hovers


def _hovers(server: Server) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        return hovers.hover(server.session, params)


# ------------------------------------------------------------------------------------------------------------- commands


def _commands(server: Server) -> None:
    session = server.session

    @server.command("trainlint.applyFixAll")
    async def apply_fix_all(argument: Any = None) -> bool:
        uri = _field(argument, "uri")
        await session.current(uri)
        text = session.text(uri)
        if text is None:
            raise JsonRpcInvalidParams(f"no text is open at {uri}")
        offer = actions.Offer(actions.What.FIX_ALL, uri, text.version)
        try:
            edit = await actions.resolved(session, offer.data, versioned=server.versions_edits)
        except actions.Outdated:
            raise JsonRpcContentModified("the text changed meanwhile") from None
        if not (edit.changes or edit.document_changes):
            return False
        params = types.ApplyWorkspaceEditParams(edit, label="Fix all safe problems (trainlint)")
        return bool((await server.workspace_apply_edit_async(params)).applied)

    @server.command(actions.EXPLAIN)
    def explain(argument: Any = None) -> dict[str, Any]:
        code = _field(argument, "code")
        rule = hovers.registry().find(code)
        page = hovers.page(code)
        if rule is None or page is None:
            raise JsonRpcInvalidParams(f"there is no rule {code!r}")
        if not server.start_options.shows_pages:
            message = f"{rule.code} {rule.name}: {rule.summary()}"
            server.window_show_message(types.ShowMessageParams(types.MessageType.Info, message))
        return {"code": rule.code, "name": rule.name, "page": page}

    @server.command("trainlint.debugInformation")
    def debug_information() -> dict[str, Any]:
        return {
            "trainlint": __version__,
            "python": platform.python_version(),
            "executable": sys.executable,
            "platform": platform.platform(),
            "server_process": os.getpid(),
            "analysis_process": session.analysis.process_id,
            "trusted": session.trusted,
            "position_encoding": session.units.encoding.value,
            "diagnostics": "pulled by the client" if server.pulls else "published by the server",
            "folders": [
                {"uri": folder.uri, "settings": folder.settings.model_dump(by_alias=True)}
                for folder in session.folders.values()
                if folder.uri != NO_FOLDER
            ],
            "open": [{"uri": opened.uri, "versions": opened.versions} for opened in session.documents],
        }


def _field(argument: Any, name: str) -> str:
    """A field of a command's argument."""
    value = argument.get(name) if isinstance(argument, dict) else None
    if not isinstance(value, str):
        raise JsonRpcInvalidParams(f"the argument must be an object with `{name}`, not {argument!r}")
    return value
