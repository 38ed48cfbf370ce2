"""Metrics of predictions that arrive batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from math import inf, nan
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_scalar

from amforest.evaluation.base_metric import Floats, Metric
from amforest.evaluation.blocks import as_list, validate_weights
from amforest.evaluation.class_metrics import (
    NO_CLASS,
    Accuracy,
    Auc,
    BalancedAccuracy,
    Brier,
    ClassCodes,
    ClassPredictions,
    Codes,
    Kappa,
    LogLoss,
)
from amforest.evaluation.number_metrics import (
    R2,
    Coverage,
    Crps,
    IntervalWidth,
    MeanAbsoluteError,
    MeanSquaredError,
    RootMeanSquaredError,
)
from amforest.evaluation.result import Curve, Progress, curve_point

METRICS: dict[str, dict[str, type[Metric]]] = {
    "classification": {
        "log_loss": LogLoss,
        "accuracy": Accuracy,
        "auc": Auc,
        "balanced_accuracy": BalancedAccuracy,
        "brier": Brier,
        "kappa": Kappa,
    },
    "regression": {
        "mse": MeanSquaredError,
        "rmse": RootMeanSquaredError,
        "mae": MeanAbsoluteError,
        "r2": R2,
        "crps": Crps,
        "coverage": Coverage,
        "interval_width": IntervalWidth,
    },
}
UNKNOWN_CLASSES = ("count", "skip")
DEFAULTS = {
    "classification": ("log_loss", "accuracy", "auc"),
    "regression": ("mse", "mae", "r2"),
}
ALIASES = {  # the names in scikit-learn
    "roc_auc": "auc",
    "roc_auc_ovr": "auc",
    "brier_score": "brier",
    "brier_score_loss": "brier",
    "cohen_kappa": "kappa",
    "cohen_kappa_score": "kappa",
    "mean_squared_error": "mse",
    "root_mean_squared_error": "rmse",
    "mean_absolute_error": "mae",
    "r2_score": "r2",
}


class Evaluator:
    """Metrics of predictions that arrive batch by batch.

    Parameters
    ----------
    task : {"classification", "regression"}
    metrics : list of str, default=None
        For classification: "log_loss", "accuracy", "auc", "balanced_accuracy", "brier", "kappa";
        for regression: "mse", "rmse", "mae", "r2", "crps", and of intervals "coverage",
        "interval_width". Their names in scikit-learn work, too. None means "log_loss", "accuracy"
        and, as long as there are two classes, "auc"; or "mse", "mae", "r2".
    window : int, default=1000
        The number of last rows over which each metric is computed as well.
    every : int, default=None
        The number of rows between two points of the curve. None means 10, doubled whenever there
        are 400 points, of which every other one is then dropped.
    unknown_classes : {"count", "skip"}, default="count"
        Whether rows whose class the model does not know yet are part of the log-loss. Such a class
        has had the probability 0 in all rows so far, which costs 36 nats. All other metrics count
        these rows.

    Attributes
    ----------
    n_rows, n_skipped : int
        As in `Progress`.
    n_unknown_classes : int
        The number of rows that are not part of the log-loss, with ``unknown_classes="skip"``.

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
        unknown_classes: str = "count",
    ) -> None:
        if task not in METRICS:
            raise ValueError(f"task is {task!r}; it must be one of {', '.join(METRICS)}")
        if unknown_classes not in UNKNOWN_CLASSES:
            raise ValueError(
                f"unknown_classes is {unknown_classes!r}; it must be one of "
                f"{', '.join(UNKNOWN_CLASSES)}"
            )
        check_scalar(window, "window", Integral, min_val=1)
        if every is not None:
            check_scalar(every, "every", Integral, min_val=1)
        if isinstance(metrics, str):
            raise TypeError(f"metrics is {metrics!r}; it must be a list of names")
        self.task, self.window_size = task, int(window)
        self.n_rows = self.n_skipped = 0
        self.n_unknown_classes = 0
        self._skips_unknown = unknown_classes == "skip"
        self._predicted_since: dict[Any, int] = {}  # the first row that each class might have
        self._are_requested = metrics is not None
        names = DEFAULTS[task] if metrics is None else metrics
        self._metrics = build_metrics(task, names, self.window_size)
        self._classes = ClassCodes()
        self._curve = Curve(every)

    def update(
        self,
        y: ArrayLike,
        predictions: ArrayLike | None,
        classes: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        intervals: ArrayLike | None = None,
    ) -> None:
        """Add some rows.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            The labels.
        predictions : array-like, or None
            For classification: probabilities, of shape (n_rows, n_classes), or labels. A label
            without a column has probability 0, and so has NaN. For regression: numbers, or those of
            an ensemble, of shape (n_rows, n_members). None: there is no prediction, and the rows
            are only counted.
        classes : array-like of shape (n_classes,), default=None
            The classes of the columns of probabilities; they may change from call to call.
        weights : array-like of shape (n_rows,), default=None
            The weight of each row. None means 1.
        intervals : array-like of shape (n_rows, 2), default=None
            The lower and the upper end of each row's interval, for the metrics of intervals.
        """
        labels = as_list(y)
        n_rows = len(labels)
        if predictions is None:
            self._advance(n_rows, None)
            return
        some = None if weights is None else validate_weights(weights, n_rows, "weights")
        if self.task == "regression":
            numbers = np.asarray(predictions, dtype=np.float64)
            ends = None if intervals is None else np.asarray(intervals, dtype=np.float64)
            self._add_numbers(np.array(labels), numbers, ends, some)
        else:
            self._add_classes(labels, predictions, classes, some)

    @property
    def metrics(self) -> dict[str, float]:
        """The value of each metric over all rows."""
        return {name: metric.value for name, metric in self._metrics.items()}

    @property
    def window(self) -> dict[str, float]:
        """The value of each metric over the last rows."""
        return {name: metric.window_value for name, metric in self._metrics.items()}

    @property
    def needs_ensemble(self) -> bool:
        """Whether a metric is computed from the members of an ensemble."""
        return any(isinstance(metric, Crps) for metric in self._metrics.values())

    @property
    def needs_intervals(self) -> bool:
        """Whether a metric is computed from intervals."""
        return any(metric.needs_intervals for metric in self._metrics.values())

    @property
    def classes(self) -> NDArray[Any] | None:
        """The classes that were seen or predicted, sorted; None for regression."""
        return np.array(sorted(self._classes.labels)) if self.task == "classification" else None

    def result(self, *, seconds: float = nan, interrupted: bool = False) -> Progress:
        """Return the values so far.

        Parameters
        ----------
        seconds : float, default=nan
            The time the model took.
        interrupted : bool, default=False
            Whether the stream was stopped before its end.

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
            curve=self._curve.arrays(self.n_rows, curve_point(metrics, window)),
            classes=self.classes,
            seconds=seconds,
            interrupted=interrupted,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the state in values of JSON, if the labels are such."""
        since = self._predicted_since
        return {
            "counts": [self.n_rows, self.n_skipped, self.n_unknown_classes],
            "classes": list(self._classes.labels),
            "predicted_since": [[label, row] for label, row in since.items()],
            "metrics": {name: metric.to_json() for name, metric in self._metrics.items()},
            "curve": self._curve.to_json(self._curve_names()),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `to_json` of an evaluator with the same parameters.

        ValueError, TypeError, KeyError or IndexError if it is no such result. Use a new evaluator
        then.
        """
        self.n_rows, self.n_skipped, self.n_unknown_classes = (int(n) for n in state["counts"])
        self._classes = ClassCodes()
        self._classes.validate(state["classes"], "classes")
        self._classes.add(state["classes"])
        self._predicted_since = {label: int(row) for label, row in state["predicted_since"]}
        metrics = state["metrics"]
        # Some default metrics are dropped along the stream.
        missing = self._metrics.keys() - metrics.keys()
        if metrics.keys() - self._metrics.keys() or (missing and self._are_requested):
            raise ValueError(f"the metrics are {list(metrics)}, not {list(self._metrics)}")
        for name in missing:
            del self._metrics[name]
        for name, metric in self._metrics.items():
            metric.restore(metrics[name])
        self._curve.restore(state["curve"], self._curve_names())
        curve_point(self.metrics, self.window)  # fails if parts do not fit each other

    def _curve_names(self) -> list[str]:
        nothing = dict.fromkeys(self._metrics, nan)
        return list(curve_point(nothing, nothing))

    def _add_numbers(
        self,
        y: NDArray[Any],
        predictions: Floats,
        intervals: Floats | None,
        weights: Floats | None,
    ) -> None:
        if y.dtype.kind not in "biuf" or not np.isfinite(y).all():
            raise ValueError("y must hold numbers only, none of them NaN or infinite")
        if predictions.ndim not in (1, 2) or len(predictions) != len(y):
            raise ValueError(f"predictions has shape {predictions.shape}; there are {len(y)} rows")
        if intervals is None:
            for name, metric in self._metrics.items():
                if metric.needs_intervals:
                    raise ValueError(f"metrics has {name!r}, which needs intervals; they are None")
        elif intervals.shape != (len(y), 2):
            raise ValueError(
                f"intervals has shape {intervals.shape}; it must have 2 ends for {len(y)} rows"
            )
        labels = y.astype(np.float64)

        def add(part: slice) -> None:
            some = None if weights is None else weights[part]
            for metric in self._metrics.values():
                ends = intervals if metric.needs_intervals else None
                metric.update(labels[part], (predictions if ends is None else ends)[part], some)

        self._advance(len(y), add)

    def _add_classes(
        self, y: list[Any], predictions: ArrayLike, classes: Any, weights: Floats | None
    ) -> None:
        self._classes.validate(y, "y")
        columns: list[Any] | None = None
        if np.ndim(predictions) == 2:
            values: Any = _validate_probabilities(predictions, classes)
            columns = as_list(classes)
            self._classes.validate(columns, "classes")
        else:
            values = as_list(predictions)
            self._classes.validate(values, "predictions")
            self._drop_probability_metrics()
        if len(values) != len(y):
            raise ValueError(f"predictions has {len(values)} rows; y has {len(y)}")

        is_known = self._find_known(y, values, columns)
        of_loss = weights
        if is_known is not None:
            self.n_unknown_classes += int(len(y) - is_known.sum())
            of_loss = is_known * (1.0 if weights is None else weights)

        def add(part: slice) -> None:
            codes, encoded = self._encode(y[part], values[part], columns)
            if len(self._classes) > 2 and not self._are_requested:
                self._metrics.pop("auc", None)
            for metric in self._metrics.values():
                some = of_loss if isinstance(metric, LogLoss) else weights
                metric.update(codes, encoded, None if some is None else some[part])

        self._advance(len(y), add)

    def _find_known(self, y: list[Any], values: Any, columns: list[Any] | None) -> Any:
        """Tell for each row whether its class ever had a probability; None if all had."""
        if not self._skips_unknown or columns is None:
            return None
        since = self._predicted_since
        for j, label in enumerate(columns):
            if label not in since and (values[:, j] > 0).any():
                since[label] = self.n_rows + int((values[:, j] > 0).argmax())
        late = {label for label in set(y) if since.get(label, inf) > self.n_rows}
        if not late:
            return None
        is_late = np.fromiter(
            (
                label in late and since.get(label, inf) > row
                for row, label in enumerate(y, self.n_rows)
            ),
            np.bool_,
            len(y),
        )
        return ~is_late if is_late.any() else None

    def _drop_probability_metrics(self) -> None:
        """Drop default metrics that need probabilities; refuse labels for requested ones."""
        names = [name for name, metric in self._metrics.items() if metric.needs_probabilities]
        if names and self._are_requested:
            raise ValueError(f"metrics has {names[0]!r}, which needs probabilities, not labels")
        for name in names:
            del self._metrics[name]

    def _encode(
        self, y: list[Any], values: Any, columns: list[Any] | None
    ) -> tuple[Codes, ClassPredictions]:
        """Encode labels and predictions; new classes get codes in the order of the rows."""
        known = self._classes.code_of
        first: dict[Any, int] = {}  # row of each new class
        if columns is not None:
            for j, label in enumerate(columns):
                if label not in known and len(rows := np.flatnonzero(values[:, j] > 0)):
                    first[label] = int(rows[0])
        for labels in (y,) if columns is not None else (values, y):
            for label in dict.fromkeys(labels):
                if label not in known:
                    first[label] = min(first.get(label, len(y)), labels.index(label))
        self._classes.add(sorted(first, key=first.__getitem__))
        codes, size = self._classes.encode(y), len(self._classes)
        if columns is None:
            best, probabilities = self._classes.encode(values), None
        else:
            best, probabilities = self._most_probable(values, columns)
        return codes, ClassPredictions(best, probabilities, size, self._classes.positive)

    def _most_probable(self, values: Floats, columns: list[Any]) -> tuple[Codes, Floats]:
        """Return the most probable class of each row, and probabilities in the order of codes."""
        kept = [j for j, label in enumerate(columns) if label in self._classes.code_of]
        codes = self._classes.encode([columns[j] for j in kept])
        probabilities = np.zeros((len(values), len(self._classes)))
        if not kept:
            return np.full(len(values), NO_CLASS), probabilities
        some = values[:, kept]
        probabilities[:, codes] = some
        best = np.where(some.max(axis=1) > 0, codes[some.argmax(axis=1)], NO_CLASS)
        return best, probabilities

    def _advance(self, n_rows: int, add: Callable[[slice], None] | None) -> None:
        """Add rows in parts that end where the curve has a point."""
        start = 0
        while start < n_rows:
            end = min(n_rows, start + self._curve.next - self.n_rows)
            if add is None:
                self.n_skipped += end - start
            else:
                add(slice(start, end))
            self.n_rows += end - start
            if self.n_rows == self._curve.next:
                self._curve.add(self.n_rows, curve_point(self.metrics, self.window))
            start = end


def _validate_probabilities(predictions: ArrayLike, classes: Any) -> Floats:
    """Return probabilities, a column for each class, with 0 for NaN."""
    values = np.asarray(predictions, dtype=np.float64)
    if classes is None or len(classes) != values.shape[1]:
        given = "None" if classes is None else f"{len(classes)} labels"
        raise ValueError(
            f"classes is {given}; predictions has {values.shape[1]} columns, each needs a class"
        )
    values = np.where(np.isnan(values), 0.0, values)
    if values.size and not -1e-6 <= values.min() <= values.max() <= 1 + 1e-6:
        worst = values.flat[np.abs(values - 0.5).argmax()]
        raise ValueError(f"predictions holds {worst}; probabilities must be between 0 and 1")
    return values


def build_metrics(task: str, names: Iterable[str], window: int) -> dict[str, Metric]:
    """Build metrics by their names; refuse an unknown name with the nearest known one."""
    return {name: _find_metric(task, name)(window) for name in names}


def _find_metric(task: str, name: str) -> Callable[[int], Metric]:
    metrics = METRICS[task]
    if (metric := metrics.get(ALIASES.get(name, name))) is not None:
        return metric
    others = {other for some in METRICS.values() for other in some}
    if ALIASES.get(name, name) in others:
        raise ValueError(f"metrics has {name!r}, which is none of {task}: {', '.join(metrics)}")
    known = [*metrics, *(alias for alias, short in ALIASES.items() if short in metrics)]
    near = get_close_matches(str(name).removeprefix("neg_"), known, n=1, cutoff=0.4)
    advice = f"did you mean {near[0]!r}?" if near else "there are " + ", ".join(metrics)
    raise ValueError(f"metrics has {name!r}, which is unknown; {advice}")
