"""The server process: its socket, its signals, and an end that loses nothing."""

from __future__ import annotations

import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import HANDLED_SIGNALS

from amforest.serving.access import LOOPBACK, Access
from amforest.serving.application import build_application
from amforest.serving.first_rows import NewModel, load_model
from amforest.serving.http_protocol import LimitedProtocol
from amforest.serving.limits import Limits
from amforest.serving.live_events import LiveEvents
from amforest.serving.live_page import build_page
from amforest.serving.measurements import Measurements
from amforest.serving.model_store import ModelStore
from amforest.serving.pending_labels import PendingLabels
from amforest.serving.service import Service
from amforest.serving.writer import Writer

SWITCH_SECONDS = 5e-4  # after which a thread of Python lets others run: a prediction waits so long
GRACE_SECONDS = 30  # for requests that are being answered at the end
# Takes a port that had a server a minute ago, but not one that has a server now.
_OWN_ADDRESS: int = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
logger = logging.getLogger("amforest.serving")


@dataclass(frozen=True)
class ServerSettings:
    """The options of `amforest serve`."""

    model: str | None = None  # a file
    new_model: NewModel = field(kw_only=True)
    target: str | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    predict_token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    checkpoint: str | None = None
    every_rows: int = 10_000
    every_seconds: float = 60.0
    durable: bool = False
    threads: int | None = None
    most_pending: int = 100_000
    pending_seconds: float = 86_400.0
    limits: Limits = field(default_factory=Limits)


def serve(settings: ServerSettings) -> None:
    """Serve until SIGINT or SIGTERM; then learn what waits, save, and return.

    The first line on the standard output is ``Serving on http://HOST:PORT``.
    """
    if settings.durable and settings.checkpoint is None:
        raise ValueError("--durable needs --checkpoint FOLDER, where the journal is")
    if settings.predict_token is not None and settings.token is None:
        raise ValueError("--predict-token is given without --token: learning would be open to all")
    listener = listen(settings.host, settings.port)
    with listener:
        writer = _start_writer(settings)
        try:
            _run(settings, writer, listener)
        finally:
            writer.close()


def _start_writer(settings: ServerSettings) -> Writer:
    store = ModelStore(
        settings.checkpoint,
        every_rows=settings.every_rows,
        every_seconds=settings.every_seconds,
        durable=settings.durable,
    )
    model, state = store.newest() or (None, None)
    if model is not None:
        _note(f"continuing from {settings.checkpoint}")
        _check_target(settings, state)
    elif settings.model is not None:
        model, state = load_model(settings.model, settings.target)
    elif settings.target is None:
        raise ValueError("--target is missing: name the column to predict")
    if model is not None and settings.threads is not None:
        model.n_jobs = settings.threads
    writer = Writer(store, settings.new_model, settings.limits, Measurements())
    writer.start(model, state)
    if store.n_replayed:
        _note(f"{store.n_replayed:,} requests of the journal were learned again")
    return writer


def _check_target(settings: ServerSettings, state: Any) -> None:
    target = state["scheme"]["target"]
    if settings.target not in (None, target):
        raise ValueError(
            f"--target is {settings.target!r}, but the models in {settings.checkpoint} predict "
            f"{target!r}"
        )


def _run(settings: ServerSettings, writer: Writer, listener: socket.socket) -> None:
    host = listener.getsockname()[0]
    is_local = host in ("127.0.0.1", "::1")
    hosts = (*LOOPBACK, *(name.lower() for name in settings.allowed_hosts))
    access = Access(
        settings.token,
        settings.predict_token,
        hosts if is_local or settings.allowed_hosts else None,
    )
    pending = PendingLabels(settings.most_pending, settings.pending_seconds)
    service = Service(writer, writer.measurements, pending, settings.limits, access)
    add_gauges(service)
    if settings.checkpoint is None:
        _note("nothing is saved: add --checkpoint FOLDER to keep what is learned")
    if not is_local and settings.token is None:
        _note("everybody who reaches this port may train the model: add --token")
    events = LiveEvents(service)
    config = configure(build_application(service, [build_page(service, events)]))
    events.start()
    run_until_signal(config, listener, events.close)


def run_until_signal(
    config: uvicorn.Config, listener: socket.socket, close: Callable[[], None]
) -> None:
    """Tell where the server is, and serve until SIGINT or SIGTERM, which call `close` first."""
    host, port = listener.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    print(f"Serving on http://{name}:{port}", flush=True)
    _Server(config, close).run(sockets=[listener])


def configure(application: ASGIApp) -> uvicorn.Config:
    """Return how an application is served, and prepare this process for it."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()  # what is there now stays: no need to visit it again and again
    gc.set_threshold(50_000, 20, 50)
    return uvicorn.Config(
        application,
        http=LimitedProtocol,
        loop="auto",  # uvloop, but on Windows
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


def add_gauges(service: Service) -> None:
    """Add what is read at a request of Prometheus."""
    writer, measurements = service.writer, service.measurements

    def of_model(name: str) -> float | None:
        served = writer.served
        if served is None:
            return None
        value = served.model.stats()[name]
        return None if value is None else float(value)

    def of_drift() -> float:
        return 0.0 if writer.served is None else float(len(writer.served.drift.drifts))

    def of_window(name: str) -> float | None:
        return None if writer.served is None else writer.served.evaluator.window.get(name)

    add = measurements.add_gauge
    add("amforest_model_bytes", "Memory of the model", lambda: of_model("bytes"))
    add("amforest_model_nodes", "Nodes of all trees", lambda: of_model("nodes"))
    add("amforest_model_samples", "Rows that the model has learned", lambda: of_model("samples"))
    add(
        "amforest_progressive_loss",
        "Mean loss of all rows, each predicted before it was learned",
        lambda: of_model("progressive_loss"),
    )
    for name in ("log_loss", "accuracy", "rmse", "mae", "coverage"):
        add(
            f"amforest_recent_{name}",
            f"{name} of the last 1,000 rows, each predicted before it was learned",
            partial(of_window, name),
        )
    add("amforest_drift_alarms", "Drifts since the start", of_drift)
    add("amforest_queue_rows", "Rows that wait to be learned", lambda: writer.n_waiting)
    add("amforest_pending_labels", "Predictions that wait", lambda: len(service.pending))


class _Server(uvicorn.Server):
    """A server that returns after a signal: uvicorn's own raises the signal again.

    A signal ends streams, which would never end otherwise, by `close`.
    """

    def __init__(self, config: uvicorn.Config, close: Callable[[], None]) -> None:
        super().__init__(config)
        self._close = close

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End streams, then the server."""
        self._close()
        super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let SIGINT and SIGTERM end the server; on Windows SIGBREAK, too."""
        handlers = {number: signal.signal(number, self.handle_exit) for number in HANDLED_SIGNALS}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 means a free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise ValueError(f"--host is {host!r}: {error.strerror}") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, _OWN_ADDRESS, 1)
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
    return listener


def _note(text: str) -> None:
    print(f"Note: {text}", file=sys.stderr, flush=True)
