"""The page of the server at /: its files, and the events that it shows."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from amforest.serving.endpoints import build_endpoint
from amforest.serving.live_events import LiveEvents
from amforest.serving.service import Service
from amforest.serving.web_files import file_routes

FILES = {
    "/": "live.html",
    "/page/style.css": "style.css",
    "/page/elements.js": "elements.js",
    "/page/charts.js": "charts.js",
    "/page/events.js": "events.js",
    "/page/form.js": "form.js",
    "/page/live.js": "live.js",
}


def build_page(service: Service, events: LiveEvents) -> APIRouter:
    """Return the routes of the page. Its files hold no data and need no token; the events do."""

    async def stream(service: Service, request: Request) -> Response:
        events.check_room()
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(events.stream(), headers=headers, media_type="text/event-stream")

    async def access(request: Request) -> Response:
        return JSONResponse({"needs_token": service.access.token is not None})

    router = APIRouter()
    router.routes.extend(file_routes(FILES))
    router.add_route("/page/access", access)
    router.add_route("/events", build_endpoint(service, "/events", stream, "predict"))
    return router
