"""What all routes work with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson
from starlette.requests import Request
from starlette.responses import Response

from amforest.serving.access import Access
from amforest.serving.limits import BodyReader, Limits
from amforest.serving.measurements import Measurements
from amforest.serving.pending_labels import PendingLabels
from amforest.serving.problems import Problem
from amforest.serving.served_model import ServedModel
from amforest.serving.writer import Writer

# What is handled at once, because a thread takes longer to start: bytes and objects of a body.
QUICK_BYTES, QUICK_OBJECTS = 8_192, 32


class Protected(Protocol):
    """What answers requests: it counts them, and says who may send them."""

    @property
    def measurements(self) -> Measurements:
        """Where requests are counted."""

    @property
    def access(self) -> Access:
        """Who may do what."""

    @property
    def bodies(self) -> BodyReader:
        """What reads the bodies of requests."""


@dataclass
class Service:
    """What the routes work with.

    Attributes
    ----------
    writer : Writer
        Learns; its `served` is the model, or None before the first rows.
    measurements : Measurements
    pending : PendingLabels
    limits : Limits
    access : Access
    bodies : BodyReader
    """

    writer: Writer
    measurements: Measurements
    pending: PendingLabels
    limits: Limits
    access: Access
    bodies: BodyReader = field(init=False)

    def __post_init__(self) -> None:
        self.bodies = BodyReader(self.limits)

    def model(self) -> ServedModel:
        """Return the model; `Problem` 409 if it cannot predict yet."""
        served = self.writer.served
        if served is None or not served.can_predict:
            raise Problem(409, "the model has learned nothing yet: send rows to /learn first")
        return served


def json_response(value: Any, status: int = 200) -> Response:
    """Return an answer in JSON."""
    return Response(orjson.dumps(value), status, media_type="application/json")


def is_quick(body: bytes) -> bool:
    """Return whether a body of JSON or NDJSON has few rows, which are handled at once."""
    return len(body) <= QUICK_BYTES and body.count(b"{") <= QUICK_OBJECTS


Handler = Callable[[Service, Request], Awaitable[Response]]
