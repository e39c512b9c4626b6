"""Walking entry points in several processes.

A worker keeps what it walked until its findings are asked for, so an entry point is completed where it was walked.
Where a worker dies, the entry point that it was on is named, and the others that it had walked are walked again.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from trainlint.lint.component import EntryFindings, EntryRuns, FunctionKey, Uncalled, Walked
from trainlint.lint.failures import Failure
from trainlint.semantics.context import Entry
from trainlint.source.processes import discard, process_context, received, start

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

_Functions = frozenset[FunctionKey]
_T = TypeVar("_T", Walked, EntryFindings, list[Uncalled])


class _Step(Enum):
    WALK = "walk"
    COMPLETE = "complete"
    UNCALLED = "uncalled"


class _Task(NamedTuple):
    """What to do for an entry point."""

    step: _Step
    entry: Path
    learned: Entry | None = None
    called: _Functions = frozenset()
    """For UNCALLED: what its walk learned, and the functions of its files that are called."""


@dataclass(eq=False, slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection
    task: _Task | None = None
    """What it is on; None if it is free."""
    walked: set[Path] = field(default_factory=set)
    """The entry points whose walks it keeps."""


class PooledRuns:
    """Walks entry points in `count` processes, which end when `close` is called.

    What was walked here before (`here`) is completed by any of them: by one that inherits it, without another walk.
    """

    def __init__(self, here: EntryRuns, count: int, cost: Callable[[Path], int]) -> None:
        self._here = here
        self._cost = cost
        self._context = process_context()
        self._workers = [self._start() for _ in range(count)]

    def walk_all(self, entries: list[Path]) -> Iterator[tuple[Path, Walked]]:
        """Hand out entry points one at a time, those with the largest closures first."""
        left = deque(_Task(_Step.WALK, entry) for entry in sorted(entries, key=lambda one: (-self._cost(one), one)))
        for worker, task, walked in self._run({}, left, lambda entry: Walked(frozenset(), None, (_death(entry),))):
            worker.walked.add(task.entry)
            yield task.entry, walked

    def all_findings(self, entries: Iterable[Path]) -> Iterator[tuple[Path, EntryFindings]]:
        """Complete each entry point where it was walked; what nobody has walked goes to whoever is free."""
        wanted = list(entries)
        own = {
            worker: deque(_Task(_Step.COMPLETE, entry) for entry in wanted if entry in worker.walked)
            for worker in self._workers
        }
        taken = {task.entry for tasks in own.values() for task in tasks}
        left = deque(_Task(_Step.COMPLETE, entry) for entry in wanted if entry not in taken)
        for _, task, found in self._run(own, left, lambda entry: EntryFindings(failures=[_death(entry)])):
            yield task.entry, found

    def all_uncalled(self, owners: Mapping[Path, tuple[Entry, _Functions]]) -> Iterator[tuple[Path, list[Uncalled]]]:
        """Walk what nothing calls in the files of each owner."""
        left = deque(_Task(_Step.UNCALLED, path, learned, called) for path, (learned, called) in owners.items())

        def died(owner: Path) -> list[Uncalled]:
            learned, called = owners[owner]
            found = EntryFindings(failures=[_death(owner)])
            return [Uncalled(owner, learned, called, frozenset(), learned.trains, found)]

        for _, task, results in self._run({}, left, died):
            yield task.entry, results

    def close(self) -> None:
        for worker in self._workers:
            discard(worker.process, worker.connection)
        self._workers = []

    def _run(
        self, own: dict[_Worker, deque[_Task]], left: deque[_Task], died: Callable[[Path], _T]
    ) -> Iterator[tuple[_Worker, _Task, _T]]:
        """Have all tasks done: first those of a worker's own, then what is left; yield them with their answers."""
        from multiprocessing.connection import wait

        for worker in self._workers:
            _feed(worker, own.get(worker), left)
        while busy := {worker.connection: worker for worker in self._workers if worker.task is not None}:
            for connection in wait(list(busy)):
                worker = busy[cast("Connection", connection)]
                task = cast("_Task", worker.task)
                try:
                    answer = cast("_T", worker.connection.recv())
                except (EOFError, OSError):
                    answer = died(task.entry)
                    left.extend(own.pop(worker, ()))
                    worker = self._replaced(worker)
                _feed(worker, own.get(worker), left)
                yield worker, task, answer

    def _start(self) -> _Worker:
        return _Worker(*start(self._context, _serve, self._here))

    def _replaced(self, worker: _Worker) -> _Worker:
        discard(worker.process, worker.connection)
        fresh = self._start()
        self._workers[self._workers.index(worker)] = fresh
        return fresh


def _feed(worker: _Worker, own: deque[_Task] | None, left: deque[_Task]) -> None:
    queue = own or left
    worker.task = queue.popleft() if queue else None
    if worker.task is not None:
        # A worker that has died takes nothing; that shows when its answer is read.
        with suppress(OSError):
            worker.connection.send(worker.task)


def _death(entry: Path) -> Failure:
    return Failure("linking", os.fspath(entry), "its process ended", "")


def _serve(connection: Connection, runs: EntryRuns) -> None:
    """What a worker does until the other side closes the connection, or ends."""
    with suppress(OSError):
        for task in received(connection):
            connection.send(_answer(runs, task))


def _answer(runs: EntryRuns, task: _Task) -> Walked | EntryFindings | list[Uncalled]:
    if task.step is _Step.WALK:
        return runs.walk(task.entry)
    if task.step is _Step.COMPLETE:
        return runs.findings(task.entry)
    assert task.learned is not None
    return runs.uncalled(task.learned, task.called)
