"""The language server as the session's client: what it tells the editor, and what the editor can do.

Its handlers are in modules of their own, by what they are about (see `start`). They turn the protocol's messages into
calls of the session, and back. All of them are quick, or wait for the analysis process without holding up the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from itertools import zip_longest
from typing import Any
from uuid import uuid4

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from trainlint import __version__
from trainlint.lsp.analysis import Analysis
from trainlint.lsp.diagnostics import SOURCE, Shown
from trainlint.lsp.documents import Opened, OpenText
from trainlint.lsp.messages import Progress
from trainlint.lsp.probing import Probing
from trainlint.lsp.protocol import Protocol
from trainlint.lsp.session import Folder, Published, Session
from trainlint.lsp.settings import SECTION, Settings, SettingsError, Start

_LOG = logging.getLogger(__name__)
_EDITS_BETWEEN = 100
"""After how many edits what pygls keeps of notifications is let go of."""
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
        self.probing = Probing()
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

    def refresh_figures(self) -> None:
        workspace = self.client_capabilities.workspace
        if workspace and workspace.code_lens and workspace.code_lens.refresh_support:
            self.workspace_code_lens_refresh(None)
        if workspace and workspace.inlay_hint and workspace.inlay_hint.refresh_support:
            self.workspace_inlay_hint_refresh(None)

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

    def cancel_requests(self) -> None:
        """Cancel what the client still waits for, but for the request that is being handled. pygls does so as well when
        it shuts down, and fails where there is any, since each leaves the dictionary that it goes through."""
        futures = getattr(self.protocol, "_request_futures", {})
        for number, future in list(futures.items()):
            if number != self.protocol.msg_id and not future.done():
                future.cancel()

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

    def start_task(self, task: Coroutine[Any, Any, object]) -> None:
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
            return await answered(self.workspace_configuration_async(types.ConfigurationParams(items))) or ()
        except Unanswered as error:
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


class Unanswered(Exception):  # noqa: N818
    """The client cannot answer, or does not."""


async def answered(answer: Awaitable[Any]) -> Any:
    """What the client answers. Raises Unanswered where it does not within some time, or with an error."""
    try:
        return await asyncio.wait_for(answer, _PATIENCE_S)
    except TimeoutError:
        raise Unanswered(f"no answer within {_PATIENCE_S:g} s") from None
    except JsonRpcException as error:
        raise Unanswered(str(error)) from None
