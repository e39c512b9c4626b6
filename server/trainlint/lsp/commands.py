"""The commands of the server."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from trainlint import __version__
from trainlint.lsp import actions, hovers
from trainlint.lsp.answers import outdated_told
from trainlint.lsp.server import Server
from trainlint.lsp.session import NO_FOLDER

APPLY_FIX_ALL = "trainlint.applyFixAll"
DEBUG_INFORMATION = "trainlint.debugInformation"


def register_commands(server: Server) -> None:
    """Register the commands."""
    session = server.session

    @server.command(APPLY_FIX_ALL)
    async def apply_fix_all(argument: Any = None) -> bool:
        uri = _field(argument, "uri")
        await session.current(uri)
        text = session.text(uri)
        if text is None:
            raise JsonRpcInvalidParams(f"no text is open at {uri}")
        offer = actions.Offer(actions.What.FIX_ALL, uri, text.version)
        with outdated_told():
            edit = await actions.resolved(session, offer.data, versioned=server.versions_edits)
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

    @server.command(DEBUG_INFORMATION)
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
