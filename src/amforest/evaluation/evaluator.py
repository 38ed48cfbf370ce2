"""The measuring alone: an evaluator takes labels and forecasts batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_scalar

from amforest.evaluation.arrays import (
    Codes,
    Floats,
    as_list,
    check_shape,
    checked_probabilities,
    checked_weights,
)
from amforest.evaluation.classes import NONE, Classes, ClassForecast
from amforest.evaluation.curve import Curve, point_of
from amforest.evaluation.metrics import DEFAULTS, METRICS, made
from amforest.evaluation.number_metrics import Crps
from amforest.evaluation.progress import Progress


class Evaluator:
    """Metrics of forecasts that come batch by batch.

    Parameters
    ----------
    task : {"classification", "regression"}
    metrics : list of str, default=None
        Of classification: "log_loss", "accuracy", "auc", "balanced_accuracy", "brier", "kappa"; of
        regression: "mse", "mae", "r2", "crps". scikit-learn's names for them will do. None means
        "log_loss", "accuracy" and, as long as there are two classes, "auc"; or "mse", "mae", "r2".
    window : int, default=1000
        Of how many of the last rows there are values, too.
    every : int, default=None
        How many rows there are between two points of the curve. None means 10, and twice as many
        whenever there are 400 points, of which every other one is then dropped.

    Notes
    -----
    No value depends on how rows are cut into batches. Memory does not grow with their number.

    Examples
    --------
    >>> from amforest.evaluation import Evaluator
    >>> evaluator = Evaluator("classification", metrics=["accuracy", "log_loss"])
    >>> evaluator.update(["no", "yes"], [[0.75, 0.25], [0.5, 0.5]], classes=["no", "yes"])
    >>> evaluator.metrics
    {'accuracy': 0.5, 'log_loss': 0.490...}
    """

    def __init__(
        self,
        task: str,
        metrics: Sequence[str] | None = None,
        window: int = 1000,
        *,
        every: int | None = None,
    ) -> None:
        if task not in METRICS:
            raise ValueError(f"task is {task!r}; it must be one of {', '.join(METRICS)}")
        check_scalar(window, "window", Integral, min_val=1)
        if every is not None:
            check_scalar(every, "every", Integral, min_val=1)
        if isinstance(metrics, str):
            raise TypeError(f"metrics is {metrics!r}; it must be a list of names")
        self.task, self.window_size = task, int(window)
        self.n_rows = self.n_skipped = 0
        self._by_choice = metrics is not None
        self._metrics = made(task, DEFAULTS[task] if metrics is None else metrics, self.window_size)
        self._classes = Classes()
        self._curve = Curve(every)

    def update(
        self,
        y: ArrayLike,
        forecasts: ArrayLike | None,
        classes: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> None:
        """Take some rows.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            The labels.
        forecasts : array-like, or None
            Of classification: probabilities, of shape (n_rows, n_classes), or labels; a label
            without a column had probability 0, and so has NaN. Of regression: numbers, or the
            members of an ensemble, of shape (n_rows, n_members). None: there is no forecast, and
            the rows are only counted.
        classes : array-like of shape (n_classes,), default=None
            What the columns of probabilities are about; it may change from call to call.
        weights : array-like of shape (n_rows,), default=None
            How much each row counts. None means 1.
        """
        labels = as_list(y)
        n_rows = len(labels)
        if forecasts is None:
            self._advance(n_rows, None)
            return
        some = None if weights is None else checked_weights(weights, n_rows, "weights")
        if self.task == "regression":
            self._take_numbers(np.array(labels), np.asarray(forecasts, dtype=np.float64), some)
        else:
            self._take_classes(labels, forecasts, classes, some)

    @property
    def metrics(self) -> dict[str, float]:
        """The value of each metric over all rows."""
        return {name: metric.value for name, metric in self._metrics.items()}

    @property
    def window(self) -> dict[str, float]:
        """The value of each metric over the last rows."""
        return {name: metric.window_value for name, metric in self._metrics.items()}

    @property
    def wants_members(self) -> bool:
        """Whether a metric is about the members of an ensemble."""
        return any(isinstance(metric, Crps) for metric in self._metrics.values())

    @property
    def classes(self) -> NDArray[Any] | None:
        """The classes that were seen or forecast, sorted; None for regression."""
        return np.array(sorted(self._classes.labels)) if self.task == "classification" else None

    def result(self, *, seconds: float = nan, interrupted: bool = False) -> Progress:
        """Return what there is so far.

        Parameters
        ----------
        seconds : float, default=nan
            What the model took.
        interrupted : bool, default=False
            Whether this is the end, but not of the stream.

        Returns
        -------
        Progress
        """
        metrics, window = self.metrics, self.window
        return Progress(
            task=self.task,
            n_rows=self.n_rows,
            n_skipped=self.n_skipped,
            metrics=metrics,
            window=window,
            window_size=self.window_size,
            curve=self._curve.arrays(self.n_rows, point_of(metrics, window)),
            classes=self.classes,
            seconds=seconds,
            interrupted=interrupted,
        )

    def _take_numbers(self, y: NDArray[Any], forecasts: Floats, weights: Floats | None) -> None:
        if y.dtype.kind not in "biuf" or not np.isfinite(y).all():
            raise ValueError("y must hold numbers only, none of them NaN or infinite")
        check_shape(forecasts, len(y), (1, 2), "forecasts")
        labels = y.astype(np.float64)

        def take(part: slice) -> None:
            some = None if weights is None else weights[part]
            for metric in self._metrics.values():
                metric.update(labels[part], forecasts[part], some)

        self._advance(len(y), take)

    def _take_classes(
        self, y: list[Any], forecasts: ArrayLike, classes: Any, weights: Floats | None
    ) -> None:
        self._classes.check(y, "y")
        columns: list[Any] | None = None
        if np.ndim(forecasts) == 2:
            said: Any = checked_probabilities(forecasts, classes)
            columns = as_list(classes)
            self._classes.check(columns, "classes")
        else:
            said = as_list(forecasts)
            self._classes.check(said, "forecasts")
            self._do_without_probabilities()
        if len(said) != len(y):
            raise ValueError(f"forecasts has {len(said)} rows; y has {len(y)}")

        def take(part: slice) -> None:
            codes, forecast = self._encoded(y[part], said[part], columns)
            if len(self._classes) > 2 and not self._by_choice:
                self._metrics.pop("auc", None)
            some = None if weights is None else weights[part]
            for metric in self._metrics.values():
                metric.update(codes, forecast, some)

        self._advance(len(y), take)

    def _do_without_probabilities(self) -> None:
        """Drop metrics that need probabilities, or refuse labels if they were asked for."""
        needy = [name for name, metric in self._metrics.items() if metric.needs_probabilities]
        if needy and self._by_choice:
            raise ValueError(f"metrics has {needy[0]!r}, which needs probabilities, not labels")
        for name in needy:
            del self._metrics[name]

    def _encoded(
        self, y: list[Any], said: Any, columns: list[Any] | None
    ) -> tuple[Codes, ClassForecast]:
        """Return labels and forecasts in codes; new classes get theirs in the order of the rows."""
        known = self._classes.code_of
        first: dict[Any, int] = {}  # row of each new class
        if columns is not None:
            for j, label in enumerate(columns):
                if label not in known and len(rows := np.flatnonzero(said[:, j] > 0)):
                    first[label] = int(rows[0])
        for values in (y,) if columns is not None else (said, y):
            for label in dict.fromkeys(values):
                if label not in known:
                    first[label] = min(first.get(label, len(y)), values.index(label))
        self._classes.add(sorted(first, key=first.__getitem__))
        codes, size = self._classes.codes(y), len(self._classes)
        if columns is None:
            best, probabilities = self._classes.codes(said), None
        else:
            best, probabilities = self._most_probable(said, columns)
        return codes, ClassForecast(best, probabilities, size, self._classes.positive)

    def _most_probable(self, said: Floats, columns: list[Any]) -> tuple[Codes, Floats]:
        """Return the likeliest class of each row, and probabilities in the order of codes."""
        kept = [j for j, label in enumerate(columns) if label in self._classes.code_of]
        codes = self._classes.codes([columns[j] for j in kept])
        probabilities = np.zeros((len(said), len(self._classes)))
        if not kept:
            return np.full(len(said), NONE), probabilities
        some = said[:, kept]
        probabilities[:, codes] = some
        best = np.where(some.max(axis=1) > 0, codes[some.argmax(axis=1)], NONE)
        return best, probabilities

    def _advance(self, n_rows: int, take: Callable[[slice], None] | None) -> None:
        """Let rows be taken in parts that end where the curve wants a point."""
        start = 0
        while start < n_rows:
            end = min(n_rows, start + self._curve.next - self.n_rows)
            if take is None:
                self.n_skipped += end - start
            else:
                take(slice(start, end))
            self.n_rows += end - start
            if self.n_rows == self._curve.next:
                self._curve.add(self.n_rows, point_of(self.metrics, self.window))
            start = end
