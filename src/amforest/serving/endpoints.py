"""What surrounds every handler: hosts, tokens, measurements, and errors as problems in JSON."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from amforest.serving.access import Access
from amforest.serving.problems import Problem
from amforest.serving.service import Protected

AnyService = TypeVar("AnyService", bound=Protected)

logger = logging.getLogger("amforest.serving")


def protect(app: FastAPI, access: Access) -> ASGIApp:
    """Return an application that checks hosts, and whose errors are problems in JSON."""

    @app.exception_handler(HTTPException)
    async def refuse(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404:
            text = f"there is no {request.url.path[:200]!r}: see / and /docs"
        elif error.status_code == 405:
            allowed = (error.headers or {}).get("Allow", "another method")
            text = f"{request.url.path[:200]} does not take {request.method}: use {allowed}"
        else:
            text = str(error.detail)
        return Problem(error.status_code, text, headers=error.headers).to_response()

    return _Guard(app, access)


def build_endpoint(
    service: AnyService,
    path: str,
    handler: Callable[[AnyService, Request], Awaitable[Response]],
    needs: str | None,
) -> Callable[[Request], Awaitable[Response]]:
    """Return what answers the requests of a path: it checks tokens, and turns errors to answers."""
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
            service.bodies.release(request)
            measurements.observe(path, time.perf_counter() - start)

    return endpoint


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
