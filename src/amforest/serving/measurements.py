"""Figures about a server: counts and times for Prometheus, and the last refused requests."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    exposition,
    generate_latest,
)

CONTENT_TYPE = exposition.CONTENT_TYPE_LATEST
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
KEPT_REJECTS = 50


@dataclass(frozen=True)
class Rejection:
    """A request that was refused."""

    time: float
    path: str
    status: int
    field: str | None
    detail: str


class Measurements:
    """What a server counts.

    Attributes
    ----------
    rejects : deque of Rejection
        The last requests that were refused, the newest last.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.started = time.time()
        self.rejects: deque[Rejection] = deque(maxlen=KEPT_REJECTS)
        registry = self.registry
        self.n_predicted = Counter(
            "amforest_predicted_rows", "Rows predicted by /predict", registry=registry
        )
        self.n_learned = Counter("amforest_learned_rows", "Rows learned", registry=registry)
        self.n_rejected = Counter(
            "amforest_rejected_requests",
            "Requests refused, by path and status",
            ["path", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "amforest_request_seconds",
            "Time from the head of a request to the answer",
            ["path"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.learning_seconds = Histogram(
            "amforest_learning_seconds",
            "Time to learn the rows of one request, without waiting",
            buckets=_SECONDS,
            registry=registry,
        )
        self._by_path: dict[str, Any] = {}

    def add_gauge(self, name: str, text: str, read: Callable[[], float | None]) -> None:
        """Add a figure that is read when it is requested; None is shown as NaN."""

        def value() -> float:
            now = read()
            return math.nan if now is None else float(now)

        Gauge(name, text, registry=self.registry).set_function(value)

    def observe(self, path: str, seconds: float) -> None:
        """Count a request, and the time that it took."""
        histogram = self._by_path.get(path)
        if histogram is None:
            histogram = self._by_path[path] = self._seconds.labels(path)
        histogram.observe(seconds)

    def reject(self, path: str, status: int, field: str | None, detail: str) -> None:
        """Count a request that was refused, and keep it for a while."""
        self.n_rejected.labels(path, str(status)).inc()
        self.rejects.append(Rejection(time.time(), path, status, field, detail[:500]))

    def last_rejects(self) -> list[dict[str, Any]]:
        """Return the last requests that were refused, the newest first."""
        return [asdict(reject) for reject in reversed(list(self.rejects))]

    def to_prometheus(self) -> bytes:
        """Return all figures as Prometheus reads them."""
        return generate_latest(self.registry)
