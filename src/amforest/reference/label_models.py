"""The labels of a node: their statistics, the prediction ŷ_v and its loss."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import polygamma

Prediction = NDArray[np.float64]


class LabelModel(Protocol):
    """What a tree needs of the labels of a node."""

    n: float  # the sum of their weights

    def prediction(self) -> Prediction: ...  # ŷ_v
    def loss(self, y: float, weight: float) -> float: ...  # ℓ(ŷ_v, y)
    def mixture_loss(self, prediction: Prediction, y: float) -> float: ...  # of a mix of ŷ_v
    def update(self, y: float, weight: float) -> None: ...
    def is_pure(self, y: float | None = None) -> bool: ...  # all labels are equal (to y)


def log_rising(a: float, weight: float) -> float:
    """Return log of a (a + 1) … (a + w - 1) = log Γ(a + w) / Γ(a), for any w >= 0."""
    return math.log(a) if weight == 1 else math.lgamma(a + weight) - math.lgamma(a)


class ClassCounts:
    """Equation (5), the Krichevsky–Trofimov rule ŷ(k) = (n_k + α) / (n + αK), with log-loss."""

    def __init__(self, n_classes: int, dirichlet: float) -> None:
        self.n = 0.0
        self.counts = [0.0] * n_classes
        self.alpha = dirichlet
        self.total_alpha = dirichlet * n_classes

    def set_classes(self, n_classes: int, dirichlet: float) -> None:
        self.counts += [0.0] * (n_classes - len(self.counts))
        self.alpha, self.total_alpha = dirichlet, dirichlet * n_classes

    def prediction(self) -> Prediction:
        return (np.array(self.counts) + self.alpha) / (self.n + self.total_alpha)

    def loss(self, y: float, weight: float) -> float:
        """-log ŷ(y), summed while y is counted w times."""
        above = log_rising(self.counts[int(y)] + self.alpha, weight)
        return log_rising(self.n + self.total_alpha, weight) - above

    def mixture_loss(self, prediction: Prediction, y: float) -> float:
        return -math.log(prediction[int(y)])

    def update(self, y: float, weight: float) -> None:
        self.counts[int(y)] += weight
        self.n += weight

    def is_pure(self, y: float | None = None) -> bool:
        """Return whether all labels so far are equal (to y, if it is given)."""
        return self.n == (max(self.counts) if y is None else self.counts[int(y)])


class RunningMean:
    """Equation (4), the mean of the labels, 0 before the first, with square loss."""

    def __init__(self) -> None:
        self.n = 0.0
        self.mean = 0.0
        self.is_constant = True

    def prediction(self) -> Prediction:
        return np.array([self.mean])

    def loss(self, y: float, weight: float) -> float:
        """(ŷ - y)², summed while y is counted w times: after i of them, ŷ - y is n / (n + i) of it.

        Σ_{i < w} n² / (n + i)² = n² (ψ'(n) - ψ'(n + w)), ψ' being the trigamma function.
        """
        square = (self.mean - y) ** 2
        if weight == 1:
            return square
        if self.n == 0:
            return min(weight, 1.0) * square
        return self.n**2 * float(polygamma(1, self.n) - polygamma(1, self.n + weight)) * square

    def mixture_loss(self, prediction: Prediction, y: float) -> float:
        return float((prediction[0] - y) ** 2)

    def update(self, y: float, weight: float) -> None:
        self.is_constant = self.n == 0 or self.is_pure(y)
        self.mean = y if self.n == 0 else self.mean + weight * (y - self.mean) / (self.n + weight)
        self.n += weight

    def is_pure(self, y: float | None = None) -> bool:
        return self.is_constant and (y is None or self.mean == y)
