"""Starting processes that work for this one, feeding them, and ending them."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess


def start(
    context: BaseContext, serve: Callable[..., None], *arguments: object, daemon: bool = True
) -> tuple[BaseProcess, Connection]:
    """Start a process that calls `serve` with its end of a connection and the arguments; return it with our end.

    A daemon ends with this process, and cannot start any of its own.
    """
    ours, theirs = context.Pipe()
    inherited = ours if context.get_start_method() == "fork" else None
    process: BaseProcess = context.Process(  # type: ignore[attr-defined]  # each kind of context has it
        target=_started, args=(serve, theirs, inherited, arguments), daemon=daemon
    )
    process.start()
    theirs.close()
    return process, ours


def _started(
    serve: Callable[..., None], connection: Connection, inherited: Connection | None, arguments: tuple[object, ...]
) -> None:
    if inherited is not None:
        # Else the process, sending what nobody is left to receive, would wait for itself.
        inherited.close()
    serve(connection, *arguments)


def discard(process: BaseProcess, connection: Connection) -> None:
    """End a worker, whatever it is doing."""
    connection.close()
    process.terminate()
    process.join()


def received(connection: Connection) -> Iterator[Any]:
    """What a worker is sent, one after the other.

    A forked process holds copies of the connections of those forked before it, so that the process which started them
    may end, even be killed, without a connection being closed. Nor is an interrupt theirs to act on: that process ends
    them.
    """
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.disable()
    gc.freeze()
    parent = parent_process()
    ends = [] if parent is None else [parent.sentinel]
    with suppress(EOFError, OSError):
        while connection in wait([connection, *ends]):
            yield connection.recv()


def process_context() -> BaseContext:
    """How processes start: by fork, which keeps all that is imported, where no thread can hold a lock meanwhile."""
    import multiprocessing

    forks = sys.platform == "linux" and threading.active_count() == 1
    return multiprocessing.get_context("fork" if forks else "spawn")
