"""The page of the API at /docs: Swagger UI, with files of a package and not of the internet."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import FileResponse, Response

FILES = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>amforest: API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
START = """window.ui = SwaggerUIBundle({
  url: "openapi.json", dom_id: "#swagger-ui", deepLinking: true,
  presets: [SwaggerUIBundle.presets.apis], validatorUrl: null,
});
"""
HEADERS = {
    "content-security-policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
}


def add_api_page(app: FastAPI, describe: Callable[[], dict[str, Any]]) -> None:
    """Add /openapi.json, and the page /docs that shows it."""

    async def openapi(request: Request) -> Response:
        return Response(orjson.dumps(describe()), media_type="application/json")

    async def page(request: Request) -> Response:
        return Response(PAGE, headers=HEADERS, media_type="text/html")

    async def start(request: Request) -> Response:
        return Response(START, headers=HEADERS, media_type="text/javascript")

    app.router.add_route("/openapi.json", openapi, methods=["GET"])
    app.router.add_route("/docs", page, methods=["GET"])
    app.router.add_route("/docs/start.js", start, methods=["GET"])
    for name, kind in FILES.items():
        _add_file(app, name, kind)


def _add_file(app: FastAPI, name: str, kind: str) -> None:
    spec = find_spec("fastapi_offline")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "static" / name

    async def file(request: Request) -> Response:
        return FileResponse(path, media_type=kind, headers=HEADERS)

    app.router.add_route(f"/docs/{name}", file, methods=["GET"])
