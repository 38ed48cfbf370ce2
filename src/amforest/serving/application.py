"""The routes: what each request does.

Pages and other transports plug in here: `Service` has all they need (the writer, the measurements,
the rows that wait for labels), and `build_application` takes further routers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import orjson
from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from amforest.serving import api_schema
from amforest.serving.access import Access
from amforest.serving.api_page import add_api_page
from amforest.serving.bodies import ARROW, find_format, parse_object, parse_rows
from amforest.serving.limits import Limits, read_body
from amforest.serving.measurements import CONTENT_TYPE, Measurements
from amforest.serving.pending_labels import PendingLabels
from amforest.serving.problems import Problem
from amforest.serving.row_conversion import Values
from amforest.serving.served_model import Predicted, ServedModel
from amforest.serving.writer import Job, Writer, convert_labelled

SMALL = 8_192  # bytes of a body that are handled at once: a thread takes longer to start
Handler = Callable[["Service", Request], Awaitable[Response]]

logger = logging.getLogger("amforest.serving")


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
    """

    writer: Writer
    measurements: Measurements
    pending: PendingLabels
    limits: Limits
    access: Access
    _tasks: set[Any] = field(default_factory=set)

    def model(self) -> ServedModel:
        """Return the model; `Problem` 409 if it cannot predict yet."""
        served = self.writer.served
        if served is None or not served.can_predict:
            raise Problem(409, "the model has learned nothing yet: send rows to /learn first")
        return served


def json_response(value: Any, status: int = 200) -> Response:
    """Return an answer in JSON."""
    return Response(orjson.dumps(value), status, media_type="application/json")


# Predictions


async def predict(service: Service, request: Request) -> Response:
    """Predict rows."""
    served = service.model()
    format = find_format(request.headers.get("content-type"))  # noqa: A001
    body = await read_body(request, service.limits)
    if len(body) <= SMALL and format != ARROW:
        predicted, rows = _predict(service, served, body, format)
    else:
        predicted, rows = await asyncio.to_thread(_predict, service, served, body, format)
    answer: dict[str, Any] = {
        "ids": service.pending.add(rows),
        "predictions": predicted.values,
    }
    if predicted.probabilities is not None:
        names = predicted.names or []
        answer["probabilities"] = [
            dict(zip(names, row, strict=True)) for row in predicted.probabilities
        ]
    if predicted.intervals is not None:
        answer["intervals"] = predicted.intervals
    service.measurements.n_predicted.inc(len(rows))
    return json_response(answer)


def _predict(
    service: Service,
    served: ServedModel,
    body: bytes,
    format: str,  # noqa: A002
) -> tuple[Predicted, list[Values]]:
    given = parse_rows(body, format, service.limits, with_labels=False)
    if given.rows is not None and len(given.rows) == 1:
        values = served.rows.convert_row(given.rows[0])
        return served.predict_one(values), [values]
    if given.rows is None:
        table, _ = served.rows.convert_arrow(given.arrow or b"", has_labels=False)
    else:
        table = served.rows.convert_rows(given.rows)
    return served.predict(table), served.rows.values_of(table)


# Learning


async def learn(service: Service, request: Request) -> Response:
    """Learn rows."""
    waits = request.query_params.get("wait", "true")
    if waits not in ("true", "false"):
        raise Problem(422, f"wait is {waits[:100]!r}; expected true or false", field="wait")
    format = find_format(request.headers.get("content-type"))  # noqa: A001
    body = await read_body(request, service.limits)
    if len(body) <= SMALL:
        job = _read_job(service, body, format)
    else:
        job = await asyncio.to_thread(_read_job, service, body, format)
    return await _learn(service, job, waits=waits == "true")


def _read_job(service: Service, body: bytes, format: str) -> Job:  # noqa: A002
    given = parse_rows(body, format, service.limits, with_labels=True)
    served = service.writer.served
    if served is None:
        return Job(1 if given.rows is None else len(given.rows), given)
    entry = convert_labelled(served, given)
    return Job(len(entry[0]), None, entry)


async def _learn(service: Service, job: Job, *, waits: bool = True) -> Response:
    service.writer.put(job)
    if waits:
        n_samples = await asyncio.wrap_future(job.learned)
        return json_response({"learned": job.n_rows, "samples": n_samples})
    if service.writer.is_durable or job.given is not None:
        await asyncio.wrap_future(job.recorded)
    return json_response({"queued": job.n_rows}, 202)


async def label(service: Service, request: Request) -> Response:
    """Learn the labels of rows that were predicted before."""
    served = service.model()
    if find_format(request.headers.get("content-type")) != "json":
        raise Problem(415, "expected application/json", field="Content-Type")
    given = parse_object(await read_body(request, service.limits), ("id", "ids", "label", "labels"))
    ids, labels, place = _split_labels(given)
    service.limits.check_rows(len(ids))
    encoded = served.rows.convert_labels(labels, place)
    rows = service.pending.take(ids)
    job = Job(len(rows), None, (served.rows.table_of(rows), encoded))
    try:
        return await _learn(service, job)
    except BaseException:
        if job.learned.done():  # it failed: the label may come again
            service.pending.put_back(ids, rows)
        raise


def _split_labels(given: dict[str, Any]) -> tuple[list[str], list[Any], str]:
    """Return ids, labels, and where the labels are."""
    is_one = given.keys() == {"id", "label"}
    if not is_one and given.keys() != {"ids", "labels"}:
        raise Problem(422, "expected id and label, or ids and labels", field="id")
    ids, labels = ([given["id"]], [given["label"]]) if is_one else (given["ids"], given["labels"])
    for name, values in (("ids", ids), ("labels", labels)):
        if not isinstance(values, list):
            raise Problem(422, f"{name} must be a list", field=name)
    if len(ids) != len(labels):
        raise Problem(
            422, f"labels has {len(labels):,} entries, ids has {len(ids):,}", field="labels"
        )
    if not all(isinstance(value, str) for value in ids):
        raise Problem(422, "an id must be text, as /predict returned it", field="id")
    return ids, labels, "label" if is_one else "labels[{}]"


# Descriptions


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


# The application


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
        _add_route(app, service, route)
    add_api_page(app, lambda: _describe_api(app, service))
    for router in routers:
        app.include_router(router)

    @app.exception_handler(HTTPException)
    async def refuse(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404:
            text = f"there is no {request.url.path[:200]!r}: see /docs"
        elif error.status_code == 405:
            allowed = (error.headers or {}).get("Allow", "another method")
            text = f"{request.url.path[:200]} does not take {request.method}: use {allowed}"
        else:
            text = str(error.detail)
        return Problem(error.status_code, text, headers=error.headers).to_response()

    return _Guard(app, service.access)


def _add_route(app: FastAPI, service: Service, route: Route) -> None:
    handler, path, needs = route.handler, route.path, route.needs
    measurements, access = service.measurements, service.access

    async def endpoint(request: Request) -> Response:
        start = time.perf_counter()
        try:
            if needs is not None:
                access.check_token(request.headers, may_only_predict=needs == "predict")
            return await handler(service, request)
        except Problem as problem:
            measurements.reject(path, problem.status, problem.field, problem.detail)
            return problem.to_response()
        except Exception:
            logger.exception("%s failed", path)
            failure = Problem(500, "an error of the server, which its log describes")
            measurements.reject(path, 500, None, failure.detail)
            return failure.to_response()
        finally:
            measurements.observe(path, time.perf_counter() - start)

    app.router.add_route(path, endpoint, methods=[route.method])


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


class _Guard:
    """Checks the host of every request, and adds headers to every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._access.hosts is not None:
            try:
                self._access.check_host(_headers_of(scope))
            except Problem as problem:
                await problem.to_response()(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _headers_of(scope: Scope) -> dict[str, str]:
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in scope["headers"]
        if name == b"host"
    }
