"""Server-sent events: what pages show, sampled once a second for all of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from math import isfinite
from threading import Event, Thread
from typing import Any

import orjson
from prometheus_client import Counter

from amforest.inspection import importances
from amforest.serving.history import History
from amforest.serving.problems import Problem
from amforest.serving.served_model import ServedModel
from amforest.serving.service import Service

MOST_PAGES = 100  # that are open at once
MOST_REFUSED = 12  # refused requests in an event
MOST_FEATURES = 12  # importances in an event
MOST_MEMORIES = 20
SLOW_TICKS = 3  # between two samples of importances

logger = logging.getLogger("amforest.serving")


class LiveEvents:
    """Samples a server once a second, and sends events to open pages.

    A thread of its own takes the samples: it waits for the model like a prediction does, and what
    learns or predicts never waits for it. An event is encoded once for all pages. A page that reads
    slowly misses points; nothing is kept for it.

    Parameters
    ----------
    service : Service
    period : float, default=1.0
        The seconds between two points.

    Attributes
    ----------
    history : History
    """

    def __init__(self, service: Service, period: float = 1.0) -> None:
        self.history = History()
        self._service, self._period = service, period
        self._topics: dict[str, tuple[int, bytes]] = {}  # the last event of each: its number, bytes
        self._pages: set[asyncio.Event] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = Event()
        self._thread = Thread(target=self._run, name="amforest-events", daemon=True)

    def start(self) -> None:
        """Start to take samples."""
        self._thread.start()

    def close(self) -> None:
        """End all streams; may be called by a handler of signals."""
        self._is_closed.set()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake_pages)

    async def stream(self) -> AsyncIterator[bytes]:
        """Return the events of a page: the past, then what is new, until the server ends."""
        wake = self._open_page()
        try:
            seen: dict[str, int] = {}
            yield encode_event("history", self.history.to_json())
            while not self._is_closed.is_set():
                for name, (number, event) in list(self._topics.items()):
                    if seen.get(name) != number:
                        seen[name] = number
                        yield event
                await wake.wait()
                wake.clear()
        finally:
            self._pages.discard(wake)

    def check_room(self) -> None:
        """Refuse a page too many."""
        if self._is_closed.is_set():
            raise Problem(503, "the server is shutting down", headers={"Retry-After": "5"})
        if len(self._pages) >= MOST_PAGES:
            raise Problem(
                503,
                f"{MOST_PAGES} pages are open already: close one",
                headers={"Retry-After": "60"},
            )

    def _open_page(self) -> asyncio.Event:
        self._loop = asyncio.get_running_loop()
        wake = asyncio.Event()
        self._pages.add(wake)
        return wake

    def _wake_pages(self) -> None:
        for wake in self._pages:
            wake.set()

    # The thread

    def _run(self) -> None:
        tick = 0
        while not self._is_closed.is_set():
            start = time.monotonic()
            try:
                self._sample(tick)
            except Exception:
                logger.exception("a sample for the page failed")
            tick += 1
            if self._pages and self._loop is not None and not self._is_closed.is_set():
                self._loop.call_soon_threadsafe(self._wake_pages)
            self._is_closed.wait(max(self._period - (time.monotonic() - start), 0.1))

    def _sample(self, tick: int) -> None:
        served = self._service.writer.served
        if served is not None and not served.can_predict:
            served = None
        point = {"tick": tick, **self._counts()}
        if served is not None:
            point |= _figures_of(served)
        self.history.add(point)
        if served is not None:
            self._publish("model", _signature_of(served))
        self._publish("point", point)
        self._publish("refused", self._service.measurements.last_rejects()[:MOST_REFUSED])
        if served is not None and tick % SLOW_TICKS == 0 and self._pages:
            self._publish("importances", _importances_of(served))

    def _publish(self, name: str, value: Any) -> None:
        """Make an event the last of its name, unless it is that already."""
        number, last = self._topics.get(name, (0, b""))
        event = encode_event(name, value)
        if event != last:
            self._topics[name] = number + 1, event

    def _counts(self) -> dict[str, Any]:
        measurements = self._service.measurements
        return {
            "time": round(time.time(), 2),
            "learned": _total(measurements.n_learned),
            "predicted": _total(measurements.n_predicted),
            "refused": _total(measurements.n_rejected),
            "waiting": self._service.writer.n_waiting,
        }


def encode_event(name: str, value: Any) -> bytes:
    """Return an event as pages read it."""
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(value) + b"\n\n"


def _total(counter: Counter) -> float:
    return sum(
        sample.value
        for family in counter.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    )


def _figures_of(served: ServedModel) -> dict[str, Any]:
    stats = served.model.stats()
    figures = {
        "samples": stats["samples"],
        "bytes": stats["bytes"],
        "nodes": stats["nodes"],
        "recent": _rounded(served.evaluator.window),
        "total": _rounded(served.evaluator.metrics),
        "drifts": len(served.drift.drifts),
    }
    if served.model.is_adaptive:
        weights = served.model.memory_weights_.tolist()[:MOST_MEMORIES]
        figures["weights"] = [round(weight, 4) for weight in weights]
    return figures


def _signature_of(served: ServedModel) -> dict[str, Any]:
    """Return what a page needs to read points; when it changes, the page requests /model."""
    model = served.model
    return {
        "model": type(model).__name__,
        "task": served.scheme.task,
        "target": served.scheme.target,
        "window": served.evaluator.window_size,
        "n_classes": len(served.classes or ()),
        "memories": model.memory_names_[:MOST_MEMORIES] if model.is_adaptive else [],
    }


def _importances_of(served: ServedModel) -> dict[str, Any]:
    found = importances(served.model)
    order = (-found.total).argsort(kind="stable")[:MOST_FEATURES].tolist()
    parts = found.normalised()
    names = served.feature_names(found.names)
    return {
        "unit": found.unit,
        "n_features": len(names),
        "features": [
            {"name": names[j], "part": round(float(parts[j]), 4), "saved": float(found.total[j])}
            for j in order
        ],
    }


def _rounded(metrics: dict[str, float]) -> dict[str, float | None]:
    return {
        name: float(f"{value:.5g}") if isfinite(value) else None for name, value in metrics.items()
    }
