"""Metrics of classification."""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan, nan

import numpy as np
from numpy.typing import NDArray

from amforest.evaluation.arrays import Codes, Floats
from amforest.evaluation.base_metric import Mean, Metric, dot, plus, ratio
from amforest.evaluation.classes import NONE, ClassForecast

EPS = float(np.finfo(np.float64).eps)
# The bins of scores: 10⁻⁴ wide, and 1 % of p or 1 - p where that is less; 0 has its own.
_TAIL = np.geomspace(1e-12, 1e-2, 2_315, endpoint=False)
EDGES: Floats = np.concatenate(
    ([np.finfo(np.float64).tiny], _TAIL, np.linspace(0.01, 0.99, 9_801), 1 - _TAIL[::-1])
)


class LogLoss(Mean):
    """The mean of -log p(y); a probability below 2.2e-16 counts as that."""

    needs_probabilities = True

    def _terms(self, y: Codes, forecast: ClassForecast) -> Floats:
        chances = forecast.of_classes()[np.arange(len(y)), y]
        losses: Floats = -np.log(np.maximum(chances, EPS))
        return losses


class Brier(Mean):
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
        """The mean over all rows, in the scale of so many classes."""
        return super().value * self._scale()

    def _of(self, weights: Floats, terms: Floats) -> float:
        return super()._of(weights, terms) * self._scale()

    def _scale(self) -> float:
        return 1.0 if self._n_classes > 2 else 0.5


class Accuracy(Mean):
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
        p, q = ratio(float(counts[2].sum()), total), ratio(dot(counts[0], counts[1]), total**2)
        return ratio(p - q, 1 - q)


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
        """The area over all rows, from the bins."""
        columns = self._columns()
        return _mean([_area(*self._bins[:, k]) for k in columns])

    @property
    def error(self) -> float:
        """How far `value` can be from the exact one: half of the share of pairs in one bin."""
        rest, own = self._bins[:, self._columns()]
        pairs = rest.sum(axis=1) * own.sum(axis=1)
        tied = (rest * own).sum(axis=1)
        return _mean([ratio(one, all_) / 2 for one, all_ in zip(tied, pairs, strict=True)])

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
        self._total = plus(self._total, weights)

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
    return ratio(dot(positives, below), float(positives.sum() * negatives.sum()))


def _mean(values: Iterable[float]) -> float:
    """Return the mean of those that are not NaN."""
    some = [value for value in values if not isnan(value)]
    return ratio(float(sum(some)), len(some))
