"""Metrics of regression: of predicted numbers, of those of an ensemble, and of intervals."""

from __future__ import annotations

from math import nan, sqrt
from typing import ClassVar

import numpy as np

from amforest.evaluation.base_metric import Floats, Mean, Metric, add_in_order, dot, ratio


class MeanSquaredError(Mean):
    """The mean of (f - y)²."""

    def _terms(self, y: Floats, predictions: Floats) -> Floats:
        squares: Floats = (_point(predictions) - y) ** 2
        return squares


class RootMeanSquaredError(MeanSquaredError):
    """The square root of the mean of (f - y)², in the unit of the labels."""

    @property
    def value(self) -> float:
        """The root over all rows."""
        return sqrt(super().value)

    def _of(self, weights: Floats, terms: Floats) -> float:
        return sqrt(super()._of(weights, terms))


class MeanAbsoluteError(Mean):
    """The mean of |f - y|."""

    def _terms(self, y: Floats, predictions: Floats) -> Floats:
        return np.abs(_point(predictions) - y)


class R2(Metric):
    """1 - Σ (f - y)² / Σ (y - ȳ)²."""

    _weight = _first = _squares = _errors = 0.0
    _shift: float | None = None
    _n_rows = 0
    _sums = ("_weight", "_first", "_squares", "_errors", "_shift", "_n_rows")

    @property
    def value(self) -> float:
        """R² over all rows."""
        spread = self._squares - self._first * ratio(self._first, self._weight)
        return _explained(self._errors, spread, self._n_rows)

    def _terms(self, y: Floats, predictions: Floats) -> Floats:
        return np.column_stack((y, _point(predictions)))

    def _add(self, weights: Floats, terms: Floats) -> None:
        if self._shift is None:  # so that squares of large means do not cancel
            self._shift = float(terms[0, 0])
        labels, predicted = terms.T
        shifted = labels - (self._shift or 0.0)
        self._n_rows += int(np.count_nonzero(weights))
        self._weight = add_in_order(self._weight, weights)
        self._first = add_in_order(self._first, weights * shifted)
        self._squares = add_in_order(self._squares, weights * shifted**2)
        self._errors = add_in_order(self._errors, weights * (predicted - labels) ** 2)

    def _of(self, weights: Floats, terms: Floats) -> float:
        labels, predicted = terms.T
        shifted = labels - labels[0]
        centred = shifted - ratio(dot(weights, shifted), float(weights.sum()))
        errors, spread = dot(weights, (predicted - labels) ** 2), dot(weights, centred**2)
        return _explained(errors, spread, int(np.count_nonzero(weights)))


def _explained(errors: float, spread: float, n_rows: int) -> float:
    """Return R², as scikit-learn defines it where there is no spread."""
    if n_rows < 2:
        return nan
    if spread == 0:
        return float(errors == 0)
    return 1 - errors / spread


class Crps(Mean):
    """The continuous ranked probability score of the members: E|f - y| - ½ E|f - f'|.

    For a single number it is the absolute error.
    """

    def _terms(self, y: Floats, predictions: Floats) -> Floats:
        members = np.sort(predictions.reshape(len(y), -1), axis=1)
        m = members.shape[1]
        # Σᵢⱼ |fᵢ - fⱼ| = 2 Σᵢ (2i - m + 1) f₍ᵢ₎, i from 0
        spread = (members * (2 * np.arange(m) - m + 1.0)).sum(axis=1) / m**2
        scores: Floats = np.abs(members - y[:, None]).mean(axis=1) - spread
        return scores


class Coverage(Mean):
    """The fraction of labels within their intervals."""

    needs_intervals: ClassVar[bool] = True

    def _terms(self, y: Floats, predictions: Floats) -> Floats:
        lower, upper = predictions.T
        inside: Floats = ((lower <= y) & (y <= upper)).astype(np.float64)
        return inside


class IntervalWidth(Mean):
    """The mean width of the intervals."""

    needs_intervals: ClassVar[bool] = True

    def _terms(self, y: Floats, predictions: Floats) -> Floats:
        lower, upper = predictions.T
        widths: Floats = upper - lower
        return widths


def _point(predictions: Floats) -> Floats:
    means: Floats = predictions if predictions.ndim == 1 else predictions.mean(axis=1)
    return means
