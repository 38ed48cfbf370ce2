"""What a request may hold, and reading its body within that."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request

from amforest.serving.problems import Problem


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
    body_seconds : float
        In which a body must arrive.
    connections : int
        At once.
    """

    body_bytes: int = 32 * 2**20
    rows: int = 100_000
    columns: int = 10_000
    text_length: int = 1_000
    classes: int = 1_000
    queue_rows: int = 200_000
    body_seconds: float = 60.0
    connections: int = 1_000

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


async def read_body(request: Request, limits: Limits) -> bytes:
    """Return the body; stop as soon as it is too large, or comes too slowly."""
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


def _too_large(limits: Limits) -> Problem:
    return Problem(
        413,
        f"the body is larger than {limits.body_bytes:,} bytes: send several requests, or raise "
        "--most-bytes",
        headers={"Connection": "close"},
    )
