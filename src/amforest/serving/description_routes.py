"""What the server tells about the model and itself, and the model file."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from amforest.serving.measurements import CONTENT_TYPE
from amforest.serving.problems import Problem
from amforest.serving.service import Service, json_response


async def describe_model(service: Service, request: Request) -> Response:
    """Return the schema, the classes, the parameters, the counts and the size."""
    return json_response(await asyncio.to_thread(_describe, service))


def _describe(service: Service) -> dict[str, Any]:
    writer, served = service.writer, service.writer.served
    described: dict[str, Any] = {
        "version": version("amforest"),
        "model": None,
        "notes": writer.notes,
        "queue_rows": writer.n_waiting,
        "pending_labels": len(service.pending),
    }
    if served is None:
        return described
    described |= served.describe()
    return described


async def show_figures(service: Service, request: Request) -> Response:
    """Return figures for Prometheus."""
    figures = await asyncio.to_thread(service.measurements.to_prometheus)
    return Response(figures, headers={"content-type": CONTENT_TYPE})


async def show_health(service: Service, request: Request) -> Response:
    """Tell that the process answers."""
    return json_response({"status": "ok"})


async def show_readiness(service: Service, request: Request) -> Response:
    """Tell whether rows are learned."""
    if not service.writer.is_alive:
        raise Problem(503, "the server does not learn: it is shutting down, or was out of memory")
    served = service.writer.served
    can_predict = served is not None and served.can_predict
    return json_response({"status": "ready", "can_predict": can_predict})


async def snapshot(service: Service, request: Request) -> Response:
    """Return the model file."""
    data = await asyncio.wrap_future(service.writer.call(service.writer.to_bytes))
    headers = {"content-disposition": 'attachment; filename="model.amf"'}
    return Response(data, headers=headers, media_type="application/octet-stream")
