"""What pygls's protocol does differently here."""

from __future__ import annotations

from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidRequest, JsonRpcServerNotInitialized
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.json_rpc import RPCMessage, RPCRequest


class Protocol(LanguageServerProtocol):
    """Keeps no texts, since the session does, and answers requests that come too early or too late.

    The texts that pygls keeps are changed before ours are told, at some cost, and a change that pygls fails at would
    never get here: a half of a surrogate pair under UTF-8 is one.
    """

    lsp_text_document__did_open: Any = None
    lsp_text_document__did_change: Any = None
    lsp_text_document__did_close: Any = None
    lsp_notebook_document__did_open: Any = None
    lsp_notebook_document__did_change: Any = None
    lsp_notebook_document__did_close: Any = None

    @property
    def has_shut_down(self) -> bool:
        """Whether the client has announced the end."""
        return self._shutdown

    def handle_message(self, message: RPCMessage) -> None:
        refusal = self._refusal(message)
        if refusal is None:
            super().handle_message(message)
        elif isinstance(message, RPCRequest):
            self._send_response(message.id, error=refusal.to_response_error())

    def _refusal(self, message: RPCMessage) -> JsonRpcException | None:
        """Why a message is not for now."""
        method = getattr(message, "method", None)
        if method is None or method == types.EXIT:
            return None
        if self._shutdown:
            return JsonRpcInvalidRequest("the server has shut down")
        if self._workspace is None and method != types.INITIALIZE:
            return JsonRpcServerNotInitialized("the server was not initialized yet")
        return None
