"""One run: read rows, forecast each, learn it when its label comes, and keep account."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from amforest.cli.output import RowFile
from amforest.cli.scheme import CLASSIFICATION, Scheme
from amforest.cli.view import Status
from amforest.evaluation import Evaluator
from amforest.reading import Batch, Reject, split_target

SECONDS_BETWEEN_STATS = 2.0
ROWS_AT_ONCE = 4_000
KEPT = 10  # of the slowest and the worst rows
ROWS_IN_REPORT = 10_000  # the last ones, of which forecasts are kept
FORECAST_COLUMNS = ("row", "label", "forecast", "probability", "probabilities")
REJECT_COLUMNS = ("file", "line", "reason", "text")


@dataclass(frozen=True)
class Forecasts:
    """Labels, and what was forecast of them: numbers, or probabilities of classes."""

    labels: NDArray[Any]
    forecasts: NDArray[Any]
    classes: NDArray[Any] | None


@dataclass
class Account:
    """What a run has done so far; what is needed to go on is saved with a checkpoint."""

    n_rows: int = 0  # with a label: those that are learnt sooner or later
    n_before: int = 0  # of them, in the run that this one goes on from
    n_read: int = 0  # of the stream
    n_rejected: int = 0
    seconds: float = 0.0  # of forecasting and learning
    started: float = field(default_factory=time.monotonic)
    slowest: list[tuple[float, int]] = field(default_factory=list)
    worst: list[tuple[float, int, str, str]] = field(default_factory=list)


class Session:
    """Test-then-train over batches of a stream.

    Parameters
    ----------
    model : AMFClassifier or AMFRegressor
    scheme : Scheme
    evaluator : Evaluator
    delay : int
        After how many more rows the label of a row comes.
    forecasts, rejects : RowFile or None
    """

    def __init__(
        self,
        model: Any,
        scheme: Scheme,
        evaluator: Evaluator,
        *,
        delay: int = 0,
        forecasts: RowFile | None = None,
        rejects: RowFile | None = None,
    ) -> None:
        self.model, self.scheme, self.evaluator = model, scheme, evaluator
        self.delay, self.forecasts, self.rejects = delay, forecasts, rejects
        self.account = Account()
        self._recent: deque[Forecasts] = deque()
        self._n_recent = 0
        self._waiting: deque[tuple[list[Any], Any]] = deque()  # for their labels
        self._stats: dict[str, Any] = {"nodes": 0, "depth": 0, "bytes": 0}
        self._stats_at = 0.0

    def take(self, batch: Batch) -> None:
        """Forecast the rows of a batch, and learn those whose labels have come."""
        rows, y = split_target(batch, self.scheme.target)
        self._reject(rows.rejects)  # those without a label among them
        self.account.n_read += len(batch)
        if not len(y):
            return
        began = time.perf_counter()
        features, labels = self.scheme.features(rows), self.scheme.labels(y)
        if self.delay:
            self._take_delayed(features, labels)
        else:
            self._take_now(features, labels)
        self.account.seconds += (took := time.perf_counter() - began)
        _keep_largest(self.account.slowest, (took / len(y), self.account.n_rows))

    def _take_now(self, features: pa.Table, labels: NDArray[Any]) -> None:
        knows_nothing = not self.model.__sklearn_is_fitted__()
        if self.scheme.task == CLASSIFICATION:
            forecasts = self.model.partial_fit_predict_proba(features, labels)
        else:
            forecasts = self.model.partial_fit_predict(features, labels)
        self._account_for(labels, forecasts, n_without=int(knows_nothing))

    def _take_delayed(self, features: pa.Table, labels: NDArray[Any]) -> None:
        """One row at a time: each is forecast by a model of its own."""
        rows = [list(row.values()) for row in features.to_pylist()]
        for i, row in enumerate(rows):
            self._account_for(labels[i : i + 1], self._forecast(row))
            self._waiting.append((row, labels[i].item()))
            if len(self._waiting) > self.delay:
                self._learn_oldest()

    def _forecast(self, row: list[Any]) -> NDArray[Any] | None:
        if not self.model.__sklearn_is_fitted__():
            return None
        if self.scheme.task == CLASSIFICATION:
            return np.asarray(self.model.predict_proba_one(row))[None]
        return np.array([self.model.predict_one(row)])

    def _learn_oldest(self) -> None:
        row, label = self._waiting.popleft()
        if self.model.__sklearn_is_fitted__():
            self.model.learn_one(row, label)
        else:  # only now does the model learn the names of its features
            names = (*self.scheme.numbers, *self.scheme.categories)
            table = pa.table({name: [value] for name, value in zip(names, row, strict=True)})
            self.model.partial_fit(table, [label])

    def finish(self) -> None:
        """At the end of the stream, the labels that are still awaited come."""
        while self._waiting:
            self._learn_oldest()

    def to_json(self) -> dict[str, Any]:
        """Return what a run needs to go on from here, beside the model."""
        account = self.account
        return {
            "scheme": self.scheme.to_json(),
            "counts": [account.n_rows, account.n_read, account.n_rejected],
            "sizes": [0 if file is None else file.size for file in (self.forecasts, self.rejects)],
            "waiting": [list(item) for item in self._waiting],
        }

    def go_on_from(self, state: dict[str, Any]) -> None:
        """Take over from a run that was stopped."""
        self.account.n_rows, self.account.n_read, self.account.n_rejected = state["counts"]
        self.account.n_before = self.account.n_rows
        self._waiting.extend((row, label) for row, label in state["waiting"])

    def sync(self) -> None:
        """Make sure that what was written survives."""
        for file in (self.forecasts, self.rejects):
            if file is not None:
                file.sync()

    def _account_for(
        self, labels: NDArray[Any], forecasts: NDArray[Any] | None, n_without: int = 0
    ) -> None:
        """Measure and write forecasts; the first rows may have none."""
        classes = getattr(self.model, "classes_", None)
        if forecasts is None:
            forecasts, n_without = np.empty((0,)), len(labels)
        if n_without:
            self.evaluator.update(labels[:n_without], None)
            self._write(labels[:n_without], None, None)
        rest = slice(n_without, None)
        if len(labels) > n_without:
            self.evaluator.update(labels[rest], forecasts[rest], classes)
            self._write(labels[rest], forecasts[rest], classes)

    def _write(
        self, labels: NDArray[Any], forecasts: NDArray[Any] | None, classes: NDArray[Any] | None
    ) -> None:
        start = self.account.n_rows + 1
        self.account.n_rows += len(labels)
        if forecasts is not None:
            self._keep_worst(start, labels, forecasts, classes)
            self._keep_recent(Forecasts(labels, forecasts, classes))
        if self.forecasts is not None:
            self.forecasts.write(forecast_rows(start, labels, forecasts, classes))

    def _keep_worst(
        self, start: int, labels: NDArray[Any], forecasts: NDArray[Any], classes: Any
    ) -> None:
        if classes is None:
            losses = (forecasts - labels) ** 2
        else:
            columns = np.searchsorted(classes, labels)
            known = np.flatnonzero(np.isin(labels, classes))  # others had no chance
            chances = np.zeros(len(labels))
            chances[known] = forecasts[known, columns[known]]
            losses = -np.log(np.maximum(chances, np.finfo(float).eps))
        for i in np.argsort(losses)[::-1][:KEPT].tolist():
            forecast = forecasts[i] if classes is None else classes[forecasts[i].argmax()]
            entry = float(losses[i]), start + i, str(labels[i]), str(forecast)
            _keep_largest(self.account.worst, entry)

    def _keep_recent(self, latest: Forecasts) -> None:
        self._recent.append(latest)
        self._n_recent += len(latest.labels)
        while self._n_recent - len(self._recent[0].labels) >= ROWS_IN_REPORT:
            self._n_recent -= len(self._recent.popleft().labels)

    def recent(self) -> Forecasts:
        """Return the last rows that had a forecast, with a column for each class known by now."""
        classes = getattr(self.model, "classes_", None)
        if not self._recent:
            return Forecasts(
                np.empty(0), np.empty((0, 0 if classes is None else len(classes))), classes
            )
        labels = np.concatenate([part.labels for part in self._recent])[-ROWS_IN_REPORT:]
        parts = [part.forecasts for part in self._recent]
        if classes is not None:
            parts = [_widened(part, classes) for part in self._recent]
        return Forecasts(labels, np.concatenate(parts)[-ROWS_IN_REPORT:], classes)

    def _reject(self, rejects: tuple[Reject, ...]) -> None:
        self.account.n_rejected += len(rejects)
        if self.rejects is not None and rejects:
            self.rejects.write((r.file, r.line, r.reason, r.text) for r in rejects)

    def status(self, bytes_read: int, bytes_total: int | None, *, final: bool = False) -> Status:
        """Return how things are; the depth of large trees is not looked at each time."""
        now, account = time.monotonic(), self.account
        if final or now - self._stats_at >= SECONDS_BETWEEN_STATS:
            self._stats, self._stats_at = self.model.stats(), now
        return Status(
            rows=account.n_rows,
            rows_per_second=(account.n_rows - account.n_before) / max(now - account.started, 1e-9),
            bytes_read=bytes_read,
            bytes_total=bytes_total,
            rejected=account.n_rejected,
            overall=self.evaluator.metrics,
            recent=self.evaluator.window,
            window=self.evaluator.window_size,
            nodes=self._stats["nodes"],
            depth=self._stats["depth"],
            bytes=self._stats["bytes"],
        )


def forecast_rows(
    start: int,
    labels: NDArray[Any] | None,
    forecasts: NDArray[Any] | None,
    classes: NDArray[Any] | None,
) -> Iterator[tuple[Any, ...]]:
    """Yield what is written of each row: its number, its label if it has one, its forecast."""
    names = None if classes is None else classes.tolist()
    n_rows = len(forecasts) if labels is None else len(labels)  # type: ignore[arg-type]
    for i in range(n_rows):
        head = (start + i,) if labels is None else (start + i, labels[i].item())
        if forecasts is None:
            yield *head, None, None, None
        elif names is None:
            yield *head, float(forecasts[i]), None, None
        else:
            known = {str(n): p for n, p in zip(names, forecasts[i].tolist(), strict=True) if p > 0}
            best = int(forecasts[i].argmax())
            yield *head, names[best], float(forecasts[i][best]), known


def _widened(part: Forecasts, classes: NDArray[Any]) -> NDArray[Any]:
    known = np.isin(classes, [] if part.classes is None else part.classes)
    wide = np.zeros((len(part.labels), len(classes)))
    wide[:, known] = part.forecasts
    return wide


def _keep_largest(kept: list[Any], entry: tuple[Any, ...]) -> None:
    kept.append(entry)
    kept.sort(reverse=True)
    del kept[KEPT:]
