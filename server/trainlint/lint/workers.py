"""Parsing in several processes.

Workers are given texts and return the dumped facts; trees never leave the process that made them. A native parser can
die of what no exception reports: then its worker dies with it, the file it was on is named, and the others go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from trainlint.semantics.extract import LimitError, SourceError, extract
from trainlint.source.processes import discard, process_context, received, start

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

_T = TypeVar("_T")
WORTHWHILE = 60_000
"""Characters, about 1,500 lines: less is parsed in this process, before another one has started."""


class Extracted(NamedTuple):
    """The facts of a file, as `ModuleFacts.dump` writes them."""

    facts: str


class Broken(NamedTuple):
    """A file that does not parse; rows and columns from 1, in characters."""

    message: str
    row: int
    column: int


class Limited(NamedTuple):
    """A file beyond what can be analysed, though it may be a valid program: what it does, and the row where."""

    message: str
    row: int


class Crashed(NamedTuple):
    """A file at which the parser ended its process."""


class Failed(NamedTuple):
    """A file at which trainlint failed, with the traceback."""

    summary: str
    traceback: str


Outcome = Extracted | Broken | Limited | Crashed | Failed


def extract_all(texts: Sequence[str], jobs: int) -> Iterator[tuple[int, Outcome]]:
    """Extract the facts of all texts with at most `jobs` processes; yield each outcome with its index in `texts`."""
    size = sum(map(len, texts))
    workers = min(jobs, len(texts), 1 + size // WORTHWHILE)
    if workers < 2:
        for index, text in enumerate(texts):
            yield index, outcome_of(text)
        return
    yield from _Pool(texts, workers).outcomes()


def outcome_of(text: str) -> Outcome:
    """Extract the facts of one text."""
    return guarded(lambda: Extracted(extract(text).dump()))


def guarded(extracting: Callable[[], _T]) -> _T | Broken | Limited | Failed:
    """Extract, or say what came of it instead."""
    try:
        return extracting()
    except LimitError as error:
        return Limited(error.message, error.row)
    except SourceError as error:
        return Broken(error.message, error.row, error.column)
    except Exception as error:
        import traceback

        return Failed(f"{type(error).__name__}: {error}", traceback.format_exc())


@dataclass(eq=False, slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection
    index: int = -1
    """The text that it is on; negative if it is free."""


class _Pool:
    """Hands out one text at a time, the largest first, to whichever worker is free.

    A worker is sent nothing before it has answered, since two ends that both send more than a pipe holds would wait
    for each other for ever.
    """

    def __init__(self, texts: Sequence[str], workers: int) -> None:
        self.texts = texts
        self.context = process_context()
        self.left = deque(sorted(range(len(texts)), key=lambda index: (-len(texts[index]), index)))
        self.workers = [self._start() for _ in range(workers)]

    def outcomes(self) -> Iterator[tuple[int, Outcome]]:
        from multiprocessing.connection import wait

        try:
            for worker in self.workers:
                self._feed(worker)
            while busy := {worker.connection: worker for worker in self.workers if worker.index >= 0}:
                for connection in wait(list(busy)):
                    yield self._take(busy[cast("Connection", connection)])
        finally:
            for worker in self.workers:
                discard(worker.process, worker.connection)

    def _start(self) -> _Worker:
        return _Worker(*start(self.context, _serve))

    def _feed(self, worker: _Worker) -> None:
        worker.index = self.left.popleft() if self.left else -1
        if worker.index >= 0:
            # A worker that has died takes nothing; that shows when its answer is read.
            with suppress(OSError):
                worker.connection.send(self.texts[worker.index])

    def _take(self, worker: _Worker) -> tuple[int, Outcome]:
        """The worker's outcome; where it has died, that of the text it was on, with another worker in its place."""
        index = worker.index
        outcome: Outcome
        try:
            outcome = worker.connection.recv()
        except (EOFError, OSError):
            outcome = Crashed()
            discard(worker.process, worker.connection)
            self.workers[self.workers.index(worker)] = worker = self._start()
        self._feed(worker)
        return index, outcome


def _serve(connection: Connection) -> None:
    """What a worker does until the other side closes the connection, or ends."""
    with suppress(OSError):
        for text in received(connection):
            connection.send(outcome_of(text))
