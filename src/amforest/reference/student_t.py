"""Numbers: normal with unknown mean and variance, each node with its parent's posterior as prior.

So the weights of the prunings are exact Bayes, and the unit of the labels does not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from amforest.reference import Node, Tree
from amforest.reference.label_models import Prediction

KAPPA, NU = 0.5, 2.0  # κ₀, ν₀: the prior counts as so many labels
LEAST = 1e-4  # a node's s² is no smaller than this part of the variance of all labels


@dataclass(frozen=True)
class Posterior:
    """What a node knows: the next label follows t_ν(μ, s² (κ + 1) / κ)."""

    mean: float  # μ
    variance: float  # s²
    kappa: float
    nu: float
    least: float  # of s², in all nodes below; 0 while all labels are equal

    def squared_scale(self) -> float:
        return self.variance * (self.kappa + 1) / self.kappa

    def log_density(self, y: float, weight: float = 1.0) -> float:
        """Return the logarithm of the density of y; of weight w, of w equal labels in sequence."""
        squares, nu = self.nu * self.variance, self.nu + weight
        part = weight * self.kappa / (self.kappa + weight)
        return (
            math.lgamma(nu / 2)
            - math.lgamma(self.nu / 2)
            - weight / 2 * math.log(math.pi * squares)
            - math.log1p(weight / self.kappa) / 2
            - nu / 2 * math.log1p(part * (y - self.mean) ** 2 / squares)
        )


class StudentT:
    """n, ȳ and M2 of the labels of a node; where nothing is above it, it is the root."""

    def __init__(self) -> None:
        self.n = 0.0
        self.mean = 0.0
        self.m2 = 0.0  # Σ w (y - ȳ)²
        self.is_constant = True

    def posterior(self, above: Posterior | None = None) -> Posterior:
        """Return the posterior, given that of the node above; the root's prior is its ȳ, M2 / n."""
        if above is None:
            variance = self.m2 / self.n if self.n > 0 else 0.0
            above = Posterior(self.mean, variance, KAPPA, NU, LEAST * variance)
        kappa, nu, distance = KAPPA + self.n, NU + self.n, self.mean - above.mean
        squares = NU * above.variance + self.m2 + KAPPA * self.n / kappa * distance**2
        mean = above.mean + self.n / kappa * distance
        return Posterior(mean, max(squares / nu, above.least), kappa, nu, above.least)

    def loss(self, y: float, weight: float, above: Posterior | None = None) -> float:
        """Return -log of the density of y; 0 while all labels are equal, which give no scale."""
        posterior = self.posterior(above)
        return -posterior.log_density(y, weight) if posterior.least > 0 else 0.0

    def prediction(self, above: Posterior | None = None, center: float = 0.0) -> Prediction:
        """Return the first two moments around a center; that of the square has s² for variance."""
        posterior = self.posterior(above)
        distance = posterior.mean - center
        return np.array([distance, distance**2 + posterior.squared_scale()])

    def mixture_loss(self, prediction: Prediction, y: float) -> float:
        """Return the squared error of the mean."""
        return float((prediction[0] - y) ** 2)

    def update(self, y: float, weight: float) -> None:
        self.is_constant = self.n == 0 or self.is_pure(y)
        distance = y - self.mean
        self.mean = y if self.n == 0 else self.mean + weight * distance / (self.n + weight)
        self.m2 += max(weight * distance * (y - self.mean), 0.0)  # ȳ may be rounded beyond y
        self.n += weight

    def is_pure(self, y: float | None = None) -> bool:
        return self.is_constant and (y is None or self.mean == y)


class StudentTree(Tree):
    """A tree whose nodes are `StudentT`: every label is charged, and a new leaf predicts as v.

    It predicts the mean, and the squared scale of the mixture around it.
    """

    def posterior(self, v: Node | None) -> Posterior | None:
        """Return the posterior of v; None above the root."""
        return None if v is None else statistics(v).posterior(self.posterior(v.parent))

    def loss(self, v: Node, y: float, weight: float) -> float:
        return statistics(v).loss(y, weight, self.posterior(v.parent))

    def prediction(self, v: Node) -> Prediction:
        return statistics(v).prediction(self.posterior(v.parent), self.center())

    def mixture_loss(self, prediction: Prediction, y: float) -> float:
        return super().mixture_loss(prediction, y - self.center())

    def center(self) -> float:
        """Return the mean of all labels: distances from it cancel little."""
        return statistics(self.root).mean if self.root else 0.0

    def predict(self, x: np.ndarray[tuple[int], np.dtype[np.float32]]) -> Prediction:
        distance, square = super().predict(x)
        return np.array([self.center() + distance, max(square - distance**2, 0.0)])


def statistics(v: Node) -> StudentT:
    """Return the labels of a node."""
    assert isinstance(v.labels, StudentT)
    return v.labels
