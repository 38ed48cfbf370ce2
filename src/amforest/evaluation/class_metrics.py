"""Metrics of classification, and the codes of classes that they work on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amforest._forest.losses import log_losses
from amforest.evaluation.base_metric import Floats, Mean, Metric, add_in_order, dot, ratio

Codes = NDArray[np.intp]

NO_CLASS = -1  # the code of a row for which no class is predicted
# The bins of scores: 10⁻⁴ wide, and 1 % of p or 1 - p where that is less; 0 has its own.
_TAIL = np.geomspace(1e-12, 1e-2, 2_315, endpoint=False)
EDGES: Floats = np.concatenate(
    ([np.finfo(np.float64).tiny], _TAIL, np.linspace(0.01, 0.99, 9_801), 1 - _TAIL[::-1])
)


class ClassCodes:
    """The labels of a stream, each with a code: its position in the order of appearance."""

    def __init__(self) -> None:
        self.labels: list[Any] = []
        self.code_of: dict[Any, int] = {}

    def __len__(self) -> int:
        return len(self.labels)

    def validate(self, labels: list[Any], name: str) -> None:
        """Refuse values that cannot be labels; an error calls them `name`."""
        try:
            new = [label for label in dict.fromkeys(labels) if label not in self.code_of]
        except TypeError as error:
            raise TypeError(f"{name} holds a value that cannot be a label: {error}") from error
        for label in new:
            _validate_label(label, (self.labels or new)[0], name)

    def add(self, labels: Iterable[Any]) -> None:
        """Give codes to labels that have none."""
        for label in labels:
            self.code_of[label] = len(self.labels)
            self.labels.append(label)

    def encode(self, labels: list[Any]) -> Codes:
        """Return the codes of labels, all of which must have one."""
        return np.fromiter((self.code_of[label] for label in labels), np.intp, len(labels))

    @property
    def positive(self) -> int:
        """The code of the class that sorts last of two, as in scikit-learn."""
        return int(len(self) > 1 and self.labels[1] > self.labels[0])


def _validate_label(label: Any, other: Any, name: str) -> None:
    if _is_missing(label):
        raise ValueError(f"{name} holds {label}: a label is missing")
    if isinstance(label, float) and not label.is_integer():
        raise ValueError(f"{name} holds fractions such as {label}, which are not classes")
    if isinstance(label, str) != isinstance(other, str):
        raise TypeError(f"{name} holds {label!r}, which is of another type than {other!r}")


def _is_missing(label: Any) -> bool:
    """Tell None, NaN and pandas' NA, which cannot be compared with itself."""
    try:
        return label is None or bool(label != label)  # noqa: PLR0124
    except TypeError:
        return True


@dataclass(frozen=True)
class ClassPredictions:
    """Predictions of a classifier for some rows, in codes."""

    labels: Codes  # the most probable class, or NO_CLASS
    probabilities: Floats | None  # a column for each class; None if only labels are predicted
    n_classes: int
    positive: int

    def class_probabilities(self) -> Floats:
        """Return the probabilities, which must be there."""
        if self.probabilities is None:
            raise ValueError("predictions are labels; this metric needs probabilities")
        return self.probabilities


class LogLoss(Mean):
    """The mean of -log p(y); a probability below 2.2e-16 counts as that."""

    needs_probabilities = True

    def _terms(self, y: Codes, predictions: ClassPredictions) -> Floats:
        return log_losses(predictions.class_probabilities(), y)


class Brier(Mean):
    """The mean of Σ_k (p_k - 1[y = k])²; half of that as long as there are two classes."""

    needs_probabilities = True
    _n_classes = 0
    _sums = (*Mean._sums, "_n_classes")

    def _terms(self, y: Codes, predictions: ClassPredictions) -> Floats:
        self._n_classes = predictions.n_classes
        errors = predictions.class_probabilities().copy()
        errors[np.arange(len(y)), y] -= 1
        squares: Floats = (errors**2).sum(axis=1)
        return squares

    @property
    def value(self) -> float:
        """The mean over all rows, in the scale of the number of classes."""
        return super().value * self._scale()

    def _of(self, weights: Floats, terms: Floats) -> float:
        return super()._of(weights, terms) * self._scale()

    def _scale(self) -> float:
        return 1.0 if self._n_classes > 2 else 0.5


class Accuracy(Mean):
    """The fraction of rows whose label is the most probable class."""

    def _terms(self, y: Codes, predictions: ClassPredictions) -> Floats:
        hits: Floats = (predictions.labels == y).astype(np.float64)
        return hits


class _Counts(Metric):
    """A function of three counts per class: labels, predictions, and correct predictions."""

    _sums = ("_counts",)

    def __init__(self, window: int) -> None:
        super().__init__(window)
        self._counts: Floats = np.zeros((3, 0))

    @property
    def value(self) -> float:
        return self._score(self._counts)

    def _terms(self, y: Codes, predictions: ClassPredictions) -> Floats:
        return np.column_stack((y, predictions.labels)).astype(np.float64)

    def _add(self, weights: Floats, terms: Floats) -> None:
        self._counts = _add_counts(self._counts, weights, terms)

    def _of(self, weights: Floats, terms: Floats) -> float:
        return self._score(_add_counts(np.zeros((3, 0)), weights, terms))

    def _score(self, counts: Floats) -> float:
        raise NotImplementedError


def _add_counts(counts: Floats, weights: Floats, terms: Floats) -> Floats:
    """Return the counts after some more rows."""
    labels, predicted = terms.T.astype(np.intp)
    n_new = int(terms.max(initial=-1)) + 1 - counts.shape[1]
    after = np.pad(counts, ((0, 0), (0, max(n_new, 0))))
    is_known, is_hit = predicted != NO_CLASS, predicted == labels
    np.add.at(after[0], labels, weights)
    np.add.at(after[1], predicted[is_known], weights[is_known])
    np.add.at(after[2], labels[is_hit], weights[is_hit])
    return after


class BalancedAccuracy(_Counts):
    """The mean recall of the classes that occurred."""

    def _score(self, counts: Floats) -> float:
        occurred = counts[0] > 0
        if not occurred.any():
            return nan
        return float((counts[2, occurred] / counts[0, occurred]).mean())


class Kappa(_Counts):
    """Cohen's (p - q) / (1 - q): p is the accuracy, q that of predictions drawn by their counts."""

    def _score(self, counts: Floats) -> float:
        total = float(counts[0].sum())
        p, q = ratio(float(counts[2].sum()), total), ratio(dot(counts[0], counts[1]), total**2)
        return ratio(p - q, 1 - q)


class Auc(Metric):
    """The area under the ROC curve; for more than two classes the mean of one against the rest.

    It is exact over the last rows. Over all rows the scores are put into bins, and a pair in the
    same bin counts one half, so that memory is bounded: 0.23 MB for each class. `error` bounds the
    difference. Classes that no row has, or all rows have, are not in the mean.
    """

    needs_probabilities = True
    _positive, _n_classes, _total = 0, 0, 0.0
    _sums = ("_positive", "_n_classes", "_total", "_bins")

    def __init__(self, window: int) -> None:
        super().__init__(window)
        self._bins: Floats = np.zeros((2, 0, len(EDGES) + 1))  # of the rest, of the class itself

    @property
    def value(self) -> float:
        """The area over all rows, from the bins."""
        columns = self._columns()
        return _mean([_area(*self._bins[:, k]) for k in columns])

    @property
    def error(self) -> float:
        """A bound on the error of `value`: half of the fraction of pairs in one bin."""
        rest, own = self._bins[:, self._columns()]
        pairs = rest.sum(axis=1) * own.sum(axis=1)
        tied = (rest * own).sum(axis=1)
        return _mean([ratio(one, all_) / 2 for one, all_ in zip(tied, pairs, strict=True)])

    def _columns(self) -> list[int]:
        if self._n_classes < 2:
            return []
        return [self._positive] if self._n_classes == 2 else list(range(self._n_classes))

    def _terms(self, y: Codes, predictions: ClassPredictions) -> Floats:
        self._positive, self._n_classes = predictions.positive, predictions.n_classes
        return np.column_stack((y, predictions.class_probabilities()))

    def _add(self, weights: Floats, terms: Floats) -> None:
        labels, scores = terms[:, 0].astype(np.intp), terms[:, 1:]
        classes = np.arange(scores.shape[1])
        if n_new := len(classes) - self._bins.shape[1]:
            # In earlier rows these classes had probability 0 and did not occur.
            before = np.zeros((2, n_new, len(EDGES) + 1))
            before[0, :, 0] = self._total
            self._bins = np.concatenate((self._bins, before), axis=1)
        is_class = (labels[:, None] == classes).astype(np.intp)
        bins = np.searchsorted(EDGES, scores, side="right")
        np.add.at(self._bins, (is_class, classes[None], bins), weights[:, None])
        self._total = add_in_order(self._total, weights)

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
    """Return the fraction of ordered pairs, from weights by rising score; ties count half."""
    below = np.cumsum(negatives) - negatives / 2
    return ratio(dot(positives, below), float(positives.sum() * negatives.sum()))


def _mean(values: Iterable[float]) -> float:
    """Return the mean of the values that are not NaN."""
    some = [value for value in values if not isnan(value)]
    return ratio(float(sum(some)), len(some))
