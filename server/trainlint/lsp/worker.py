"""The analysis process: one warm engine for each folder of the workspace, fed with snapshots, one request at a time.

A parse holds the interpreter's lock from its start to its end, so what must answer meanwhile is in another process.
"""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.config.errors import ConfigError
from trainlint.fixes.apply import apply_fixes
from trainlint.fixes.diff import changed_stretches
from trainlint.lint.live import LiveEngine
from trainlint.lint.result import Reported
from trainlint.lsp.messages import (
    Answer,
    Check,
    Checked,
    Drop,
    Fault,
    Forget,
    Judge,
    Lines,
    Order,
    Progress,
    Question,
    RealizeAll,
    Realized,
    RealizeFix,
    Settle,
)
from trainlint.report.sources import Sources, placed
from trainlint.source.documents import decode, is_on_disk

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from trainlint.lint.verdicts import Verdicts

_IDLE_S = 1.0
"""How long nothing has to be asked for before there is time to tidy up."""
_CHECKS_UNTIDIED = 50
_NOT_ASKED_FOR = 0
"""Number of the answer to what nobody waits for."""


def serve(connection: Connection) -> None:
    """Answer requests until the other side says None, or closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    worker = _Worker(connection)
    with suppress(EOFError, OSError):
        while True:
            if not connection.poll(_IDLE_S):
                worker.tidy()
            request = connection.recv()
            if request is None:
                break
            answer = worker.answer(request)
            if answer is not None:
                connection.send(answer)
            if worker.checks >= _CHECKS_UNTIDIED:
                worker.tidy()
    worker.close()


class _GivesWay(Exception):  # noqa: N818
    """Somebody waits for something else."""


class _Worker:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._folders: dict[str, _Folder] = {}
        self._current: Check | None = None
        self._verdicts: Verdicts | None = None
        self.checks = 0
        """Since `tidy` was last called."""

    def tidy(self) -> None:
        """Free what checks have left behind. Interpreting makes objects that refer to one another in circles, and is
        spared the collector, which would look at all that is kept each time."""
        if self.checks:
            self.checks = 0
            gc.collect()

    def answer(self, request: Order | Question) -> Answer | None:
        """Do what is asked; a defect is an answer, too."""
        number = request.number if isinstance(request, Question) else _NOT_ASKED_FOR
        try:
            return self._answer(request)
        except Exception as error:
            import traceback

            return Fault(number, f"{type(error).__name__}: {error}", traceback.format_exc())

    def close(self) -> None:
        for folder in self._folders.values():
            folder.engine.close()

    def _close(self, folder: str) -> None:
        if (known := self._folders.pop(folder, None)) is not None:
            known.engine.close()

    def _answer(self, request: Order | Question) -> Answer | None:
        match request:
            case Settle():
                self._close(request.folder)
                options = replace(request.options, progress=self._tell)
                self._folders[request.folder] = _Folder(LiveEngine(options))
            case Drop():
                self._close(request.folder)
            case Forget():
                for folder in self._folders.values():
                    folder.engine.forget(request.paths)
            case Judge():
                self._verdicts = request.verdicts
            case Check():
                return self._check(request)
            case RealizeFix():
                edits = Sources({request.reported.path: request.data}).edits(request.reported)
                return Realized(request.number, tuple(edits))
            case RealizeAll():
                return _realize_all(request)
        return None

    def _check(self, request: Check) -> Checked:
        self._current = request
        self.checks += 1
        try:
            return self._folders[request.folder].check(request, self._verdicts)
        except ConfigError as error:
            return Checked(request.number, configuration_error=str(error))
        except _GivesWay:
            return Checked(request.number, gave_way=True)

    def _tell(self, done: int, total: int) -> None:
        """Say how far a check is; give way if somebody waits for another one."""
        if self._current is None:
            return
        if self._current.background and self._connection.poll():
            raise _GivesWay
        self._connection.send(Progress(self._current.number, done, total))


class _Folder:
    """The open texts of a folder, and its engine."""

    def __init__(self, engine: LiveEngine) -> None:
        self.engine = engine
        self._texts: dict[Path, bytes] = {}

    def check(self, request: Check, verdicts: Verdicts | None) -> Checked:
        for path, data in request.texts.items():
            if data is None:
                self._texts.pop(path, None)
                self.engine.forget([path])
            else:
                self._texts[path] = data
        live = self.engine.check(request.paths, dict(self._texts), keeps=self._is_saved(), verdicts=verdicts)
        errors = [error for errors in live.broken.values() for error in errors]
        return Checked(
            request.number,
            live.result.findings,
            live.result.loops,
            live.broken,
            _lines(live.result.findings, live.linked),
            _lines(errors, self._texts),
            live.result.warnings,
            live.result.errors,
            inputs=live.result.inputs,
        )

    def _is_saved(self) -> bool:
        """Whether all open texts are what lies on disk."""
        return all(is_on_disk(path, data) for path, data in self._texts.items())


def _lines(findings: Iterable[Reported], texts: Mapping[Path, bytes]) -> Lines:
    """The lines that places of findings are in, as far as they are not ASCII."""
    sources = Sources(texts)
    found: dict[tuple[Path, int | None, int], str] = {}
    for path, cell, row in {place for reported in findings for place in _places(reported)}:
        line = sources.line(path, cell, row)
        if not line.isascii():
            found[path, cell, row] = line
    return found


def _places(reported: Reported) -> Iterator[tuple[Path, int | None, int]]:
    yield reported.path, reported.cell, reported.location.row
    yield reported.path, reported.cell, reported.end_location.row
    context = reported.finding.context
    loop = () if context is None or context.loop is None else (context.loop,)
    for site in (*loop, *(related.site for related in reported.finding.related)):
        yield site.path, site.cell, site.row
        yield site.path, site.cell, site.end_row


def _realize_all(request: RealizeAll) -> Realized:
    """The edits of all fixes that go together."""
    document = decode(request.path, request.data)
    after = apply_fixes(document.text, request.fixes).text
    return Realized(request.number, tuple(placed(document, changed_stretches(document.text, after))))
