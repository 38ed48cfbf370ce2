"""`amforest playground`: a page to learn the method by points in the plane."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from amforest.serving.access import LOOPBACK, Access
from amforest.serving.bodies import parse_object
from amforest.serving.endpoints import build_endpoint, protect
from amforest.serving.limits import BodyReader, Limits
from amforest.serving.measurements import Measurements
from amforest.serving.playground_session import HALF, NAMES, VIEWS, PlaygroundSession
from amforest.serving.problems import Problem
from amforest.serving.server import configure, listen, run_until_signal
from amforest.serving.service import json_response
from amforest.serving.web_files import file_routes

HOST = "127.0.0.1"
MOST_SESSIONS = 8  # the one that was not used for longest is dropped
MOST_STEP = 200  # rows of a request
MOST_CLICK = 20
FILES = {
    "/": "playground.html",
    "/page/style.css": "style.css",
    "/page/elements.js": "elements.js",
    "/page/charts.js": "charts.js",
    "/page/events.js": "events.js",
    "/page/plane.js": "plane.js",
    "/page/playground.js": "playground.js",
}
_SHOW = ("view", "memory", "tree")


class Playground:
    """The sessions of the pages that are open.

    Attributes
    ----------
    bodies : BodyReader
    access : Access
    measurements : Measurements
    """

    def __init__(self) -> None:
        self.bodies = BodyReader(Limits(body_bytes=2_000))
        self.access = Access(hosts=LOOPBACK)
        self.measurements = Measurements()
        self._sessions: OrderedDict[str, PlaygroundSession] = OrderedDict()

    def add(self, session: PlaygroundSession) -> str:
        """Keep a session, and return its id."""
        key = secrets.token_urlsafe(9)
        self._sessions[key] = session
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return key

    def find(self, key: str) -> PlaygroundSession:
        """Return a session; `Problem` 404 if it was dropped."""
        if key not in self._sessions:
            raise Problem(404, "this session has ended: start again", field="session")
        self._sessions.move_to_end(key)
        return self._sessions[key]


def play(port: int) -> None:
    """Serve the playground on a port of this machine until SIGINT or SIGTERM."""
    with listen(HOST, port) as listener:
        run_until_signal(configure(build_playground(Playground())), listener, lambda: None)


def build_playground(playground: Playground) -> ASGIApp:
    """Return the application: the files of the page, and its requests."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.router.routes.extend(file_routes(FILES))
    for path, handler in (("/start", start), ("/learn", learn), ("/click", click), ("/show", show)):
        endpoint = build_endpoint(playground, path, handler, None)
        app.router.add_route(path, endpoint, methods=["POST"])
    return protect(app, playground.access)


async def start(playground: Playground, request: Request) -> Response:
    """Start a session."""
    given = await _read(playground, request, "toy", "seed", *_SHOW)
    toy = _choice(given, "toy", NAMES)
    session = PlaygroundSession(toy, _whole(given, "seed", 0, 2**31 - 1))
    key = playground.add(session)
    return await _answer(session, given, lambda: None, key)


async def learn(playground: Playground, request: Request) -> Response:
    """Learn points of the toy."""
    given = await _read(playground, request, "session", "rows", "rotation", "swapped", *_SHOW)
    session = playground.find(_text(given, "session"))
    n_rows, rotation = _whole(given, "rows", 1, MOST_STEP), _number(given, "rotation", -360, 360)
    swapped = given.get("swapped")
    if not isinstance(swapped, bool):
        raise Problem(422, "swapped must be true or false", field="swapped")
    return await _answer(session, given, lambda: session.learn(n_rows, rotation, swapped=swapped))


async def click(playground: Playground, request: Request) -> Response:
    """Learn points at a place."""
    given = await _read(playground, request, "session", "x", "y", "label", "count", *_SHOW)
    session = playground.find(_text(given, "session"))
    x, y = (_number(given, name, -HALF, HALF) for name in ("x", "y"))
    label, n_points = _whole(given, "label", 0, 1), _whole(given, "count", 1, MOST_CLICK)
    return await _answer(session, given, lambda: session.add(x, y, label, n_points))


async def show(playground: Playground, request: Request) -> Response:
    """Show the forests as they are."""
    given = await _read(playground, request, "session", *_SHOW)
    return await _answer(playground.find(_text(given, "session")), given, lambda: None)


async def _read(playground: Playground, request: Request, *names: str) -> dict[str, Any]:
    # A page of another site cannot send this type without asking first.
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise Problem(415, "expected application/json", field="Content-Type")
    return parse_object(await playground.bodies.read(request), names)


async def _answer(
    session: PlaygroundSession,
    given: Mapping[str, Any],
    change: Callable[[], None],
    key: str | None = None,
) -> Response:
    """Change a session in a thread, and return what it shows then."""
    view = _choice(given, "view", VIEWS)
    memory, tree = _whole(given, "memory", 0, 100), _whole(given, "tree", 0, 100)

    def work() -> dict[str, Any]:
        with session.lock:
            change()
            return session.show(view, memory, tree)

    shown = await asyncio.to_thread(work)
    return json_response(shown if key is None else {"session": key, **shown})


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        raise Problem(422, f"{name} must be text", field=name)
    return value


def _choice(given: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str:
    value = given.get(name)
    if value not in choices:
        raise Problem(422, f"{name} must be one of {', '.join(choices)}", field=name)
    return str(value)


def _number(given: Mapping[str, Any], name: str, least: float, most: float) -> float:
    value = given.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise Problem(422, f"{name} must be a number from {least:g} to {most:g}", field=name)
    return float(value)


def _whole(given: Mapping[str, Any], name: str, least: int, most: int) -> int:
    value = _number(given, name, least, most)
    if not value.is_integer():
        raise Problem(422, f"{name} must be a whole number", field=name)
    return int(value)
