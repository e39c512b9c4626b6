"""The commands about measured runs: probing a script, results of other machines, and the report."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from lsprotocol import types
from pydantic import BaseModel, ValidationError
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams, JsonRpcRequestCancelled

from trainlint.lsp.figures import OPEN_REPORT, PROBE, summary
from trainlint.lsp.probing import Cancelled, NotProbed, ProbeRequest
from trainlint.lsp.server import Server, Unanswered, answered
from trainlint.source.path_map import PathMap, WrongPathMapError
from trainlint.source.system_errors import reason_of

if TYPE_CHECKING:
    from trainlint.report.probe_result import ProbeResult

CANCEL_PROBE = "trainlint.cancelProbe"
LOAD_EVIDENCE = "trainlint.loadEvidence"
CLEAR_EVIDENCE = "trainlint.clearEvidence"
_T = TypeVar("_T", bound=BaseModel)
_REQUEST_FAILED = -32803
"""The protocol's code for a request that was right and could not be done."""


class _EvidenceRequest(BaseModel):
    model_config = {"extra": "forbid", "populate_by_name": True}

    path: str
    pathMap: dict[str, str] = {}  # noqa: N815 - as it travels


def register_probe_commands(server: Server) -> None:
    """Register the commands."""
    session, probing = server.session, server.probing

    @server.command(PROBE)
    async def probe(argument: Any = None) -> Any:
        _require_trust(server, "nothing of it is run")
        request = _read(ProbeRequest, argument)
        if request.uri is None and request.module is None and request.pid is None:
            raise JsonRpcInvalidParams("the argument must have `uri`, the script to probe")
        try:
            async with _progress(server, "trainlint: probing", probing.cancel) as tell:
                result = await probing.run(request, _folder_of(server, request), tell)
        except Cancelled as error:
            raise JsonRpcRequestCancelled(str(error)) from None
        except NotProbed as error:
            raise JsonRpcException(str(error), code=_REQUEST_FAILED) from None
        session.evidence.add(result, PathMap())
        session.judge()
        return _answer(result)

    @server.command(CANCEL_PROBE)
    def cancel_probe(*ignored: Any) -> bool:
        return probing.cancel()

    @server.command(LOAD_EVIDENCE)
    async def load_evidence(argument: Any = None) -> Any:
        _require_trust(server, "no evidence is used")
        request = _read(_EvidenceRequest, argument)
        result = await asyncio.to_thread(_read_result, _absolute(server, request.path))
        session.evidence.add(result, _paths(server, request.pathMap))
        session.judge()
        return _answer(result)

    @server.command(CLEAR_EVIDENCE)
    def clear_evidence(*ignored: Any) -> bool:
        had_any = not session.evidence.is_empty
        session.evidence.clear()
        session.judge()
        return had_any

    @server.command(OPEN_REPORT)
    async def open_report(*ignored: Any) -> dict[str, str]:
        result = session.evidence.latest
        if result is None:
            raise JsonRpcException("there is no report: probe a script or load evidence first", code=_REQUEST_FAILED)
        html = await asyncio.to_thread(_report, result)
        if not server.start_options.shows_pages:
            await _show(server, html)
        return {"html": html}


def _answer(result: ProbeResult) -> dict[str, Any]:
    """A result, with what is to be told of it in a sentence."""
    return {**result.model_dump(mode="json"), "summary": summary(result)}


def _require_trust(server: Server, what: str) -> None:
    if not server.session.trusted:
        raise JsonRpcException(f"the workspace is not trusted: {what}", code=_REQUEST_FAILED)


def _read(model: type[_T], argument: Any) -> _T:
    """Read the argument of a command."""
    try:
        return model.model_validate(argument)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        message = first["msg"][:1].lower() + first["msg"][1:]
        raise JsonRpcInvalidParams(f"the argument is wrong: {f'`{place}`: ' if place else ''}{message}") from None


def _folder_of(server: Server, request: ProbeRequest) -> Path:
    """The working directory of a probe."""
    session = server.session
    if request.cwd is not None:
        return _absolute(server, request.cwd)
    script = request.script
    if script is not None:
        return session.folder_of(script).path or script.parent
    return _first_folder(server)


def _first_folder(server: Server) -> Path:
    return next((one.path for one in server.session.folders.values() if one.path is not None), Path.cwd())


def _absolute(server: Server, path: str) -> Path:
    return _first_folder(server) / Path(path).expanduser()


def _paths(server: Server, given: dict[str, str]) -> PathMap:
    """What paths of a result mean: as the settings of all folders say, and as the command does."""
    pairs: dict[str, str] = {}
    for folder in server.session.folders.values():
        pairs |= folder.settings.path_map
    try:
        return PathMap.of(f"{there}={_absolute(server, here)}" for there, here in (pairs | given).items())
    except WrongPathMapError as error:
        raise JsonRpcInvalidParams(f"the map of paths is wrong: one {error}") from None


def _read_result(path: Path) -> ProbeResult:
    from trainlint.report.probe_result import BrokenResult, read_result

    try:
        return read_result(path.read_bytes())
    except OSError as error:
        raise JsonRpcException(f"{path} cannot be read: {reason_of(error)}", code=_REQUEST_FAILED) from None
    except BrokenResult as error:
        raise JsonRpcException(f"{path} {error}", code=_REQUEST_FAILED) from None


def _report(result: ProbeResult) -> str:
    """The page of a result."""
    from trainlint.report.probe_html import render_html
    from trainlint.report.view import View

    return render_html(result, View(Path.cwd()))


async def _show(server: Server, html: str) -> None:
    """Have the client open the report in a browser; it lies in a file that outlives the server, as its window does."""
    window = server.client_capabilities.window
    if window is None or window.show_document is None or not window.show_document.support:
        return
    with tempfile.NamedTemporaryFile("w", prefix="trainlint-", suffix=".html", delete=False, encoding="utf-8") as file:
        file.write(html)
    await server.window_show_document_async(types.ShowDocumentParams(Path(file.name).as_uri(), external=True))


@asynccontextmanager
async def _progress(
    server: Server, title: str, cancel: Callable[[], bool]
) -> AsyncIterator[Callable[[str, int], None]]:
    """Show how far something is, where the client can; what the person cancels there is cancelled."""
    window, progress = server.client_capabilities.window, server.work_done_progress
    token = f"trainlint-{uuid4()}"
    if window is None or not window.work_done_progress or not await _is_created(server, token):
        yield lambda message, percentage: None
        return
    loop = asyncio.get_running_loop()
    progress.tokens[token].add_done_callback(lambda future: loop.call_soon(cancel) if future.cancelled() else None)
    progress.begin(token, types.WorkDoneProgressBegin(title, percentage=0, cancellable=True))
    try:
        yield lambda message, percentage: progress.report(
            token, types.WorkDoneProgressReport(message=message, percentage=percentage)
        )
    finally:
        progress.end(token, types.WorkDoneProgressEnd())
        progress.tokens.pop(token, None)


async def _is_created(server: Server, token: str) -> bool:
    try:
        await answered(server.work_done_progress.create_async(token))
    except Unanswered:
        return False
    return True
