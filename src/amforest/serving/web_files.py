"""Files of pages: HTML, styles and scripts of this package, and the script of plotly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from gzip import compress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER = Path(__file__).parent / "web"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
# Plotly adds styles of its own; scripts come from files only.
POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data: blob:; "
    "style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "vary": "accept-encoding",
}
SMALLEST = 2_000  # bytes that are worth compressing


def file_routes(files: Mapping[str, str]) -> list[Route]:
    """Return routes of files by their paths, and of plotly's script."""
    routes = [Route(path, _answer(FOLDER / name)) for path, name in files.items()]
    return [*routes, Route("/page/plotly.js", _answer(_plotly()))]


def _plotly() -> Path:
    spec = find_spec("plotly")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("plotly is missing", name="plotly")
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"


def _answer(path: Path) -> Callable[[Request], Awaitable[Response]]:
    # A new version of a package has new files; so the browser asks whether they have changed.
    tag = f'"{version("amforest")}-{version("plotly")}-{path.stat().st_mtime_ns:x}"'

    async def answer(request: Request) -> Response:
        headers = {**HEADERS, "etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        plain, compressed = await asyncio.to_thread(_read, path)
        if compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            plain = compressed
        return Response(plain, headers=headers, media_type=TYPES[path.suffix])

    return answer


@cache
def _read(path: Path) -> tuple[bytes, bytes | None]:
    """Return the content of a file, plain and compressed."""
    content = path.read_bytes()
    return content, compress(content, 6, mtime=0) if len(content) >= SMALLEST else None
