"""The application: its routes, and their description as OpenAPI.

Pages and other transports plug in here: `Service` has all they need (the writer, the measurements,
the rows that wait for labels), and `build_application` takes further routers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from amforest.serving import api_schema
from amforest.serving.api_page import add_api_page
from amforest.serving.description_routes import (
    describe_model,
    show_figures,
    show_health,
    show_readiness,
    snapshot,
)
from amforest.serving.endpoints import build_endpoint, protect
from amforest.serving.learning_routes import label, learn
from amforest.serving.prediction_routes import explain, predict
from amforest.serving.service import Handler, Service


@dataclass(frozen=True)
class Route:
    """A path, what it does, who may use it, and how OpenAPI describes it."""

    path: str
    method: str
    handler: Handler
    needs: str | None  # "learn", "predict", or None: everybody
    answers: dict[str, Any]
    body: dict[str, Any] | None = None
    parameters: tuple[dict[str, Any], ...] = ()


_OF_ROWS = (400, 408, 413, 415, 422)
ROUTES = (
    Route(
        "/predict",
        "POST",
        predict,
        "predict",
        {"200": api_schema.PREDICTED, **api_schema.problems(*_OF_ROWS, 409)},
        api_schema.PREDICT_BODY,
    ),
    Route(
        "/learn",
        "POST",
        learn,
        "learn",
        {
            "200": api_schema.LEARNED,
            "202": api_schema.QUEUED,
            **api_schema.problems(*_OF_ROWS, 403, 429, 503, 507),
        },
        api_schema.LEARN_BODY,
        (api_schema.WAIT,),
    ),
    Route(
        "/label",
        "POST",
        label,
        "learn",
        {
            "200": api_schema.LEARNED,
            **api_schema.problems(*_OF_ROWS, 403, 404, 409, 429, 503, 507),
        },
        api_schema.LABEL_BODY,
    ),
    Route(
        "/explain",
        "POST",
        explain,
        "predict",
        {"200": api_schema.EXPLAINED, **api_schema.problems(*_OF_ROWS, 409)},
        api_schema.PREDICT_BODY,
    ),
    Route(
        "/model",
        "GET",
        describe_model,
        "predict",
        {"200": api_schema.MODEL, **api_schema.problems()},
    ),
    Route(
        "/metrics",
        "GET",
        show_figures,
        "predict",
        {"200": api_schema.FIGURES, **api_schema.problems()},
    ),
    Route("/healthz", "GET", show_health, None, {"200": api_schema.HEALTH}),
    Route(
        "/readyz",
        "GET",
        show_readiness,
        None,
        {"200": api_schema.READY, **api_schema.problems(503)},
    ),
    Route(
        "/snapshot",
        "GET",
        snapshot,
        "learn",
        {"200": api_schema.SNAPSHOT, **api_schema.problems(403, 409)},
    ),
)


def build_application(service: Service, routers: Iterable[APIRouter] = ()) -> ASGIApp:
    """Return the application of a service, with further routers, such as a page."""
    app = FastAPI(
        title="amforest",
        version=version("amforest"),
        description="A Mondrian forest that learns while it predicts.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.openapi_version = "3.0.3"
    app.state.service = service
    for route in ROUTES:
        endpoint = build_endpoint(service, route.path, route.handler, route.needs)
        app.router.add_route(route.path, endpoint, methods=[route.method])
    add_api_page(app, lambda: _describe_api(app, service))
    for router in routers:
        app.include_router(router)
    return protect(app, service.access)


def _describe_api(app: FastAPI, service: Service) -> dict[str, Any]:
    """Return the document of OpenAPI."""
    paths: dict[str, Any] = {}
    for route in ROUTES:
        text = (route.handler.__doc__ or "").strip()
        operation: dict[str, Any] = {
            "summary": text,
            "operationId": route.path.strip("/"),
            "responses": route.answers,
        }
        if route.body is not None:
            operation["requestBody"] = route.body
        if route.parameters:
            operation["parameters"] = list(route.parameters)
        if route.needs is not None and service.access.token is not None:
            operation["security"] = [{"token": []}]
        paths[route.path] = {route.method.lower(): operation}
    served, target = service.writer.served, service.writer.target
    kinds = {} if served is None else served.scheme.kinds
    components: dict[str, Any] = {"schemas": api_schema.describe_rows(kinds, target)}
    if service.access.token is not None:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": app.openapi_version,
        "info": {"title": app.title, "version": app.version, "description": app.description},
        "paths": paths,
        "components": components,
    }
