"""`trainlint server`: the language server, on standard input and output."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import BinaryIO

from trainlint.cli.arguments import VerbParser
from trainlint.cli.failure import Failure


def parser() -> VerbParser:
    verb = VerbParser("server", "[OPTIONS]", "Run the language server (LSP 3.17) on standard input and output.")
    verb.add_argument("--stdio", action="store_true", help="speak on standard input and output, which is the default")
    verb.add_argument("--tcp", metavar="HOST:PORT", help="listen on a TCP socket for one client instead, to debug")
    verb.add_argument(
        "--log-level",
        choices=("error", "warning", "info", "debug"),
        default="warning",
        help="how much to write to standard error (default: warning)",
    )
    return verb


def main(arguments: Sequence[str]) -> int:
    found = parser().parse(arguments)
    address = None if found.tcp is None else _address(found.tcp)
    level = found.log_level.upper()
    logging.basicConfig(stream=sys.stderr, level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # The process starts to import what it needs while this one does.
    from trainlint.lsp.analysis import Analysis

    analysis = Analysis()
    analysis.start()
    from trainlint.lsp.start import make_server

    server = make_server(analysis)
    try:
        if address is None:
            server.start_io(stdout=_own_stdout())
        else:
            print(f"trainlint: waiting for a client on {found.tcp}", file=sys.stderr, flush=True)
            server.start_tcp(*address)
    finally:
        analysis.close()
    return 0 if server.has_shut_down else 1


def _own_stdout() -> BinaryIO:
    """Standard output for the protocol alone: what anybody else prints there, as a rule pack might, goes to standard
    error."""
    sys.stdout.flush()
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return own


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise Failure(f"--tcp takes HOST:PORT, such as 127.0.0.1:9257, not `{text}`")
    return host, int(port)
