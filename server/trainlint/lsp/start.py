"""Putting the language server together."""

from __future__ import annotations

from trainlint.lsp.analysis import Analysis
from trainlint.lsp.answers import register_code_actions, register_diagnostics, register_figures, register_hovers
from trainlint.lsp.commands import register_commands
from trainlint.lsp.lifecycle import register_lifecycle
from trainlint.lsp.probe_commands import register_probe_commands
from trainlint.lsp.server import Server
from trainlint.lsp.synchronization import register_synchronization

_FEATURES = (
    register_lifecycle,
    register_synchronization,
    register_diagnostics,
    register_code_actions,
    register_hovers,
    register_figures,
    register_commands,
    register_probe_commands,
)
"""Each registers handlers with the server."""


def make_server(analysis: Analysis) -> Server:
    """A server that uses the given analysis process, which has been started."""
    server = Server(analysis)
    for register in _FEATURES:
        register(server)
    return server
