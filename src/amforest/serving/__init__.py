"""Serving: a forest behind HTTP that learns while it predicts, and a client for it.

The server needs the extra `serve`, the client only httpx; so nothing is imported before it is used.
The modules of the server, in the order in which they import each other:

- `problems`, `limits`, `access`: errors as problem+json; sizes; tokens and hosts
- `arrow_messages`, `row_conversion`, `bodies`: rows of requests to rows of a model
- `served_model`, `first_rows`: the model with its columns, and its start from the first rows
- `pending_labels`, `journal`, `model_store`: rows that wait for labels; what survives a crash
- `measurements`, `writer`: figures for Prometheus and pages; the one thread that learns
- `answers`, `api_schema`, `application`: predictions as JSON; OpenAPI; the routes
- `history`, `live_events`, `web_files`, `live_page`: the page at / and its events
- `playground_session`, `playground`: the page of `amforest playground`
- `http_protocol`, `server`: the socket, signals, and the end
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amforest.serving.client import Client, ServerError

__all__ = ["Client", "ServerError"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from amforest.serving import client  # noqa: PLC0415  # only the client needs httpx

    return getattr(client, name)
