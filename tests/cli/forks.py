"""Runs of the program in processes that fork from one which has imported what a run imports.

A check of a small project takes 0.4 processor seconds, of which all but some hundredths start an interpreter and import
the parser, the models and the rules, and the tests make hundreds of checks. What is forked is a process of its own as
any other: with its own streams, folder, environment and exit status, in which no run was before.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType

IMPORTED = ("trainlint", "trainlint_rules")
"""Packages that are imported with all of their modules."""
NOT_IMPORTED = ("trainlint.__main__", "trainlint.agent.", "trainlint.lsp.")
"""What runs by being imported, belongs into other programs, or is imported by the server only."""
LIMIT_S = 120


class Forks:
    """The process from which runs fork; it ends with the block that this is the context of."""

    def __enter__(self) -> Forks:
        self._connection, theirs = socket.socketpair()
        self._connection.settimeout(LIMIT_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                # What Python finds out about its streams as it starts holds for those that take their places.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        self._answers = self._connection.makefile("r", encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._answers.close()
        self._connection.close()
        _, errors = self._process.communicate(timeout=LIMIT_S)
        assert (self._process.returncode, errors) == (0, b"")

    def run(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], stdin: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the program as `subprocess.run` would, with these arguments."""
        request = {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment)}
        (source, source_end), (output_end, output), (errors_end, errors) = os.pipe(), os.pipe(), os.pipe()
        with ThreadPoolExecutor() as streams:
            try:
                socket.send_fds(self._connection, [b"\0"], [source, output, errors])
            finally:
                for end in (source, output, errors):
                    os.close(end)
            streams.submit(_write, source_end, stdin)
            texts = [streams.submit(_read, end) for end in (output_end, errors_end)]
            self._connection.sendall(json.dumps(request).encode() + b"\n")
            pid = int(self._answers.readline())
            try:
                status = int(self._answers.readline())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise
            return subprocess.CompletedProcess(arguments, status, *[text.result() for text in texts])


def _write(end: int, text: str) -> None:
    with suppress(BrokenPipeError), open(end, "w", encoding="utf-8") as stream:
        stream.write(text)


def _read(end: int) -> str:
    with open(end, encoding="utf-8") as stream:
        return stream.read()


def serve(connection: socket.socket) -> None:
    """Fork into a run at each request; return when no more can come, and in each fork by the exit of the program."""
    for name in IMPORTED:
        _import_all(name)
    main = importlib.import_module("trainlint.__main__")
    gc.collect()
    gc.freeze()
    requests = connection.makefile("r", encoding="utf-8")
    while streams := socket.recv_fds(connection, 1, 3)[1]:
        request = json.loads(requests.readline())
        pid = os.fork()
        if not pid:
            requests.close()
            connection.close()
            for standard, stream in enumerate(streams):
                os.dup2(stream, standard)
                os.close(stream)
            os.chdir(request["folder"])
            os.environ.clear()
            os.environ.update(request["environment"])
            sys.argv = [str(main.__file__), *request["arguments"]]
            sys.path[0] = request["folder"]
            sys.exit(main.main())
        for stream in streams:
            os.close(stream)
        connection.sendall(f"{pid}\n".encode())
        connection.sendall(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())


def _import_all(package: str) -> None:
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        if not f"{module.name}.".startswith(NOT_IMPORTED):
            importlib.import_module(module.name)


if __name__ == "__main__":
    with closing(socket.socket(fileno=int(sys.argv[1]))) as requests:
        serve(requests)
