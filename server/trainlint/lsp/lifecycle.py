"""Start and end of the server, and what the client tells of folders, settings and the disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

from lsprotocol import types

from trainlint.lsp import hovers
from trainlint.lsp.addresses import path_of
from trainlint.lsp.documents import Units
from trainlint.lsp.server import Server, Unanswered, answered
from trainlint.lsp.settings import SECTION, Start
from trainlint.lsp.watching import watch
from trainlint.semantics.configuration_files import LAUNCHERS, SUFFIXES

_LOG = logging.getLogger(__name__)
_WATCHED = (
    "**/*.py",
    "**/*.ipynb",
    "**/*requirements*.txt",
    "**/requirements/*.txt",
    "**/setup.cfg",
    "**/*.lock",
    "**/.gitignore",
    "**/.git/HEAD",
    *(f"**/*{suffix}" for suffix in (*SUFFIXES, *LAUNCHERS)),
)
"""Files whose changes on disk may change what is found. One pattern each, since not every client knows patterns within
braces."""


def register_lifecycle(server: Server) -> None:
    """Register handlers of the start, the end, and of changes outside of texts."""
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
        server.cancel_requests()
        server.probing.close()
        session.analysis.close()

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    async def change_folders(params: types.DidChangeWorkspaceFoldersParams) -> None:
        for removed in params.event.removed:
            session.remove_folder(removed.uri)
        for added in params.event.added:
            if (path := path_of(added.uri)) is not None:
                session.add_folder(added.uri, path)
        await server.read_settings()

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def change_configuration(params: types.DidChangeConfigurationParams) -> None:
        if isinstance(params.settings, dict) and params.settings:
            server.told_settings = params.settings.get(SECTION, params.settings)
        await server.read_settings()

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def change_files(params: types.DidChangeWatchedFilesParams) -> None:
        paths = [path for change in params.changes if (path := path_of(change.uri)) is not None]
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
        await answered(server.client_register_capability_async(types.RegistrationParams([registration])))
    except Unanswered as error:
        _LOG.warning("the client refuses %s: %s", method, error)
        return False
    return True


def _folders(params: types.InitializeParams) -> Iterable[tuple[str, Path]]:
    """The folders that the client starts with."""
    folders = [folder.uri for folder in params.workspace_folders or ()]
    if not folders and params.root_uri:
        folders = [params.root_uri]
    return [(uri, path) for uri in folders if (path := path_of(uri)) is not None]
