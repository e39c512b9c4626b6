"""The server's end of the analysis process: starts it, asks it, starts it again where it died."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

from trainlint.lsp.messages import Answer, Fault, Message, Order, Progress, Question
from trainlint.source.processes import process_context, start

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

_LOG = logging.getLogger(__name__)
RESTART_AFTER_S = (0.0, 1.0, 5.0)
"""How long to wait before the process is started again, for each time that it ended lately; then it is given up."""
LATELY_S = 180.0
_Outbox: TypeAlias = "SimpleQueue[Order | Question | None]"


class AnalysisEnded(Exception):  # noqa: N818
    """The process ended before it answered."""


class Analysis:
    """A process that does one thing after the other.

    The server's own thread never waits for the process: one thread writes to it, another reads from it.
    """

    def __init__(self) -> None:
        self.told: Callable[[Progress], None] = lambda progress: None
        """Hears how far a check is."""
        self.restarted: Callable[[], None] = lambda: None
        """Hears that there is a new process, which knows nothing of what the one before was told; or that it is given
        up."""
        self._process: BaseProcess | None = None
        self._outbox: _Outbox = SimpleQueue()
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._number = 0
        self._ends: list[float] = []
        self._closing = False

    @property
    def process_id(self) -> int | None:
        """The process's id; None while there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process. It starts others itself."""
        self._process, self._connection = start(process_context(), _run, daemon=False)

    def listen(self) -> None:
        """Hear what the process says, in the event loop that runs."""
        loop = asyncio.get_running_loop()
        self._outbox = SimpleQueue()
        for target, arguments in ((_write, (self._connection, self._outbox)), (self._read, (self._connection, loop))):
            threading.Thread(target=target, args=arguments, daemon=True).start()

    def order(self, order: Order) -> None:
        """Tell the process something that it does not answer."""
        self._outbox.put(order)

    async def ask(self, question: Question) -> Answer:
        """Ask the process; what is told and asked is done in its order.

        Raises:
            AnalysisEnded: the process ended meanwhile or before, and there is no other one yet.
        """
        if self._process is None or self._closing:
            raise AnalysisEnded
        self._number += 1
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        number = self._number
        self._waiting[number] = answer
        self._outbox.put(replace(question, number=number))
        try:
            return await answer
        finally:
            del self._waiting[number]

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._closing = True
        self._outbox.put(None)
        if self._process is not None:
            self._process.join(0.2)
            self._process.terminate()
            self._process.join()

    # ----------------------------------------------------------------------------------------------------- threads

    def _read(self, connection: Connection, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(EOFError, OSError):
            while True:
                message: Message = connection.recv()
                loop.call_soon_threadsafe(self._take, message)
        with suppress(RuntimeError):  # the loop may have ended, too
            loop.call_soon_threadsafe(self._note_end)

    # ------------------------------------------------------------------------------------------- in the event loop

    def _take(self, message: Message) -> None:
        if isinstance(message, Progress):
            self.told(message)
            return
        answer = self._waiting.get(message.number)
        if answer is None or answer.done():
            if isinstance(message, Fault):
                _LOG.error("the analysis failed: %s\n%s", message.summary, message.traceback)
            return
        answer.set_result(message)

    def _note_end(self) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(AnalysisEnded())
        self._outbox.put(None)
        if self._closing:
            return
        now = time.monotonic()
        self._ends = [*(end for end in self._ends if now - end < LATELY_S), now]
        self._process = None
        if len(self._ends) <= len(RESTART_AFTER_S):
            wait_s = RESTART_AFTER_S[len(self._ends) - 1]
            _LOG.warning("the analysis process ended; it is started again in %g s", wait_s)
            asyncio.get_running_loop().call_later(wait_s, self._restart)
        else:
            self.restarted()

    @property
    def is_given_up(self) -> bool:
        """Whether the process ended too often to be started again."""
        return len(self._ends) > len(RESTART_AFTER_S)

    def _restart(self) -> None:
        if not self._closing:
            self.start()
            self.listen()
            self.restarted()


def _write(connection: Connection, outbox: _Outbox) -> None:
    """Send what is in the outbox up to the None that ends it, which the process takes as the end as well: to close the
    connection here would take it away from the thread that reads from it."""
    with suppress(OSError):
        while (message := outbox.get()) is not None:
            connection.send(message)
        connection.send(None)


def _run(connection: Connection) -> None:
    """The process. Standard input and output are the editor's; nothing here may touch them."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    from trainlint.lsp.worker import serve

    serve(connection)
