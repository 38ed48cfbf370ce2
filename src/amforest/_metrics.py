"""Metrics of a stream: over all of its rows and over the last ones.

Each keeps some sums over all rows, and its terms of each of the last rows. Sums are taken in the
order of the rows, so that no value depends on how the stream is cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import isnan, nan
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

EPS = float(np.finfo(np.float64).eps)
NONE = -1  # the code of no class
# The bins of scores: 10⁻⁴ wide, and 1 % of p or 1 - p where that is less; 0 has its own.
_TAIL = np.geomspace(1e-12, 1e-2, 2_315, endpoint=False)
EDGES: Floats = np.concatenate(
    ([np.finfo(np.float64).tiny], _TAIL, np.linspace(0.01, 0.99, 9_801), 1 - _TAIL[::-1])
)


class Classes:
    """Labels, and a code for each: its number in the order in which they came."""

    def __init__(self) -> None:
        self.labels: list[Any] = []
        self.code_of: dict[Any, int] = {}

    def __len__(self) -> int:
        return len(self.labels)

    def check(self, labels: list[Any], name: str) -> None:
        """Refuse what cannot be a label; `name` is what the error calls them."""
        try:
            new = [label for label in dict.fromkeys(labels) if label not in self.code_of]
        except TypeError as error:
            raise TypeError(f"{name} holds what cannot be a label: {error}") from error
        for label in new:
            _check_label(label, (self.labels or new)[0], name)

    def add(self, labels: Iterable[Any]) -> None:
        """Give codes to labels that have none."""
        for label in labels:
            self.code_of[label] = len(self.labels)
            self.labels.append(label)

    def codes(self, labels: list[Any]) -> Codes:
        """Return the codes of labels that have one."""
        return np.fromiter((self.code_of[label] for label in labels), np.intp, len(labels))

    @property
    def positive(self) -> int:
        """Of two classes the code of the one that sorts last, as in scikit-learn."""
        return int(len(self) > 1 and self.labels[1] > self.labels[0])


def as_list(labels: ArrayLike | Iterable[Any]) -> list[Any]:
    """Return labels as Python's own objects; lists of several kinds stay what they are."""
    if isinstance(labels, list | tuple):
        return [label.item() if isinstance(label, np.generic) else label for label in labels]
    values: list[Any] = np.asarray(labels).tolist()
    return values


def _check_label(label: Any, other: Any, name: str) -> None:
    if _is_missing(label):
        raise ValueError(f"{name} holds {label}: a label is missing")
    if isinstance(label, float) and not label.is_integer():
        raise ValueError(f"{name} holds fractions such as {label}, not classes")
    if isinstance(label, str) != isinstance(other, str):
        raise TypeError(f"{name} holds {label!r}, which is of another kind than {other!r}")


def _is_missing(label: Any) -> bool:
    """Tell None, NaN and pandas' NA, which will not even say whether it equals itself."""
    try:
        return label is None or bool(label != label)  # noqa: PLR0124
    except TypeError:
        return True


@dataclass(frozen=True)
class ClassForecast:
    """What a classifier said of some rows, in codes."""

    labels: Codes  # the most probable class, or NONE
    probabilities: Floats | None  # a column for each class; None if only labels are forecast
    n_classes: int
    positive: int

    def part(self, rows: slice) -> ClassForecast:
        """Return what was said of some of the rows."""
        some = None if self.probabilities is None else self.probabilities[rows]
        return ClassForecast(self.labels[rows], some, self.n_classes, self.positive)

    def of_classes(self) -> Floats:
        """Return the probabilities, which must be there."""
        if self.probabilities is None:
            raise ValueError("labels are no probabilities")
        return self.probabilities


class Ring:
    """The last rows of a table that grows at its end; missing columns are 0."""

    def __init__(self, size: int) -> None:
        self._rows: Floats = np.empty((size, 0))
        self._n_pushed = 0

    def push(self, *columns: Floats) -> None:
        """Append rows; each argument is one column or several."""
        size, n_new = len(self._rows), len(columns[0])
        parts = [part[:, None] if part.ndim == 1 else part for part in columns]
        width = sum(part.shape[1] for part in parts)
        if width > self._rows.shape[1]:
            self._rows = np.pad(self._rows, ((0, 0), (0, width - self._rows.shape[1])))
        kept = min(n_new, size)
        places = np.arange(self._n_pushed + n_new - kept, self._n_pushed + n_new) % size
        first = 0
        for part in parts:
            self._rows[places, first : first + part.shape[1]] = part[n_new - kept :]
            first += part.shape[1]
        self._n_pushed += n_new

    def rows(self) -> Floats:
        """Return the rows, the oldest first."""
        size = len(self._rows)
        if self._n_pushed <= size:
            return self._rows[: self._n_pushed]
        return np.roll(self._rows, -(self._n_pushed % size), axis=0)


class Metric:
    """The base of all metrics.

    A subclass says what the terms of a row are, how they are added up, and what the value is of the
    sums (`value`) and of some rows (`_of`).

    Parameters
    ----------
    window : int
        How many of the last rows `window_value` is about.
    """

    needs_probabilities: ClassVar[bool] = False

    def __init__(self, window: int) -> None:
        self._last = Ring(window)

    def update(self, y: NDArray[Any], forecast: Any, weight: Floats | None = None) -> None:
        """Take some rows: labels, forecasts and weights."""
        if not len(y):
            return
        weights = np.ones(len(y)) if weight is None else weight
        terms = self._terms(y, forecast)
        self._last.push(weights, terms)
        self._add(weights, terms)

    @property
    def value(self) -> float:
        """The value over all rows; NaN if there is none."""
        raise NotImplementedError

    @property
    def window_value(self) -> float:
        """The value over the last rows."""
        rows = self._last.rows()
        return self._of(rows[:, 0], rows[:, 1:]) if rows.size else nan

    def _terms(self, y: NDArray[Any], forecast: Any) -> Floats:
        raise NotImplementedError

    def _add(self, weights: Floats, terms: Floats) -> None:
        raise NotImplementedError

    def _of(self, weights: Floats, terms: Floats) -> float:
        raise NotImplementedError


class _Mean(Metric):
    """The mean of one term of each row."""

    _weight = _sum = 0.0

    @property
    def value(self) -> float:
        return _ratio(self._sum, self._weight)

    def _add(self, weights: Floats, terms: Floats) -> None:
        self._weight = _plus(self._weight, weights)
        self._sum = _plus(self._sum, weights * terms)

    def _of(self, weights: Floats, terms: Floats) -> float:
        return _ratio(_dot(weights, terms[:, 0]), float(weights.sum()))


class LogLoss(_Mean):
    """The mean of -log p(y); a probability below 2.2e-16 counts as that."""

    needs_probabilities = True

    def _terms(self, y: Codes, forecast: ClassForecast) -> Floats:
        chances = forecast.of_classes()[np.arange(len(y)), y]
        losses: Floats = -np.log(np.maximum(chances, EPS))
        return losses


class Brier(_Mean):
    """The mean of Σ_k (p_k - 1[y = k])²; half of that as long as there are two classes."""

    needs_probabilities = True
    _n_classes = 0

    def _terms(self, y: Codes, forecast: ClassForecast) -> Floats:
        self._n_classes = forecast.n_classes
        errors = forecast.of_classes().copy()
        errors[np.arange(len(y)), y] -= 1
        squares: Floats = (errors**2).sum(axis=1)
        return squares

    @property
    def value(self) -> float:
        return super().value * self._scale()

    def _of(self, weights: Floats, terms: Floats) -> float:
        return super()._of(weights, terms) * self._scale()

    def _scale(self) -> float:
        return 1.0 if self._n_classes > 2 else 0.5


class Accuracy(_Mean):
    """The share of labels that were forecast."""

    def _terms(self, y: Codes, forecast: ClassForecast) -> Floats:
        hits: Floats = (forecast.labels == y).astype(np.float64)
        return hits


class _Counts(Metric):
    """A function of three counts of each class: labels, forecasts, and both at once."""

    def __init__(self, window: int) -> None:
        super().__init__(window)
        self._counts: Floats = np.zeros((3, 0))

    @property
    def value(self) -> float:
        return self._score(self._counts)

    def _terms(self, y: Codes, forecast: ClassForecast) -> Floats:
        return np.column_stack((y, forecast.labels)).astype(np.float64)

    def _add(self, weights: Floats, terms: Floats) -> None:
        self._counts = _counted(self._counts, weights, terms)

    def _of(self, weights: Floats, terms: Floats) -> float:
        return self._score(_counted(np.zeros((3, 0)), weights, terms))

    def _score(self, counts: Floats) -> float:
        raise NotImplementedError


def _counted(counts: Floats, weights: Floats, terms: Floats) -> Floats:
    """Return counts with some rows more."""
    labels, said = terms.T.astype(np.intp)
    n_new = int(terms.max(initial=-1)) + 1 - counts.shape[1]
    after = np.pad(counts, ((0, 0), (0, max(n_new, 0))))
    known, hit = said != NONE, said == labels
    np.add.at(after[0], labels, weights)
    np.add.at(after[1], said[known], weights[known])
    np.add.at(after[2], labels[hit], weights[hit])
    return after


class BalancedAccuracy(_Counts):
    """The mean, over the classes that came, of the share of their rows that were forecast."""

    def _score(self, counts: Floats) -> float:
        came = counts[0] > 0
        return float((counts[2, came] / counts[0, came]).mean()) if came.any() else nan


class Kappa(_Counts):
    """Cohen's (p - q) / (1 - q): p is the accuracy, q that of forecasts drawn by their counts."""

    def _score(self, counts: Floats) -> float:
        total = float(counts[0].sum())
        p, q = _ratio(float(counts[2].sum()), total), _ratio(_dot(counts[0], counts[1]), total**2)
        return _ratio(p - q, 1 - q)


class Auc(Metric):
    """The area under the ROC curve; of more than two classes the mean of one against the rest.

    Exact over the last rows. Over all rows scores are put into bins, and a pair in the same bin
    counts one half, so that memory is bounded: 0.23 MB for each class. `error` bounds the
    difference. Classes that never, or always, came are left out of the mean.
    """

    needs_probabilities = True
    _positive, _n_classes, _total = 0, 0, 0.0

    def __init__(self, window: int) -> None:
        super().__init__(window)
        self._bins: Floats = np.zeros((2, 0, len(EDGES) + 1))  # of the rest, of the class itself

    @property
    def value(self) -> float:
        columns = self._columns()
        return _mean([_area(*self._bins[:, k]) for k in columns])

    @property
    def error(self) -> float:
        """How far `value` can be from the exact one: half of the share of pairs in one bin."""
        rest, own = self._bins[:, self._columns()]
        pairs = rest.sum(axis=1) * own.sum(axis=1)
        tied = (rest * own).sum(axis=1)
        return _mean([_ratio(one, all_) / 2 for one, all_ in zip(tied, pairs, strict=True)])

    def _columns(self) -> list[int]:
        if self._n_classes < 2:
            return []
        return [self._positive] if self._n_classes == 2 else list(range(self._n_classes))

    def _terms(self, y: Codes, forecast: ClassForecast) -> Floats:
        self._positive, self._n_classes = forecast.positive, forecast.n_classes
        return np.column_stack((y, forecast.of_classes()))

    def _add(self, weights: Floats, terms: Floats) -> None:
        labels, scores = terms[:, 0].astype(np.intp), terms[:, 1:]
        classes = np.arange(scores.shape[1])
        if n_new := len(classes) - self._bins.shape[1]:
            # So far, these classes had probability 0 and did not come.
            before = np.zeros((2, n_new, len(EDGES) + 1))
            before[0, :, 0] = self._total
            self._bins = np.concatenate((self._bins, before), axis=1)
        is_class = (labels[:, None] == classes).astype(np.intp)
        bins = np.searchsorted(EDGES, scores, side="right")
        np.add.at(self._bins, (is_class, classes[None], bins), weights[:, None])
        self._total = _plus(self._total, weights)

    def _of(self, weights: Floats, terms: Floats) -> float:
        labels, scores = terms[:, 0], terms[:, 1:]
        return _mean([_exact_area(scores[:, k], labels == k, weights) for k in self._columns()])


def _exact_area(scores: Floats, is_positive: NDArray[np.bool_], weights: Floats) -> float:
    order = np.argsort(scores, kind="stable")
    groups = np.flatnonzero(np.diff(scores[order], prepend=-1.0))  # of equal scores
    positive, ordered = is_positive[order], weights[order]
    negatives = np.add.reduceat(np.where(positive, 0.0, ordered), groups)
    return _area(negatives, np.add.reduceat(np.where(positive, ordered, 0.0), groups))


def _area(negatives: Floats, positives: Floats) -> float:
    """Return the share of pairs in order, of weights by rising score; equal scores are half."""
    below = np.cumsum(negatives) - negatives / 2
    return _ratio(_dot(positives, below), float(positives.sum() * negatives.sum()))


# Regression. A forecast is a column of numbers, or a row of members for each row.


class MeanSquaredError(_Mean):
    """The mean of (f - y)²."""

    def _terms(self, y: Floats, forecast: Floats) -> Floats:
        squares: Floats = (_point(forecast) - y) ** 2
        return squares


class MeanAbsoluteError(_Mean):
    """The mean of |f - y|."""

    def _terms(self, y: Floats, forecast: Floats) -> Floats:
        return np.abs(_point(forecast) - y)


class R2(Metric):
    """1 - Σ (f - y)² / Σ (y - ȳ)²."""

    _weight = _first = _squares = _errors = 0.0
    _shift: float | None = None
    _n_rows = 0

    @property
    def value(self) -> float:
        spread = self._squares - self._first * _ratio(self._first, self._weight)
        return _explained(self._errors, spread, self._n_rows)

    def _terms(self, y: Floats, forecast: Floats) -> Floats:
        return np.column_stack((y, _point(forecast)))

    def _add(self, weights: Floats, terms: Floats) -> None:
        if self._shift is None:  # so that squares of large means do not cancel
            self._shift = float(terms[0, 0])
        labels, forecasts = terms.T
        shifted = labels - (self._shift or 0.0)
        self._n_rows += int(np.count_nonzero(weights))
        self._weight = _plus(self._weight, weights)
        self._first = _plus(self._first, weights * shifted)
        self._squares = _plus(self._squares, weights * shifted**2)
        self._errors = _plus(self._errors, weights * (forecasts - labels) ** 2)

    def _of(self, weights: Floats, terms: Floats) -> float:
        labels, forecasts = terms.T
        shifted = labels - labels[0]
        centred = shifted - _ratio(_dot(weights, shifted), float(weights.sum()))
        errors, spread = _dot(weights, (forecasts - labels) ** 2), _dot(weights, centred**2)
        return _explained(errors, spread, int(np.count_nonzero(weights)))


def _explained(errors: float, spread: float, n_rows: int) -> float:
    """Return R², as scikit-learn has it where there is no spread."""
    if n_rows < 2:
        return nan
    if spread == 0:
        return float(errors == 0)
    return 1 - errors / spread


class Crps(_Mean):
    """The continuous ranked probability score of the members: E|f - y| - ½ E|f - f'|.

    That of a single number is its absolute error.
    """

    def _terms(self, y: Floats, forecast: Floats) -> Floats:
        members = np.sort(forecast.reshape(len(y), -1), axis=1)
        m = members.shape[1]
        # Σᵢⱼ |fᵢ - fⱼ| = 2 Σᵢ (2i - m + 1) f₍ᵢ₎, i from 0
        spread = (members * (2 * np.arange(m) - m + 1.0)).sum(axis=1) / m**2
        scores: Floats = np.abs(members - y[:, None]).mean(axis=1) - spread
        return scores


def _point(forecast: Floats) -> Floats:
    means: Floats = forecast if forecast.ndim == 1 else forecast.mean(axis=1)
    return means


def _plus(total: float, values: Floats) -> float:
    """Add values to a total, one after the other."""
    return float(np.cumsum(np.append(total, values))[-1])


def _dot(a: Floats, b: Floats) -> float:
    """Return Σ a b without BLAS, whose sums depend on its threads, which cost more than they do."""
    return float((a * b).sum())


def _ratio(a: float, b: float) -> float:
    return a / b if b else nan


def _mean(values: Iterable[float]) -> float:
    """Return the mean of those that are not NaN."""
    some = [value for value in values if not isnan(value)]
    return _ratio(float(sum(some)), len(some))


# Names

METRICS: dict[str, dict[str, type[Metric]]] = {
    "classification": {
        "log_loss": LogLoss,
        "accuracy": Accuracy,
        "auc": Auc,
        "balanced_accuracy": BalancedAccuracy,
        "brier": Brier,
        "kappa": Kappa,
    },
    "regression": {"mse": MeanSquaredError, "mae": MeanAbsoluteError, "r2": R2, "crps": Crps},
}
DEFAULTS = {
    "classification": ("log_loss", "accuracy", "auc"),
    "regression": ("mse", "mae", "r2"),
}
ALIASES = {  # what scikit-learn calls them
    "roc_auc": "auc",
    "roc_auc_ovr": "auc",
    "brier_score": "brier",
    "brier_score_loss": "brier",
    "cohen_kappa": "kappa",
    "cohen_kappa_score": "kappa",
    "mean_squared_error": "mse",
    "mean_absolute_error": "mae",
    "r2_score": "r2",
}


def made(task: str, names: Iterable[str], window: int) -> dict[str, Metric]:
    """Make the metrics of these names, or refuse one with the nearest that there is."""
    return {name: _class_of(task, name)(window) for name in names}


def _class_of(task: str, name: str) -> Callable[[int], Metric]:
    there = METRICS[task]
    if (metric := there.get(ALIASES.get(name, name))) is not None:
        return metric
    others = {other for metrics in METRICS.values() for other in metrics}
    if ALIASES.get(name, name) in others:
        raise ValueError(f"metrics has {name!r}, which is none of {task}: {', '.join(there)}")
    known = [*there, *(alias for alias, short in ALIASES.items() if short in there)]
    near = get_close_matches(str(name).removeprefix("neg_"), known, n=1, cutoff=0.4)
    advice = f"did you mean {near[0]!r}?" if near else "there are " + ", ".join(there)
    raise ValueError(f"metrics has {name!r}, which is unknown; {advice}")


# Checks


def checked_weights(weights: Any, n_rows: int, name: str) -> Floats:
    """Return weights, one for each row, none below 0; `name` is what the error calls them."""
    values = np.asarray(weights, dtype=np.float64)
    check_shape(values, n_rows, (1,), name)
    if not (np.isfinite(values) & (values >= 0)).all():
        raise ValueError(f"{name} holds {values.min()}; weights must be finite and not negative")
    return values


def check_shape(values: NDArray[Any], n_rows: int, dimensions: Sequence[int], name: str) -> None:
    """Refuse what has not one entry for each row."""
    if values.ndim not in dimensions or len(values) != n_rows:
        raise ValueError(f"{name} has shape {values.shape}; there are {n_rows} rows")
