"""An editor for tests: a client that keeps its own texts, and speaks to the real server over its standard streams."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.protocol import default_converter
from pytest_lsp import LanguageClient
from pytest_lsp.client import DEFAULT_CLIENT_FEATURES, register_lsp_features

WAIT_S = 40.0
"""How long to wait for something that has to come; a busy machine may need that long."""
_LINE_END = re.compile(r"\r\n?|\n")
_UNIT_BYTES = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


def position(text: str, offset: int, encoding: str) -> types.Position:
    """The protocol's place of an offset in characters."""
    ends = [end.end() for end in _LINE_END.finditer(text) if end.end() <= offset]
    return types.Position(len(ends), units(text[ends[-1] if ends else 0 : offset], encoding))


def units(text: str, encoding: str) -> int:
    """How long a piece of a line is, in what columns count."""
    codec = encoding if encoding == "utf-8" else f"{encoding}-le"
    return len(text.encode(codec, "surrogatepass")) // _UNIT_BYTES[encoding]


def offset(text: str, place: types.Position, encoding: str) -> int:
    """The offset in characters of the protocol's place, which has to be in the text and between characters."""
    starts = [0, *(end.end() for end in _LINE_END.finditer(text))]
    start = starts[place.line]
    end = _LINE_END.search(text, start)
    line = text[start : end.start() if end else len(text)]
    columns = [units(line[:column], encoding) for column in range(len(line) + 1)]
    assert place.character in columns, f"column {place.character} is not one of {line!r} in {encoding}"
    return start + columns.index(place.character)


def edited(text: str, edits: Iterable[types.TextEdit], encoding: str) -> str:
    """The text after edits that are all about the text before."""
    spans = [(offset(text, e.range.start, encoding), offset(text, e.range.end, encoding), e.new_text) for e in edits]
    for start, end, new in sorted(spans, reverse=True):
        text = text[:start] + new + text[end:]
    return text


@dataclass(frozen=True)
class Abilities:
    """What the editor can do."""

    pulls: bool = True
    """Asks for diagnostics, instead of being told them."""
    resolves: bool = True
    """Asks for the edit of an action once it is chosen."""
    versions_edits: bool = True
    watches: bool = True
    """Tells of files that changed on disk."""
    configures: bool = True
    """Is asked for settings."""
    encodings: Sequence[str] | None = ("utf-16",)

    def capabilities(self) -> types.ClientCapabilities:
        resolve = types.ClientCodeActionResolveOptions(properties=["edit", "command"])
        watching = types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True)
        encodings = self.encodings
        return types.ClientCapabilities(
            general=types.GeneralClientCapabilities(
                position_encodings=None if encodings is None else [types.PositionEncodingKind(e) for e in encodings]
            ),
            window=types.WindowClientCapabilities(work_done_progress=True),
            workspace=types.WorkspaceClientCapabilities(
                apply_edit=True,
                workspace_folders=True,
                configuration=self.configures,
                workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=self.versions_edits),
                diagnostics=types.DiagnosticWorkspaceClientCapabilities(refresh_support=True) if self.pulls else None,
                code_lens=types.CodeLensWorkspaceClientCapabilities(refresh_support=True),
                inlay_hint=types.InlayHintWorkspaceClientCapabilities(refresh_support=True),
                did_change_configuration=types.DidChangeConfigurationClientCapabilities(
                    dynamic_registration=self.configures
                ),
                did_change_watched_files=watching if self.watches else None,
            ),
            text_document=types.TextDocumentClientCapabilities(
                diagnostic=types.DiagnosticClientCapabilities() if self.pulls else None,
                code_action=types.CodeActionClientCapabilities(
                    data_support=True, resolve_support=resolve if self.resolves else None
                ),
            ),
            notebook_document=types.NotebookDocumentClientCapabilities(
                synchronization=types.NotebookDocumentSyncClientCapabilities()
            ),
        )


@dataclass(frozen=True)
class Seen:
    """A diagnostic as a person sees it: rows and columns in characters, from 1."""

    code: str
    row: int
    column: int
    end_row: int
    end_column: int


@dataclass
class Text:
    uri: str
    version: int
    text: str


@dataclass
class Editor:
    """A client and its server."""

    client: LanguageClient
    encoding: str = "utf-16"
    texts: dict[str, Text] = field(default_factory=dict)
    pushed: dict[str, types.PublishDiagnosticsParams] = field(default_factory=dict)
    history: list[types.PublishDiagnosticsParams] = field(default_factory=list)
    refreshed: int = 0
    """How often the server asked to be asked again."""
    refreshed_figures: Counter[str] = field(default_factory=Counter)
    """Likewise for lenses and hints."""
    messages: list[str] = field(default_factory=list)
    settings: Any = None
    """The section `trainlint` of all folders."""
    settings_of: dict[str, Any] = field(default_factory=dict)
    """That of some folders, by address."""
    registered: list[str] = field(default_factory=list)
    progress: list[Any] = field(default_factory=list)
    applied: list[types.WorkspaceEdit] = field(default_factory=list)
    names_versions: bool = True
    result: types.InitializeResult | None = None
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    # --------------------------------------------------------------------------------------------------- start, end

    @classmethod
    def of_client(cls) -> Editor:
        """An editor without a server."""
        editor = cls(LanguageClient(converter_factory=default_converter))
        editor._listen()
        return editor

    @classmethod
    async def start(
        cls,
        *folders: Path,
        abilities: Abilities | None = None,
        options: Mapping[str, Any] | None = None,
        settings: Any = None,
        settings_of: Mapping[Path, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        python: str = sys.executable,
    ) -> Editor:
        """Start a server, and introduce the client to it."""
        abilities = abilities or Abilities()
        editor = cls.of_client()
        editor.settings = settings
        editor.settings_of = {folder.as_uri(): given for folder, given in (settings_of or {}).items()}
        await editor.client.start_io(
            python, "-m", "trainlint", "server", *arguments, env={**os.environ, **(environment or {})}
        )
        await editor.introduce(*folders, abilities=abilities, options=options)
        return editor

    async def introduce(
        self, *folders: Path, abilities: Abilities | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        abilities = abilities or Abilities()
        self.names_versions = abilities.versions_edits
        params = types.InitializeParams(
            capabilities=abilities.capabilities(),
            initialization_options=options,
            workspace_folders=[types.WorkspaceFolder(folder.as_uri(), folder.name) for folder in folders],
        )
        self.result = await self.within(self.client.initialize_session(params))
        self.encoding = str(types.PositionEncodingKind(self.result.capabilities.position_encoding).value)

    async def stop(self) -> int:
        """End as the protocol says; the server's exit code."""
        await self.within(self.client.shutdown_async(None))
        self.client.exit(None)
        return await self.ended()

    async def ended(self) -> int:
        """The server's exit code, once it has ended."""
        assert self.server is not None
        code = await self.within(self.server.wait())
        with suppress(Exception):
            await self.client.stop()
        return code

    async def abandon(self) -> None:
        """End the server, whatever state it is in."""
        if self.server is not None and self.server.returncode is None:
            self.server.kill()
            await self.ended()

    @property
    def server(self) -> asyncio.subprocess.Process | None:
        return self.client._server

    async def within(self, awaited: Any) -> Any:
        return await asyncio.wait_for(awaited, WAIT_S)

    def clear(self) -> None:
        """Forget what was heard; close what is open."""
        for uri in list(self.texts):
            self.close(uri)
        for heard in (self.pushed, self.history, self.messages, self.progress, self.applied, self.settings_of):
            heard.clear()  # type: ignore[attr-defined]
        self.settings = None

    # ---------------------------------------------------------------------------------------------------------- news

    def _listen(self) -> None:
        heard = {
            types.WORKSPACE_DIAGNOSTIC_REFRESH: self._refresh,
            types.WORKSPACE_CODE_LENS_REFRESH: partial(self._refresh_figures, "lenses"),
            types.WORKSPACE_INLAY_HINT_REFRESH: partial(self._refresh_figures, "hints"),
            types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS: self._take_pushed,
            types.WINDOW_SHOW_MESSAGE: self._take_message,
            types.WORKSPACE_CONFIGURATION: self._configuration,
            types.CLIENT_REGISTER_CAPABILITY: self._register,
            types.WORKSPACE_APPLY_EDIT: self._take_edit,
            types.WINDOW_WORK_DONE_PROGRESS_CREATE: self._create_progress,
            types.PROGRESS: self._take_progress,
        }
        features = {name: partial(handler) for name, handler in heard.items()}
        register_lsp_features(self.client, {**DEFAULT_CLIENT_FEATURES, **features})

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait for what the server says to come to something."""
        async with self._news:
            await self.within(self._news.wait_for(met))

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def _refresh(self, params: None) -> None:
        self.refreshed += 1
        await self._tell()

    async def _refresh_figures(self, which: str, params: None) -> None:
        self.refreshed_figures[which] += 1
        await self._tell()

    async def _take_pushed(self, params: types.PublishDiagnosticsParams) -> None:
        self.pushed[params.uri] = params
        self.history.append(params)
        await self._tell()

    async def _take_message(self, params: types.ShowMessageParams) -> None:
        self.messages.append(params.message)
        await self._tell()

    async def _configuration(self, params: types.ConfigurationParams) -> list[Any]:
        return [self.settings_of.get(item.scope_uri or "", self.settings) for item in params.items]

    async def _register(self, params: types.RegistrationParams) -> None:
        self.registered += [one.method for one in params.registrations]
        await self._tell()

    async def _create_progress(self, params: types.WorkDoneProgressCreateParams) -> None:
        self.progress.append(("create", params.token))
        await self._tell()

    async def _take_progress(self, params: types.ProgressParams) -> None:
        self.progress.append((params.value["kind"], params.token))
        await self._tell()

    async def _take_edit(self, params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        self.applied.append(params.edit)
        self.apply(params.edit)
        await self._tell()
        return types.ApplyWorkspaceEditResult(applied=True)

    # --------------------------------------------------------------------------------------------------------- texts

    def open(self, place: Path | str, text: str | None = None, *, language: str = "python") -> str:
        """Open a file, as it is on disk unless a text is given; its address."""
        uri = place.as_uri() if isinstance(place, Path) else place
        if text is None:
            assert isinstance(place, Path)
            text = place.read_bytes().decode()
        self.texts[uri] = Text(uri, 1, text)
        item = types.TextDocumentItem(uri, language, 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def close(self, uri: str) -> None:
        del self.texts[uri]
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))

    def splice(self, uri: str, *splices: tuple[int, int, str]) -> None:
        """Change a text in one message: each splice replaces characters of the text as the one before left it."""
        known = self.texts[uri]
        changes: list[types.TextDocumentContentChangeEvent] = []
        for start, end, new in splices:
            span = types.Range(position(known.text, start, self.encoding), position(known.text, end, self.encoding))
            changes.append(types.TextDocumentContentChangePartial(range=span, text=new))
            known.text = known.text[:start] + new + known.text[end:]
        known.version += 1
        identifier = types.VersionedTextDocumentIdentifier(known.version, uri)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, changes))

    def splice_at(self, uri: str, span: tuple[tuple[int, int], tuple[int, int]], new: str) -> None:
        """Send a change at places that may not exist; the text here stays as it is."""
        known = self.texts[uri]
        known.version += 1
        identifier = types.VersionedTextDocumentIdentifier(known.version, uri)
        place = types.Range(*(types.Position(line, column) for line, column in span))
        change = types.TextDocumentContentChangePartial(range=place, text=new)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [change]))

    def replace(self, uri: str, old: str, new: str) -> None:
        """Replace a piece of a text, which must be there once."""
        text = self.texts[uri].text
        assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in the text"
        start = text.index(old)
        self.splice(uri, (start, start + len(old), new))

    def rewrite(self, uri: str, text: str) -> None:
        """Replace a whole text, in a change without a range."""
        known = self.texts[uri]
        known.text, known.version = text, known.version + 1
        identifier = types.VersionedTextDocumentIdentifier(known.version, uri)
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [change]))

    def apply(self, edit: types.WorkspaceEdit) -> None:
        """Make an edit that the server proposes, and tell it of it."""
        if edit.document_changes is not None:
            assert self.names_versions, "the edit names versions, which this client does not know"
            for change in edit.document_changes:
                assert isinstance(change, types.TextDocumentEdit)
                assert change.text_document.version == self.texts[change.text_document.uri].version
                self._apply(change.text_document.uri, change.edits)  # type: ignore[arg-type]
        for uri, edits in (edit.changes or {}).items():
            assert not self.names_versions, "the edit names no versions, which this client knows"
            self._apply(uri, edits)

    def _apply(self, uri: str, edits: Sequence[types.TextEdit]) -> None:
        before = self.texts[uri].text
        spans = [
            (offset(before, one.range.start, self.encoding), offset(before, one.range.end, self.encoding), one.new_text)
            for one in edits
        ]
        self.splice(uri, *sorted(spans, reverse=True))

    # --------------------------------------------------------------------------------------------------- diagnostics

    async def pull(self, uri: str, known: str | None = None) -> types.DocumentDiagnosticReport:
        params = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri), previous_result_id=known)
        return await self.within(self.client.text_document_diagnostic_async(params))

    async def diagnostics(self, uri: str) -> list[types.Diagnostic]:
        """What is shown of the present text."""
        report = await self.pull(uri)
        assert isinstance(report, types.RelatedFullDocumentDiagnosticReport)
        return list(report.items)

    async def found(self, uri: str) -> list[str]:
        """What is shown of the present text: each as `row CODE`."""
        return [f"{one.range.start.line + 1} {one.code}" for one in await self.diagnostics(uri)]

    async def becomes(self, uri: str, expected: list[str]) -> None:
        """Wait until the server has something else to show of a text, which nobody changed here, and shows this."""
        while (found := await self.found(uri)) != expected:
            seen = self.refreshed
            # What was found may have changed before it was asked for.
            if (found := await self.found(uri)) == expected:
                return
            try:
                await self.until(lambda seen=seen: self.refreshed > seen)  # type: ignore[misc]
            except TimeoutError:
                raise AssertionError(f"shown: {found}, expected: {expected}") from None

    async def whole(self, known: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The reports on the workspace, by address."""
        ids = [types.PreviousResultId(uri, value) for uri, value in (known or {}).items()]
        report = await self.within(
            self.client.workspace_diagnostic_async(types.WorkspaceDiagnosticParams(previous_result_ids=ids))
        )
        assert len({one.uri for one in report.items}) == len(report.items)
        return {one.uri: one for one in report.items}

    def seen(self, text: str, diagnostic: types.Diagnostic) -> Seen:
        """A diagnostic as a person sees it in the text."""
        spots = []
        for place in (diagnostic.range.start, diagnostic.range.end):
            at = offset(text, place, self.encoding)
            start = max((end.end() for end in _LINE_END.finditer(text) if end.end() <= at), default=0)
            spots += [place.line + 1, at - start + 1]
        return Seen(str(diagnostic.code), *spots)

    # ------------------------------------------------------------------------------------------------------- actions

    async def actions(
        self, uri: str, at: types.Range | types.Position | None = None, only: Sequence[str] | None = None
    ) -> list[types.CodeAction | types.Command]:
        """What is offered at a place, or in the whole text."""
        span = at
        if span is None:
            span = types.Range(types.Position(0, 0), position(self.texts[uri].text, 10**9, self.encoding))
        elif isinstance(span, types.Position):
            span = types.Range(span, span)
        kinds = None if only is None else list(only)
        params = types.CodeActionParams(
            types.TextDocumentIdentifier(uri),
            span,
            types.CodeActionContext(diagnostics=[], only=kinds),  # type: ignore[arg-type]
        )
        return list(await self.within(self.client.text_document_code_action_async(params)) or [])

    async def resolve(self, action: types.CodeAction) -> types.CodeAction:
        return await self.within(self.client.code_action_resolve_async(action))

    async def choose(self, uri: str, title: str, at: types.Range | types.Position | None = None) -> None:
        """Do what an action says whose title starts so."""
        action = next(one for one in await self.actions(uri, at) if one.title.startswith(title))
        assert isinstance(action, types.CodeAction)
        if action.edit is None:
            action = await self.resolve(action)
        assert action.edit is not None
        self.apply(action.edit)

    async def hover(self, uri: str, piece: str) -> types.Hover | None:
        """What is shown over the start of a piece of the text."""
        text = self.texts[uri].text
        place = position(text, text.index(piece), self.encoding)
        params = types.HoverParams(types.TextDocumentIdentifier(uri), place)
        return await self.within(self.client.text_document_hover_async(params))

    async def lenses(self, uri: str) -> list[tuple[int, str, str, Any]]:
        """The lenses of a text: row, title, command and its first argument."""
        params = types.CodeLensParams(types.TextDocumentIdentifier(uri))
        lenses = await self.within(self.client.text_document_code_lens_async(params)) or []
        return [
            (one.range.start.line + 1, one.command.title, one.command.command, (one.command.arguments or [None])[0])
            for one in lenses
            if one.command is not None
        ]

    async def hints(self, uri: str, rows: tuple[int, int] = (1, 10_000)) -> dict[int, str]:
        """The hints at the ends of rows of a text."""
        span = types.Range(types.Position(rows[0] - 1, 0), types.Position(rows[1] - 1, 0))
        params = types.InlayHintParams(types.TextDocumentIdentifier(uri), span)
        hints = await self.within(self.client.text_document_inlay_hint_async(params)) or []
        return {one.position.line + 1: str(one.label) for one in hints}

    async def command(self, name: str, *arguments: Any) -> Any:
        params = types.ExecuteCommandParams(name, arguments=list(arguments))
        return await self.within(self.client.workspace_execute_command_async(params))

    async def information(self) -> Any:
        return await self.command("trainlint.debugInformation")

    # ---------------------------------------------------------------------------------------------- the world around

    def tell_changed(self, *paths: Path) -> None:
        """Say that files were made, changed or removed on disk."""
        changed = types.FileChangeType.Changed
        events = [
            types.FileEvent(path.as_uri(), changed if path.exists() else types.FileChangeType.Deleted) for path in paths
        ]
        self.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams(events))

    def tell_folders(self, *, added: Sequence[Path] = (), removed: Sequence[Path] = ()) -> None:
        event = types.WorkspaceFoldersChangeEvent(
            added=[types.WorkspaceFolder(folder.as_uri(), folder.name) for folder in added],
            removed=[types.WorkspaceFolder(folder.as_uri(), folder.name) for folder in removed],
        )
        self.client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event))

    def tell_configuration(self, settings: Any = None) -> None:
        self.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings))


# ------------------------------------------------------------------------------------------------------------ processes


def descendants(pid: int) -> set[int]:
    """The processes that a process started, and those that these started."""
    children: dict[int, set[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
                children.setdefault(parent, set()).add(int(folder.name))
    found: set[int] = set()
    todo = [pid]
    while todo:
        new = children.get(todo.pop(), set()) - found
        found |= new
        todo += new
    return found


def is_running(pid: int) -> bool:
    """Whether a process is there, and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False


async def gone(pids: Iterable[int]) -> None:
    """Wait until processes have ended."""
    async with asyncio.timeout(WAIT_S):
        for pid in pids:
            while is_running(pid):
                await asyncio.sleep(0.01)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def memory_bytes(pid: int) -> int:
    """What a process has in memory and shares with no other."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(1024 * int(size) for size in re.findall(r"^Private_\w+:\s+(\d+) kB", rollup, re.MULTILINE))


def notebook(cells: Sequence[str]) -> str:
    """A notebook on disk, of code cells."""
    return json.dumps(
        {
            "cells": [
                {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
                for source in cells
            ],
            "metadata": {"language_info": {"name": "python"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )
