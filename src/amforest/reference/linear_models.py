"""Linear regressions of an adaptive forest: the bases of trees, and experts beside the groups.

Both standardise features to z = (x - center) / spread; a missing value is 0 there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from amforest.reference import Floats, Reals

MOST = 100  # features


@dataclass
class LinearBase:
    """A linear function of some columns, whose values are clipped to the remembered range."""

    intercept: float
    columns: list[int]
    slopes: Reals
    centers: Reals
    lower: Reals
    upper: Reals

    def of(self, x: Floats) -> float:
        return self.intercept + float(self.terms(x).sum())

    def terms(self, x: Floats) -> Reals:
        """Return the summands z_k: 0 where a value is missing."""
        values = np.clip(x[self.columns].astype(np.float64), self.lower, self.upper)
        return np.nan_to_num(self.slopes * (values - self.centers))

    def saved(self, x: Floats, y: float) -> Reals:
        """Return what each column saves of the squared error of y.

        All together save (y - c)² - (y - c - Σ z)², c being the intercept; by Shapley column k has
        z_k (2 (y - c) - Σ z) of that.
        """
        saved, terms = np.zeros(len(x)), self.terms(x)
        saved[self.columns] = terms * (2 * (y - self.intercept) - terms.sum())
        return saved


def fit_base(
    x: Floats, y: Reals, weight: Reals, is_fitted: NDArray[np.bool_]
) -> tuple[LinearBase, Reals]:
    """Return the ridge regression, of penalty 5, and the residual of each label.

    The residual of a row is that of the regression without it: e / (1 - h), 1 - h >= 0.05. Rows
    that are not fitted only widen the ranges.
    """
    values, w = x.astype(np.float64), np.where(is_fitted, weight, 0.0)
    total, labels = w.sum() or 1.0, y - y[0]
    mean = float(w @ labels / total)
    columns, centers, spreads = choose_columns(values, w, labels - mean)
    z = np.nan_to_num((values[:, columns] - centers) / spreads)
    inverse = np.linalg.inv(z.T @ (w[:, None] * z) + 5 * np.eye(len(columns)))
    slopes = inverse @ (z.T @ (w * (labels - mean)))
    ends = [reduce.reduce(values[:, columns], axis=0) for reduce in (np.fmin, np.fmax)]
    base = LinearBase(float(y[0] + mean), columns, slopes / spreads, centers, *ends)
    leverage = w * (1 / total + np.einsum("ij,jk,ik->i", z, inverse, z))
    errors = y - np.array([base.of(row) for row in x])
    return base, errors / np.maximum(1 - leverage, 0.05)


def choose_columns(values: Reals, weight: Reals, labels: Reals) -> tuple[list[int], Reals, Reals]:
    """Return the columns that vary, with their means and standard deviations.

    Of more than 100, those that correlate most with the labels.
    """
    found: list[tuple[float, int, float, float]] = []
    for j, column in enumerate(values.T):
        is_seen = ~np.isnan(column)
        w, n = weight[is_seen], weight[is_seen].sum()
        if n == 0:
            continue
        distances = column[is_seen] - column[is_seen][0]
        mean, square = w @ distances / n, w @ distances**2 / n
        if square - mean**2 <= 1e-12 * square:  # mere rounding
            continue
        spread = float(np.sqrt(square - mean**2))
        covariance = abs(w @ ((distances - mean) * labels[is_seen]))
        correlation = covariance / (spread * np.sqrt(n))
        found.append((-correlation, j, float(column[is_seen][0] + mean), spread))
    chosen = sorted(sorted(found)[:MOST], key=lambda column: column[1])
    centers, spreads = np.array([column[2:] for column in chosen]).reshape(-1, 2).T
    return [column[1] for column in chosen], centers, spreads


class LinearExpert:
    """Recursive least squares with forgetting f: A <- f A + w z z', b <- f b + w z y, θ = A⁻¹ b.

    The prior is A = 1 for slopes and 0.01 for the intercept, which comes last. That of slopes does
    not fade: each row restores that of one of them. Features without a scale keep it.
    """

    def __init__(self, n: int, forgetting: float) -> None:
        self.forgetting = forgetting
        self.information: Reals = np.diag([1.0] * n + [0.01])
        self.products: Reals = np.zeros(n + 1)
        self.squares = self.weight = 0.0  # of errors, and of rows

    def predict(self, z: Reals) -> tuple[float, float]:
        """Return the mean, and the squared scale: v (1 + z' A⁻¹ z)."""
        variance = self.squares / self.weight if self.weight > 0 else 0.0
        return float(self.slopes() @ z), variance * (1 + self.leverage(z))

    def slopes(self) -> Reals:
        return np.asarray(np.linalg.solve(self.information, self.products))

    def leverage(self, z: Reals) -> float:
        return float(z @ np.linalg.solve(self.information, z))

    def learn(self, z: Reals, y: float, weight: float, restored: Reals) -> None:
        f, error = self.forgetting, y - float(self.slopes() @ z)
        self.squares = f * self.squares + weight * error**2 / (1 + self.leverage(z))
        self.weight = f * self.weight + weight
        prior = (1 - f) * np.diag(restored)
        self.information = f * self.information + weight * np.outer(z, z) + prior
        self.products = f * self.products + weight * z * y

    def convert(self, matrix: Reals) -> None:
        """Predict the same from z' = M z: A' = M A M', b' = M b."""
        self.information = matrix @ self.information @ matrix.T
        self.products = matrix @ self.products


class LinearExperts:
    """Three regressions on the number features, which forget at different rates; and the mean.

    Features are standardised anew when the number of rows doubles, which changes no prediction. A
    prediction is for values clipped to those learned.
    """

    FORGETTING = (1.0, 0.999, 0.98)
    N = len(FORGETTING) + 1

    def __init__(self, n_codes: int) -> None:
        self.n_codes = n_codes  # features that are categories, which come first
        self.rows: list[Reals] = []

    def predict(self, x: Floats) -> Reals:
        """Return the mean and the squared scale of each."""
        if not self.rows:
            return np.zeros((self.N, 2))
        ends = [reduce.reduce(self.rows) for reduce in (np.fmin, np.fmax)]
        z = self.standardise(np.clip(self.numbers(x), *ends))
        predictions = np.array([*(expert.predict(z) for expert in self.experts), self.mean()])
        predictions[:, 0] += self.first_label
        return predictions

    def mean(self) -> tuple[float, float]:
        """Return the mean of all labels, and the squared scale of the next one."""
        labels, weights = np.transpose(self.labels)
        mean = np.average(labels, weights=weights)
        variance = np.average((labels - mean) ** 2, weights=weights)
        return float(mean), float(variance * (1 + 1 / weights.sum()))

    def learn(self, x: Floats, y: float, weight: float) -> None:
        numbers = self.numbers(x)
        if not self.rows:
            self.first_label = y
            self.labels: list[tuple[float, float]] = []  # with their weights
            self.centers, self.scales = np.zeros((2, len(numbers)))
            self.experts = [LinearExpert(len(numbers), f) for f in self.FORGETTING]
        self.rows.append(numbers)
        if len(self.rows).bit_count() == 1:
            self.set_scales()
        z, restored = self.standardise(numbers), self.restored()
        for expert in self.experts:
            expert.learn(z, y - self.first_label, weight, restored)
        self.labels.append((y - self.first_label, weight))

    def restored(self) -> Reals:
        """Return the part of the prior that each slope gets back: in turn, or all without scale."""
        restored, active = np.append(self.scales == 0, 0.0), np.flatnonzero(self.scales)
        if len(active) > 0:
            restored[active[len(self.rows) % len(active)]] = len(active)
        return restored

    def numbers(self, x: Floats) -> Reals:
        return x[self.n_codes :][:MOST].astype(np.float64)

    def standardise(self, numbers: Reals) -> Reals:
        """Return z, and 1 for the intercept; 0 where no scale is known."""
        return np.append(np.nan_to_num((numbers - self.centers) * self.scales), 1.0)

    def set_scales(self) -> None:
        """Set the centers to the means and the scales to 1 / spread of the values so far."""
        centers, scales = self.centers.copy(), self.scales.copy()
        for j, column in enumerate(np.transpose(self.rows)):
            values = column[~np.isnan(column)]
            if len(set(values)) > 1:
                centers[j], scales[j] = values.mean(), 1 / values.std()
        matrix = np.eye(len(centers) + 1)
        for j in np.flatnonzero(self.scales).tolist():  # of others nothing was learned
            matrix[j, j] = scales[j] / self.scales[j]
            matrix[j, -1] = (self.centers[j] - centers[j]) * scales[j]
        for expert in self.experts:
            expert.convert(matrix)
        self.centers, self.scales = centers, scales
