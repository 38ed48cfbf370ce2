"""What a request may hold, and reading its body within that."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request

from amforest.serving.problems import Problem

SMALL_BODY = 2**16  # bytes
LARGE_BODIES = 8  # of the largest size that are in memory at once
_HELD = "amforest.held_bytes"  # in the scope of a request


@dataclass(frozen=True)
class Limits:
    """The limits of requests; each has an option of the command.

    Attributes
    ----------
    body_bytes, rows, columns : int
        Of one request.
    text_length : int
        Of a category, in characters.
    classes : int
        Of the model.
    queue_rows : int
        That wait to be learned.
    queue_bytes : int
        Of these rows.
    body_seconds : float
        In which a body must arrive.
    """

    body_bytes: int = 32 * 2**20
    rows: int = 100_000
    columns: int = 10_000
    text_length: int = 1_000
    classes: int = 1_000
    queue_rows: int = 200_000
    queue_bytes: int = 2**29
    body_seconds: float = 60.0

    def check_rows(self, n_rows: int) -> None:
        """Refuse a request without rows, or with too many."""
        if n_rows == 0:
            raise Problem(422, "the request has no rows: give at least one", field="rows")
        if n_rows > self.rows:
            raise Problem(
                413,
                f"the request has {n_rows:,} rows; the limit is {self.rows:,}: send several "
                "requests, or raise --most-rows",
                field="rows",
            )

    def check_columns(self, n_columns: int) -> None:
        """Refuse rows with too many columns."""
        if n_columns > self.columns:
            raise Problem(
                413,
                f"a row has {n_columns:,} columns; the limit is {self.columns:,}: send those that "
                "GET /model lists, or raise --most-columns",
                field="rows",
            )


class BodyReader:
    """Reads bodies, and bounds the memory of all that are read or handled at once.

    Each connection could otherwise hold a body of the largest size. Small bodies are always read:
    their memory is bounded by the number of connections.

    Attributes
    ----------
    n_held : int
        Bytes of the large bodies that are being read or handled.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._most_held = LARGE_BODIES * limits.body_bytes
        self.n_held = 0

    async def read(self, request: Request) -> bytes:
        """Return the body; stop as soon as it is too large, or comes too slowly."""
        limits = self._limits
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > limits.body_bytes:
            raise _too_large(limits)
        parts, size = [], 0
        try:
            async with asyncio.timeout(limits.body_seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > limits.body_bytes:
                        raise _too_large(limits)
                    if size > SMALL_BODY:
                        self._hold(request, size)
                    parts.append(part)
        except TimeoutError:
            raise Problem(
                408,
                f"the body did not arrive within {limits.body_seconds:g} s",
                headers={"Connection": "close"},
            ) from None
        except ClientDisconnect:
            raise Problem(400, "the connection was closed before the body arrived") from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _hold(self, request: Request, size: int) -> None:
        """Count the bytes of a body that has grown; `Problem` 429 if there is no room for it."""
        before = request.scope.get(_HELD, 0)
        if self.n_held + size - before > self._most_held:
            raise Problem(
                429,
                f"other large bodies are being read, of {self.n_held:,} bytes in all: send this "
                "one again later",
                headers={"Retry-After": "1", "Connection": "close"},
            )
        request.scope[_HELD] = size
        self.n_held += size - before

    def release(self, request: Request) -> None:
        """Count the body no more, because it is not needed any longer."""
        self.n_held -= request.scope.pop(_HELD, 0)


def _too_large(limits: Limits) -> Problem:
    return Problem(
        413,
        f"the body is larger than {limits.body_bytes:,} bytes: send several requests, or raise "
        "--most-bytes",
        headers={"Connection": "close"},
    )
