"""HTTP/1.1 of uvicorn, with limits for connections and for the head of a request."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 20.0  # in which the head of a request must arrive
HEAD_BYTES = 2**16
MOST_CONNECTIONS = 1_000  # that are open at once


class LimitedProtocol(HttpToolsProtocol):
    """Closes connections beyond a number, and those whose next head is too large or too slow."""

    _timer: asyncio.TimerHandle | None = None
    _n_head_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Wait for the first head, unless there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.close()
        else:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        """Count the bytes of a head."""
        if self._timer is not None:
            self._n_head_bytes += min(len(data), HEAD_BYTES + 1)
        super().data_received(data)
        if self._timer is not None and self._n_head_bytes > HEAD_BYTES:
            self._close_for_head()

    def on_message_begin(self) -> None:
        """Wait for the head of a further request, for a limited time."""
        super().on_message_begin()
        if self._timer is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        """Stop the clock: the body has one of its own."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._n_head_bytes = 0
        self._timer = self.loop.call_later(HEAD_SECONDS, self._close_for_head)

    def _close_for_head(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()
